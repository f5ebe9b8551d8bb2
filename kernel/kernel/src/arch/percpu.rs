//! What each processor has for itself, reached through the GS base.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem::{ManuallyDrop, offset_of};
use core::sync::atomic::{AtomicBool, AtomicI8, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use capos_sync::Presence;

use crate::arch::context::Context;
use crate::arch::msr;
use crate::memory::heap::try_box;
use crate::object::thread::Thread;
use crate::sched::scheduler::CpuState;
use crate::syscall::standing_call::Watch;

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
    /// The thread in whose name the kernel works here, which the scheduler's state holds as long as this names it; null
    /// where there is none.
    current: AtomicPtr<Thread>,
    /// Interrupts of its timer.
    pub timer_interrupts: AtomicU64,
    /// What it has seen of calls, and the one that stands here.
    pub watch: Watch,
    /// The scheduler's state.
    pub scheduler: spin::Mutex<CpuState>,
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

    /// Lends the thread in whose name the kernel works here.
    ///
    /// # Safety
    /// What is given must not be used once the processor runs another thread, or none.
    #[inline(always)]
    pub unsafe fn current(&self) -> Option<ManuallyDrop<Arc<Thread>>> {
        let thread = self.current.load(Ordering::Relaxed).cast_const();
        // SAFETY: it comes from an `Arc` that the scheduler's state holds while it is named here, see `set_current`; this one
        // is never dropped.
        (!thread.is_null()).then(|| ManuallyDrop::new(unsafe { Arc::from_raw(thread) }))
    }

    /// Says in which thread's name the kernel works here.
    ///
    /// # Safety
    /// The thread must be held as long as it is named.
    #[inline(always)]
    pub unsafe fn set_current(&self, thread: Option<&Arc<Thread>>) {
        let pointer = thread.map_or(core::ptr::null(), Arc::as_ptr);
        self.current.store(pointer.cast_mut(), Ordering::Relaxed);
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

/// Data of a processor that nobody has used yet.
pub struct Prepared(Box<[PerCpu; 1]>);

/// Makes the data of a processor; `None` where the heap has no memory for it.
pub fn prepare(index: u32, stack_top: u64) -> Option<Prepared> {
    try_box(PerCpu {
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
        watch: Watch::new(),
        scheduler: spin::Mutex::new(CpuState::new()?),
    })
    .map(Prepared)
}

impl Prepared {
    /// They are used from now on, and for good.
    pub fn keep(self) -> &'static PerCpu {
        let [data] = Box::leak(self.0);
        let address: *mut PerCpu = data;
        data.itself.store(address, Ordering::Relaxed);
        data
    }
}

/// Makes the data those of the processor that runs this.
pub fn load(data: &'static PerCpu) {
    msr::write(msr::GS_BASE, core::ptr::from_ref(data) as u64);
    msr::write(msr::KERNEL_GS_BASE, 0);
}
