//! Memory objects that are gone and had many pages: their frames are given back in steps.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, Ordering};

use capos_paging::PAGE;
use spin::Mutex;

use super::Content;
use crate::memory::frames::Frame;
use crate::object::budget::{Budget, cost};
use crate::object::memory::cache;
use crate::object::reaper;

/// An object of so many pages or fewer is emptied at once.
const FEW: u64 = 32;

/// What is left of a memory object. It is made with the object, so that its end needs no memory.
#[derive(Debug)]
pub struct Remains {
    object: u64,
    content: Content,
    /// Where the next resident page of paged memory may be.
    page: u64,
    next: Option<Box<Remains>>,
}

static LIST: Mutex<Option<Box<Remains>>> = Mutex::new(None);
/// Whether it has elements, so that looking takes no lock.
static ANY: AtomicBool = AtomicBool::new(false);

/// What will be left of an object of so many pages; `None` where it is emptied at once.
pub fn prepare(pages: u64) -> Option<Box<Remains>> {
    let content = Content::Fixed(Frame::FIRST);
    (pages > FEW).then(|| Box::new(Remains { object: 0, content, page: 0, next: None }))
}

/// An object is gone, and this was its content.
pub(super) fn begin(mut remains: Box<Remains>, object: u64, content: Content) {
    (remains.object, remains.content) = (object, content);
    let mut list = LIST.lock();
    remains.next = list.take();
    *list = Some(remains);
    ANY.store(true, Ordering::Relaxed);
    drop(list);
    reaper::note_work();
}

/// Whether something is left to give back.
#[inline]
pub fn is_under_way() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Gives frames back. Whether none is left.
pub fn go_on(budget: &mut Budget) -> bool {
    while budget.allows() {
        let mut list = LIST.lock();
        let Some(remains) = list.as_deref_mut() else {
            ANY.store(false, Ordering::Relaxed);
            return true;
        };
        if remains.give_back(budget) {
            let done = list.take();
            let mut done = done.map(|mut done| {
                *list = done.next.take();
                done
            });
            drop(list);
            // The list of its frames was long as well.
            budget.spend(done.as_mut().map_or(0, |done| done.spare_cost()));
            drop(done);
        }
    }
    !is_under_way()
}

/// Gives everything back: memory is short. Whether there was anything.
pub fn finish() -> bool {
    let any = is_under_way();
    while is_under_way() {
        go_on(&mut Budget::new());
    }
    any
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
    fn spare_cost(&mut self) -> u32 {
        match &mut self.content {
            Content::Anonymous(owned) => {
                let bytes = owned.get_mut().frames.capacity().saturating_mul(size_of::<Frame>());
                cost::FREE.saturating_mul((bytes as u64 / PAGE) as u32)
            }
            _ => 0,
        }
    }
}
