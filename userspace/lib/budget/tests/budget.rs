//! What holds of budgets, whatever sessions, runs and crashes do.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use capos_budget::{
    Account, Amounts, Dimension, Estimate, Exceeded, Judged, Kept, Ledger, OnExceed, Plan, Refused, ScopeId, ScopeKind,
    Ticket, UNLIMITED,
};
use proptest::prelude::*;

fn session(plan: Plan) -> (Ledger, ScopeId) {
    let mut ledger = Ledger::default();
    let session = ledger.open(ScopeKind::Session, Account::new(plan));
    (ledger, session)
}

fn exceeded<T: core::fmt::Debug>(refused: Result<T, Refused>) -> Exceeded {
    match refused {
        Err(Refused::Exceeded(exceeded)) => exceeded,
        other => panic!("{other:?}"),
    }
}

/// One exhaustion of each dimension: the step that reaches the limit is finished, and no other begins.
#[test]
fn i03_each_of_the_eight_dimensions_ends_a_run_at_its_limit() {
    for dimension in Dimension::ALL {
        let (mut ledger, session) = session(Plan::default());
        let plan = Plan::default().with(dimension, 10, OnExceed::Stop);
        let run = ledger.open_within(session, ScopeKind::Run, Account::new(plan)).unwrap();
        let ticket = ledger.reserve(run, Amounts::of(dimension, 4)).unwrap();
        if dimension == Dimension::WallClock {
            ledger.settle(ticket);
            ledger.passed(run, 11);
        } else {
            ledger.pay(ticket, Amounts::of(dimension, 11));
            ledger.settle(ticket);
        }
        let why = exceeded(ledger.reserve(run, Amounts::default()));
        assert_eq!((why.kind, why.dimension, why.used, why.limit), (ScopeKind::Run, dimension, 11, 10));
        assert!(
            why.to_string().starts_with("the budget of this run: ") && why.to_string().contains("used up"),
            "{why}"
        );
        // The other dimensions go on in another run.
        let other = ledger.open_within(session, ScopeKind::Run, Account::new(Plan::default())).unwrap();
        assert!(ledger.reserve(other, Amounts::all(1)).is_ok());
    }
}

#[test]
fn i06_a_limit_stops_asks_or_warns() {
    for policy in OnExceed::ALL {
        let (mut ledger, session) = session(Plan::default());
        let plan = Plan::default().with(Dimension::Steps, 2, policy);
        let run = ledger.open_within(session, ScopeKind::Run, Account::new(plan)).unwrap();
        for _ in 0..2 {
            let ticket = ledger.reserve(run, Amounts::of(Dimension::Steps, 1)).unwrap();
            ledger.pay(ticket, Amounts::of(Dimension::Steps, 1));
            ledger.settle(ticket);
        }
        let third = ledger.reserve(run, Amounts::of(Dimension::Steps, 1));
        if policy == OnExceed::Warn {
            assert!(third.is_ok());
            assert_eq!(ledger.crossed(run)[0].1.percent, 100);
        } else {
            assert_eq!(exceeded(third).on_exceed, policy);
        }
    }
}

#[test]
fn i07_thresholds_are_told_once_and_in_order() {
    let (mut ledger, session) = session(Plan::default().with(Dimension::Tokens, 1000, OnExceed::Ask));
    let mut told = Vec::new();
    for _ in 0..12 {
        ledger.charge(session, Amounts::of(Dimension::Tokens, 100));
        told.extend(ledger.crossed(session).into_iter().map(|(_, crossed)| (crossed.percent, crossed.used)));
    }
    assert_eq!(told, [(50, 500), (80, 800), (100, 1000)]);
    // After an extension they are those of the new limit: 1,200 of 2,000 are 60 %.
    ledger.extend(session, Dimension::Tokens, 1000).unwrap();
    assert!(ledger.crossed(session).is_empty());
    ledger.charge(session, Amounts::of(Dimension::Tokens, 400));
    assert_eq!(ledger.crossed(session)[0].1.percent, 80);
    // One step may pass two thresholds, of which the higher is told.
    let (mut ledger, session) = self::session(Plan::default().with(Dimension::Tokens, 10, OnExceed::Stop));
    ledger.charge(session, Amounts::of(Dimension::Tokens, 9));
    assert_eq!(ledger.crossed(session).iter().map(|(_, crossed)| crossed.percent).collect::<Vec<_>>(), [80]);
}

