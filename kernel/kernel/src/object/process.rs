//! Process: threads, an address space, capabilities, and the account that pays for them.

use alloc::format;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use capos_abi::{CapId, Rights, Status};
use capos_captable::{NodeId, Pool, Table, shrink};
use spin::{Mutex, MutexGuard};

use crate::cpu::kernel_lock::Exclusive;
use crate::log;
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
}

impl Life {
    fn remove(&mut self, place: usize) {
        self.threads.swap_remove(place);
        // Many threads that are gone leave no memory behind.
        shrink(&mut self.threads, FEW);
    }
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
    /// It comes before the threads are taken away: who adds one with `life` locked looks there first.
    pub ending: Arc<Ending>,
    /// Capability slots that designate it.
    holders: AtomicU32,
    /// It must end, or has ended.
    doomed: AtomicBool,
    itself: Weak<Process>,
    /// Its place among all processes.
    place: u32,
    _charge: Option<Charge>,
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
    pub fn new(name: String, account: Arc<Account>, charge: Option<Charge>) -> Result<Arc<Self>, Status> {
        let space = AddressSpace::new(&account)?;
        let entry = Entry { process: Weak::new(), account: Arc::clone(&account) };
        let place = {
            let mut all = ALL.lock();
            reaper::make_room(all.len().saturating_add(1))?;
            all.insert(entry).ok_or(Status::OutOfMemory)?
        };
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
            itself: itself.clone(),
            place,
            _charge: charge,
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
        // The table is emptied after the end has come.
        let mut table = self.table.lock();
        if self.ending.has_come() {
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
                self.cancel_through(lock, id);
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

    /// Loses a capability by revocation; its node is gone already. Operations through it end.
    pub fn lose(&self, lock: &mut Exclusive, id: CapId) {
        let Ok(capability) = self.table.lock().remove(id) else { return };
        self.account.refund(Resource::Capabilities, 1);
        self.cancel_through(lock, id);
        capability.object.linger();
        capability.object.leave_slot(lock);
    }

    /// Ends what is in flight through a capability that is gone.
    fn cancel_through(&self, lock: &mut Exclusive, id: CapId) {
        let mut from: usize = 0;
        loop {
            // Answers may end the process, which takes the lock.
            let thread = self.life.lock().threads.get(from).cloned();
            let Some(thread) = thread else { return };
            thread.cancel_through(lock, id);
            from = from.saturating_add(1);
        }
    }

    /// How many capabilities it holds.
    pub fn capability_count(&self) -> u32 {
        self.table.lock().len()
    }

    /// Identifiers and contents of its table.
    ///
    /// # Errors
    /// No memory for this many.
    pub fn capabilities(&self) -> Result<Vec<(CapId, Capability)>, Status> {
        let mut all = Vec::new();
        let table = self.table.lock();
        all.try_reserve_exact(table.len() as usize).map_err(|_| Status::OutOfMemory)?;
        all.extend(table.iter().map(|(id, capability)| (id, capability.clone())));
        Ok(all)
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
        if self.ending.has_come() {
            return Err(Status::Disconnected);
        }
        life.threads.try_reserve(1).map_err(|_| Status::OutOfMemory)?;
        life.threads.push(thread);
        Ok(())
    }

    /// A thread ends, and is no thread of the process any more unless it is the last.
    pub fn leave(&self, thread: &Arc<Thread>) -> Left {
        let mut life = self.life.lock();
        let Some(place) = life.threads.iter().position(|other| Arc::ptr_eq(other, thread)) else {
            return Left::Before;
        };
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

    /// How many threads it has.
    pub fn thread_count(&self) -> usize {
        self.life.lock().threads.len()
    }

    /// Notes that the process must end. It runs no more; [`Process::end`] does the rest. The first end counts.
    pub fn doom(&self, lock: &mut Exclusive, end: End) {
        let Some(process) = self.itself.upgrade() else { return };
        if self.doomed.swap(true, Ordering::AcqRel) {
            return;
        }
        for thread in &self.life.lock().threads {
            thread.halt(lock);
        }
        reaper::add(process, end);
    }

    /// Ends the process and gives back all it held. No lock may be held.
    pub fn end(&self, lock: &mut Exclusive, end: End) {
        let end = Arc::new(end);
        if !self.ending.set(&end) {
            return;
        }
        let threads = core::mem::take(&mut self.life.lock().threads);
        if end.cause != Cause::Exited {
            log!("{self:?} died: {}", end.report);
        }
        if reaper::is_first(self.id) {
            reaper::first_has_ended(&end);
        }
        for thread in &threads {
            thread.stop(lock);
        }
        for thread in &threads {
            thread.handle.end(lock, &end);
        }
        drop(threads);
        self.doom_children(lock);
        let mut hint = 0;
        loop {
            let found = self.table.lock().pop(&mut hint);
            let Some((_, capability)) = found else { break };
            self.account.refund(Resource::Capabilities, 1);
            capability.object.linger();
            discard(lock, capability);
        }
        *self.table.lock() = Table::new();
        self.space.destroy();
        // Who learns of the end finds that given back which ends with it.
        self.account.retire();
        self.account.close_cpu();
        ALIVE.fetch_sub(1, Ordering::Relaxed);
        self.ending.tell(lock);
    }
}

impl Process {
    /// What this process's account pays for ends with it: processes that it has made, and those
    /// that they have made. Nothing else might know them.
    fn doom_children(&self, lock: &mut Exclusive) {
        let mut from = 0;
        loop {
            let child = {
                let all = ALL.lock();
                loop {
                    let Some((index, entry)) = all.at_or_after(from) else { return };
                    from = index.saturating_add(1);
                    if entry.account.is_below(&self.account) {
                        break entry.process.upgrade();
                    }
                }
            };
            if let Some(child) = child.filter(|child| !child.ending.has_come()) {
                let report = format!("`{}`, whose account paid for it, has ended", self.name);
                child.doom(lock, End { cause: Cause::Killed, code: 0, report });
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.ending.has_come() {
            ALIVE.fetch_sub(1, Ordering::Relaxed);
            self.account.retire();
            self.account.close_cpu();
        }
        let entry = {
            let mut all = ALL.lock();
            let entry = all.remove(self.place);
            reaper::shrink_room(all.len());
            entry
        };
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
pub fn count_cpu_time_below(account: &Account) {
    let all = ALL.lock();
    let mut from = 0;
    while let Some((index, entry)) = all.at_or_after(from) {
        from = index.saturating_add(1);
        if entry.account.is_below(account) {
            entry.account.count_cpu_time();
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
            && !process.ending.has_come()
        {
            process.doom(lock, end);
        }
    }
}
