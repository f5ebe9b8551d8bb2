//! What outlasts a power cut: the tables of conversations and the budgets of the broker, on one store. The power may go before and
//! after each of their commits, each record of the audit log, and each effect.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::{Future, pending};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use capos_agent::Conversation;
use capos_agent::world::{Amounts, Host, Standing};
use capos_broker::budgets::{Budgets, Moment, Opening, Starting, Store as BudgetStore};
use capos_budget::{Dimension, Estimate, Kept, OnExceed, Plan, Ticket};
use capos_conversations::{Conversations, Owner, Part, Point, Quota, Run};
use capos_keyspace::local::LocalKeyspace;
use capos_keyspace::{Durability, Keyspace, Range};
use capos_run_state::Checkpoint;
use capos_schema::authority::Profile;
use capos_store::{Blocks, MemoryBlocks, Store};

use crate::world::World;

type Space = LocalKeyspace<MemoryBlocks>;

/// What one request to the model takes at most, and takes.
const REQUEST: u64 = 50;
const TAKEN: u64 = 30;

pub fn done<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a store in the same process answers at once"),
    }
}

pub struct Machine {
    store: Rc<RefCell<Store<MemoryBlocks>>>,
    pub tables: Conversations<Space>,
    pub owner: Owner,
    budgets: RefCell<Budgets>,
    kept: BudgetStore<Space>,
    session: String,
    calls: RefCell<BTreeSet<u64>>,
    saved: Cell<usize>,
    has_head: Cell<bool>,
    /// Boundaries until the power goes, and those that there were.
    left: Cell<u64>,
    pub boundaries: Cell<u64>,
    is_dead: Cell<bool>,
    /// What was really used.
    pub truth: Rc<Cell<Amounts>>,
}

fn moment(world: &World) -> Moment {
    Moment { now: world.now(), unix: 1_795_000_000_000 + world.now() / 1_000_000 }
}

fn plan() -> Plan {
    Plan::default().with(Dimension::Steps, 500, OnExceed::Stop).with(Dimension::Tokens, 100_000, OnExceed::Stop)
}

impl Machine {
    /// A machine with this disk, whose power goes at a boundary.
    fn on(blocks: MemoryBlocks, session: &str, left: u64, truth: Rc<Cell<Amounts>>) -> Rc<Self> {
        let store = Rc::new(RefCell::new(Store::open(blocks).unwrap()));
        let space = |name| LocalKeyspace::new(store.clone(), name, 8 << 20).unwrap();
        let tables = Conversations::new(space("conversations"), Quota::default());
        let owner = done(tables.owner("ada", 1)).unwrap();
        let (budgets, kept) = (RefCell::new(Budgets::default()), BudgetStore::new(Some(space("broker"))));
        assert_eq!(done(kept.load(&budgets)), Ok(0));
        let (id, principal, profile) = (session, "ada", Profile::Operator);
        let opening = Opening { id, principal, profile, plan: plan(), principal_tokens: 1_000_000 };
        let at = Moment { now: 0, unix: 1_795_000_000_000 };
        budgets.borrow_mut().open_session(&opening, at).unwrap();
        Rc::new(Self {
            store,
            tables,
            owner,
            budgets,
            kept,
            session: session.to_string(),
            calls: RefCell::default(),
            saved: Cell::new(0),
            has_head: Cell::new(false),
            left: Cell::new(left),
            boundaries: Cell::new(0),
            is_dead: Cell::new(false),
            truth,
        })
    }

    pub fn new(left: u64) -> Rc<Self> {
        Self::on(MemoryBlocks::new(64 << 10), "s1", left, Rc::default())
    }

    /// The machine after a power cut: what was not durable is lost.
    pub fn restarted(self: Rc<Self>, session: &str, left: u64) -> Rc<Self> {
        let Self { store, tables, kept, truth, .. } = Rc::into_inner(self).expect("nothing else has it");
        drop((tables, kept));
        let mut blocks = Rc::into_inner(store).expect("nothing else has it").into_inner().abandon().unwrap();
        blocks.forget().unwrap();
        Self::on(blocks, session, left, truth)
    }

