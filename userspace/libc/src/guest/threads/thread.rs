//! Threads.
//!
//! A thread is a kernel thread; the process may make one if it holds its own Process capability. Its stack, its
//! thread-local storage and its block are in one mapping. The thread that joins it frees the mapping; for detached
//! threads, the next `create` does.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use capos_abi::RingLayout;
use capos_abi::bootstrap::ThreadArea;
use capos_ring::{BlockingCap, PAGE};
use capos_schema::cap::AsCap;
use capos_schema::kernel::{ProcessClient, ThreadClient};
use capos_sync::Step;

use crate::guest::errno::{Errno, Result};
use crate::guest::grants::{cap, wait};
use crate::guest::threads::futex::Kernel;
use crate::guest::threads::lock::Mutex;
use crate::guest::threads::thread_block::{self, ThreadBlock};
use crate::guest::threads::{thread_key, thread_region};
use crate::guest::{malloc, memory_map, unwind};

type Routine = extern "C" fn(*mut c_void) -> *mut c_void;

/// Entries of a thread's rings: one call at a time, and room for a runtime of the program's own.
const SUBMISSION_ENTRIES: u32 = 32;
const COMPLETION_ENTRIES: u32 = 64;
/// The least stack of a thread, in bytes.
const LEAST_STACK: u64 = 16 << 10;

/// The record of a thread for others.
pub struct Thread {
    /// Its number in the process: the first thread's is 1.
    number: u32,
    /// Its capability; 0 until it is known.
    cap: AtomicU64,
    /// Its capability is known: the thread may run before it is.
    known: Step,
    routine: Routine,
    argument: *mut c_void,
    result: AtomicPtr<c_void>,
    /// The mapping of its stack, storage and block.
    region: (u64, u64),
    /// Where its rings are mapped while it lives.
    ring: (u64, u64),
    state: AtomicU32,
    /// It has done all but to leave its stack.
    ended: Step,
}

/// Stands for the first thread, which ends with the process: nothing is kept of it.
static FIRST: u8 = 0;
/// The number of the next thread.
static NUMBER: AtomicU32 = AtomicU32::new(2);

/// It will be joined.
const JOINABLE: u32 = 0;
/// Nobody will.
const DETACHED: u32 = 1;

/// Detached threads that may not have ended yet.
struct Detached(Vec<*const Thread>);

// SAFETY: only the code that takes a pointer out uses its target.
unsafe impl Send for Detached {}

static LEFT: Mutex<Detached> = Mutex::new(Detached(Vec::new()));

/// The fields of `pthread_attr_t` here.
#[repr(C)]
struct Attributes {
    /// Lowest address of the stack; 0 if it is not made yet.
    stack: u64,
    stack_bytes: u64,
}

const _: () = assert!(size_of::<Attributes>() <= size_of::<libc::pthread_attr_t>());

/// Stack of a thread that does not ask for another, in bytes.
const STACK_BYTES: u64 = 2 << 20;

/// Where a thread starts: `rdi` = its block.
#[unsafe(naked)]
unsafe extern "C" fn first() -> ! {
    naked_asm!("xor ebp, ebp", "call {body}", "ud2", body = sym body)
}

extern "C" fn body() -> ! {
    let block = thread_block::current();
    // SAFETY: the creator of the thread has put this in place, and keeps it until the thread has ended.
    if let Some(thread) = unsafe { block.thread.get().as_ref() } {
        let result = (thread.routine)(thread.argument);
        thread_key::run_destructors();
        thread.result.store(result, Ordering::Release);
        malloc::give_back(block);
        thread.ended.take(&Kernel);
    }
    capos_ring::exit_thread(0)
}

fn pages(bytes: u64) -> Result<u64> {
    bytes.checked_next_multiple_of(PAGE).ok_or(Errno(libc::EINVAL))
}

/// Makes a thread. Detached threads that are about to end do not count against the limit: it waits for them.
fn create(stack_bytes: u64, routine: Routine, argument: *mut c_void) -> Result<*const Thread> {
    reap();
    create_now(stack_bytes, routine, argument)
        .or_else(|error| if reap_ending() { create_now(stack_bytes, routine, argument) } else { Err(error) })
}

