//! TLB shootdown: what other processors know of an address space that changes.
//!
//! The processor that holds the kernel lock exclusively asks the others to forget translations, or to leave an address space that
//! ends, and waits until they have.

use core::sync::atomic::{AtomicU64, Ordering};

use capos_machine::page_entry::PAGE;

use super::frames::Frame;
use super::kernel_space;
use crate::arch::percpu::PerCpu;
use crate::arch::processors::{self, Request};

/// What shows that the kernel lock is held exclusively. The lock belongs to a later layer.
///
/// # Safety
/// A value of the type exists only while its processor holds the lock exclusively.
pub unsafe trait ExclusiveGuard {}

/// With more pages to forget, a processor forgets them all.
const FEW: u64 = 32;

/// The range that is to be forgotten. Written before a processor is asked.
static START: AtomicU64 = AtomicU64::new(0);
static END: AtomicU64 = AtomicU64::new(0);

/// Makes the other processors forget the translations of a range, where they have the address space of `root`.
pub fn forget(_: &mut impl ExclusiveGuard, root: Frame, start: u64, length: u64) {
    if processors::count() > 1 {
        START.store(start, Ordering::Relaxed);
        END.store(start.saturating_add(length), Ordering::Relaxed);
        processors::ask(Request::Forget, |processor| processor.root() == root.address());
    }
}

/// Makes the other processors leave the address space of `root`. The caller holds the kernel lock exclusively; it may be a drop, which has
/// no guard.
pub fn leave(root: Frame) {
    processors::ask(Request::Leave, |processor| processor.root() == root.address());
}

/// Does what this processor, which is `cpu`, is asked for.
pub fn answer(cpu: &PerCpu) {
    answer_to(cpu, processors::asked(cpu));
}

/// Does what this processor, which is `cpu`, was asked for, as the caller has read it. A caller that treats [`Request::Leave`] in another way
/// must decide on the value that it passes: a second read may find a request that came meanwhile.
pub fn answer_to(cpu: &PerCpu, request: Request) {
    match request {
        Request::None => return,
        Request::Forget => {
            let (start, end) = (START.load(Ordering::Relaxed), END.load(Ordering::Relaxed));
            if end.saturating_sub(start) > FEW * PAGE {
                kernel_space::flush_user();
            } else {
                (start..end).step_by(PAGE as usize).for_each(kernel_space::flush);
            }
        }
        Request::Leave => kernel_space::activate(cpu),
    }
    processors::done(cpu);
}
