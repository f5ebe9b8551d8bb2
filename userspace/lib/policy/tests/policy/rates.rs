//! What sessions of a profile may use: requests in a minute, budgets, and dimensions of messages.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use capos_budget::{Dimension, OnExceed, Plan, Rule};
use capos_policy::*;
use capos_schema::authority::{BudgetDimension, Profile, SessionLimits};

const SECOND: u64 = 1_000_000_000;

/// Requests of a principal count on after the process that counts them was restarted.
#[test]
fn requests_outlast_the_process_that_counts_them() {
    let mut before = Rates::default();
    for second in 0..3 {
        before.request(("s1", 9), ("ada", 3), second * SECOND).unwrap();
    }
    before.request(("s2", 9), ("bob", 3), 7 * SECOND).unwrap();
    let mut after = Rates::default();
    for (name, rate) in before.principals() {
        let bytes = rate.to_bytes();
        let stored = [&bytes[..], &[9, 9]].concat();
        assert_eq!(Rate::from_bytes(&stored), Some((rate, &[9, 9][..])));
        assert_eq!(Rate::from_bytes(&bytes[..Rate::BYTES - 1]), None);
        after.restore(name, rate);
    }
    let mut names: Vec<&str> = after.principals().map(|(name, _)| name).collect();
    names.sort_unstable();
    assert_eq!(names, ["ada", "bob"]);
    assert_eq!(after.request(("s3", 9), ("ada", 3), 10 * SECOND), Err(TooMany { seconds: 50 }));
    assert_eq!(after.request(("s3", 9), ("ada", 3), 60 * SECOND), Ok(()));
    for second in [8, 9] {
        assert_eq!(after.request(("s4", 9), ("bob", 3), second * SECOND), Ok(()));
    }
    assert_eq!(after.request(("s4", 9), ("bob", 3), 10 * SECOND), Err(TooMany { seconds: 57 }));
}

#[test]
fn the_bytes_of_a_rate_are_its_start_and_its_count() {
    let bytes = [7, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0];
    let (rate, rest) = Rate::from_bytes(&bytes).unwrap();
    assert!(rest.is_empty());
    assert_eq!(rate.to_bytes(), bytes);
    let mut rates = Rates::default();
    rates.restore("ada", rate);
    let began = (1 << 56) + 7;
    assert_eq!(rates.request(("s1", 9), ("ada", 2), began + SECOND), Err(TooMany { seconds: 59 }));
}

/// The first request of a window begins it, and the first one after its end the next.
#[test]
fn a_window_begins_with_its_first_request() {
    let mut rates = Rates::default();
    let mut request = |now| rates.request(("s1", 2), ("ada", 9), now);
    assert_eq!(request(10 * SECOND), Ok(()));
    assert_eq!(request(70 * SECOND - 1), Ok(()));
    assert_eq!(request(70 * SECOND - 1), Err(TooMany { seconds: 1 }));
    assert_eq!(request(70 * SECOND), Ok(()));
    assert_eq!(request(71 * SECOND), Ok(()));
    assert_eq!(request(72 * SECOND), Err(TooMany { seconds: 58 }));
}

/// A wait is a whole window where nothing was counted, whatever the clock says.
#[test]
fn without_a_limit_above_zero_there_is_always_a_wait() {
    for second in [0, 10, 100] {
        let mut rates = Rates::default();
        assert_eq!(rates.request(("s1", 0), ("ada", 9), second * SECOND), Err(TooMany { seconds: 60 }), "{second}");
    }
}

/// What the limit of one refuses counts for the other neither.
#[test]
fn a_request_that_is_refused_counts_for_nobody() {
    let mut rates = Rates::default();
    assert!(rates.request(("s1", 1), ("ada", 0), 0).is_err());
    assert_eq!(rates.request(("s1", 1), ("bob", 1), 0), Ok(()));
    assert!(rates.request(("s2", 0), ("ada", 1), 0).is_err());
    assert_eq!(rates.request(("s2", 1), ("ada", 1), 0), Ok(()));
}

#[test]
fn a_session_that_has_ended_is_forgotten() {
    let mut rates = Rates::default();
    rates.request(("s1", 1), ("ada", 9), 0).unwrap();
    rates.end_session("s2");
    assert!(rates.request(("s1", 1), ("ada", 9), 1).is_err());
    rates.end_session("s1");
    assert_eq!(rates.request(("s1", 1), ("ada", 9), 1), Ok(()));
}

#[test]
fn principals_are_few() {
    let mut rates = Rates::default();
    for number in 0..24 {
        assert!(rates.has_place_for("one more"), "{number}");
        rates.restore(&number.to_string(), Rate::default());
    }
    assert!(!rates.has_place_for("one more"));
    assert!(rates.has_place_for("23"), "it is known already");
}

#[test]
fn dimensions_of_messages_are_those_of_budgets() {
    for (named, wanted) in [
        (BudgetDimension::WallClock, Dimension::WallClock),
        (BudgetDimension::Steps, Dimension::Steps),
        (BudgetDimension::Tokens, Dimension::Tokens),
        (BudgetDimension::Cost, Dimension::Cost),
        (BudgetDimension::Cpu, Dimension::Cpu),
        (BudgetDimension::Memory, Dimension::Memory),
        (BudgetDimension::Egress, Dimension::Egress),
        (BudgetDimension::Writes, Dimension::Writes),
    ] {
        assert_eq!(dimension(named), wanted);
    }
}

