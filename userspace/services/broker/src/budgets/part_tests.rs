//! Parts of a session: what they may use, and what stays of their runs.
#![allow(clippy::unwrap_used, clippy::panic, clippy::arithmetic_side_effects)]

use super::tests::{Machine, at, opening, steps};
use super::*;
use capos_keyspace::Durability;

fn session(id: &str, limit: u64) -> Opening<'_> {
    let plan = Plan::default().with(Dimension::Steps, limit, OnExceed::Ask);
    Opening { plan, ..opening(id, "ada") }
}

fn run(name: &str) -> Starting<'_> {
    Starting { name, plan: Plan::default(), estimate: Estimate::default(), used: Amounts::default() }
}

fn call(budgets: &mut Budgets, id: &str) -> Result<(), Refused> {
    let ticket = budgets.reserve(id, steps(1), at(0))?;
    budgets.pay(ticket, (id, "ada"), steps(1));
    budgets.settle(id, ticket);
    Ok(())
}

/// Requirement I12: the run of a part and the session's own each have their half, whatever the other does. What the part has
/// not used is the session's again at its end.
#[test]
fn i12_a_part_and_its_session_do_not_take_from_each_other() {
    let mut budgets = Budgets::default();
    budgets.open_session(&session("s1", 10), at(0)).unwrap();
    budgets.begin_run("s1", &run("own-1"), at(0)).unwrap();
    let part = budgets.begin_part("s1", 1, at(0)).unwrap();
    budgets.begin_run(&part, &run("long-1"), at(0)).unwrap();
    for _ in 0..5 {
        call(&mut budgets, &part).unwrap();
    }
    let Err(Refused::Exceeded(why)) = call(&mut budgets, &part) else { panic!("it has more than its half") };
    assert_eq!((why.kind, why.on_exceed, why.limit), (ScopeKind::Background, OnExceed::Stop, 5));
    assert_eq!(refusal(&Refused::Exceeded(why)), "the budget of this background run: tool calls used up (5)");
    for _ in 0..4 {
        call(&mut budgets, "s1").unwrap();
    }
    // Both runs go on: the own one was not ended by the other.
    assert_eq!(budgets.run_use("s1", at(0)).unwrap().used.get(Dimension::Steps), 4);
    assert_eq!(budgets.run_use(&part, at(0)).unwrap().used.get(Dimension::Steps), 5);
    let lines = budgets.lines("s1", at(0));
    let of_part = lines.iter().find(|line| line.scope == ScopeKind::Background && line.dimension == Dimension::Steps);
    assert_eq!(of_part.map(|line| (line.child.as_str(), line.used, line.limit)), Some(("1", 5, 5)));
    budgets.end_run(&part, true, at(0)).unwrap();
    budgets.end_part(&part);
    call(&mut budgets, "s1").unwrap();
    assert!(call(&mut budgets, "s1").is_err(), "ten were used together");
    assert!(budgets.begin_part("s1", 1, at(0)).is_ok() && budgets.begin_part("s1", 1, at(0)).is_err());
}

/// A run of a part can be continued when its session has ended, also by its person, with what it has used.
#[test]
fn i12_the_run_of_a_part_outlasts_the_end_of_its_session() {
    let mut budgets = Budgets::default();
    budgets.open_session(&session("s1", 10), at(0)).unwrap();
    let part = budgets.begin_part("s1", 1, at(0)).unwrap();
    budgets.begin_run(&part, &run("long-1"), at(0)).unwrap();
    call(&mut budgets, &part).unwrap();
    // It cannot be begun a second time meanwhile.
    assert_eq!(budgets.begin_run("s1", &run("long-1"), at(0)), Err(text::ELSEWHERE.to_string()));
    budgets.begin_run("s1", &run("own-1"), at(0)).unwrap();
    call(&mut budgets, "s1").unwrap();
    budgets.close_session("s1");
    assert!(budgets.run_of(&part).is_none() && call(&mut budgets, &part).is_err());
    budgets.open_session(&session("s2", 10), at(1)).unwrap();
    let mut used = |name: &str| {
        budgets.begin_run("s2", &run(name), at(1)).unwrap();
        let used = budgets.run_use("s2", at(1)).unwrap().used.get(Dimension::Steps);
        budgets.end_run("s2", false, at(1)).unwrap();
        used
    };
    assert_eq!((used("long-1"), used("own-1")), (1, 0));
}

/// A part whose holder is gone ends as any other: it is no session that was lost.
#[test]
fn i12_a_part_without_a_holder_gives_back_what_it_has() {
    let mut budgets = Budgets::default();
    budgets.open_session(&session("s1", 10), at(0)).unwrap();
    let part = budgets.begin_part("s1", 1, at(0)).unwrap();
    budgets.begin_run(&part, &run("long-1"), at(0)).unwrap();
    call(&mut budgets, &part).unwrap();
    budgets.lose_session(&part);
    assert_eq!((budgets.lost.len(), budgets.left("s1", at(0)).get(Dimension::Steps)), (0, 9));
    budgets.begin_run("s1", &run("long-1"), at(0)).unwrap();
    assert_eq!(budgets.run_use("s1", at(0)).unwrap().used.get(Dimension::Steps), 1);
}

/// After a power cut the session's use is kept without the rest of the part, and the part is no session of its own.
#[test]
fn i12_a_power_cut_costs_what_the_part_has_used() {
    let machine = Machine::new();
    {
        let mut budgets = machine.budgets.borrow_mut();
        budgets.open_session(&session("s1", 10), at(0)).unwrap();
        let part = budgets.begin_part("s1", 1, at(0)).unwrap();
        budgets.begin_run(&part, &run("long-1"), at(0)).unwrap();
        call(&mut budgets, &part).unwrap();
        budgets.reserve(&part, steps(1), at(0)).unwrap();
    }
    machine.keep(Durability::Now);
    let machine = machine.restart();
    let mut budgets = machine.budgets.borrow_mut();
    assert_eq!(budgets.lost.len(), 1, "a part is no session");
    assert_eq!(budgets.open_session(&session("s2", 10), at(1)), Ok(true));
    assert_eq!(budgets.left("s2", at(1)).get(Dimension::Steps), 8);
    budgets.begin_run("s2", &run("long-1"), at(1)).unwrap();
    assert_eq!(budgets.run_use("s2", at(1)).unwrap().used.get(Dimension::Steps), 2);
}