    pub fn is_dead(&self) -> bool {
        self.is_dead.get()
    }

    pub async fn boundary(&self) {
        self.boundaries.set(self.boundaries.get() + 1);
        self.left.set(self.left.get().saturating_sub(1));
        if self.left.get() == 0 || self.is_dead() {
            self.is_dead.set(true);
            pending::<()>().await;
        }
    }

    async fn keep(&self, durability: Durability) {
        self.boundary().await;
        self.kept.keep(&self.budgets, durability).await.unwrap();
        self.boundary().await;
    }

    fn used_now(&self, amounts: Amounts) {
        self.truth.set(self.truth.get().plus(amounts));
    }

    /// What the budget of the run says is used, with what is reserved.
    pub fn counted(&self, world: &World) -> Kept {
        self.budgets.borrow_mut().run_use(&self.session, moment(world)).unwrap_or_default()
    }

    pub async fn begin_run(&self, world: &World, name: &str, turn: u32, used: Amounts) -> Result<Standing, String> {
        let name = format!("{name}-{turn}");
        let starting = Starting { name: &name, plan: plan(), estimate: Estimate::default(), used };
        self.budgets.borrow_mut().begin_run(&self.session, &starting, moment(world)).unwrap();
        let (counted, truth) = (self.counted(world).used, self.truth.get());
        for dimension in [Dimension::Steps, Dimension::Tokens] {
            let (counted, truth) = (counted.get(dimension), truth.get(dimension));
            assert!(counted >= truth, "{}: {truth} used, and {counted} counted", dimension.name());
        }
        Ok(Standing::default())
    }

    /// A child run begins, and its part is on the medium.
    pub async fn begin_child(&self, world: &World, name: &str, shares: Amounts) -> Result<Standing, String> {
        let begun =
            self.budgets.borrow_mut().begin_child(&self.session, (name, shares), Estimate::default(), moment(world));
        begun.map_err(|why| format!("{why:?}"))?;
        self.keep(Durability::Now).await;
        Ok(Standing::default())
    }

    pub async fn used(&self, world: &World) -> Option<(Amounts, Amounts)> {
        if world.1.is_some() {
            let found = self.budgets.borrow_mut().child_use(&self.session, moment(world));
            return found.map(|(_, used)| (used, Amounts::default()));
        }
        let kept = self.counted(world);
        Some((kept.used, kept.granted))
    }

    pub async fn look(&self, world: &World) -> Result<Standing, String> {
        let need = Amounts::of(Dimension::Tokens, 1);
        self.budgets.borrow_mut().check(&self.session, &need, moment(world)).map_err(|why| format!("{why:?}"))?;
        Ok(Standing::default())
    }

    pub async fn ask_model(&self, world: &World) {
        let need = Amounts::of(Dimension::Tokens, REQUEST);
        let ticket = self.budgets.borrow_mut().reserve(&self.session, need, moment(world)).unwrap();
        self.keep(Durability::Now).await;
        let taken = Amounts::of(Dimension::Tokens, TAKEN);
        self.used_now(taken);
        self.budgets.borrow_mut().pay(ticket, (&self.session, "ada"), taken);
        self.budgets.borrow_mut().settle(&self.session, ticket);
        self.keep(Durability::Later).await;
    }

    pub async fn reserve(&self, world: &World, writes: u64) -> Result<Standing, String> {
        let need = Amounts::of(Dimension::Steps, 1).with(Dimension::Writes, writes);
        let ticket = self.budgets.borrow_mut().reserve(&self.session, need, moment(world)).unwrap();
        self.keep(Durability::Now).await;
        self.calls.borrow_mut().insert(ticket.number());
        Ok(Standing { number: ticket.number(), ..Standing::default() })
    }

