//! What each processor has for itself, reached through the GS base.

use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicI8, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use capos_sync::Presence;

use crate::arch::context::Context;
use crate::arch::msr;

/// One processor's data. The first fields are used by the entry code in assembly.
#[repr(C)]
pub struct PerCpu {
    /// Its own address, so that `gs:[0]` gives a pointer.
    itself: AtomicPtr<PerCpu>,
    /// Context of the thread that runs here; null while the processor idles.
    context: AtomicPtr<Context>,
    /// Top of the kernel stack; every entry from user mode starts there.
    stack_top: u64,
    /// The user's stack pointer, for a few instructions of the system call entry, and as long as INVOKE is under way.
    scratch: AtomicU64,
    /// Identity of the context whose segment state the processor holds.
    loaded: AtomicU64,
    /// Number of this processor, from 0.
    pub index: u32,
    /// Its local APIC's identifier.
    pub apic_id: AtomicU32,
    /// Physical address of the top table that it has loaded; 0 before the first change.
    root: AtomicU64,
    /// Whether it shares the kernel's lock.
    pub presence: Presence,
    /// What another processor asks of it, see [`crate::arch::processors::Request`].
    pub request: AtomicU32,
    /// Another processor has called it to look at its queue, and it has not yet.
    pub called: AtomicBool,
    /// The thread that was current goes on with a long system call later: interrupts come first.
    pub paused: AtomicBool,
    /// Priority of the thread that runs here; [`IDLE`] where none does.
    pub running: AtomicI8,
    /// Number of the thread that runs here; 0 where none does.
    pub thread: AtomicU64,
    /// The thread in whose name the kernel works here, as the scheduler knows it; null where there is none.
    pub current: AtomicPtr<()>,
    /// Interrupts of its timer.
    pub timer_interrupts: AtomicU64,
    locals: Locals,
}

/// Names a value that each processor has and that a later layer defines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// What a processor has seen of calls, and the bound call that it keeps.
    Calls,
    /// What it knows about scheduling.
    Scheduler,
}

/// A value that each processor has: [`PerCpu::local`] gives that of a processor to its owner.
///
/// # Safety
/// No other type may have the same slot.
pub unsafe trait Local: Sync + 'static {
    /// Where it is found.
    const SLOT: Slot;
}

/// The values of one processor that later layers define.
pub struct Locals {
    calls: *const (),
    scheduler: *const (),
}

// SAFETY: what they point to is `Sync`, which `Local` asks for, and stays.
unsafe impl Send for Locals {}
// SAFETY: as above.
unsafe impl Sync for Locals {}

impl Locals {
    /// These two, which are for different slots.
    pub fn new<C: Local, S: Local>(calls: &'static C, scheduler: &'static S) -> Self {
        const { assert!(matches!((C::SLOT, S::SLOT), (Slot::Calls, Slot::Scheduler))) };
        Self { calls: core::ptr::from_ref(calls).cast(), scheduler: core::ptr::from_ref(scheduler).cast() }
    }
}

/// Offsets that the entry code uses.
pub const CONTEXT_OFFSET: usize = offset_of!(PerCpu, context);
pub const STACK_OFFSET: usize = offset_of!(PerCpu, stack_top);
pub const SCRATCH_OFFSET: usize = offset_of!(PerCpu, scratch);

/// Below the priority of any thread.
pub const IDLE: i8 = i8::MIN;

impl PerCpu {
    /// Physical address of the top table that it has loaded.
    pub fn root(&self) -> u64 {
        self.root.load(Ordering::Relaxed)
    }

    /// Notes which top table it has loaded.
    pub fn set_root(&self, address: u64) {
        self.root.store(address, Ordering::Relaxed);
    }

    /// Whether it was called and has not come yet.
    pub fn is_called(&self) -> bool {
        self.called.load(Ordering::Relaxed)
    }

    /// The context of the thread that runs here, or null.
    pub fn context(&self) -> *mut Context {
        self.context.load(Ordering::Relaxed)
    }

    /// Its value of a type that a later layer defines.
    #[inline(always)]
    pub fn local<T: Local>(&self) -> &'static T {
        let pointer = match T::SLOT {
            Slot::Calls => self.locals.calls,
            Slot::Scheduler => self.locals.scheduler,
        };
        // SAFETY: `Locals::new` was given a reference for good, to a value of the one type with this slot.
        unsafe { &*pointer.cast::<T>() }
    }

    /// Says which thread's registers the next entry from user mode saves; null for none.
    pub fn set_context(&self, context: *mut Context) {
        self.context.store(context, Ordering::Relaxed);
    }

    /// Notes that the processor holds the segment state of context `identity`; gives what it held before.
    pub fn swap_loaded(&self, identity: u64) -> u64 {
        let before = self.loaded.load(Ordering::Relaxed);
        self.loaded.store(identity, Ordering::Relaxed);
        before
    }

    /// Top of its kernel stack.
    pub fn stack_top(&self) -> u64 {
        self.stack_top
    }
}

/// This processor's data.
pub fn current() -> &'static PerCpu {
    let address: *const PerCpu;
    // SAFETY: `load` set the GS base to a leaked `PerCpu` whose first field is its own
    // address; entries from user mode swap GS before any Rust code runs.
    unsafe {
        core::arch::asm!("mov {}, gs:[0]", out(reg) address, options(nostack, preserves_flags, readonly));
        &*address
    }
}

impl PerCpu {
    /// The data of a processor that nobody has used yet.
    pub fn new(index: u32, stack_top: u64, locals: Locals) -> Self {
        Self {
            itself: AtomicPtr::new(core::ptr::null_mut()),
            context: AtomicPtr::new(core::ptr::null_mut()),
            stack_top,
            scratch: AtomicU64::new(0),
            loaded: AtomicU64::new(0),
            index,
            apic_id: AtomicU32::new(0),
            root: AtomicU64::new(0),
            presence: Presence::new(),
            request: AtomicU32::new(0),
            called: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            running: AtomicI8::new(IDLE),
            thread: AtomicU64::new(0),
            current: AtomicPtr::new(core::ptr::null_mut()),
            timer_interrupts: AtomicU64::new(0),
            locals,
        }
    }

    /// They are used from now on, and for good.
    pub fn keep(&'static mut self) -> &'static Self {
        let address: *mut Self = self;
        self.itself.store(address, Ordering::Relaxed);
        self
    }
}

/// Makes the data those of the processor that runs this.
pub fn load(data: &'static PerCpu) {
    msr::write(msr::GS_BASE, core::ptr::from_ref(data) as u64);
    msr::write(msr::KERNEL_GS_BASE, 0);
}
