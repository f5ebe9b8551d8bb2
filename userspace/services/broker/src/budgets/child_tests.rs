//! Child runs divide what their parent has, whatever happens meanwhile.
#![allow(clippy::unwrap_used, clippy::panic, clippy::arithmetic_side_effects)]

use super::tests::{Machine, at, opening, steps, tokens};
use super::*;
use capos_keyspace::Durability;
use proptest::prelude::*;

fn plan() -> Plan {
    Plan::default().with(Dimension::Steps, 10, OnExceed::Ask).with(Dimension::Tokens, 500, OnExceed::Stop).with(
        Dimension::Egress,
        0,
        OnExceed::Stop,
    )
}

fn begin(budgets: &mut Budgets) {
    budgets.open_session(&opening("s1", "ada"), at(0)).unwrap();
    let run = Starting { name: "c-1", plan: plan(), estimate: Estimate::default(), used: Amounts::default() };
    budgets.begin_run("s1", &run, at(0)).unwrap();
}

fn child(budgets: &mut Budgets, number: u32, shares: Amounts) -> Result<(), Refused> {
    budgets.begin_child("s1", (&alloc::format!("c-1.{number}"), shares), Estimate::default(), at(0))
}

fn use_up(budgets: &mut Budgets, amounts: Amounts) -> Result<(), Refused> {
    let ticket = budgets.reserve("s1", amounts, at(0))?;
    budgets.pay(ticket, ("s1", "ada"), amounts);
    budgets.settle("s1", ticket);
    Ok(())
}

fn used_by_run(budgets: &mut Budgets, dimension: Dimension) -> u64 {
    budgets.run_use("s1", at(0)).unwrap().used.get(dimension)
}

#[test]
fn i15_a_child_run_has_half_of_what_is_left_or_what_is_asked_for() {
    let mut budgets = Budgets::default();
    begin(&mut budgets);
    use_up(&mut budgets, steps(2).plus(tokens(100))).unwrap();
    child(&mut budgets, 1, Amounts::default()).unwrap();
    let (limits, used) = budgets.child_use("s1", at(0)).unwrap();
    assert_eq!((limits.get(Dimension::Steps), limits.get(Dimension::Tokens)), (4, 200));
    assert_eq!((limits.get(Dimension::Egress), limits.get(Dimension::Cpu)), (0, UNLIMITED));
    assert!(used.is_nothing());
    // It ends at its part, and asks for no more, though its parent's limit asks.
    for _ in 0..4 {
        use_up(&mut budgets, steps(1)).unwrap();
    }
    let Err(Refused::Exceeded(why)) = use_up(&mut budgets, steps(1)) else { panic!("it has used its part") };
    assert_eq!((why.kind, why.on_exceed), (ScopeKind::Child, OnExceed::Stop));
    let ended = budgets.end_child("s1", at(0)).unwrap();
    assert_eq!(ended.used.get(Dimension::Steps), 4);
    assert_eq!(used_by_run(&mut budgets, Dimension::Steps), 6);
    // What it has not used is its parent's again.
    child(&mut budgets, 2, steps(4).plus(tokens(400))).unwrap();
    budgets.end_child("s1", at(0)).unwrap();
    assert!(child(&mut budgets, 3, steps(5)).is_err() && child(&mut budgets, 3, tokens(401)).is_err());
    assert_eq!(budgets.child_of("s1"), None);
    // Both are shown below their parent, with what they used.
    let lines = budgets.lines("s1", at(0));
    let of = |number: &str| lines.iter().find(|line| line.child == number && line.dimension == Dimension::Steps);
    assert_eq!(of("1").map(|line| (line.used, line.limit)), Some((4, 4)));
    assert_eq!(of("2").map(|line| (line.used, line.limit)), Some((0, 4)));
}

