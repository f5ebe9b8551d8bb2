//! The process itself, of a program without `std`: its first instruction, its heap, its one runtime, what a panic does.

mod entry;
mod heap;
mod panic;
pub(crate) mod place;

use alloc::format;
use core::ptr::with_exposed_provenance;

// The functions that compiled code calls.
use capos_mem as _;
use capos_ring::Ring;
use capos_schema::kernel::LaunchRecord;

use crate::env::Env;
use crate::error::{Context, Error};
use crate::exit_code;
use crate::program::MainFuture;
use crate::runtime::{self, Runtime};

unsafe extern "Rust" {
    /// The code that [`crate::program!`] makes of the program's `main`.
    safe fn capos_program_main(env: Env) -> MainFuture;
}

/// Runs the program. The arguments are those of the first thread (`capos_abi::bootstrap`).
extern "C" fn start(record: u64, length: u64, ring: u64) -> ! {
    // SAFETY: the kernel mapped the thread's rings here for as long as it lives; this is the
    // first code to run and the only place that makes the runtime's `Ring`.
    let Ok(ring) = (unsafe { Ring::at(ring) }) else { capos_ring::exit(exit_code::PANIC) };
    place::install(Runtime::new(ring));
    let (record, length) = (usize::try_from(record).unwrap_or(0), usize::try_from(length).unwrap_or(0));
    let bytes: &[u8] = if record == 0 {
        &[]
    } else {
        // SAFETY: the launch record is mapped read-only here for the life of the process.
        unsafe { core::slice::from_raw_parts(with_exposed_provenance(record), length) }
    };
    let code = match run(bytes) {
        Ok(()) => 0,
        Err(error) => {
            fail(&error);
            exit_code::FAILURE
        }
    };
    drop(runtime::with(|rt| rt.block_on(crate::log::flush())));
    capos_ring::exit(code)
}

/// Reports why `main` failed: to the log and, if the program was given streams, there.
fn fail(error: &Error) {
    crate::log::write(crate::log::LogLevel::Error, format!("{error}"));
    if let Some(errors) = runtime::with(|rt| rt.facts.borrow().errors.clone()).flatten() {
        // The program that runs this one may have closed the stream; there is no other place to report to.
        let _ = runtime::with(|rt| rt.block_on(errors.write(&format!("Error: {error}\n"))));
    }
}

fn run(record: &[u8]) -> Result<(), Error> {
    // Before the record is read, which takes as much memory as its arguments: there may be too little for it.
    if let Some((account, space)) = capos_ring::means_to_grow(record) {
        heap::use_kernel_memory(account, space);
    }
    runtime::with(|rt| rt.facts.borrow_mut().last_words = capos_ring::last_words(record));
    let record = capos_schema::wire::from_bytes::<LaunchRecord>(record).context("the launch record")?;
    let env = Env::new(record);
    runtime::with(|rt| rt.facts.borrow_mut().learn(&env));
    let main = capos_program_main(env);
    match runtime::with(|rt| rt.block_on(main)) {
        Some(result) => result?,
        None => Err(Error::new("the runtime is not in place")),
    }
}