fn create_now(stack_bytes: u64, routine: Routine, argument: *mut c_void) -> Result<*const Thread> {
    let process: ProcessClient = cap("process").ok_or(Errno(libc::EAGAIN))?;
    let own = unwind::thread_local();
    let area = ThreadArea::new(own.bytes, own.align).ok_or(Errno(libc::ENOMEM))?;
    let stack_bytes = pages(stack_bytes.max(LEAST_STACK))?;
    let region_bytes = stack_bytes.checked_add(pages(area.bytes)?).ok_or(Errno(libc::EINVAL))?;
    let layout = RingLayout::new(SUBMISSION_ENTRIES, COMPLETION_ENTRIES).map_err(|_| Errno(libc::EINVAL))?;
    let ring_bytes = pages(layout.bytes() as u64)?;
    let region = thread_region::take(region_bytes)?;
    let ring = match memory_map::take(ring_bytes) {
        Ok(ring) => ring,
        Err(error) => {
            thread_region::give(region, region_bytes);
            return Err(error);
        }
    };
    let stack_top = region.saturating_add(stack_bytes);
    let thread: *mut Thread = Box::into_raw(Box::new(Thread {
        number: NUMBER.fetch_add(1, Ordering::Relaxed),
        cap: AtomicU64::new(0),
        known: Step::new(),
        routine,
        argument,
        result: AtomicPtr::new(core::ptr::null_mut()),
        region: (region, region_bytes),
        ring: (ring, ring_bytes),
        state: AtomicU32::new(JOINABLE),
        ended: Step::new(),
    }));
    let pointer = stack_top.saturating_add(area.pointer);
    let at =
        |address: u64| -> *mut u8 { core::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0)) };
    let area_bytes = usize::try_from(area.bytes).unwrap_or(0);
    // SAFETY: the region was just taken and is this function's alone; the area has room for storage and block, which
    // begin as zeros.
    unsafe {
        at(stack_top).write_bytes(0, area_bytes);
        core::ptr::copy_nonoverlapping(own.image, at(stack_top.saturating_add(area.image)), own.image_bytes);
        let block = at(pointer).cast::<ThreadBlock>();
        (*block).own.set(block);
        (*block).ring.set(ring);
        (*block).stack.set((region, stack_bytes));
        (*block).thread.set(thread);
    }
    let entry = (first as *const ()).expose_provenance() as u64;
    let start =
        || wait(process.create_thread(entry, stack_top, 0, 0, ring, SUBMISSION_ENTRIES, COMPLETION_ENTRIES, pointer));
    // Its ring takes memory, too.
    let started = start().or_else(|error| if thread_region::give_up() { start() } else { Err(error) });
    match started {
        Ok(made) => {
            // SAFETY: it is not freed before it can be joined or is detached, and both wait for this.
            let known = unsafe { &*thread };
            known.cap.store(BlockingCap::into_id(made.as_cap()), Ordering::Release);
            known.known.take(&Kernel);
            Ok(thread)
        }
        Err(error) => {
            // SAFETY: made above, and not shared yet.
            drop(unsafe { Box::from_raw(thread) });
            thread_region::give(region, region_bytes);
            memory_map::give(ring, ring_bytes);
            Err(Errno::from(error))
        }
    }
}

/// The capability of a thread. The thread itself may ask for it before its creator has it.
fn client(thread: &Thread) -> ThreadClient {
    thread.known.wait(&Kernel);
    // SAFETY: every thread's block contains its ring.
    unsafe { BlockingCap::borrowed(thread_block::here, thread.cap.load(Ordering::Acquire)) }
}

/// The calling thread's number in the process.
pub fn number() -> u32 {
    // SAFETY: the record of a thread stays while it runs.
    unsafe { thread_block::current().thread.get().as_ref() }.map_or(1, |thread| thread.number)
}

/// Frees what a thread that has ended still occupies.
///
/// # Safety
/// The thread has ended, and no other code uses its record.
unsafe fn bury(thread: *const Thread) -> *mut c_void {
    // SAFETY: the caller's; made by `create`.
    let thread = unsafe { Box::from_raw(thread.cast_mut()) };
    thread_block::ring().release(thread.cap.load(Ordering::Acquire));
    thread_region::give(thread.region.0, thread.region.1);
    memory_map::give(thread.ring.0, thread.ring.1);
    thread.result.load(Ordering::Acquire)
}

/// Reaps the detached threads that have ended.
pub fn reap() {
    bury_left(|thread| wait(client(thread).info()).is_ok_and(|info| !info.alive));
}

/// The same, and waits for those that are about to end. Returns whether there was any.
fn reap_ending() -> bool {
    bury_left(|thread| wait(client(thread).wait()).is_ok())
}

/// Reaps the detached threads that have finished, if the kernel reports that they have ended. Others stay in the list,
/// also if the kernel has no memory to answer. Returns whether any was reaped.
fn bury_left(has_ended: impl Fn(&Thread) -> bool) -> bool {
    let left = core::mem::take(&mut LEFT.lock().0);
    let (mut alive, mut any) = (Vec::new(), false);
    for thread in left {
        // SAFETY: it was taken out of the list, so this is the only pointer to it.
        let ended = unsafe { thread.as_ref() }.is_some_and(|thread| thread.ended.is_done() && has_ended(thread));
        if ended {
            // SAFETY: it has ended.
            unsafe { bury(thread) };
            any = true;
        } else {
            alive.push(thread);
        }
    }
    LEFT.lock().0.append(&mut alive);
    any
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    out: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    routine: Routine,
    argument: *mut c_void,
) -> c_int {
    let stack_bytes = if attributes.is_null() {
        STACK_BYTES
    } else {
        // SAFETY: initialised by `pthread_attr_init`.
        unsafe { (*attributes.cast::<Attributes>()).stack_bytes }
    };
    match create(stack_bytes, routine, argument) {
        Ok(thread) => {
            // SAFETY: the caller's place for the answer.
            unsafe { out.write(thread.expose_provenance() as libc::pthread_t) };
            0
        }
        // C's error for "no more threads", and for no memory for one.
        Err(Errno(libc::ENOMEM | libc::EAGAIN)) => libc::EAGAIN,
        Err(Errno(libc::EINVAL)) => libc::EINVAL,
        Err(_) => libc::EPERM,
    }
}

