//! Layers of the configuration: none lifts what another says, and each is seen.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests may fail the test")]

use capos_policy::*;
use capos_schema::authority::{Profile, Risk, ToolQuestion};
use capos_schema::models::PermissionMode::{Auto, Consent, Forbidden, StepUp};

use crate::support::*;

/// A rule that allows no path permits none, and a person sees it in the policy and as a change of it.
#[test]
fn a_rule_that_allows_no_path_is_shown() {
    let (plain, closed) = (session(&policy(Vec::new())), session(&policy(vec![rule(Target::Paths, paths(&[], &[]))])));
    assert!(why(closed.gate(&at("a"), &now())).contains("outside what is allowed"));
    let shown = listed(&closed).into_iter().find(|rule| rule.tool == "read_file").unwrap();
    assert_eq!(shown.bounds, ["no path at all (settings)"]);
    // One line, whatever the number of tools.
    let told = changes(&plain, &closed);
    let lines: Vec<&String> = told.iter().filter(|line| line.ends_with(": now no path at all (settings)")).collect();
    assert!(lines.len() == 1 && lines[0].contains("read_file") && lines[0].contains(", "), "{told:?}");
}

/// What a layer raises no other one lowers, and a profile's rules are for its sessions alone.
#[test]
fn risks_add_up_over_layers_and_are_of_their_profile() {
    let image = raises(None, &["proj"], &["ls"]);
    let with = |more: &[RiskRules]| {
        let policy = Policy { risks: [core::slice::from_ref(&image), more].concat(), ..policy(Vec::new()) };
        session(&policy)
    };
    let run = |program: &str| ask("run_program", &serde_json::json!({ "program": program }).to_string());
    let risk = |session: &SessionPolicy, question: &ToolQuestion| session.review(question, &now()).risk;
    let alone = with(&[]);
    for (more, here) in [
        // Another area, or all of them, is no leave to work there.
        (raises(None, &["/"], &["rm"]), [Risk::Medium, Risk::High, Risk::High, Risk::High]),
        (raises(Some(Profile::Operator), &["/"], &["rm", "ls"]), [Risk::Medium, Risk::High, Risk::Medium, Risk::High]),
        (raises(Some(Profile::Operator), &["proj/a"], &[]), [Risk::High, Risk::High, Risk::Medium, Risk::High]),
        // Of another profile.
        (raises(Some(Profile::Guest), &["/"], &["rm"]), [Risk::Medium, Risk::High, Risk::Medium, Risk::High]),
    ] {
        let both = with(core::slice::from_ref(&more));
        let found = [at("proj/b"), at("x"), run("ls"), run("rm")].map(|question| risk(&both, &question));
        assert_eq!(found, here, "{more:?}");
        let is_here = more.profile != Some(Profile::Guest);
        assert_eq!(both.bundle().0 != alone.bundle().0, is_here, "{more:?}");
        assert_eq!(!changes(&alone, &both).is_empty(), is_here, "{more:?}");
    }
    let narrower = with(&[raises(None, &["proj/a"], &[])]);
    assert_eq!(changes(&alone, &narrower), ["now high risk for a change outside \"proj/a\" (settings)"]);
    assert_eq!(changes(&narrower, &alone), ["no longer high risk for a change outside \"proj/a\" (settings)"]);
}

/// Of several rules that widen the strictest counts, and of equal ones the last is named.
#[test]
fn of_rules_that_widen_the_strictest_counts() {
    let layer =
        |mode, source: &str| Override { mode: Some(mode), widen: true, source: source.into(), ..Override::default() };
    for (first, second, mode, source) in [
        (Consent, StepUp, StepUp, "second"),
        (StepUp, Consent, StepUp, "first"),
        (Consent, Consent, Consent, "second"),
        (Auto, Auto, Auto, "second"),
        (Auto, Forbidden, Forbidden, "second"),
        (Forbidden, Auto, Forbidden, "first"),
    ] {
        let policy = Policy { overrides: vec![layer(first, "first"), layer(second, "second")], ..policy(Vec::new()) };
        let (permission, found) = policy.permission(Profile::Operator, Category::Mutating, "m", "t");
        assert_eq!((permission.mode, found.as_str()), (mode, source), "{first:?} and {second:?}");
    }
}

/// If nothing bounds the arguments of a call, they are not read.
#[test]
fn without_a_rule_no_arguments_are_read() {
    let plain = session(&policy(Vec::new()));
    let broken = ask("write_file", "{");
    let found = plain.explain(&broken, &now());
    assert_eq!((found.review.mode, found.review.risk), (Consent, Risk::Medium));
    assert!(found.steps.contains(&"scope: no rule bounds its arguments".to_string()), "{:?}", found.steps);
    // A rule on risks has to read them; what it cannot read has a high risk.
    for more in [raises(None, &["proj"], &[]), raises(None, &[], &["ls"])] {
        let session = session(&Policy { risks: vec![more], ..policy(Vec::new()) });
        let review = session.review(&broken, &now());
        assert_eq!((review.mode, review.risk), (Consent, Risk::High));
    }
}
