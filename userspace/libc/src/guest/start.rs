//! From the first instruction to the program's `main`.

use alloc::ffi::CString;
use alloc::vec::Vec;
use core::arch::naked_asm;
use core::ffi::{c_char, c_int};

use capos_abi::bootstrap::{FIRST_STACK_BYTES, FIRST_STACK_TOP};
use capos_schema::kernel::LaunchRecord;

use crate::guest::threads::thread_block;
use crate::guest::{environment, exports, grants, malloc, process};

type Initialiser = extern "C" fn(c_int, *const *const c_char, *mut *const c_char);

unsafe extern "C" {
    /// The program's own, which calls `std`.
    fn main(argc: c_int, argv: *const *const c_char) -> c_int;
    // Made by the linker.
    static __init_array_start: [Initialiser; 0];
    static __init_array_end: [Initialiser; 0];
}

/// Where the kernel starts the first thread: `rdi` = launch record, `rsi` = its length, `rdx` = ring, the FS base at
/// the thread's block, stack aligned to 16 bytes.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn _start() -> ! {
    naked_asm!("xor ebp, ebp", "call {start}", "ud2", start = sym start)
}

extern "C" fn start(record: u64, length: u64, ring: u64) -> ! {
    let block = thread_block::current();
    block.ring.set(ring);
    block.stack.set((FIRST_STACK_TOP.saturating_sub(FIRST_STACK_BYTES), FIRST_STACK_BYTES));
    let (record, length) = (usize::try_from(record).unwrap_or(0), usize::try_from(length).unwrap_or(0));
    // SAFETY: the launch record is mapped read-only here for the life of the process.
    let bytes = unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(record), length) };
    exports::keep_record(bytes);
    // Before the record is read, which takes as much memory as its arguments.
    if let Some((account, space)) = capos_ring::means_to_grow(bytes) {
        malloc::use_kernel_memory(account, space);
    }
    match capos_schema::wire::from_bytes::<LaunchRecord>(bytes) {
        Ok(record) => grants::keep(record),
        Err(_) => process::end(process::BROKEN),
    }
    let given = grants::grants();
    let texts = |texts: &[alloc::string::String]| -> Vec<*const c_char> {
        let texts = texts.iter().filter_map(|text| CString::new(text.as_str()).ok());
        // Read for as long as the program runs.
        texts.map(|text| text.into_raw().cast_const()).chain([core::ptr::null()]).collect()
    };
    let mut argv = texts(given.map(|given| core::slice::from_ref(&given.name)).unwrap_or_default());
    argv.pop();
    argv.extend(texts(given.map(|given| given.arguments.as_slice()).unwrap_or_default()));
    let envp = texts(&environment::first(given.map(|given| given.environment.as_slice()).unwrap_or_default()));
    let (argv, envp) = (argv.leak(), envp.leak().as_mut_ptr());
    environment::keep(envp);
    let argc = c_int::try_from(argv.len().saturating_sub(1)).unwrap_or(c_int::MAX);
    // SAFETY: the linker made the array between the two, each element a function of this kind or of fewer arguments;
    // `main` is the program's.
    let code = unsafe {
        let mut next = (&raw const __init_array_start).cast::<Initialiser>();
        while next != (&raw const __init_array_end).cast() {
            (*next)(argc, argv.as_ptr(), envp);
            next = next.add(1);
        }
        main(argc, argv.as_ptr())
    };
    process::exit_process(code)
}
