//! The end of a process: all that it held is given back, in steps.

use alloc::format;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use capos_captable::Table;

use super::{ALIVE, ALL, Cause, End, Process, discard};
use crate::cpu::budget::{Budget, cost};
use crate::cpu::kernel_lock::Exclusive;
use crate::log;
use crate::object::account::Resource;
use crate::object::address_space;
use crate::object::derivation;
use crate::object::memory::emptying;
use crate::object::reaper::{self, Doomed};
use crate::object::thread::Thread;

/// Places of the capability table that are looked at together.
const LOOKED_AT: u32 = 16;

/// How far the end of a process has come.
pub(super) struct Remains {
    end: Arc<End>,
    stage: Stage,
    /// The next thread, process or capability of this stage.
    next: u32,
    space: Option<address_space::Remains>,
    /// Once its address space is gone: the memory objects that are to be emptied before it has ended.
    emptied: Option<u64>,
    /// It waits for what is in the queue as well.
    waits: bool,
}

impl Remains {
    /// Others have their turn first.
    fn wait(&mut self) -> Option<Stage> {
        self.waits = true;
        self.next = 0;
        None
    }
}

/// What comes next, in this order.
#[derive(Clone, Copy)]
enum Stage {
    Begin,
    /// Its threads have nothing in flight any more.
    Threads,
    /// Who waits for a thread's end is told.
    Handles,
    /// What this process's account pays for ends with it: processes that it has made, and those that they have made. Nothing else
    /// might know them.
    Children,
    Capabilities,
    Space,
    /// Who waits for its end is told.
    Told,
}

impl Process {
    /// Notes that the process must end. It runs no more; [`Process::end`] does the rest. The first end counts.
    pub fn doom(&self, lock: &mut Exclusive, end: End) {
        let Some(process) = self.itself.upgrade() else { return };
        if self.doomed.swap(true, Ordering::AcqRel) {
            return;
        }
        {
            let mut life = self.life.lock();
            life.remains = Some(Remains {
                end: Arc::new(end),
                stage: Stage::Begin,
                next: 0,
                space: None,
                emptied: None,
                waits: false,
            });
            for thread in &life.threads {
                thread.halt(lock);
            }
        }
        match reaper::is_first(self.id) {
            true => reaper::add_first(Doomed::Process(process)),
            false => reaper::add(Doomed::Process(process)),
        }
    }

    /// Ends the process and gives back what it held, as far as the budget allows. Whether it has ended. No lock may be held.
    pub fn end(&self, lock: &mut Exclusive, budget: &mut Budget) -> bool {
        let Some(mut remains) = self.life.lock().remains.take() else { return true };
        while budget.allows() {
            let next = match remains.stage {
                Stage::Begin => self.begin_end(&remains.end),
                Stage::Threads => {
                    self.for_each_thread(&mut remains, |thread, _| thread.stop(lock, budget), Stage::Handles)
                }
                Stage::Handles => self.for_each_thread(
                    &mut remains,
                    |thread, end| thread.handle.end(lock, end, budget),
                    Stage::Children,
                ),
                Stage::Children => self.doom_children(lock, &mut remains.next, budget),
                Stage::Capabilities => self.give_up(lock, &mut remains.next, budget),
                Stage::Space => self.give_back_space(lock, &mut remains, budget),
                Stage::Told => {
                    // Not before: who learns of the end finds the process gone.
                    self.ending.set(&remains.end);
                    if self.ending.tell(lock, budget) {
                        return true;
                    }
                    None
                }
            };
            if core::mem::take(&mut remains.waits) {
                budget.spend(cost::WAIT);
                break;
            }
            if let Some(next) = next {
                (remains.stage, remains.next) = (next, 0);
            }
        }
        self.life.lock().remains = Some(remains);
        false
    }

    fn begin_end(&self, end: &End) -> Option<Stage> {
        if end.cause != Cause::Exited {
            log!("{self:?} died: {}", end.report);
        }
        if reaper::is_first(self.id) {
            reaper::first_has_ended(end);
        }
        // So no process is missed below that is made meanwhile.
        self.account.close();
        Some(Stage::Threads)
    }