#[test]
fn i09_what_needs_more_than_any_outer_budget_has_left_does_not_begin() {
    let (mut ledger, session) = session(Plan::default().with(Dimension::Writes, 100, OnExceed::Ask));
    let plan = Plan::default().with(Dimension::Writes, 60, OnExceed::Stop);
    let run = ledger.open_within(session, ScopeKind::Run, Account::new(plan)).unwrap();
    let need = |amount| Amounts::of(Dimension::Writes, amount);
    assert_eq!(exceeded(ledger.reserve(run, need(61))).kind, ScopeKind::Run);
    assert_eq!(ledger.account(run).unwrap().used(), Amounts::default());
    let ticket = ledger.reserve(run, need(60)).unwrap();
    ledger.pay(ticket, need(60));
    ledger.settle(ticket);
    // Another run has its own 60, and the session only 40.
    let run = ledger.open_within(session, ScopeKind::Run, Account::new(plan)).unwrap();
    let why = exceeded(ledger.reserve(run, need(50)));
    assert_eq!((why.kind, why.used, why.limit, why.need), (ScopeKind::Session, 60, 100, 50));
    assert!(ledger.reserve(run, need(40)).is_ok());
    // Nor is a run given more than its session has.
    let why = exceeded(ledger.extend(run, Dimension::Writes, 1));
    assert_eq!(why.kind, ScopeKind::Session);
}

/// Two steps that are in progress at once cannot both have what is left.
#[test]
fn i09_reservations_of_parallel_steps_add_up() {
    let (mut ledger, session) = session(Plan::default().with(Dimension::Tokens, 100, OnExceed::Stop));
    let need = |amount| Amounts::of(Dimension::Tokens, amount);
    let first = ledger.reserve(session, need(70)).unwrap();
    assert!(ledger.holds(first));
    assert!(ledger.reserve(session, need(40)).is_err());
    assert_eq!(ledger.left(session).get(Dimension::Tokens), 30);
    ledger.settle(first);
    assert!(!ledger.holds(first) && ledger.reserve(session, need(40)).is_ok());
    // A budget for a period begins again with nothing used.
    ledger.charge(session, need(60));
    assert!(ledger.check(session, &need(1)).is_err());
    ledger.renew(session);
    assert_eq!(ledger.left(session).get(Dimension::Tokens), 60);
    ledger.replan(session, Plan::default().with(Dimension::Tokens, 41, OnExceed::Stop));
    assert_eq!(ledger.left(session).get(Dimension::Tokens), 1);
}

#[test]
fn i10_an_extension_adds_what_the_person_grants() {
    let (mut ledger, session) = session(Plan::default());
    let plan = Plan::default().with(Dimension::Tokens, 100_000, OnExceed::Ask);
    let run = ledger.open_within(session, ScopeKind::Run, Account::new(plan)).unwrap();
    ledger.charge(run, Amounts::of(Dimension::Tokens, 100_000));
    let why = exceeded(ledger.check(run, &Amounts::of(Dimension::Tokens, 1)));
    assert_eq!((why.what().as_str(), why.suggested()), ("model tokens used up (100,000)", 50_000));
    assert_eq!(ledger.extend(run, Dimension::Tokens, 7), Ok(100_007));
    assert!(ledger.reserve(run, Amounts::of(Dimension::Tokens, 7)).is_ok());
    assert!(ledger.check(run, &Amounts::of(Dimension::Tokens, 1)).is_err());
}

/// A backend that reports less than it used: the step is finished and counted, and then the run stops.
#[test]
fn i14_what_a_step_takes_beyond_its_reservation_is_counted_and_ends_the_run() {
    let (mut ledger, session) = session(Plan::default().with(Dimension::Tokens, 100, OnExceed::Stop));
    let need = |amount| Amounts::of(Dimension::Tokens, amount);
    let ticket = ledger.reserve(session, need(90)).unwrap();
    for _ in 0..13 {
        ledger.pay(ticket, need(10));
    }
    ledger.settle(ticket);
    assert_eq!(ledger.account(session).unwrap().used(), need(130));
    assert_eq!(exceeded(ledger.check(session, &need(0))).used, 130);
}

