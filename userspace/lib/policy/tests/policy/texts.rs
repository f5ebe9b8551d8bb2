//! What a person reads of each error.

use capos_policy::*;
use core::fmt::Display;

/// Each of the errors has these words.
fn told<E: Display>(errors: impl IntoIterator<Item = (E, &'static str)>) {
    for (error, words) in errors {
        assert_eq!(error.to_string(), words);
    }
}

#[test]
fn a_lease_says_why_it_does_not_cover_a_call() {
    told([
        (BindingError::Expired, "has expired"),
        (BindingError::OtherSession, "was given to another session"),
        (BindingError::OtherTool, "is for another tool"),
        (BindingError::OtherArguments, "is for other arguments"),
        (BindingError::OtherConversation, "is for another conversation"),
        (BindingError::OtherTurn, "is for another turn"),
        (BindingError::OtherCall, "is for another call"),
    ]);
    told([
        (LeaseError::Used, "the lease has been used; each call needs its own"),
        (LeaseError::Bound(BindingError::Expired), "the lease has expired; authenticate again"),
        (LeaseError::Bound(BindingError::OtherTool), "the lease is for another tool"),
    ]);
}

#[test]
fn a_path_that_no_rule_allows_says_why() {
    told([
        (PathError::AboveRoot, "the path leads above the root"),
        (PathError::Control, "the path holds a control character"),
        (PathError::Blocked, "the path is blocked"),
        (PathError::BlockedBelow, "a path below it is blocked; name a folder without a blocked one"),
        (PathError::NotAllowed, "the path is outside what is allowed"),
    ]);
}

#[test]
fn a_step_up_that_fails_says_why() {
    told([
        (StepUpError::NotSet, "no passphrase is set on this system"),
        (StepUpError::Wrong, "the passphrase is wrong"),
        (StepUpError::Closed { seconds: 1 }, "too many wrong passphrases; try again in 1 second"),
        (StepUpError::Closed { seconds: 30 }, "too many wrong passphrases; try again in 30 seconds"),
    ]);
}

#[test]
fn arguments_that_are_no_object_say_what_was_expected() {
    use crate::support::*;
    let session = session(&policy(vec![rule(Target::Paths, paths(&["/"], &[]))]));
    let found = why(session.gate(&ask("write_file", "[]"), &now()));
    assert!(found.contains("expected an object"), "{found}");
}
