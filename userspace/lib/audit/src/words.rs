//! What decisions, outcomes and reasons are called where a person reads them. Records and models have the schema's names.

use capos_schema::authority::Decision;
use capos_schema::models::Outcome;

/// How a call was decided.
#[must_use]
pub fn decision(decision: Decision) -> &'static str {
    match decision {
        Decision::Auto => "allowed without asking",
        Decision::Consented => "you agreed",
        // The reason says how the question ended: an answer, Ctrl-C or its time.
        Decision::Denied => "you did not agree",
        Decision::StepUpSucceeded => "you gave the passphrase",
        Decision::StepUpFailed => "without your passphrase",
        Decision::Forbidden => "forbidden",
    }
}

/// How a call ended.
#[must_use]
pub fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "done",
        Outcome::RefusedByPolicy => "not permitted",
        Outcome::DeniedByUser => "not run without your consent",
        Outcome::StepUpFailed => "not run without your passphrase",
        Outcome::ExecutionError => "failed",
        Outcome::TimedOut => "took too long",
        Outcome::Cancelled => "cancelled",
        Outcome::InvalidArguments => "wrong arguments",
        Outcome::UnknownTool => "there is no such tool",
    }
}

/// A reason, told to the person whom it names.
#[must_use]
pub fn reason(reason: &str) -> &str {
    match reason {
        "the person said no" => "you said no",
        "the person pressed Ctrl-C" => "you pressed Ctrl-C",
        "cancelled by the person at the prompt"
        | "cancelled by the person before it began"
        | "cancelled by the person" => "by you",
        other => other,
    }
}

/// The text of a result that is not what the tool gave, as the model reads it, told to the person.
#[must_use]
pub fn told(found: Outcome, text: &str) -> alloc::string::String {
    let why = text.strip_prefix(found.name()).and_then(|rest| rest.strip_prefix(": "));
    match why {
        Some(why) if !why.is_empty() => alloc::format!("{}: {}", outcome(found), reason(why)),
        Some(_) => outcome(found).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_identifier_reaches_the_person() {
        for found in Outcome::ALL {
            let text = told(*found, &alloc::format!("{}: the person said no", found.name()));
            assert!(text.ends_with(": you said no") && !text.chars().any(char::is_uppercase), "{text}");
        }
        for found in Decision::ALL {
            assert!(!decision(*found).chars().any(char::is_uppercase));
        }
        // What a tool gave is its own.
        assert_eq!(told(Outcome::ExecutionError, "deniedByUser: x"), "deniedByUser: x");
    }
}
