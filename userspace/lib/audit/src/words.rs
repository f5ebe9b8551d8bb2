//! What decisions, outcomes and reasons are called where a person reads them. Records and models have the schema's names.

use alloc::string::String;
use core::fmt;

use capos_schema::authority::Decision;
use capos_schema::models::Outcome;

/// The person whose call it was, as the reader of a text calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Person<'a> {
    /// The reader.
    You,
    /// Somebody else, by their principal.
    Other(&'a str),
}

/// `you`, or the name.
impl fmt::Display for Person<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::You => formatter.write_str("you"),
            // A person without a name is not the reader either.
            Self::Other("") => formatter.write_str("somebody"),
            Self::Other(name) => formatter.write_str(name),
        }
    }
}

impl Person<'_> {
    /// `your`, or the name's genitive.
    fn own(self) -> String {
        match self {
            Self::You => "your".into(),
            Self::Other(_) => alloc::format!("{self}'s"),
        }
    }
}

/// How a call of a person was decided.
#[must_use]
pub fn decision(decision: Decision, person: Person<'_>) -> String {
    match decision {
        Decision::Auto => "allowed without asking".into(),
        Decision::Consented => alloc::format!("{person} agreed"),
        // The reason says how the question ended: an answer, Ctrl-C or its time.
        Decision::Denied => alloc::format!("{person} did not agree"),
        Decision::StepUpSucceeded => alloc::format!("{person} gave the passphrase"),
        Decision::StepUpFailed => alloc::format!("without {} passphrase", person.own()),
        Decision::Forbidden => "forbidden".into(),
    }
}

/// How a call of a person ended.
#[must_use]
pub fn outcome(outcome: Outcome, person: Person<'_>) -> String {
    let text = match outcome {
        Outcome::Ok => "done",
        Outcome::RefusedByPolicy => "not permitted",
        Outcome::DeniedByUser => return alloc::format!("not run without {} consent", person.own()),
        Outcome::StepUpFailed => return alloc::format!("not run without {} passphrase", person.own()),
        Outcome::ExecutionError => "failed",
        Outcome::TimedOut => "took too long",
        Outcome::Cancelled => "cancelled",
        Outcome::InvalidArguments => "wrong arguments",
        Outcome::UnknownTool => "there is no such tool",
    };
    text.into()
}

/// A reason, with the person whom it names.
#[must_use]
pub fn reason(reason: &str, person: Person<'_>) -> String {
    match reason {
        "the person said no" => alloc::format!("{person} said no"),
        "the person pressed Ctrl-C" => alloc::format!("{person} pressed Ctrl-C"),
        "cancelled by the person at the prompt"
        | "cancelled by the person before it began"
        | "cancelled by the person" => alloc::format!("by {person}"),
        other => other.into(),
    }
}

/// The text of a result that is not what the tool gave, as the model reads it, told to the person.
#[must_use]
pub fn told(found: Outcome, text: &str) -> String {
    let why = text.strip_prefix(found.name()).and_then(|rest| rest.strip_prefix(": "));
    match why {
        Some(why) if !why.is_empty() => {
            alloc::format!("{}: {}", outcome(found, Person::You), reason(why, Person::You))
        }
        Some(_) => outcome(found, Person::You),
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
            assert!(!decision(*found, Person::You).chars().any(char::is_uppercase));
        }
        // What a tool gave is its own.
        assert_eq!(told(Outcome::ExecutionError, "deniedByUser: x"), "deniedByUser: x");
        for text in ["timedOut: ", "timedOut: after 3 s"] {
            let expected = if text.ends_with(' ') { "took too long" } else { "took too long: after 3 s" };
            assert_eq!(told(Outcome::TimedOut, text), expected);
        }
    }
}
