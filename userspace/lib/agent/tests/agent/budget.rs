//! The budget of a run: steps that are reserved, and what the person is asked.

use std::cell::RefMut;
use std::collections::{BTreeMap, VecDeque};

use capos_agent::TurnEnd;
use capos_agent::world::{Amounts, Budget, Excess, More, Standing};
use capos_budget::Dimension;
use capos_schema::authority::{BudgetDimension, Reply, SessionLimits};
use capos_schema::models::Outcome;

use crate::world::*;

/// A budget of tool calls, as the broker keeps it.
#[derive(Debug)]
pub struct Steps {
    pub limit: u64,
    pub asks: bool,
    pub used: u64,
    next: u64,
    /// Reservations, with the tools.
    open: BTreeMap<u64, String>,
    /// Calls that ended, and whether they had begun.
    pub settled: Vec<(String, bool)>,
    pub answers: VecDeque<More>,
    pub replies: Vec<(u64, Reply)>,
    pub ends: Vec<String>,
    /// What calls said that they write.
    pub writes: u64,
    pub notices: Vec<String>,
    /// The run still runs in another session.
    pub elsewhere: bool,
}

impl Default for Steps {
    fn default() -> Self {
        Self {
            limit: u64::MAX,
            asks: false,
            used: 0,
            next: 0,
            open: BTreeMap::new(),
            settled: Vec::new(),
            answers: VecDeque::new(),
            replies: Vec::new(),
            ends: Vec::new(),
            writes: 0,
            notices: Vec::new(),
            elsewhere: false,
        }
    }
}

impl Steps {
    fn standing(&mut self) -> Standing {
        let is_spent = self.used + self.open.len() as u64 >= self.limit;
        let question = format!("Run paused: tool calls used up ({}). Allow 2 more? ", self.limit);
        let text = if self.asks { question } else { "tool calls used up; raise the setting".to_string() };
        let (asks, session, dimension, suggested) = (self.asks, false, BudgetDimension::Steps, 2);
        let excess = is_spent.then_some(Excess { text, asks, session, dimension, suggested });
        Standing { number: 0, notices: core::mem::take(&mut self.notices), excess }
    }
}

impl World {
    /// The budget of the run, or of the child run.
    fn steps(&self) -> RefMut<'_, Steps> {
        match &self.1 {
            Some(child) => child.steps.borrow_mut(),
            None => self.0.run.borrow_mut(),
        }
    }
}

impl Budget for World {
    async fn begin_run(
        &self,
        name: &str,
        turn: u32,
        (least, most): (u64, u64),
        used: Amounts,
    ) -> Result<Standing, String> {
        assert!(least <= most);
        self.0.estimated.borrow_mut().push((least, most));
        self.0.begun_with.borrow_mut().push(used);
        if let Some(machine) = self.machine() {
            return match &self.1 {
                Some(child) => machine.begin_child(self, name, child.shares).await,
                None => machine.begin_run(self, name, turn, used).await,
            };
        }
        if self.0.run.borrow().elsewhere {
            return Err("this run still runs in another session".into());
        }
        // A turn that was cut off has not settled.
        let open = core::mem::take(&mut self.steps().open);
        self.steps().used += open.len() as u64;
        Ok(Standing::default())
    }

    async fn used(&self) -> Option<(Amounts, Amounts)> {
        match self.machine() {
            Some(machine) => machine.used(self).await,
            None => Some((Amounts::of(Dimension::Steps, self.steps().used), Amounts::default())),
        }
    }

    async fn look(&self) -> Result<Standing, String> {
        if let Some(machine) = self.machine() {
            return machine.look(self).await;
        }
        let mut run = self.steps();
        assert!(run.open.is_empty(), "a step of an earlier answer is not settled: {:?}", run.open);
        Ok(run.standing())
    }

    async fn reserve(&self, tool: &str, _: &str, writes: u64) -> Result<Standing, String> {
        if self.0.broker_down.get() {
            return Err("it is gone".into());
        }
        if let Some(machine) = self.machine() {
            return machine.reserve(self, writes).await;
        }
        let mut run = self.steps();
        let standing = run.standing();
        if standing.excess.is_some() {
            return Ok(standing);
        }
        run.next += 1;
        run.writes += writes;
        let number = run.next;
        run.open.insert(number, tool.to_string());
        Ok(Standing { number, ..standing })
    }

    async fn settle(&self, number: u64, began: bool) -> Vec<String> {
        if let Some(machine) = self.machine() {
            machine.settle(self, number, began).await;
            return Vec::new();
        }
        let mut run = self.steps();
        let tool = run.open.remove(&number).expect("it is settled once");
        run.used += u64::from(began);
        run.settled.push((tool, began));
        Vec::new()
    }

    async fn extend(&self, _: &Excess, more: u64, reply: Reply) -> Result<(), String> {
        let mut run = self.steps();
        run.replies.push((more, reply));
        run.limit += if reply == Reply::Agreed { more } else { 0 };
        Ok(())
    }

