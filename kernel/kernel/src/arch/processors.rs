//! The processors that run, and what one of them asks of the others.
//!
//! The processor that holds the kernel lock exclusively may ask others for something, and waits until they have done it. They answer
//! in an interrupt, or while they wait for the kernel lock, and need no lock for it.

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::arch::percpu::{self, PerCpu};
use crate::arch::{apic, interrupts, time};

/// Processors that are used at most.
pub const MOST: usize = 64;

/// For how long another processor's answer is waited for before it is interrupted once more, nanoseconds.
const PATIENCE: u64 = 10_000_000;

static ALL: [AtomicPtr<PerCpu>; MOST] = [const { AtomicPtr::new(core::ptr::null_mut()) }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// What one processor asks of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Request {
    /// Nothing, or what was asked has been done.
    None,
    /// To forget the translations of a range.
    Forget,
    /// To leave its address space, and not to go on with its thread before it has had the kernel lock.
    Leave,
}

impl Request {
    /// What the number stands for.
    pub fn from_raw(raw: u32) -> Self {
        match raw {
            1 => Self::Forget,
            2 => Self::Leave,
            _ => Self::None,
        }
    }
}

/// A processor runs from now on. False where there are too many. Processors are numbered in the order in which they
/// are added.
pub fn add(data: &'static PerCpu) -> bool {
    let count = COUNT.load(Ordering::Relaxed);
    let Some(place) = ALL.get(count) else { return false };
    place.store(core::ptr::from_ref(data).cast_mut(), Ordering::Release);
    COUNT.store(count.saturating_add(1), Ordering::Release);
    true
}

/// How many processors run.
pub fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// Those that run.
pub fn all() -> impl Iterator<Item = &'static PerCpu> {
    ALL.iter().take(COUNT.load(Ordering::Acquire)).filter_map(|place| {
        // SAFETY: null, or data that `add` was given for good.
        unsafe { place.load(Ordering::Acquire).as_ref() }
    })
}

/// All of them but the one that asks.
pub fn others() -> impl Iterator<Item = &'static PerCpu> {
    let own = percpu::current().index;
    all().filter(move |processor| processor.index != own)
}

/// Makes another processor stop what it runs: once this returns it is in the kernel, or comes there without another
/// instruction of its thread.
pub fn interrupt(index: u32) {
    ask(Request::Leave, |processor| processor.index == index);
}

/// Asks some of the others, and waits until they have done it.
pub fn ask(request: Request, of: impl Fn(&PerCpu) -> bool) {
    if count() == 1 {
        return;
    }
    for processor in others().filter(|processor| of(processor)) {
        processor.request.store(request as u32, Ordering::Release);
        apic::send(processor.apic_id.load(Ordering::Relaxed), interrupts::REQUEST);
    }
    for processor in others() {
        let mut again = time::now().saturating_add(PATIENCE);
        while processor.request.load(Ordering::Acquire) != Request::None as u32 {
            if time::now() > again {
                // One more is safe.
                apic::send(processor.apic_id.load(Ordering::Relaxed), interrupts::REQUEST);
                again = again.saturating_add(PATIENCE);
            }
            core::hint::spin_loop();
        }
    }
}

/// What this processor, which is `cpu`, is asked for.
pub fn asked(cpu: &PerCpu) -> Request {
    Request::from_raw(cpu.request.load(Ordering::Acquire))
}

/// What this processor, which is `cpu`, was asked for is done.
pub fn done(cpu: &PerCpu) {
    cpu.request.store(Request::None as u32, Ordering::Release);
}

/// Lets another processor look at its queue again.
pub fn call(processor: &PerCpu) {
    if !processor.called.swap(true, Ordering::Relaxed) {
        apic::send(processor.apic_id.load(Ordering::Relaxed), interrupts::CALL);
    }
}
