//! Memory objects that are gone and had many pages: their frames are given back in steps.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, Ordering};

use capos_paging::PAGE;
use spin::Mutex;

use super::Content;
use crate::cpu::budget::{Budget, cost};
use crate::memory::frames::Frame;
use crate::object::account::Charge;
use crate::object::memory::cache;
use crate::object::reaper;

/// An object of that many pages or fewer is emptied at once.
const FEW: u64 = 8;

/// What is left of a memory object. It is made with the object, so that its end needs no memory.
#[derive(Debug)]
pub struct Remains {
    object: u64,
    content: Content,
    /// Pays for its frames until they are given back.
    charge: Option<Charge>,
    /// Where the next resident page of paged memory may be.
    page: u64,
    next: Option<Box<Remains>>,
}

/// Objects in the order in which they have gone, in two parts.
#[derive(Debug)]
struct List {
    /// The first is next.
    next: Option<Box<Remains>>,
    /// The first has gone last.
    latest: Option<Box<Remains>>,
    /// How many have gone.
    begun: u64,
    /// How many of them are emptied.
    done: u64,
}

static LIST: Mutex<List> = Mutex::new(List { next: None, latest: None, begun: 0, done: 0 });
/// Whether it has elements, so that looking takes no lock.
static ANY: AtomicBool = AtomicBool::new(false);

/// What will be left of an object of that many pages; `None` where it is emptied at once.
pub fn prepare(pages: u64) -> Option<Box<Remains>> {
    let content = Content::Fixed(Frame::FIRST);
    (pages > FEW).then(|| Box::new(Remains { object: 0, content, charge: None, page: 0, next: None }))
}

/// An object is gone, and this was its content.
pub(super) fn begin(mut remains: Box<Remains>, object: u64, content: Content, charge: Option<Charge>) {
    (remains.object, remains.content, remains.charge) = (object, content, charge);
    let mut list = LIST.lock();
    remains.next = list.latest.take();
    list.latest = Some(remains);
    list.begun = list.begun.wrapping_add(1);
    ANY.store(true, Ordering::Relaxed);
    drop(list);
    reaper::note_work();
}

/// Whether something is left to give back.
#[inline]
pub fn is_under_way() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// How many objects have gone so far.
pub fn begun() -> u64 {
    LIST.lock().begun
}

/// Gives frames back, as far as the budget allows. Whether none is left.
pub fn go_on(budget: &mut Budget) -> bool {
    go_on_until(u64::MAX, budget)
}

/// The same. Whether none is left of that many objects, the first to have gone.
pub fn go_on_until(objects: u64, budget: &mut Budget) -> bool {
    loop {
        let mut list = LIST.lock();
        if list.done >= objects {
            return true;
        }
        list.turn();
        let Some(remains) = list.next.as_deref_mut() else {
            ANY.store(false, Ordering::Relaxed);
            return true;
        };
        if !budget.allows() || !remains.give_back(budget) {
            return false;
        }
        let emptied = list.take();
        drop(list);
        budget.spend(emptied.as_deref().map_or(0, Remains::spare_cost));
        // The list of its frames was long as well.
        drop(emptied);
    }
}

/// Gives everything back: memory is short.
pub fn finish() {
    while is_under_way() {
        go_on(&mut Budget::new());
    }
}

impl List {
    /// Makes those that have gone meanwhile the next ones, where there are no others.
    fn turn(&mut self) {
        if self.next.is_none() {
            while let Some(mut latest) = self.latest.take() {
                self.latest = latest.next.take();
                latest.next = self.next.take();
                self.next = Some(latest);
            }
        }
    }

    /// Takes out the next one, which is emptied.
    fn take(&mut self) -> Option<Box<Remains>> {
        let mut emptied = self.next.take()?;
        self.next = emptied.next.take();
        self.done = self.done.wrapping_add(1);
        Some(emptied)
    }
}

impl Remains {
    fn give_back(&mut self, budget: &mut Budget) -> bool {
        match &mut self.content {
            Content::Anonymous(owned) => owned.get_mut().give_back(budget),
            Content::Paged(content) => cache::forget(self.object, content, &mut self.page, budget),
            Content::Fixed(_) => true,
        }
    }

    /// About how many instructions it takes to give back the list of its frames, which is empty by now.
    fn spare_cost(&self) -> u32 {
        match &self.content {
            Content::Anonymous(owned) => {
                let bytes = owned.lock().frames.capacity().saturating_mul(size_of::<Frame>());
                cost::FREE.saturating_mul((bytes as u64 / PAGE) as u32)
            }
            _ => 0,
        }
    }
}