    async fn end_run(&self, outcome: &str, over: bool) -> Vec<String> {
        if let Some(machine) = self.machine() {
            machine.end_run(self, over).await;
        }
        self.steps().ends.push(outcome.to_string());
        Vec::new()
    }
}

fn reads(count: u64) -> Vec<Vec<Piece>> {
    (0..count).map(|n| vec![call("", "read", &format!("{{\"n\":{n}}}"))]).chain([vec![Piece::Text("done")]]).collect()
}

fn run(world: &World) -> TurnEnd {
    let mut agent = agent(world, SessionLimits { max_iterations: 50, ..SessionLimits::default() });
    let end = world.run(agent.turn("go", &snapshot()));
    world.drain();
    world.check_audit();
    assert!(!world.0.shown.borrow().iter().any(|line| line.contains("a fault of the runner")));
    end
}

#[test]
fn i03_a_run_ends_as_failed_where_its_tool_calls_are_used_up() {
    let world = World::new(reads(9));
    world.0.run.borrow_mut().limit = 3;
    let why = "tool calls used up; raise the setting".to_string();
    assert_eq!(run(&world), TurnEnd::Budget { why, cancelled: false });
    assert_eq!(world.effects().len(), 3);
    // No model is asked in vain.
    assert_eq!(world.0.requests.borrow().len(), 3);
    assert_eq!(world.0.run.borrow().ends, ["failed: a budget is used up"]);
}

/// Three answers: as much as was asked, another amount, no.
#[test]
fn i10_a_person_allows_more_or_another_amount_or_nothing() {
    let world = World::new(reads(20));
    {
        let mut run = world.0.run.borrow_mut();
        (run.limit, run.asks) = (3, true);
        run.answers.extend([More::Granted(2), More::Granted(5), More::No]);
    }
    let end = run(&world);
    let TurnEnd::Budget { why, cancelled: true } = end else { panic!("{end:?}") };
    assert_eq!(why, "Run paused: tool calls used up (10); you allowed no more");
    assert_eq!(world.effects().len(), 10);
    let found = world.0.run.borrow();
    assert_eq!(found.replies, [(2, Reply::Agreed), (5, Reply::Agreed), (2, Reply::Declined)]);
    assert_eq!(found.ends, ["cancelled: a budget is used up and was not extended"]);
    assert_eq!(world.0.prompts.borrow().len(), 3);
}

#[test]
fn i10_nobody_who_is_away_or_interrupts_allows_more() {
    for (thinks, interrupt, reply) in [(400_000, None, Reply::Late), (1000, Some(500), Reply::Interrupted)] {
        let world = World::new(reads(5));
        (world.0.run.borrow_mut().limit, world.0.run.borrow_mut().asks) = (0, true);
        world.0.run.borrow_mut().answers.push_back(More::Granted(9));
        world.0.thinks.set(thinks * MS);
        world.0.interrupt_at.set(interrupt.map(|at: u64| at * MS));
        let end = run(&world);
        assert!(world.effects().is_empty());
        assert_eq!(world.0.run.borrow().replies, [(2, reply)]);
        match reply {
            Reply::Late => assert!(matches!(end, TurnEnd::Budget { cancelled: true, why } if why.contains("nobody"))),
            _ => assert_eq!(end, TurnEnd::Interrupted),
        }
    }
}