#[test]
fn i05_an_estimate_warns_or_blocks() {
    let left = Amounts::all(UNLIMITED).with(Dimension::Tokens, 1000);
    let tokens = |amount| Amounts::of(Dimension::Tokens, amount);
    let judged = |least, most| Estimate { least: tokens(least), most: tokens(most) }.judge(left);
    assert_eq!(judged(100, 1000), Judged::Fits);
    assert_eq!(judged(100, 1001), Judged::Tight(Dimension::Tokens));
    assert_eq!(judged(1001, 2000), Judged::Blocked(Dimension::Tokens));
}

#[test]
fn i15_children_split_what_their_parent_has() {
    let (mut ledger, session) = session(Plan::default());
    let plan = Plan::default().with(Dimension::Steps, 10, OnExceed::Ask);
    let parent = ledger.open_within(session, ScopeKind::Run, Account::new(plan)).unwrap();
    let part = |steps| Plan::default().with(Dimension::Steps, steps, OnExceed::Stop);
    let first = ledger.split(parent, ScopeKind::Child, part(6)).unwrap();
    assert!(ledger.split(parent, ScopeKind::Child, part(5)).is_err());
    let second = ledger.split(parent, ScopeKind::Child, part(4)).unwrap();
    let one = Amounts::of(Dimension::Steps, 1);
    assert!(ledger.reserve(parent, one).is_err());
    for _ in 0..3 {
        let ticket = ledger.reserve(first, one).unwrap();
        ledger.pay(ticket, one);
        ledger.settle(ticket);
    }
    // What a child did not use is its parent's again.
    ledger.close(first);
    ledger.close(second);
    let account = ledger.account(parent).unwrap();
    assert_eq!((account.used().get(Dimension::Steps), account.left().get(Dimension::Steps)), (3, 7));
    // A child without a limit has all that is left, and no more.
    let all = ledger.split(parent, ScopeKind::Child, Plan::default()).unwrap();
    assert_eq!(ledger.left(all).get(Dimension::Steps), 7);
}

/// A background run can be continued, so a machine that ends before it keeps what the run has used, and not its whole part.
#[test]
fn i12_what_a_background_run_has_not_used_is_not_kept_as_used() {
    let (mut ledger, session) = session(Plan::default().with(Dimension::Steps, 10, OnExceed::Stop));
    let part = Plan::default().with(Dimension::Steps, 5, OnExceed::Stop);
    let part = ledger.split(session, ScopeKind::Background, part).unwrap();
    let run = ledger.open_within(part, ScopeKind::Run, Account::new(Plan::default())).unwrap();
    let one = Amounts::of(Dimension::Steps, 1);
    let kept = |ledger: &Ledger, scope| ledger.kept(scope).unwrap().used.get(Dimension::Steps);
    let ticket = ledger.reserve(run, one).unwrap();
    ledger.pay(ticket, one);
    ledger.settle(ticket);
    // One is used, and one is reserved by a call in progress.
    let open = ledger.reserve(run, one).unwrap();
    assert_eq!((kept(&ledger, session), kept(&ledger, part), kept(&ledger, run)), (2, 2, 2));
    // The session's own run cannot take what the part has.
    assert_eq!(ledger.left(session).get(Dimension::Steps), 5);
    let own = Amounts::of(Dimension::Steps, 6);
    assert!(ledger.reserve(session, own).is_err());
    ledger.settle(open);
    ledger.close(part);
    assert_eq!((kept(&ledger, session), ledger.left(session).get(Dimension::Steps)), (1, 9));
}

#[test]
fn a_limit_of_nothing_stops_what_needs_something() {
    let (ledger, session) = session(Plan::default().with(Dimension::Egress, 0, OnExceed::Stop));
    assert!(ledger.check(session, &Amounts::default()).is_ok());
    assert!(ledger.check(session, &Amounts::of(Dimension::Egress, 1)).is_err());
}

#[test]
fn what_is_kept_is_read_again_or_not_at_all() {
    let kept = Kept { used: Amounts::all(3).with(Dimension::Cpu, u64::MAX), granted: Amounts::all(1) };
    let bytes = kept.to_bytes();
    assert_eq!(Kept::from_bytes(&bytes), Some((kept, &[][..])));
    assert!((0..bytes.len()).all(|cut| Kept::from_bytes(&bytes[..cut]).is_none()));
    let mut other = bytes;
    other[0] = 9;
    assert!(Kept::from_bytes(&other).is_none());
}