    pub async fn settle(&self, _world: &World, number: u64, began: bool) {
        assert!(self.calls.borrow_mut().remove(&number), "it is settled once");
        let ticket = Ticket::of(number);
        if began {
            let step = Amounts::of(Dimension::Steps, 1);
            self.budgets.borrow_mut().pay(ticket, (&self.session, "ada"), step);
        }
        self.budgets.borrow_mut().settle(&self.session, ticket);
        self.keep(Durability::Later).await;
    }

    /// An effect begins: a tool call is used.
    pub fn effect(&self) {
        self.used_now(Amounts::of(Dimension::Steps, 1));
    }

    pub async fn end_run(&self, world: &World, over: bool) {
        if world.1.is_some() {
            self.budgets.borrow_mut().end_child(&self.session, moment(world));
            return self.keep(Durability::Later).await;
        }
        self.budgets.borrow_mut().end_run(&self.session, over, moment(world));
        self.keep(Durability::Later).await;
    }

    /// The conversation, with so many messages that are saved, continues.
    pub fn resumed(&self, saved: usize) {
        self.saved.set(saved);
    }

    /// Saves as the runner's keeper does.
    pub async fn save(&self, world: &World, conversation: &Conversation, run: Option<(&Checkpoint, bool)>) {
        let (messages, now) = (conversation.entries().len(), moment(world).unix);
        let id = hex(&conversation.id);
        let point = |saved: usize| {
            let (checkpoint, open) = run?;
            let mut checkpoint = checkpoint.clone();
            checkpoint.progress.messages.1 = saved as u32;
            let head = if self.has_head.get() || !open { String::new() } else { checkpoint.head() };
            let (turn, step) = (checkpoint.turn, checkpoint.progress.step);
            let used = if step > 0 { checkpoint.step() } else { String::new() };
            Some(Point { turn, step, open, head, json: checkpoint.point(), used })
        };
        if self.saved.get() == 0 {
            self.boundary().await;
            self.tables.create(self.owner, &id, "", now).await.unwrap();
        }
        if self.saved.get() == messages {
            if let Some(point) = point(messages) {
                self.boundary().await;
                self.tables.checkpoint(self.owner, &id, &point, now).await.unwrap();
                self.boundary().await;
            }
            return;
        }
        for (index, entry) in conversation.entries().iter().enumerate().skip(self.saved.get()) {
            let point = if index + 1 == messages { point(messages) } else { None };
            let part = Part { index: index as u32, part: 0, last: true, text: entry.dump() };
            self.boundary().await;
            self.tables.append(self.owner, &id, &part, "m", point.as_ref(), now).await.unwrap();
            self.saved.set(index + 1);
            self.boundary().await;
        }
        self.has_head.set(run.is_some());
    }

    /// The next run has no head yet.
    pub fn next_run(&self) {
        self.has_head.set(false);
        self.truth.set(Amounts::default());
    }

    /// Bytes of keys and values of tables of the conversations.
    pub fn bytes(&self, tables: &[&str]) -> usize {
        let mut bytes = 0;
        for table in tables {
            let mut from = Vec::new();
            loop {
                let found = done(self.tables.space().range(Range { from: &from, ..Range::all(table) })).unwrap();
                bytes += found.entries.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
                let Some((last, _)) = found.entries.last().filter(|_| found.more) else { break };
                from = [last.as_slice(), &[0]].concat();
            }
        }
        bytes
    }

    /// The saved messages of a conversation, and its last run.
    pub fn load(&self, id: &str) -> (Vec<String>, Option<Run>) {
        let id = hex(id);
        let Ok(run) = done(self.tables.run(self.owner, &id, 2)) else { return (Vec::new(), None) };
        let (mut messages, mut from) = (Vec::new(), 0);
        loop {
            let page = done(self.tables.read(self.owner, &id, (from, 0), 100, 2)).unwrap();
            from += page.parts.len() as u32;
            messages.extend(page.parts.into_iter().map(|part| part.text));
            if !page.more {
                return (messages, run);
            }
        }
    }
}

/// An id of a conversation for the tables.
fn hex(id: &str) -> String {
    let digits: String = id.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits:0<32}")
}