/// Ctrl-C at the question about more ends the turn at once: no call of the answer runs for which a step was reserved before, and
/// there is no question about one.
#[test]
fn i10_ctrl_c_at_the_question_ends_all_calls_of_the_answer() {
    for first in ["read", "write"] {
        let calls = vec![call("a", first, r#"{"n":1}"#), call("b", "read", r#"{"n":2}"#)];
        let world = World::new(vec![calls, vec![Piece::Text("never")]]);
        (world.0.run.borrow_mut().limit, world.0.run.borrow_mut().asks) = (1, true);
        world.0.run.borrow_mut().answers.push_back(More::Interrupted);
        assert_eq!(run(&world), TurnEnd::Interrupted);
        assert_eq!((world.effects().len(), world.0.prompts.borrow().len()), (0, 1), "{first}");
        assert_eq!(world.outcomes(), [Outcome::Cancelled; 2]);
        assert_eq!((world.0.run.borrow().used, world.0.run.borrow().open.len()), (0, 0));
    }
}

/// Of the calls of one answer, those within the budget run, and the others are told why not. The overage is finished, and the
/// run stops.
#[test]
fn i14_the_calls_of_one_answer_are_within_the_budget() {
    let calls = (0..5).map(|n| call(&format!("c{n}"), "read", &format!("{{\"n\":{n}}}"))).collect();
    let world = World::new(vec![calls, vec![Piece::Text("never")]]);
    world.0.run.borrow_mut().limit = 3;
    assert!(matches!(run(&world), TurnEnd::Budget { cancelled: false, .. }));
    let mut outcomes = world.outcomes();
    outcomes.sort_by_key(|outcome| outcome.name());
    let refused = Outcome::RefusedByPolicy;
    assert_eq!(outcomes, [Outcome::Ok, Outcome::Ok, Outcome::Ok, refused, refused]);
    assert_eq!(world.0.run.borrow().used, 3);
    assert_eq!(world.0.requests.borrow().len(), 1);
}

/// What never began is not used: calls that the person or the policy refuses, or that name no tool.
#[test]
fn calls_that_never_begin_use_no_step() {
    let calls = vec![
        call("a", "write", r#"{"n":1}"#),
        Piece::Call { id: "b".into(), name: "no_such".into(), handle: String::new(), arguments: "{}".into() },
        call("c", "read", r#"{"n":2}"#),
        call("d", "read", "not json"),
    ];
    let world = World::new(vec![calls, vec![Piece::Text("done")]]);
    assert_eq!(run(&world), TurnEnd::Answered);
    let run = world.0.run.borrow();
    assert_eq!((run.used, run.settled.len(), run.open.len()), (1, 4, 0));
    assert_eq!(run.ends, ["answered"]);
}

#[test]
fn i07_notices_of_limits_are_shown() {
    let world = World::new(reads(1));
    world.0.run.borrow_mut().notices.push("80 % of the run's tool calls used".into());
    assert_eq!(run(&world), TurnEnd::Answered);
    assert!(world.0.shown.borrow().iter().any(|shown| shown.contains("80 % of the run's tool calls used")));
}

/// Requirement I13: a tool that fails again and again is not run again in its run, in no segment of it either.
#[test]
fn i13_a_tool_that_keeps_failing_is_not_run_again() {
    let fails = |n: u64| vec![call("", "fails", &format!("{{\"n\":{n}}}"))];
    let script = (0..12).map(fails).chain([vec![Piece::Text("done")]]).collect();
    let world = World::new(script);
    assert_eq!(run(&world), TurnEnd::Answered);
    assert_eq!(world.effects().len(), 8);
    let last = world.0.events.borrow().last().unwrap().clone();
    assert!(
        last.outcome == Outcome::RefusedByPolicy && last.error.contains("has failed 8 times in this run"),
        "{last:?}"
    );
    // The next run begins without its failures.
    let world = World::new(
        (0..7).map(fails).chain([vec![Piece::Text("done")]]).chain((7..14).map(fails)).chain([vec![]]).collect(),
    );
    let mut next = agent(&world, SessionLimits { max_iterations: 50, ..SessionLimits::default() });
    for _ in 0..2 {
        assert_eq!(world.run(next.turn("go", &snapshot())), TurnEnd::Answered);
    }
    assert_eq!(world.effects().len(), 14);
    let world = World::new((0..12).map(fails).chain([vec![Piece::Text("done")]]).collect());
    let mut agent = agent(&world, SessionLimits { max_iterations: 3, ..SessionLimits::default() });
    agent.in_segments(9);
    assert_eq!(world.run(agent.turn("go", &snapshot())), TurnEnd::Answered);
    assert_eq!(world.effects().len(), 8);
}

/// What counts is how often it fails one time after the other.
#[test]
fn i13_a_tool_that_has_succeeded_may_fail_again() {
    let read = |bad: u64| move |n: u64| vec![call("", "read", &format!("{{\"{}\":{n}}}", ["n", "nn"][bad as usize]))];
    let script =
        (0..7).map(read(1)).chain((7..8).map(read(0))).chain((8..15).map(read(1))).chain((15..16).map(read(0)));
    let world = World::new(script.chain([vec![Piece::Text("done")]]).collect());
    assert_eq!(run(&world), TurnEnd::Answered);
    assert_eq!(world.effects().len(), 2);
}

/// What a run is begun with is between the tokens of the longest words and those of the shortest, and an answer.
#[test]
fn i03_a_run_begins_with_an_estimate_of_its_first_request() {
    let world = World::new(reads(0));
    let mut agent = agent(&world, SessionLimits { max_tokens_per_call: 1000, ..SessionLimits::default() });
    world.run(agent.turn(&"x".repeat(10_000), &snapshot()));
    let tools = snapshot().tools().iter().map(|tool| tool.descriptor.description.len() + 2).sum::<usize>();
    let bytes = ("You are careful.".len() + 10_000 + tools) as u64;
    assert_eq!(*world.0.estimated.borrow(), [(bytes / 16, bytes / 3 + 1000)]);
}

/// What a call writes is told by the arguments of those that change something.
#[test]
fn i14_bytes_that_calls_write_are_reserved() {
    let change = r#"{"n":1,"pad":"some text"}"#;
    let calls = vec![call("a", "read", r#"{"n":2,"pad":"a longer text than that"}"#), call("b", "change", change)];
    let world = World::new(vec![calls, vec![Piece::Text("done")]]);
    assert_eq!(run(&world), TurnEnd::Answered);
    assert_eq!(world.0.run.borrow().writes, change.len() as u64);
}