/// The rules of a plan, as a person would type the amounts.
fn told(plan: &Plan) -> Vec<(Dimension, String, OnExceed)> {
    let of = |dimension: Dimension| {
        let rule = plan.rule(dimension);
        (dimension, dimension.text(rule.limit), rule.on_exceed)
    };
    Dimension::ALL.into_iter().map(of).collect()
}

#[test]
fn budgets_without_configuration_are_these() {
    use OnExceed::{Ask, Stop};
    let budgets = ProfileBudgets::default();
    assert_eq!(
        told(&budgets.run()),
        [
            (Dimension::WallClock, "600 s".into(), Ask),
            (Dimension::Steps, "50".into(), Ask),
            (Dimension::Tokens, "100,000".into(), Ask),
            (Dimension::Cost, "$0.50".into(), Stop),
            (Dimension::Cpu, "30 s".into(), Stop),
            (Dimension::Memory, "15,360 MiB·s".into(), Stop),
            (Dimension::Egress, "10 MiB".into(), Stop),
            (Dimension::Writes, "50 MiB".into(), Stop),
        ]
    );
    let limits = SessionLimits { max_tokens: 77, max_seconds: 9, ..SessionLimits::default() };
    assert_eq!(
        told(&budgets.session(&limits)),
        [
            (Dimension::WallClock, "9 s".into(), Stop),
            (Dimension::Steps, "2,000".into(), Ask),
            (Dimension::Tokens, "77".into(), Stop),
            (Dimension::Cost, "$5.00".into(), Ask),
            (Dimension::Cpu, "3,600 s".into(), Ask),
            (Dimension::Memory, "1,843,200 MiB·s".into(), Ask),
            (Dimension::Egress, "1 GiB".into(), Ask),
            (Dimension::Writes, "1 GiB".into(), Ask),
        ]
    );
}

/// The tokens and the time of a session are those of its limits. A configuration says what happens at the tokens.
#[test]
fn budgets_are_changed_by_the_configuration() {
    let mut budgets = ProfileBudgets::default();
    let (session, run) = budgets.plans();
    session.set(Dimension::Tokens, Rule { limit: 5, on_exceed: OnExceed::Warn });
    session.set(Dimension::WallClock, Rule { limit: 5, on_exceed: OnExceed::Warn });
    session.set(Dimension::Steps, Rule { limit: 6, on_exceed: OnExceed::Warn });
    run.set(Dimension::Steps, Rule { limit: 7, on_exceed: OnExceed::Warn });
    let of_session = budgets.session(&SessionLimits { max_tokens: 77, max_seconds: 9, ..SessionLimits::default() });
    for (dimension, limit, on_exceed) in [
        (Dimension::Tokens, 77, OnExceed::Warn),
        (Dimension::WallClock, 9000, OnExceed::Stop),
        (Dimension::Steps, 6, OnExceed::Warn),
    ] {
        assert_eq!(of_session.rule(dimension), Rule { limit, on_exceed });
    }
    assert_eq!(budgets.run().rule(Dimension::Steps), Rule { limit: 7, on_exceed: OnExceed::Warn });
}

#[test]
fn profiles_without_configuration_are_these() {
    let limits = SessionLimits::default();
    for (profile, model, tokens, requests, hide_forbidden) in [
        (Profile::Operator, ModelAccess::Remote, 10 * limits.max_tokens, 2 * limits.max_requests_per_minute, false),
        (Profile::Guest, ModelAccess::Local, limits.max_tokens, limits.max_requests_per_minute, true),
        (Profile::Anonymous, ModelAccess::None, 0, 0, true),
    ] {
        let wanted = ProfileRules {
            model,
            limits: SessionLimits::default(),
            patience: Patience { silence_seconds: 300, answer_seconds: 3600 },
            budgets: ProfileBudgets::default(),
            principal_tokens: tokens,
            principal_requests: requests,
            hide_forbidden,
            policy_seconds: u64::MAX,
        };
        assert_eq!(ProfileRules::standard(profile), wanted, "{profile}");
    }
}

#[test]
fn a_model_that_may_not_be_used_has_its_reason() {
    for (profile, opted_in, words) in [
        (Profile::Anonymous, true, "this profile has no model"),
        (Profile::Guest, true, "models on this machine only"),
        (Profile::Operator, false, "has to opt in"),
        (Profile::Operator, true, "needs the passphrase"),
    ] {
        let found = ProfileRules::standard(profile).may_use("remote-openai", opted_in, false).unwrap_err();
        assert!(found.contains(words), "{found}");
    }
    for (backend, remote) in [("scripted", false), ("stub", false), ("local", false), ("local-cpu", false)]
        .into_iter()
        .chain([("locals", true), ("", true), ("stubs", true), ("remote", true)])
    {
        assert_eq!(is_remote(backend), remote, "{backend}");
    }
}
