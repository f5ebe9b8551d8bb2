//! Process: threads, an address space, capabilities, and the account that pays for them.

mod end;

use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use capos_abi::{CapId, Rights, Status};
use capos_captable::{NodeId, Pool, Table, shrink};
use spin::{Mutex, MutexGuard};

use crate::cpu::budget::{Budget, cost};
use crate::cpu::kernel_lock::Exclusive;
use crate::object::account::{Account, Charge, Resource};
use crate::object::address_space::AddressSpace;
use crate::object::capability::{Capability, Object};
use crate::object::derivation::{self, Holder};
use crate::object::ending::{self, Ending};
use crate::object::reaper;
use crate::object::thread::Thread;
use crate::object::words::Words;

static NEXT: AtomicU64 = AtomicU64::new(1);
/// Processes and threads that are alive.
pub static ALIVE: AtomicU32 = AtomicU32::new(0);

/// A process and the account that was carved for it.
struct Entry {
    process: Weak<Process>,
    account: Arc<Account>,
}

/// Every process that there is, ended ones included as long as somebody holds them. No process may
/// be dropped while it is locked.
static ALL: Mutex<Pool<Entry>> = Mutex::new(Pool::new());

/// Threads of a process for which there is room once there was.
const FEW: usize = 4;

/// Why a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    Exited,
    Killed,
    Fault,
    /// All CPU time that it may use was used.
    CpuTime,
}

/// How a process ended.
#[derive(Clone, Debug)]
pub struct End {
    pub cause: Cause,
    pub code: i32,
    /// One line of words.
    pub report: String,
}

/// What is left of a process when a thread leaves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// Other threads.
    Others,
    /// It was the last one, and stays until the process ends.
    Nobody,
    /// It had left before.
    Before,
}

#[derive(Default)]
struct Life {
    threads: Vec<Arc<Thread>>,
    /// How far its end has come, once it must end.
    remains: Option<end::Remains>,
    /// Nodes of capabilities that it has lost, and that operations are still in flight through.
    lost: Vec<NodeId>,
}

impl Life {
    /// The node goes. False where it was not noted.
    fn forget_lost(&mut self, node: NodeId) -> bool {
        let place = self.lost.iter().position(|lost| *lost == node);
        place.is_some_and(|place| {
            self.lost.swap_remove(place);
            true
        })
    }

    /// Notes the node of a lost capability. False where there is no memory.
    fn note_lost(&mut self, node: NodeId) -> bool {
        let has_room = self.lost.try_reserve(1).is_ok();
        if has_room {
            self.lost.push(node);
        }
        has_room
    }

    fn remove(&mut self, place: usize) {
        self.threads.swap_remove(place);
        // Many threads that are gone leave no memory behind.
        shrink(&mut self.threads, FEW);
    }
}

/// A part of a process's capabilities.
pub struct Listed {
    pub capabilities: Vec<(CapId, Capability)>,
    /// The place of the table to go on at, if there are more.
    pub next: Option<u32>,
}

/// A process.
pub struct Process {
    pub id: u64,
    pub name: String,
    pub account: Arc<Account>,
    pub space: Arc<AddressSpace>,
    /// Who waits for a word of its memory.
    pub words: Words,
    table: Mutex<Table<Capability>>,
    life: Mutex<Life>,
    /// It comes when all is given back.
    pub ending: Arc<Ending>,
    /// Capability slots that designate it.
    holders: AtomicU32,
    /// It must end, or has ended. No thread is added from then on.
    doomed: AtomicBool,
    /// Threads that end alone and have not given everything back yet.
    leaving: AtomicU32,
    /// Its capabilities are given up, and it gets no more.
    closed: AtomicBool,
    itself: Weak<Process>,
    /// Its place among all processes.
    place: u32,
    _charge: Option<Charge>,
    _room: reaper::QueuePlace,
}

impl core::fmt::Debug for Process {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "process `{}` (id {})", self.name, self.id)
    }
}

