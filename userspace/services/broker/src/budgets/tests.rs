#![allow(clippy::unwrap_used, clippy::panic, clippy::arithmetic_side_effects)]

use alloc::rc::Rc;
use core::cell::RefCell;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use capos_keyspace::local::LocalKeyspace;
use capos_keyspace::{Batch, Durability, Keyspace, Range};
use capos_store::{MemoryBlocks, Store as Blocks};
use proptest::prelude::*;

use super::*;

const HOUR: u64 = 3_600_000;

fn done<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a store in the same process answers at once"),
    }
}

pub fn tokens(amount: u64) -> Amounts {
    Amounts::of(Dimension::Tokens, amount)
}

pub fn steps(amount: u64) -> Amounts {
    Amounts::of(Dimension::Steps, amount)
}

fn plan(tokens: u64) -> Plan {
    Plan::default().with(Dimension::Tokens, tokens, OnExceed::Stop).with(
        Dimension::WallClock,
        24 * HOUR,
        OnExceed::Stop,
    )
}

pub fn opening<'a>(id: &'a str, principal: &'a str) -> Opening<'a> {
    Opening { id, principal, profile: Profile::Operator, plan: plan(1000), principal_tokens: 5000 }
}

fn starting(plan: Plan) -> Starting<'static> {
    Starting { name: "c-1", plan, estimate: Estimate::default(), used: Amounts::default() }
}

/// A machine: its disk stays, and whatever else there is ends with its broker.
pub struct Machine {
    space: LocalKeyspace<MemoryBlocks>,
    pub budgets: RefCell<Budgets>,
    store: Store<LocalKeyspace<MemoryBlocks>>,
}

impl Machine {
    pub fn new() -> Self {
        let blocks = Rc::new(RefCell::new(Blocks::open(MemoryBlocks::new(4096)).unwrap()));
        Self::with(LocalKeyspace::new(blocks, "broker", 4 << 20).unwrap())
    }

    fn with(space: LocalKeyspace<MemoryBlocks>) -> Self {
        let store = Store::new(Some(space.clone()));
        let machine = Self { space, budgets: RefCell::default(), store };
        assert_eq!(done(machine.store.load(&machine.budgets)), Ok(0));
        machine
    }

    /// The broker ends without a word, and starts again.
    pub fn restart(self) -> Self {
        Self::with(self.space)
    }

    /// Rows of a table of its disk.
    pub fn rows(&self, table: &str) -> usize {
        done(self.space.range(Range::all(table))).unwrap().entries.len()
    }

    pub fn keep(&self, durability: Durability) {
        done(self.store.keep(&self.budgets, durability)).unwrap();
    }
}

pub fn at(hours: u64) -> Moment {
    Moment { now: hours * HOUR * MILLISECOND, unix: 1_700_000_000_000 + hours * HOUR }
}

#[test]
fn i03_a_restart_of_the_broker_gives_no_session_a_new_budget() {
    let machine = Machine::new();
    machine.budgets.borrow_mut().open_session(&opening("s1", "ada"), at(0)).unwrap();
    let ticket = machine.budgets.borrow_mut().reserve("s1", tokens(400), at(0)).unwrap();
    machine.keep(Durability::Now);
    machine.budgets.borrow_mut().pay(ticket, ("s1", "ada"), tokens(150));
    machine.budgets.borrow_mut().settle("s1", ticket);
    machine.keep(Durability::Later);
    // What was settled counts as it was; what is reserved and not settled counts as used.
    let ticket = machine.budgets.borrow_mut().reserve("s1", tokens(300), at(0)).unwrap();
    assert!(machine.budgets.borrow().holds(ticket));
    machine.keep(Durability::Now);
    let machine = machine.restart();
    let mut budgets = machine.budgets.borrow_mut();
    assert_eq!(budgets.open_session(&opening("s2", "ada"), at(1)), Ok(true));
    assert_eq!(budgets.tokens_left("s2", at(1)), Ok(550));
    assert_eq!(budgets.age("s2", at(2)), 2 * HOUR);
    // Nobody else continues it, and it is continued once.
    assert_eq!(budgets.open_session(&opening("s3", "bob"), at(1)), Ok(false));
    assert_eq!(budgets.open_session(&opening("s4", "ada"), at(1)), Ok(false));
    assert_eq!(budgets.tokens_left("s4", at(1)), Ok(1000));
}