/// The end of a run ends its child run, and a power cut within that counts its part as used.
#[test]
fn i15_a_child_run_ends_with_its_parent_and_counts_after_a_power_cut() {
    let machine = Machine::new();
    {
        let mut budgets = machine.budgets.borrow_mut();
        begin(&mut budgets);
        child(&mut budgets, 1, steps(6)).unwrap();
        use_up(&mut budgets, steps(1)).unwrap();
        budgets.end_run("s1", false, at(0)).unwrap();
        assert_eq!(budgets.child_of("s1"), None);
        let run = Starting { name: "c-1", plan: plan(), estimate: Estimate::default(), used: Amounts::default() };
        budgets.begin_run("s1", &run, at(0)).unwrap();
        assert_eq!(used_by_run(&mut budgets, Dimension::Steps), 1);
        child(&mut budgets, 2, steps(6)).unwrap();
    }
    machine.keep(Durability::Now);
    let machine = machine.restart();
    let mut budgets = machine.budgets.borrow_mut();
    budgets.open_session(&opening("s2", "ada"), at(0)).unwrap();
    let run = Starting { name: "c-1", plan: plan(), estimate: Estimate::default(), used: Amounts::default() };
    budgets.begin_run("s2", &run, at(0)).unwrap();
    assert_eq!(budgets.run_use("s2", at(0)).unwrap().used.get(Dimension::Steps), 7);
}

/// Tokens that a call may take beyond its reservation: a backend that tells nothing of what it uses.
const BEYOND: u64 = 40;

#[derive(Clone, Debug)]
enum Act {
    Child { steps: u64, tokens: u64 },
    EndChild,
    Call { need: u64, taken: u64 },
    Restart,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (0..8_u64, 0..300_u64).prop_map(|(steps, tokens)| Act::Child { steps, tokens }),
        2 => Just(Act::EndChild),
        8 => (0..60_u64, 0..100_u64).prop_map(|(need, taken)| Act::Call { need, taken }),
        1 => Just(Act::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]
    /// Child runs, restarts, and calls that take more than they reserved: no budget is exceeded by more than one call, and what a
    /// child uses is used of its parent.
    #[test]
    fn i15_no_budget_is_exceeded_by_more_than_one_call(acts in proptest::collection::vec(act(), 1..60)) {
        let mut machine = Machine::new();
        begin(&mut machine.budgets.borrow_mut());
        let (mut session, mut truth, mut number) = (1_u32, tokens(0), 0);
        for act in acts {
            let id = alloc::format!("s{session}");
            match act {
                Act::Child { steps: of_steps, tokens: of_tokens } => {
                    number += 1;
                    let shares = steps(of_steps).plus(tokens(of_tokens));
                    let name = alloc::format!("c-1.{number}");
                    let _ = machine.budgets.borrow_mut().begin_child(&id, (&name, shares), Estimate::default(), at(0));
                }
                Act::EndChild => drop(machine.budgets.borrow_mut().end_child(&id, at(0))),
                Act::Call { need, taken } => {
                    let need = tokens(need).plus(steps(1));
                    let reserved = machine.budgets.borrow_mut().reserve(&id, need, at(0));
                    let Ok(ticket) = reserved else { continue };
                    machine.keep(Durability::Now);
                    let taken = tokens(taken.min(need.get(Dimension::Tokens) + BEYOND)).plus(steps(1));
                    truth = truth.plus(taken);
                    machine.budgets.borrow_mut().pay(ticket, (&id, "ada"), taken);
                    machine.budgets.borrow_mut().settle(&id, ticket);
                    machine.keep(Durability::Now);
                }
                Act::Restart => {
                    machine = machine.restart();
                    session += 1;
                    let id = alloc::format!("s{session}");
                    let mut budgets = machine.budgets.borrow_mut();
                    budgets.open_session(&opening(&id, "ada"), at(0)).unwrap();
                    let (estimate, used) = (Estimate::default(), Amounts::default());
                    budgets.begin_run(&id, &Starting { name: "c-1", plan: plan(), estimate, used }, at(0)).unwrap();
                }
            }
            let id = alloc::format!("s{session}");
            let mut budgets = machine.budgets.borrow_mut();
            let run = budgets.run_use(&id, at(0)).unwrap().used;
            for (dimension, limit, beyond) in [(Dimension::Steps, 10, 0), (Dimension::Tokens, 500, BEYOND)] {
                let (used, truth) = (run.get(dimension), truth.get(dimension));
                prop_assert!(used <= limit + beyond, "{} of {} {}", used, limit, dimension.name());
                prop_assert!(used >= truth, "{} counted, {} used", used, truth);
                if let Some((limits, used)) = budgets.child_use(&id, at(0)) {
                    let (used, limit) = (used.get(dimension), limits.get(dimension));
                    prop_assert!(used <= limit + beyond && used <= run.get(dimension));
                }
            }
        }
    }
}
