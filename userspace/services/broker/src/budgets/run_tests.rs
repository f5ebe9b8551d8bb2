//! Runs that continue: what they used counts on, whoever ends meanwhile.
#![allow(clippy::unwrap_used, clippy::panic, clippy::arithmetic_side_effects)]

use super::tests::{Machine, at, opening, steps, tokens};
use super::*;
use capos_keyspace::Durability;
use capos_schema::authority::Profile;
use proptest::prelude::*;

fn plan() -> Plan {
    Plan::default().with(Dimension::Steps, 10, OnExceed::Ask).with(Dimension::Tokens, 500, OnExceed::Stop)
}

fn run(name: &str) -> Starting<'_> {
    Starting { name, plan: plan(), estimate: Estimate::default(), used: Amounts::default() }
}

fn used(budgets: &mut Budgets, id: &str, dimension: Dimension) -> u64 {
    budgets.run_use(id, at(0)).unwrap().used.get(dimension)
}

/// A run that continues has what it used: after a pause, in a later session, and after a crash with a call in progress, which counts.
#[test]
fn f11_no_pause_restart_or_crash_resets_the_budget_of_a_run() {
    let machine = Machine::new();
    {
        let mut budgets = machine.budgets.borrow_mut();
        budgets.open_session(&opening("s1", "ada"), at(0)).unwrap();
        budgets.begin_run("s1", &run("c-1"), at(0)).unwrap();
        let ticket = budgets.reserve("s1", steps(2), at(0)).unwrap();
        budgets.pay(ticket, ("s1", "ada"), steps(2));
        budgets.settle("s1", ticket);
        assert_eq!(budgets.extend("s1", false, Dimension::Steps, 5), Ok(15));
        // It is paused, and another run of the session begins with nothing used.
        budgets.end_run("s1", false, at(0)).unwrap();
        budgets.begin_run("s1", &run("c-2"), at(0)).unwrap();
        assert_eq!(used(&mut budgets, "s1", Dimension::Steps), 0);
        budgets.end_run("s1", true, at(0)).unwrap();
        budgets.begin_run("s1", &run("c-1"), at(0)).unwrap();
        assert_eq!(used(&mut budgets, "s1", Dimension::Steps), 2);
        budgets.reserve("s1", steps(1), at(0)).unwrap();
    }
    machine.keep(Durability::Now);
    let machine = machine.restart();
    let mut budgets = machine.budgets.borrow_mut();
    assert_eq!(budgets.open_session(&opening("s2", "ada"), at(1)), Ok(true));
    budgets.begin_run("s2", &run("c-1"), at(1)).unwrap();
    let kept = budgets.run_use("s2", at(1)).unwrap();
    assert_eq!((kept.used.get(Dimension::Steps), kept.granted.get(Dimension::Steps)), (3, 5));
    // One that is done is not continued.
    budgets.end_run("s2", true, at(1)).unwrap();
    budgets.begin_run("s2", &run("c-1"), at(1)).unwrap();
    assert_eq!(used(&mut budgets, "s2", Dimension::Steps), 0);
}

/// Who begins, pauses or ends a run of the same name does not touch what another person's run has used.
#[test]
fn runs_of_one_name_are_of_their_principals() {
    for over in [false, true] {
        let mut budgets = Budgets::default();
        budgets.open_session(&opening("s1", "ada"), at(0)).unwrap();
        budgets.open_session(&opening("s2", "bob"), at(0)).unwrap();
        budgets.begin_run("s1", &run("c-1"), at(0)).unwrap();
        budgets.charge(("s1", "ada"), tokens(90));
        budgets.end_run("s1", false, at(0)).unwrap();
        budgets.begin_run("s2", &run("c-1"), at(0)).unwrap();
        assert_eq!(used(&mut budgets, "s2", Dimension::Tokens), 0);
        budgets.end_run("s2", over, at(0)).unwrap();
        budgets.begin_run("s1", &run("c-1"), at(0)).unwrap();
        assert_eq!(used(&mut budgets, "s1", Dimension::Tokens), 90);
    }
}

/// The runner's word counts where the broker knows less, and never lowers a count. Granted amounts are the broker's alone.
#[test]
fn f11_the_runners_word_can_only_raise_what_is_used() {
    let mut budgets = Budgets::default();
    budgets.open_session(&opening("s1", "ada"), at(0)).unwrap();
    budgets.open_session(&opening("s2", "eve"), at(0)).unwrap();
    budgets.begin_run("s1", &Starting { used: steps(4), ..run("c-1") }, at(0)).unwrap();
    assert_eq!(used(&mut budgets, "s1", Dimension::Steps), 4);
    budgets.end_run("s1", false, at(0)).unwrap();
    budgets.begin_run("s1", &Starting { used: steps(1), ..run("c-1") }, at(0)).unwrap();
    assert_eq!(used(&mut budgets, "s1", Dimension::Steps), 4);
    budgets.end_run("s1", false, at(0)).unwrap();
    // Another user's run of the same name is another run.
    budgets.begin_run("s2", &run("c-1"), at(0)).unwrap();
    assert_eq!(used(&mut budgets, "s2", Dimension::Steps), 0);
    assert!(budgets.reserve("s2", steps(10), at(0)).is_ok());
}