#[test]
fn d06_tokens_are_counted_for_session_and_principal() {
    let machine = Machine::new();
    let spend = |session: &str, amount| {
        let mut budgets = machine.budgets.borrow_mut();
        budgets.open_session(&opening(session, "ada"), at(0)).unwrap();
        budgets.charge((session, "ada"), tokens(amount));
        budgets.close_session(session);
    };
    for session in ["a", "b", "c", "d"] {
        spend(session, 1000);
    }
    spend("e", 999);
    machine.keep(Durability::Now);
    let machine = machine.restart();
    let mut budgets = machine.budgets.borrow_mut();
    assert_eq!(budgets.open_session(&opening("f", "ada"), at(1)), Ok(false));
    assert_eq!(budgets.tokens_left("f", at(1)), Ok(1));
    budgets.charge(("f", "ada"), tokens(1));
    let why = text::refusal(&budgets.tokens_left("f", at(1)).unwrap_err());
    assert!(why.starts_with("your sessions together have used their 5000 tokens of a day"), "{why}");
    // A day after the first of them, there are tokens again.
    assert_eq!(budgets.tokens_left("f", at(24)), Ok(999));
}

#[test]
fn a_lost_session_is_continued_until_its_own_time_is_over() {
    for (hours, continues) in [(23, true), (24, false)] {
        let machine = Machine::new();
        machine.budgets.borrow_mut().open_session(&opening("s1", "ada"), at(0)).unwrap();
        machine.budgets.borrow_mut().charge(("s1", "ada"), tokens(1000));
        machine.budgets.borrow_mut().lose_session("s1");
        machine.keep(Durability::Now);
        let machine = machine.restart();
        let mut budgets = machine.budgets.borrow_mut();
        assert_eq!(budgets.open_session(&opening("s2", "ada"), at(hours)), Ok(continues));
        assert_eq!(budgets.tokens_left("s2", at(hours)).is_err(), continues);
        // Its holder ends it, and the next one is new.
        budgets.close_session("s2");
        assert_eq!(budgets.open_session(&opening("s3", "ada"), at(hours)), Ok(false));
        assert!(budgets.tokens_left("s3", at(hours)).is_ok());
    }
}

/// The time of another profile's sessions says nothing about them.
#[test]
fn i03_a_login_with_another_profile_forgets_no_lost_session() {
    let mut budgets = Budgets::default();
    budgets.open_session(&opening("s1", "ada"), at(0)).unwrap();
    budgets.charge(("s1", "ada"), tokens(1000));
    budgets.lose_session("s1");
    let other = if opening("s2", "eve").profile == Profile::Guest { Profile::Operator } else { Profile::Guest };
    let short = Plan::default().with(Dimension::WallClock, 1000, OnExceed::Stop);
    let eve = Opening { profile: other, plan: short, ..opening("s2", "eve") };
    budgets.open_session(&eve, at(1)).unwrap();
    assert_eq!(budgets.open_session(&opening("s3", "ada"), at(2)), Ok(true));
}

/// A run that has been followed by another one is told apart from it.
#[test]
fn i03_each_run_of_a_session_is_another_one() {
    let mut budgets = Budgets::default();
    budgets.open_session(&opening("s1", "ada"), at(0)).unwrap();
    assert_eq!(budgets.run_of("s1"), None);
    budgets.begin_run("s1", &starting(Plan::default()), at(0)).unwrap();
    let first = budgets.run_of("s1");
    budgets.begin_run("s1", &starting(Plan::default()), at(0)).unwrap();
    assert!(first.is_some() && budgets.run_of("s1") != first);
}

/// A clock that jumps back ends no day early, and a machine without a clock has one day.
#[test]
fn clocks_that_jump_give_nothing_back() {
    let mut budgets = Budgets::default();
    budgets.open_session(&opening("s1", "ada"), at(100)).unwrap();
    budgets.charge(("s1", "ada"), tokens(1000));
    assert!(budgets.tokens_left("s1", at(1)).is_err());
    assert!(budgets.tokens_left("s1", Moment { unix: 0, ..at(200) }).is_err());
    assert_eq!(budgets.age("s1", Moment { unix: 0, ..at(101) }), HOUR);
}