#[test]
fn a_plan_has_names_and_limits_and_can_be_bounded() {
    for policy in OnExceed::ALL {
        assert_eq!(OnExceed::from_name(policy.name()), Some(policy));
    }
    assert_eq!(OnExceed::ALL.map(OnExceed::name), ["stop", "ask", "warn"]);
    assert_eq!(OnExceed::from_name("end"), None);
    let plan = Plan::default().with(Dimension::Steps, 7, OnExceed::Ask).with(Dimension::Tokens, 3, OnExceed::Warn);
    let limits = Amounts::all(UNLIMITED).with(Dimension::Steps, 7).with(Dimension::Tokens, 3);
    assert_eq!(plan.limits(), limits);
    let within = plan.within(Amounts::all(5));
    assert_eq!(within.limits(), Amounts::all(5).with(Dimension::Tokens, 3));
    assert_eq!(within.rule(Dimension::Steps).on_exceed, OnExceed::Ask);
}

/// Budgets can be in one another up to a depth, and in none that has ended.
#[test]
fn budgets_are_nested_to_a_depth() {
    for parts in [false, true] {
        let (mut ledger, mut inner) = session(Plan::default().with(Dimension::Steps, 100, OnExceed::Stop));
        let first = inner;
        let next = |ledger: &mut Ledger, outer| match parts {
            true => ledger.split(outer, ScopeKind::Child, Plan::default()),
            false => ledger.open_within(outer, ScopeKind::Child, Account::new(Plan::default())),
        };
        for _ in 0..7 {
            inner = next(&mut ledger, inner).unwrap();
        }
        assert!(matches!(next(&mut ledger, inner), Err(Refused::Over)));
        ledger.close(first);
        assert!(matches!(next(&mut ledger, first), Err(Refused::Over)));
    }
}

/// Of its parent a part takes what is limited there, but time, which passes for both. Where the plan would only warn, it stops.
#[test]
fn i15_a_part_takes_what_is_limited() {
    let plan =
        Plan::default().with(Dimension::Steps, 50, OnExceed::Stop).with(Dimension::WallClock, 900, OnExceed::Stop);
    let (mut ledger, session) = session(plan);
    for (policy, wanted) in
        [(OnExceed::Warn, OnExceed::Stop), (OnExceed::Ask, OnExceed::Ask), (OnExceed::Stop, OnExceed::Stop)]
    {
        let of = Plan::default().with(Dimension::Steps, 5, policy);
        let part = ledger.split(session, ScopeKind::Child, of).unwrap();
        assert_eq!(ledger.account(part).unwrap().rule(Dimension::Steps).on_exceed, wanted);
        assert_eq!(ledger.account(part).unwrap().rule(Dimension::WallClock).limit, UNLIMITED);
        assert_eq!(ledger.account(session).unwrap().reserved(), Amounts::of(Dimension::Steps, 5));
        ledger.close(part);
    }
}

/// What is added to a part of a part is reserved in the part alone: that has reserved its own with its parent.
#[test]
fn i15_an_extended_part_takes_more_of_its_parent() {
    let (mut ledger, session) = session(Plan::default().with(Dimension::Steps, 100, OnExceed::Stop));
    let steps = |limit| Plan::default().with(Dimension::Steps, limit, OnExceed::Stop);
    let part = ledger.split(session, ScopeKind::Child, steps(50)).unwrap();
    let inner = ledger.split(part, ScopeKind::Child, steps(10)).unwrap();
    assert_eq!(ledger.extend(inner, Dimension::Steps, 5).unwrap(), 15);
    let reserved = |scope| ledger.account(scope).unwrap().reserved().get(Dimension::Steps);
    assert_eq!((reserved(session), reserved(part)), (50, 15));
    assert!(ledger.extend(inner, Dimension::Steps, 36).is_err(), "the part has 35 left");
}

