//! What each processor has for itself, reached through the GS base.

use core::cell::UnsafeCell;
use core::mem::{MaybeUninit, offset_of};
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
    /// Whether it shares the kernel lock.
    pub presence: Presence,
    /// What another processor asks of it, see [`crate::arch::processors::Request`].
    pub request: AtomicU32,
    /// Another processor has called it to look at its queue, and it has not yet.
    pub called: AtomicBool,
    /// The thread that was current continues with a long system call later: interrupts come first.
    pub paused: AtomicBool,
    /// Priority of the thread that runs here; [`IDLE`] where none does.
    pub running: AtomicI8,
    /// Number of the thread that runs here; 0 where none does.
    pub thread: AtomicU64,
    /// The thread in whose name the kernel works here, as the scheduler knows it; null where there is none.
    pub current: AtomicPtr<()>,
    /// Interrupts of its timer.
    pub timer_interrupts: AtomicU64,
    /// What later layers define.
    locals: Room,
}

/// A value that each processor has and that a later layer defines.
///
/// # Safety
/// The start must give each processor such a value, see [`Prepared::keep`].
pub unsafe trait Local: Sync + 'static {
    /// Bytes from the beginning of the room for such values.
    const OFFSET: usize;
}

/// Bytes of the room for such values.
const ROOM: usize = 1024;

/// That room.
#[repr(C, align(16))]
struct Room(UnsafeCell<MaybeUninit<[u8; ROOM]>>);

// SAFETY: the values in it are `Sync`.
unsafe impl Sync for Room {}

/// Offsets that the entry code uses.
pub const CONTEXT_OFFSET: usize = offset_of!(PerCpu, context);
pub const STACK_OFFSET: usize = offset_of!(PerCpu, stack_top);
pub const SCRATCH_OFFSET: usize = offset_of!(PerCpu, scratch);

/// Below the priority of any thread.
pub const IDLE: i8 = capos_sched::IDLE;

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
    pub fn local<T: Local>(&self) -> &T {
        // SAFETY: `keep` has put such a value there, and all access to it is by such references.
        unsafe { &*self.locals.0.get().byte_add(T::OFFSET).cast::<T>() }
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

/// The data of a processor before its first use.
pub struct Prepared(PerCpu);

impl Prepared {
    /// Those of processor `index`.
    pub fn new(index: u32, stack_top: u64) -> Self {
        Self(PerCpu {
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
            locals: Room(UnsafeCell::new(MaybeUninit::uninit())),
        })
    }

    /// They are used from now on, and for good. `first` and `second` are all the values that later layers define.
    pub fn keep<A: Local, B: Local>(&'static mut self, first: A, second: B) -> &'static PerCpu {
        const {
            assert!(A::OFFSET + size_of::<A>() <= B::OFFSET && B::OFFSET + size_of::<B>() <= ROOM);
            assert!(A::OFFSET.is_multiple_of(align_of::<A>()) && align_of::<A>() <= align_of::<Room>());
            assert!(B::OFFSET.is_multiple_of(align_of::<B>()) && align_of::<B>() <= align_of::<Room>());
        }
        let room = self.0.locals.0.get_mut().as_mut_ptr();
        // SAFETY: both fit there, one behind the other, as the compiler has checked; no other code uses the room yet.
        unsafe {
            room.byte_add(A::OFFSET).cast::<A>().write(first);
            room.byte_add(B::OFFSET).cast::<B>().write(second);
        }
        let address: *mut PerCpu = &raw mut self.0;
        self.0.itself.store(address, Ordering::Relaxed);
        &self.0
    }
}

/// Makes the data those of the processor that runs this.
pub fn load(data: &'static PerCpu) {
    msr::write(msr::GS_BASE, core::ptr::from_ref(data) as u64);
    msr::write(msr::KERNEL_GS_BASE, 0);
}