/// The record of a thread; null for the first one.
fn known(thread: libc::pthread_t) -> *const Thread {
    let address = usize::try_from(thread).unwrap_or(0);
    if address == (&raw const FIRST).addr() { core::ptr::null() } else { core::ptr::with_exposed_provenance(address) }
}

/// # Safety
/// As in C: a thread that was made, and is neither joined nor detached yet.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_join(thread: libc::pthread_t, out: *mut *mut c_void) -> c_int {
    if thread == pthread_self() {
        return libc::EDEADLK;
    }
    let thread = known(thread);
    // The first thread's end is the process's.
    // SAFETY: the caller's.
    let Some(other) = (unsafe { thread.as_ref() }) else { return libc::EINVAL };
    let result = if wait(client(other).wait()).is_ok() {
        // SAFETY: it has ended, and the caller alone may join it.
        unsafe { bury(thread) }
    } else {
        // The kernel has no memory for the answer. The thread's memory is freed once it has ended.
        other.ended.wait(&Kernel);
        let result = other.result.load(Ordering::Acquire);
        LEFT.lock().0.push(thread);
        result
    };
    if !out.is_null() {
        // SAFETY: the caller's place for the answer.
        unsafe { out.write(result) };
    }
    0
}

/// # Safety
/// As in C: a thread that was made, and is neither joined nor detached yet.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_detach(thread: libc::pthread_t) -> c_int {
    let thread = known(thread);
    // The first thread is never joined. SAFETY: the caller's.
    let Some(other) = (unsafe { thread.as_ref() }) else { return 0 };
    if other.state.swap(DETACHED, Ordering::AcqRel) == DETACHED {
        return libc::EINVAL;
    }
    let ended = other.ended.is_done();
    LEFT.lock().0.push(thread);
    if ended {
        reap();
    }
    0
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_setname_np(thread: libc::pthread_t, name: *const c_char) -> c_int {
    // SAFETY: the caller's thread and string.
    let (thread, name) = unsafe { (known(thread).as_ref(), CStr::from_ptr(name)) };
    let Some(thread) = thread else { return libc::ENOSYS };
    let Ok(name) = name.to_str() else { return libc::EINVAL };
    // A name is for reports only; the part that does not fit them is left out.
    drop(wait(client(thread).set_name(name)));
    0
}

#[unsafe(no_mangle)]
extern "C" fn sched_yield() -> c_int {
    thread_block::ring().yield_now();
    0
}

/// The calling thread, as C names it: its record, or the one that represents the first thread.
#[unsafe(no_mangle)]
extern "C" fn pthread_self() -> libc::pthread_t {
    let thread = thread_block::current().thread.get();
    let address = if thread.is_null() { (&raw const FIRST).addr() } else { thread.addr() };
    address as libc::pthread_t
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_init(out: *mut libc::pthread_attr_t) -> c_int {
    // SAFETY: the caller's place has room, as checked above.
    unsafe { out.cast::<Attributes>().write(Attributes { stack: 0, stack_bytes: STACK_BYTES }) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_attr_destroy(_attributes: *mut libc::pthread_attr_t) -> c_int {
    0
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_setstacksize(attributes: *mut libc::pthread_attr_t, bytes: usize) -> c_int {
    let Ok(bytes) = u64::try_from(bytes) else { return libc::EINVAL };
    // SAFETY: initialised by `pthread_attr_init`.
    unsafe { (*attributes.cast::<Attributes>()).stack_bytes = bytes };
    0
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_getguardsize(_attributes: *const libc::pthread_attr_t, out: *mut usize) -> c_int {
    // SAFETY: the caller's place for the answer.
    unsafe { out.write(4096) };
    0
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_getstack(
    attributes: *const libc::pthread_attr_t,
    address: *mut *mut c_void,
    bytes: *mut usize,
) -> c_int {
    // SAFETY: the caller's attributes and places for the answer.
    unsafe {
        let attributes = attributes.cast::<Attributes>().read();
        address.write(core::ptr::with_exposed_provenance_mut(usize::try_from(attributes.stack).unwrap_or(0)));
        bytes.write(usize::try_from(attributes.stack_bytes).unwrap_or(0));
    }
    0
}

/// # Safety
/// As in C; only the calling thread may be asked about.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_getattr_np(thread: libc::pthread_t, out: *mut libc::pthread_attr_t) -> c_int {
    if thread != pthread_self() {
        return libc::ESRCH;
    }
    let (stack, stack_bytes) = thread_block::current().stack.get();
    // SAFETY: the caller's place has room.
    unsafe { out.cast::<Attributes>().write(Attributes { stack, stack_bytes }) };
    0
}