/// Two sessions do not go on with one run at the same time. Another user's run of the same name stops none.
#[test]
fn a_run_goes_on_in_one_session_at_a_time() {
    let mut budgets = Budgets::default();
    for (id, principal) in [("s1", "ada"), ("s2", "ada"), ("s3", "eve")] {
        budgets.open_session(&opening(id, principal), at(0)).unwrap();
    }
    budgets.begin_run("s1", &run("c-1"), at(0)).unwrap();
    budgets.begin_run("s2", &run("c-2"), at(0)).unwrap();
    let before = budgets.run_of("s2");
    assert_eq!(budgets.begin_run("s2", &run("c-1"), at(0)), Err(text::ELSEWHERE.to_string()));
    assert_eq!(budgets.run_of("s2"), before, "a rejected beginning ends no run");
    budgets.begin_run("s3", &run("c-1"), at(0)).unwrap();
    // It continues once it is paused there, or the session there is lost.
    budgets.end_run("s1", false, at(0)).unwrap();
    budgets.begin_run("s2", &run("c-1"), at(0)).unwrap();
    assert!(budgets.begin_run("s1", &run("c-1"), at(0)).is_err());
    budgets.lose_session("s2");
    budgets.begin_run("s1", &run("c-1"), at(0)).unwrap();
    budgets.begin_run("s1", &run("c-1"), at(0)).unwrap();
}

/// Who ends a session ends its runs; and this many runs are kept, whatever happens.
#[test]
fn runs_that_can_be_continued_are_bounded_and_end_with_their_session() {
    let machine = Machine::new();
    {
        let mut budgets = machine.budgets.borrow_mut();
        budgets.open_session(&opening("s1", "ada"), at(0)).unwrap();
        for number in 0..RUNS + 9 {
            let name = format!("c-{number}");
            budgets.begin_run("s1", &run(&name), Moment { now: 0, unix: number as u64 }).unwrap();
            budgets.charge(("s1", "ada"), tokens(1));
            budgets.end_run("s1", false, Moment { now: 0, unix: number as u64 }).unwrap();
        }
        assert_eq!(budgets.paused.len(), RUNS);
        assert!(!budgets.paused.contains_key("c-0") && budgets.paused.contains_key("c-72"));
        budgets.begin_run("s1", &run("c-72"), at(0)).unwrap();
        assert_eq!(used(&mut budgets, "s1", Dimension::Tokens), 1);
    }
    machine.keep(Durability::Now);
    assert_eq!(machine.rows("budget.runs"), RUNS);
    machine.budgets.borrow_mut().close_session("s1");
    machine.keep(Durability::Now);
    assert_eq!(machine.rows("budget.runs"), 0);
}

proptest! {
    /// Whatever a run uses, and wherever its broker ends, a later one counts at least that.
    #[test]
    fn f11_a_run_never_has_used_less_after_a_crash(uses in proptest::collection::vec((1_u64..5, 0_u64..5, any::<bool>()), 1..12)) {
        let mut machine = Machine::new();
        let (mut truth, mut session) = (0, 0);
        let begin = |machine: &Machine, session: u32| {
            let id = format!("s{session}");
            let mut budgets = machine.budgets.borrow_mut();
            budgets.open_session(&opening(&id, "ada"), at(0)).unwrap();
            let plan = Plan::default();
            budgets.begin_run(&id, &Starting { plan, ..run("c-1") }, at(0)).unwrap();
            id
        };
        let mut id = begin(&machine, session);
        for (need, took, crashes) in uses {
            let ticket = machine.budgets.borrow_mut().reserve(&id, steps(need), at(0)).unwrap();
            machine.keep(Durability::Now);
            let took = took.min(need);
            truth += took;
            if crashes {
                machine = machine.restart();
                session += 1;
                id = begin(&machine, session);
            } else {
                let mut budgets = machine.budgets.borrow_mut();
                budgets.pay(ticket, (&id, "ada"), steps(took));
                budgets.settle(&id, ticket);
            }
            let counted = used(&mut machine.budgets.borrow_mut(), &id, Dimension::Steps);
            prop_assert!(counted >= truth, "{} used, and {} counted", truth, counted);
        }
        prop_assert_eq!(opening("s", "ada").profile, Profile::Operator);
    }
}
