//! Layers of the configuration: none lifts what another says, and each is seen.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests may fail the test")]

use capos_policy::*;

mod support;
use support::*;

/// A rule that allows no path permits none, and a person sees it in the policy and as a change of it.
#[test]
fn a_rule_that_allows_no_path_is_shown() {
    let (plain, closed) = (session(&policy(Vec::new())), session(&policy(vec![rule(Target::Paths, paths(&[], &[]))])));
    assert!(why(closed.gate(&at("a"), &now())).contains("outside what is allowed"));
    let shown = listed(&closed).into_iter().find(|rule| rule.tool == "read_file").unwrap();
    assert_eq!(shown.bounds, ["no path at all (settings)"]);
    assert!(changes(&plain, &closed).contains(&"read_file: now no path at all (settings)".to_string()));
}