#[test]
fn a_locked_volume_loses_no_count() {
    // The volume is locked: what is counted goes with init's state.
    let mut counted = Budgets::default();
    counted.open_session(&opening("s1", "ada"), at(0)).unwrap();
    counted.charge(("s1", "ada"), tokens(700));
    let entries = counted.entries();
    let machine = Machine::new();
    {
        let mut budgets = machine.budgets.borrow_mut();
        for entry in &entries {
            budgets.restore(entry).unwrap();
        }
        assert_eq!(budgets.open_session(&opening("s2", "ada"), at(0)), Ok(true));
        assert_eq!(budgets.tokens_left("s2", at(0)), Ok(300));
    }
    machine.keep(Durability::Now);
    let machine = machine.restart();
    let mut budgets = machine.budgets.borrow_mut();
    assert_eq!(budgets.open_session(&opening("s3", "ada"), at(0)), Ok(true));
    assert_eq!(budgets.tokens_left("s3", at(0)), Ok(300));
}

#[test]
fn entries_that_are_not_understood_are_left_alone() {
    let machine = Machine::new();
    let mut batch = Batch::new();
    batch.put("budget.sessions", b"s9", b"of another version").put("budget.principals", b"eve", b"");
    done(machine.space.commit(&batch, Durability::Now)).unwrap();
    let store = Store::new(Some(machine.space.clone()));
    let budgets = RefCell::default();
    assert_eq!(done(store.load(&budgets)), Ok(2));
    done(store.keep(&budgets, Durability::Now)).unwrap();
    assert!(done(machine.space.get("budget.sessions", b"s9")).unwrap().is_some());
}

#[test]
fn i04_a_run_cannot_raise_its_own_limits() {
    let mut budgets = Budgets::default();
    budgets.open_session(&opening("s1", "ada"), at(0)).unwrap();
    let run = Plan::default().with(Dimension::Steps, 2, OnExceed::Stop).with(Dimension::Tokens, 100, OnExceed::Ask);
    budgets.begin_run("s1", &starting(run), at(0)).unwrap();
    let why = budgets.extend("s1", false, Dimension::Steps, 10).unwrap_err();
    assert!(why.contains("cannot be extended") && why.contains("budget.run.steps.limit"), "{why}");
    assert!(budgets.extend("s1", false, Dimension::Cpu, 10).is_err(), "there is no limit to raise");
    assert!(budgets.extend("s1", true, Dimension::Tokens, 10).is_err(), "the session's stops");
    // A limit that asks is extended within what the session has.
    assert!(budgets.extend("s1", false, Dimension::Tokens, 1001).is_err());
    assert_eq!(budgets.extend("s1", false, Dimension::Tokens, 900), Ok(1000));
}

#[test]
fn i07_warnings_name_the_limit_and_where_to_look() {
    let mut budgets = Budgets::default();
    budgets.open_session(&opening("s1", "ada"), at(0)).unwrap();
    let run = Plan::default().with(Dimension::Steps, 50, OnExceed::Ask);
    budgets.begin_run("s1", &starting(run), at(0)).unwrap();
    let mut told = Vec::new();
    for _ in 0..50 {
        let ticket = budgets.reserve("s1", steps(1), at(0)).unwrap();
        budgets.pay(ticket, ("s1", "ada"), steps(1));
        budgets.settle("s1", ticket);
        told.extend(budgets.crossed("s1").iter().filter_map(|(kind, crossed)| notice(*kind, crossed)));
    }
    assert_eq!(told, ["80 % of the run's tool calls used: 40 of 50; /budget shows all"]);
}

#[test]
fn i08_each_step_records_what_it_used_and_what_is_left() {
    let mut budgets = Budgets::default();
    budgets.open_session(&opening("s1", "ada"), at(0)).unwrap();
    budgets.begin_run("s1", &starting(Plan::default().with(Dimension::Steps, 50, OnExceed::Ask)), at(0)).unwrap();
    for number in 1..=70 {
        budgets.charge(("s1", "ada"), steps(u64::from(number == 1)).plus(tokens(7)));
        budgets.record("s1", "read_file", (5, 2), tokens(7));
    }
    let found = budgets.steps("s1");
    let (first, last) = (found.first().unwrap(), found.last().unwrap());
    assert_eq!((found.len(), first.number, last.number), (STEPS, 7, 70));
    assert_eq!((last.prompt_tokens, last.answer_tokens, last.used), (5, 2, tokens(7)));
    let remaining = |dimension| last.remaining.get(dimension);
    assert_eq!((remaining(Dimension::Steps), remaining(Dimension::Tokens)), (49, 1000 - 490));
    // The run is shown until the next one begins.
    let steps_of = |lines: &[Line], scope| {
        let found = lines.iter().find(|line| line.scope == scope && line.dimension == Dimension::Steps);
        found.map(|line| (line.used, line.limit))
    };
    assert_eq!(steps_of(&budgets.lines("s1", at(0)), ScopeKind::Run), Some((1, 50)));
    assert!(budgets.end_run("s1", true, at(0)).is_some() && budgets.end_run("s1", true, at(0)).is_none());
    let lines = budgets.lines("s1", at(0));
    assert_eq!(steps_of(&lines, ScopeKind::Run), Some((1, 50)));
    assert_eq!(steps_of(&lines, ScopeKind::Session), Some((1, UNLIMITED)));
    assert_eq!(budgets.steps("s1").len(), STEPS);
}