/// A limit that is reached is told if it binds, the outermost first.
#[test]
fn a_limit_that_is_spent_is_found() {
    let (mut ledger, outer) = session(Plan::default().with(Dimension::Steps, 2, OnExceed::Stop));
    let warns = Plan::default().with(Dimension::Steps, 1, OnExceed::Warn).with(Dimension::Tokens, 1, OnExceed::Ask);
    let run = ledger.open_within(outer, ScopeKind::Run, Account::new(warns)).unwrap();
    let mut take = |dimension| {
        let ticket = ledger.reserve(run, Amounts::of(dimension, 1)).unwrap();
        ledger.pay(ticket, Amounts::of(dimension, 1));
        ledger.settle(ticket);
        [Dimension::Steps, Dimension::Tokens].map(|of| ledger.spent(run, of).map(|found| (found.kind, found.used)))
    };
    assert_eq!(take(Dimension::Steps), [None, None]);
    assert_eq!(take(Dimension::Steps), [Some((ScopeKind::Session, 2)), None]);
    let (mut ledger, outer) = session(Plan::default());
    let run = ledger.open_within(outer, ScopeKind::Run, Account::new(warns)).unwrap();
    let ticket = ledger.reserve(run, Amounts::of(Dimension::Tokens, 1)).unwrap();
    ledger.pay(ticket, Amounts::of(Dimension::Tokens, 1));
    assert_eq!(ledger.spent(run, Dimension::Tokens).map(|found| found.kind), Some(ScopeKind::Run));
}

/// What a background run has reserved of one session counts in that session alone.
#[test]
fn i12_a_background_run_is_kept_with_its_own_session() {
    let mut ledger = Ledger::default();
    let plan = Plan::default().with(Dimension::Steps, 50, OnExceed::Stop);
    let [own, other] = [0, 1].map(|_| ledger.open(ScopeKind::Session, Account::new(plan)));
    ledger.split(own, ScopeKind::Background, Plan::default().with(Dimension::Steps, 10, OnExceed::Stop)).unwrap();
    ledger.reserve(other, Amounts::of(Dimension::Steps, 20)).unwrap();
    let kept = |scope| ledger.kept(scope).unwrap().used.get(Dimension::Steps);
    assert_eq!((kept(own), kept(other)), (0, 20));
}

#[test]
fn of_two_counts_of_one_budget_the_larger_is_kept() {
    let [one, other] = [(3, 5), (4, 1)].map(|(used, granted)| {
        let of = |amount| Amounts::of(Dimension::Steps, amount);
        Kept { used: of(used), granted: of(granted) }
    });
    assert_eq!(one.most(other), Kept { used: other.used, granted: one.granted });
}

/// A reservation is found again by its number, and each budget is named after whose it is.
#[test]
fn reservations_and_budgets_have_names() {
    let (mut ledger, session) = session(Plan::default());
    let [first, second] = [0, 1].map(|_| ledger.reserve(session, Amounts::of(Dimension::Steps, 1)).unwrap());
    assert!(first.number() > 0 && second.number() > first.number());
    assert_eq!(Ticket::of(second.number()), second);
    let kinds = [ScopeKind::Principal, ScopeKind::Session, ScopeKind::Run, ScopeKind::Child, ScopeKind::Background];
    let names = kinds.map(ScopeKind::name);
    assert_eq!(names, ["principal", "session", "run", "child run", "background run"]);
}

/// Tokens that a step may take beyond its reservation.
const BEYOND: u64 = 40;

#[derive(Clone, Debug)]
enum Act {
    Run {
        limit: u64,
    },
    Split {
        of: usize,
        limit: u64,
    },
    Begin {
        run: usize,
        need: u64,
    },
    /// The step in progress takes this much, or more than it reserved where nothing tells beforehand.
    Pay {
        step: usize,
        amount: u64,
    },
    End {
        step: usize,
    },
    Close {
        run: usize,
    },
    Extend {
        run: usize,
        more: u64,
    },
    Crash,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => (1..200_u64).prop_map(|limit| Act::Run { limit }),
        2 => (any::<usize>(), 1..100_u64).prop_map(|(of, limit)| Act::Split { of, limit }),
        6 => (any::<usize>(), 0..80_u64).prop_map(|(run, need)| Act::Begin { run, need }),
        8 => (any::<usize>(), 0..60_u64).prop_map(|(step, amount)| Act::Pay { step, amount }),
        5 => any::<usize>().prop_map(|step| Act::End { step }),
        1 => any::<usize>().prop_map(|run| Act::Close { run }),
        1 => (any::<usize>(), 0..50_u64).prop_map(|(run, more)| Act::Extend { run, more }),
        1 => Just(Act::Crash),
    ]
}

struct Step {
    ticket: Ticket,
    run: ScopeId,
    left: u64,
    /// What it may take beyond its reservation: only a step that began when no other was in progress.
    beyond: u64,
}