    /// Does something with each thread until it is done with all; what comes then.
    fn for_each_thread(
        &self,
        remains: &mut Remains,
        act: impl FnOnce(&Arc<Thread>, &Arc<End>) -> bool,
        then: Stage,
    ) -> Option<Stage> {
        // What is done may look at the threads.
        let thread = self.life.lock().threads.get(remains.next as usize).cloned();
        let Some(thread) = thread else { return Some(then) };
        if act(&thread, &remains.end) {
            remains.next = remains.next.saturating_add(1);
        }
        None
    }

    fn doom_children(&self, lock: &mut Exclusive, next: &mut u32, budget: &mut Budget) -> Option<Stage> {
        while budget.allows() {
            let thread = self.life.lock().threads.pop();
            if thread.is_some() {
                drop(thread);
                budget.spend(cost::OPERATION);
                continue;
            }
            let Some(child) = self.next_below(next, budget) else { return Some(Stage::Capabilities) };
            if let Some(child) = child.filter(|child| !child.is_doomed()) {
                let report = format!("`{}`, whose account paid for it, has ended", self.name);
                child.doom(lock, End { cause: Cause::Killed, code: 0, report });
                budget.spend(cost::OPERATION);
            }
        }
        None
    }

    /// Whether a process below it has not ended yet that must, from `next` on. `None` if the budget does not allow to look at all of them.
    fn has_ending_children(&self, next: &mut u32, budget: &mut Budget) -> Option<bool> {
        while budget.allows() {
            let Some(child) = self.next_below(next, budget) else { return Some(false) };
            if child.is_some_and(|child| child.is_doomed() && !child.ending.has_come()) {
                return Some(true);
            }
        }
        None
    }

    /// Looks at the process at a place among all processes, or the next one; `next` is the place behind it then. The process, if its account
    /// lies below this one's. `None` if there is no further process.
    fn next_below(&self, next: &mut u32, budget: &mut Budget) -> Option<Option<Arc<Process>>> {
        let all = ALL.lock();
        let (index, entry) = all.at_or_after(*next)?;
        *next = index.saturating_add(1);
        budget.spend(cost::PROCESS.saturating_add(cost::ACCOUNT.saturating_mul(entry.account.depth())));
        Some(if entry.account.is_below(&self.account) { entry.process.upgrade() } else { None })
    }

    fn give_up(&self, lock: &mut Exclusive, next: &mut u32, budget: &mut Budget) -> Option<Stage> {
        self.closed.store(true, Ordering::Relaxed);
        while budget.allows()
            && let Some(lost) = self.life.lock().lost.pop()
        {
            // Nothing is in flight through it any more.
            derivation::forget(lost);
            self.account.refund(Resource::Capabilities, 1);
            budget.spend(cost::CAPABILITY);
        }
        while budget.allows() {
            let (found, is_empty) = {
                let mut table = self.table.lock();
                (table.pop(next, LOOKED_AT), table.is_empty())
            };
            budget.spend(cost::LOOK.saturating_mul(LOOKED_AT));
            if let Some((_, capability)) = found {
                self.account.refund(Resource::Capabilities, 1);
                capability.object.linger();
                discard(lock, capability);
                budget.spend(cost::CAPABILITY);
            } else if is_empty && self.table.lock().give_back(LOOKED_AT as usize) {
                *self.table.lock() = Table::new();
                return Some(Stage::Space);
            }
        }
        None
    }

    fn give_back_space(&self, lock: &mut Exclusive, remains: &mut Remains, budget: &mut Budget) -> Option<Stage> {
        if remains.space.is_none() {
            remains.space = self.space.end(lock);
        }
        if remains.space.as_mut().is_some_and(|left| !left.give_back(&self.space, budget)) {
            return None;
        }
        remains.space = None;
        // Who learns of the end finds that given back which ends with it.
        let begun = *remains.emptied.get_or_insert_with(emptying::begun);
        if !emptying::go_on_until(begun, budget) || self.leaving.load(Ordering::Relaxed) > 0 {
            return remains.wait();
        }
        // Those whose account it paid for end first, and so does what they held.
        if self.has_ending_children(&mut remains.next, budget)? {
            return remains.wait();
        }
        self.account.retire();
        self.account.close_cpu();
        ALIVE.fetch_sub(1, Ordering::Relaxed);
        Some(Stage::Told)
    }
}