#[test]
fn i10_the_question_names_what_is_used_up_and_what_is_asked_for() {
    let mut budgets = Budgets::default();
    budgets
        .open_session(&Opening { plan: Plan::default(), principal_tokens: UNLIMITED, ..opening("s1", "ada") }, at(0))
        .unwrap();
    let run = Plan::default().with(Dimension::Tokens, 100_000, OnExceed::Ask);
    budgets.begin_run("s1", &starting(run), at(0)).unwrap();
    budgets.charge(("s1", "ada"), tokens(100_000));
    let Err(Refused::Exceeded(why)) = budgets.check("s1", &tokens(1), at(0)) else { panic!("it goes on") };
    let words = "Run paused: model tokens used up (100,000). Allow 50,000 more? [y/N/number] ";
    assert_eq!(question(&why), words);
    assert!(budgets.is_news("s1", &why) && !budgets.is_news("s1", &why));
    budgets.extend("s1", false, Dimension::Tokens, why.suggested()).unwrap();
    assert!(budgets.check("s1", &tokens(50_000), at(0)).is_ok());
}

#[test]
fn i14_each_message_says_which_limit_it_is_and_how_to_raise_it() {
    let mut budgets = Budgets::default();
    budgets.open_session(&opening("s1", "ada"), at(0)).unwrap();
    budgets.charge(("s1", "ada"), tokens(1003));
    let why = text::refusal(&budgets.check("s1", &tokens(1), at(0)).unwrap_err());
    assert_eq!(
        why,
        "this session has used its 1000 tokens; start a new one to continue; the setting limits.max_tokens raises it"
    );
    budgets.close_session("s1");
    budgets.open_session(&opening("s2", "ada"), at(0)).unwrap();
    let run = Plan::default().with(Dimension::Writes, 1 << 20, OnExceed::Stop);
    budgets.begin_run("s2", &starting(run), at(0)).unwrap();
    budgets.charge(("s2", "ada"), Amounts::of(Dimension::Writes, 900 << 10));
    let need = Amounts::of(Dimension::Writes, 300 << 10);
    let why = text::refusal(&budgets.check("s2", &need, at(0)).unwrap_err());
    assert_eq!(
        why,
        "the budget of this run: bytes written used up but for less than the next step needs (900 KiB of 1 MiB; it needs \
         300 KiB); the setting budget.run.writes.limit raises it"
    );
}

#[test]
fn lost_sessions_and_principals_are_bounded() {
    let mut budgets = Budgets::default();
    for number in 0..40_u64 {
        let id = number.to_string();
        budgets.open_session(&opening(&id, "ada"), at(number)).unwrap();
    }
    for number in 0..40 {
        let id = number.to_string();
        budgets.charge((&id, "ada"), tokens(1));
        budgets.lose_session(&id);
    }
    assert_eq!(budgets.lost.len(), LOST);
    assert!(budgets.has_place_for("ada", at(0).unix));
    for number in 0..PRINCIPALS {
        budgets.open_session(&opening(&alloc::format!("s{number}"), &number.to_string()), at(0)).unwrap();
    }
    assert!(!budgets.has_place_for("another", at(0).unix) && budgets.has_place_for("3", at(0).unix));
}