fn chosen<T>(list: &[T], at: usize) -> Option<usize> {
    at.checked_rem(list.len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, ..ProptestConfig::default() })]
    /// Random sessions, runs, children, lying steps, extensions and crashes: no budget is exceeded by more than one step's
    /// overuse, and a crash gives nothing back.
    #[test]
    fn no_budget_is_exceeded_by_more_than_one_step(limit in 50..400_u64, acts in proptest::collection::vec(act(), 1..80)) {
        let tokens = |amount| Amounts::of(Dimension::Tokens, amount);
        let plan = |limit| Plan::default().with(Dimension::Tokens, limit, OnExceed::Ask);
        let mut ledger = Ledger::default();
        let principal = ledger.open(ScopeKind::Principal, Account::new(plan(limit * 2)));
        let mut outer = ledger.open_within(principal, ScopeKind::Session, Account::new(plan(limit))).unwrap();
        let mut principal = principal;
        let (mut runs, mut steps): (Vec<ScopeId>, Vec<Step>) = (Vec::new(), Vec::new());
        let mut truth = 0_u64;
        for act in acts {
            match act {
                Act::Run { limit } => runs.push(ledger.open_within(outer, ScopeKind::Run, Account::new(plan(limit))).unwrap()),
                Act::Split { of, limit } => {
                    if let Some(at) = chosen(&runs, of)
                        && let Ok(child) = ledger.split(runs[at], ScopeKind::Child, plan(limit))
                    {
                        runs.push(child);
                    }
                }
                Act::Begin { run, need } => {
                    let Some(at) = chosen(&runs, run) else { continue };
                    let beyond = if steps.iter().any(|step| step.beyond > 0) { 0 } else { BEYOND };
                    if let Ok(ticket) = ledger.reserve(runs[at], tokens(need)) {
                        steps.push(Step { ticket, run: runs[at], left: need, beyond });
                    }
                }
                Act::Pay { step, amount } => {
                    let Some(at) = chosen(&steps, step) else { continue };
                    let step = &mut steps[at];
                    let amount = amount.min(step.left + step.beyond);
                    let paid = amount.min(step.left);
                    step.left -= paid;
                    step.beyond -= amount - paid;
                    // What it may still take beyond does not grow back: it keeps its place until it ends.
                    ledger.pay(step.ticket, tokens(amount));
                    truth += amount;
                }
                Act::End { step } => {
                    if let Some(at) = chosen(&steps, step) {
                        ledger.settle(steps.remove(at).ticket);
                    }
                }
                Act::Close { run } => {
                    if let Some(at) = chosen(&runs, run) {
                        let closed = runs.remove(at);
                        ledger.close(closed);
                        // Those within it ended with it.
                        runs.retain(|run| ledger.account(*run).is_some());
                        steps.retain(|step| ledger.account(step.run).is_some());
                    }
                }
                Act::Extend { run, more } => {
                    let Some(at) = chosen(&runs, run) else { continue };
                    let before = ledger.account(runs[at]).unwrap().rule(Dimension::Tokens).limit;
                    let _ = ledger.extend(runs[at], Dimension::Tokens, more);
                    let after = ledger.account(runs[at]).unwrap().rule(Dimension::Tokens).limit;
                    prop_assert!(after == before || after == before + more);
                }
                Act::Crash => {
                    let kept = [principal, outer].map(|scope| ledger.kept(scope).unwrap());
                    let read = kept.map(|kept| Kept::from_bytes(&kept.to_bytes()).unwrap().0);
                    prop_assert_eq!(read, kept);
                    ledger = Ledger::default();
                    let [of_principal, of_session] = read;
                    let resumed = |limit, kept: Kept| Account::resumed(plan(limit), kept.used, kept.granted);
                    principal = ledger.open(ScopeKind::Principal, resumed(limit * 2, of_principal));
                    outer = ledger.open_within(principal, ScopeKind::Session, resumed(limit, of_session)).unwrap();
                    runs.clear();
                    steps.clear();
                }
            }
            for scope in [principal, outer].iter().chain(&runs) {
                let account = ledger.account(*scope).unwrap();
                let (used, most) = (account.used().get(Dimension::Tokens), account.rule(Dimension::Tokens).limit);
                prop_assert!(used <= most + BEYOND, "{} of {} are used", used, most);
            }
            let counted = ledger.account(outer).unwrap().used().get(Dimension::Tokens);
            prop_assert!(counted >= truth, "{} were used and {} are counted", truth, counted);
        }
    }
}