impl Process {
    /// An empty process that `account` is for; `charge` pays for its existence.
    ///
    /// # Errors
    /// The account cannot pay for its page table; no memory.
    pub fn new(
        lock: &mut Exclusive,
        name: String,
        account: Arc<Account>,
        charge: Option<Charge>,
    ) -> Result<Arc<Self>, Status> {
        let space = AddressSpace::new(lock, &account)?;
        let room = reaper::QueuePlace::new()?;
        let entry = Entry { process: Weak::new(), account: Arc::clone(&account) };
        let place = ALL.lock().insert(entry).ok_or(Status::OutOfMemory)?;
        ALIVE.fetch_add(1, Ordering::Relaxed);
        account.enter_slot();
        let process = Arc::new_cyclic(|itself| Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name,
            account,
            space,
            words: Words::new(),
            table: Mutex::new(Table::new()),
            life: Mutex::default(),
            ending: Ending::new(ending::answer_process),
            holders: AtomicU32::new(0),
            doomed: AtomicBool::new(false),
            leaving: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            itself: itself.clone(),
            place,
            _charge: charge,
            _room: room,
        });
        if let Some(entry) = ALL.lock().get_mut(place) {
            entry.process = Arc::downgrade(&process);
        }
        Ok(process)
    }

    /// Puts a new capability into the table. It derives from `parent`.
    ///
    /// # Errors
    /// Quota; no memory; the parent is gone; the process is dead.
    pub fn insert(&self, object: Object, rights: Rights, parent: Option<NodeId>) -> Result<CapId, Status> {
        let kept = object.clone();
        let id = self.insert_node(object, rights, |id| derivation::add(parent, self.slot(id)).map(Some))?;
        kept.enter_slot();
        Ok(id)
    }

    /// A slot of its table, as a holder in the derivation forest.
    pub fn slot(&self, id: CapId) -> Holder {
        Holder::Slot(self.itself.clone(), id)
    }

    /// Locks its capabilities.
    #[inline]
    pub fn capability_table(&self) -> MutexGuard<'_, Table<Capability>> {
        self.table.lock()
    }

    /// The same, where no other processor has locked them.
    #[inline]
    pub fn try_capability_table(&self) -> Option<MutexGuard<'_, Table<Capability>>> {
        self.table.try_lock()
    }

    /// Puts the reply to a call into the table.
    ///
    /// # Errors
    /// Quota; no memory; the process is dead.
    pub fn insert_reply(&self, object: Object) -> Result<CapId, Status> {
        self.insert_node(object, Rights::GRANT, |_| Ok(None))
    }

    /// Makes a place for a capability that another process gives away, until [`Process::adopt`] gives it
    /// its place in the forest.
    ///
    /// # Errors
    /// Quota; no memory; the process is dead.
    pub fn expect(&self, object: Object, rights: Rights) -> Result<CapId, Status> {
        self.insert_node(object, rights, |_| Ok(None))
    }

    /// A capability that was expected has left its old place: its place in the forest stays what it was.
    pub fn adopt(&self, id: CapId, node: Option<NodeId>) {
        if let Ok(capability) = self.table.lock().get_mut(id) {
            capability.node = node;
        }
        if let Some(node) = node {
            derivation::moved(node, self.slot(id));
        }
    }

    fn insert_node(
        &self,
        object: Object,
        rights: Rights,
        node: impl FnOnce(CapId) -> Result<Option<NodeId>, Status>,
    ) -> Result<CapId, Status> {
        self.account.charge(Resource::Capabilities, 1)?;
        let refund = |status| {
            self.account.refund(Resource::Capabilities, 1);
            status
        };
        let mut table = self.table.lock();
        if self.closed.load(Ordering::Relaxed) {
            return Err(refund(Status::Disconnected));
        }
        let id = table.insert(Capability { object, rights, node: None }).map_err(|_| refund(Status::OutOfMemory))?;
        match node(id) {
            Ok(node) => {
                if let Ok(capability) = table.get_mut(id) {
                    capability.node = node;
                }
                Ok(id)
            }
            Err(status) => {
                let removed = table.remove(id);
                drop(table);
                drop(removed);
                Err(refund(status))
            }
        }
    }

    /// What an identifier designates.
    ///
    /// # Errors
    /// [`Status::BadCapability`] or [`Status::StaleCapability`].
    pub fn get(&self, id: CapId) -> Result<Capability, Status> {
        self.table.lock().get(id).cloned()
    }

    /// Runs `look` on what an identifier designates. It must take no lock.
    ///
    /// # Errors
    /// As [`Process::get`].
    pub fn with<R>(&self, id: CapId, look: impl FnOnce(&Capability) -> R) -> Result<R, Status> {
        self.table.lock().get(id).map(look)
    }

    /// Takes a capability out of the table, to be put elsewhere.
    ///
    /// # Errors
    /// As [`Process::get`].
    pub fn take(&self, lock: &mut Exclusive, id: CapId) -> Result<Capability, Status> {
        let capability = self.table.lock().remove(id)?;
        self.account.refund(Resource::Capabilities, 1);
        if let Some(node) = capability.node {
            let calls = !capability.object.is_waited_at();
            let mut all = true;
            for thread in &self.life.lock().threads {
                all &= thread.detach(id, calls, node);
            }
            if !all {
                // No memory to keep them revocable, or the capability is revoked meanwhile.
                while !self.cancel_through(lock, id, &mut Budget::new()) {}
            }
        }
        Ok(capability)
    }

    /// Gives a capability up. What derives from it lives on.
    ///
    /// # Errors
    /// As [`Process::get`].
    pub fn release(&self, lock: &mut Exclusive, id: CapId) -> Result<(), Status> {
        let capability = self.take(lock, id)?;
        discard(lock, capability);
        Ok(())
    }

    /// Loses a capability by revocation, whose node in the forest is `node`. Operations through it end, as far as the budget
    /// allows. Whether none is left, so that the node can go.
    pub fn lose(&self, lock: &mut Exclusive, id: CapId, node: NodeId, budget: &mut Budget) -> bool {
        let lost = self.table.lock().remove(id);
        let mut done = self.cancel_through(lock, id, budget);
        if let Ok(capability) = lost {
            capability.object.linger();
            capability.object.leave_slot(lock);
            // If nothing continues the revocation, the node goes with the process. It is paid for until then.
            if !done && self.life.lock().note_lost(node) {
                return false;
            }
            while !done {
                done = self.cancel_through(lock, id, &mut Budget::new());
            }
            self.account.refund(Resource::Capabilities, 1);
        } else if done && self.life.lock().forget_lost(node) {
            self.account.refund(Resource::Capabilities, 1);
        }
        done
    }

    /// Ends what is in flight through a capability that is gone, as far as the budget allows. Whether none is left.
    fn cancel_through(&self, lock: &mut Exclusive, id: CapId, budget: &mut Budget) -> bool {
        let mut from: usize = 0;
        loop {
            // Answers may end the process, which takes the lock.
            let thread = self.life.lock().threads.get(from).cloned();
            let Some(thread) = thread else { return true };
            if !thread.cancel_through(lock, id, budget) {
                return false;
            }
            budget.spend(cost::LOOK);
            from = from.saturating_add(1);
        }
    }

    /// How many capabilities it holds.
    pub fn capability_count(&self) -> u32 {
        self.table.lock().len()
    }

    /// Identifiers and contents of its table from a place on, at most `most` of at most `places` places.
    ///
    /// # Errors
    /// No memory for this many.
    pub fn capabilities(&self, first: u32, (most, places): (u32, u32)) -> Result<Listed, Status> {
        let mut found = Vec::new();
        let table = self.table.lock();
        found.try_reserve_exact(most.min(table.len()) as usize).map_err(|_| Status::OutOfMemory)?;
        let mut end = first.saturating_add(places);
        for (id, capability) in table.part(first, places).take(most as usize) {
            found.push((id, capability.clone()));
            if found.len() >= most as usize {
                end = id.index().saturating_add(1);
            }
        }
        Ok(Listed { capabilities: found, next: Some(end).filter(|end| *end < table.places()) })
    }

    /// One more slot designates it.
    pub fn hold(&self) {
        self.holders.fetch_add(1, Ordering::Relaxed);
    }

    /// One less does. A process that was never started and that no process can start any more ends. Slots of its
    /// own count too: where it was given itself before it was started, it ends with who pays for it.
    pub fn let_go(&self, lock: &mut Exclusive) {
        if self.holders.fetch_sub(1, Ordering::AcqRel) == 1 {
            let idle = self.life.lock().threads.is_empty();
            if idle {
                self.doom(
                    lock,
                    End { cause: Cause::Killed, code: 0, report: String::from("nobody could start it any more") },
                );
            }
        }
    }

    /// Adds a thread that is about to run.
    ///
    /// # Errors
    /// The process is dead; no memory.
    pub fn add_thread(&self, thread: Arc<Thread>) -> Result<(), Status> {
        let mut life = self.life.lock();
        if self.doomed.load(Ordering::Relaxed) {
            return Err(Status::Disconnected);
        }
        life.threads.try_reserve(1).map_err(|_| Status::OutOfMemory)?;
        life.threads.push(thread);
        Ok(())
    }

    /// A thread ends, and is no thread of the process any more unless it is the last.
    pub fn leave(&self, thread: &Arc<Thread>) -> Left {
        let mut life = self.life.lock();
        // Those of a process that must end go in their order.
        let place = life.threads.iter().position(|other| Arc::ptr_eq(other, thread));
        let Some(place) = place.filter(|_| !self.is_doomed()) else { return Left::Before };
        if life.threads.len() == 1 {
            return Left::Nobody;
        }
        life.remove(place);
        Left::Others
    }

    /// A thread that never ran is no thread of the process any more, even if there is no other yet.
    pub fn disown(&self, thread: &Arc<Thread>) {
        let mut life = self.life.lock();
        if let Some(place) = life.threads.iter().position(|other| Arc::ptr_eq(other, thread)) {
            life.remove(place);
        }
    }

    /// A thread that is none of its threads any more has something to give back still: the process ends after it.
    pub fn wait_for_thread(&self) {
        self.leaving.fetch_add(1, Ordering::Relaxed);
    }

    /// That thread has given it back.
    pub fn thread_has_ended(&self) {
        self.leaving.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether it must end, or has ended.
    pub fn is_doomed(&self) -> bool {
        self.doomed.load(Ordering::Relaxed)
    }

    /// How many threads it has.
    pub fn thread_count(&self) -> usize {
        self.life.lock().threads.len()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.ending.has_come() {
            ALIVE.fetch_sub(1, Ordering::Relaxed);
            self.account.retire();
            self.account.close_cpu();
        }
        let entry = ALL.lock().remove(self.place);
        drop(entry);
    }
}

/// A capability that was taken out of a table is not put anywhere else.
pub fn discard(lock: &mut Exclusive, capability: Capability) {
    if let Some(node) = capability.node {
        derivation::forget(node);
    }
    capability.object.leave_slot(lock);
}

/// The threads of all processes whose accounts are below one count against a limit from now on.
pub fn count_cpu_time_below(lock: &Exclusive, account: &Account) {
    let all = ALL.lock();
    let mut from = 0;
    while let Some((index, entry)) = all.at_or_after(from) {
        from = index.saturating_add(1);
        if entry.account.is_below(account) {
            entry.account.count_cpu_time(lock);
        }
    }
}

/// Every process that has no CPU time left must end.
pub fn doom_spent(lock: &mut Exclusive) {
    let mut from = 0;
    loop {
        let spent = {
            let all = ALL.lock();
            loop {
                let Some((index, entry)) = all.at_or_after(from) else { return };
                from = index.saturating_add(1);
                if entry.account.is_cpu_limited()
                    && let Some(end) = entry.account.cpu_end()
                {
                    break entry.process.upgrade().map(|process| (process, end));
                }
            }
        };
        if let Some((process, end)) = spent
            && !process.is_doomed()
        {
            process.doom(lock, end);
        }
    }
}