/// A clock that was years ahead, and is set back, keeps no tokens for ever: the day begins when it is set back. What was used in
/// it stays used.
#[test]
fn a_clock_that_was_ahead_ends_no_tokens_for_good() {
    let moment = |unix| Moment { now: 0, unix };
    let (now, ahead) = (capos_setup::CLOCK_IS_SET + HOUR, 4_070_908_800_000);
    let machine = Machine::new();
    let use_all = |budgets: &mut Budgets, principal: &str, unix| {
        let id = alloc::format!("{principal} {unix}");
        budgets.open_session(&Opening { principal_tokens: 1000, ..opening(&id, principal) }, moment(unix)).unwrap();
        budgets.charge((&id, principal), tokens(1000));
        id
    };
    let ada = use_all(&mut machine.budgets.borrow_mut(), "ada", ahead);
    let bob = use_all(&mut machine.budgets.borrow_mut(), "bob", ahead);
    machine.budgets.borrow_mut().lose_session(&bob);
    let carl = use_all(&mut machine.budgets.borrow_mut(), "carl", ahead);
    machine.budgets.borrow_mut().lose_session(&carl);
    machine.keep(Durability::Now);
    let left = |machine: &Machine, id: &str, unix| machine.budgets.borrow_mut().tokens_left(id, moment(unix));
    // It is set back during a session. A clock that was never set corrects nothing.
    assert!(left(&machine, &ada, 946_684_800_000).is_err());
    assert!(left(&machine, &ada, now).is_err() && left(&machine, &ada, now + DAY - 1).is_err());
    machine.keep(Durability::Now);
    // And after a restart.
    let machine = machine.restart();
    for name in ["ada", "bob"] {
        let id = use_all(&mut machine.budgets.borrow_mut(), name, now + 2);
        assert!(left(&machine, &id, now + DAY - 1).is_err(), "{name}");
        machine.budgets.borrow_mut().close_session(&id);
        let next = alloc::format!("next {name}");
        let begins = Opening { principal_tokens: 1000, ..opening(&next, name) };
        machine.budgets.borrow_mut().open_session(&begins, moment(now + DAY + 2)).unwrap();
        assert_eq!(left(&machine, &next, now + DAY + 2), Ok(1000), "{name}");
    }
    // Nor does carl's lost session wait longer than its time.
    assert!(machine.budgets.borrow().lost.is_empty());
}

#[derive(Clone, Debug)]
enum Act {
    Reserve(u64),
    /// The step takes this part of what it reserved, in percent; one that reports nothing takes nothing.
    Settle(u64),
    Restart,
    Lose,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (1..200_u64).prop_map(Act::Reserve),
        3 => (0..=130_u64).prop_map(Act::Settle),
        1 => Just(Act::Restart),
        1 => Just(Act::Lose),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    /// With restarts of the broker and sessions that are lost, what is used is never more than the limit and one step.
    #[test]
    fn i03_restarts_give_nothing_back(acts in proptest::collection::vec(act(), 1..60)) {
        let mut machine = Machine::new();
        machine.budgets.borrow_mut().open_session(&opening("s0", "ada"), at(0)).unwrap();
        let (mut session, mut number, mut used, mut largest) = ("s0".to_string(), 0_u32, 0_u64, 0_u64);
        let mut open: Option<(Ticket, u64)> = None;
        for act in acts {
            match act {
                Act::Reserve(amount) if open.is_none() => {
                    let reserved = machine.budgets.borrow_mut().reserve(&session, tokens(amount), at(0));
                    machine.keep(Durability::Now);
                    open = reserved.ok().map(|ticket| (ticket, amount));
                }
                Act::Settle(percent) => if let Some((ticket, amount)) = open.take() {
                    let took = amount * percent / 100;
                    largest = largest.max(took);
                    used += took;
                    machine.budgets.borrow_mut().pay(ticket, (&session, "ada"), tokens(took));
                    machine.budgets.borrow_mut().settle(&session, ticket);
                    machine.keep(Durability::Later);
                },
                Act::Reserve(_) => {}
                Act::Restart | Act::Lose => {
                    // What was reserved and not settled was used, for all that is known.
                    used += open.take().map_or(0, |(_, amount)| amount);
                    if matches!(act, Act::Restart) {
                        machine = machine.restart();
                    } else {
                        machine.budgets.borrow_mut().lose_session(&session);
                    }
                    number += 1;
                    session = alloc::format!("s{number}");
                    let continues = machine.budgets.borrow_mut().open_session(&opening(&session, "ada"), at(0)).unwrap();
                    prop_assert_eq!(continues, used > 0);
                }
            }
            prop_assert!(used <= 1000 + largest * 30 / 130 + 1, "{} of 1000 tokens were used", used);
        }
    }
}
