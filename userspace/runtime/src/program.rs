//! From the first instruction to the program's `main`, and back to the kernel.

use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;

use crate::env::Env;
use crate::error::Error;

/// Exit code of a program whose `main` failed.
#[cfg(all(capos_guest, feature = "program"))]
const FAILURE_CODE: i32 = 1;
/// Exit code of a program that panicked.
#[cfg(all(capos_guest, feature = "program"))]
pub(crate) const PANIC_CODE: i32 = 101;

/// A program's `main`, begun.
#[doc(hidden)]
pub type MainFuture = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

/// Names the program's entry: an `async fn(Env) -> Result<(), Error>`.
///
/// The file starts with `#![cfg_attr(capos_guest, no_std, no_main)]`. On the host the program only
/// says that it belongs on capOS, so that its library's tests can run there.
#[macro_export]
macro_rules! program {
    ($main:path) => {
        #[cfg(capos_guest)]
        #[unsafe(no_mangle)]
        fn capos_program_main(env: $crate::Env) -> $crate::MainFuture {
            $crate::macro_support::Box::pin($main(env))
        }

        #[cfg(not(capos_guest))]
        fn main() {
            $crate::start(|env| $crate::macro_support::Box::pin($main(env)));
        }
    };
}

/// What a program does on the host: it says where it belongs.
#[cfg(not(capos_guest))]
pub fn start(_main: fn(Env) -> MainFuture) {
    std::eprintln!("this is a capOS program; build the image with `make iso` and start it with `make run`");
    std::process::exit(2);
}

/// Not used in the guest, where `_start` is the entry.
#[cfg(capos_guest)]
pub fn start(_main: fn(Env) -> MainFuture) {}

/// Ends the process at once with an exit code; nothing is dropped, the kernel takes everything back.
pub fn exit(code: i32) -> ! {
    #[cfg(capos_guest)]
    crate::arch::exit(code);
    #[cfg(not(capos_guest))]
    std::process::exit(code)
}

#[cfg(all(capos_guest, feature = "program"))]
pub(crate) use guest::enter_process;

#[cfg(all(capos_guest, feature = "program"))]
mod guest {
    use alloc::format;
    use core::ptr::{NonNull, with_exposed_provenance, with_exposed_provenance_mut};

    use capos_schema::cap::Client;
    use capos_schema::kernel::LaunchRecord;

    use super::{FAILURE_CODE, MainFuture, PANIC_CODE};
    use crate::arch;
    use crate::env::Env;
    use crate::error::{Context, Error};
    use crate::ring::Ring;
    use crate::runtime::{self, Runtime};

    unsafe extern "Rust" {
        /// What [`crate::program!`] makes of the program's `main`.
        safe fn capos_program_main(env: Env) -> MainFuture;
    }

    /// Runs the program. The arguments are those of the first thread (`capos_abi::bootstrap`).
    pub(crate) fn enter_process(record: u64, length: u64, ring: u64) -> ! {
        let Some(base) = usize::try_from(ring).ok().and_then(|ring| NonNull::new(with_exposed_provenance_mut(ring)))
        else {
            arch::exit(PANIC_CODE)
        };
        // SAFETY: the kernel mapped the thread's rings here for as long as it lives; this is the
        // first code to run and the only place that makes a `Ring`.
        let Ok(ring) = (unsafe { Ring::new(base) }) else { arch::exit(PANIC_CODE) };
        runtime::install(Runtime::new(ring));
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
                crate::log::write(crate::log::LogLevel::Error, format!("{error}"));
                FAILURE_CODE
            }
        };
        drop(runtime::with(|rt| rt.block_on(crate::log::flush())));
        arch::exit(code)
    }

    fn run(record: &[u8]) -> Result<(), Error> {
        let record = capos_schema::wire::from_bytes::<LaunchRecord>(record).context("the launch record")?;
        let env = Env::new(record);
        runtime::with(|rt| {
            let mut facts = rt.facts.borrow_mut();
            facts.space = env.raw("space").map(Client::from_cap);
            facts.account = env.raw("account").map(Client::from_cap);
            facts.timer = env.raw("timer").map(Client::from_cap);
            facts.log.logger = env.optional("logger").ok().flatten();
            facts.log.debug = env.optional("log").ok().flatten();
            crate::global_heap::use_kernel_memory(&facts);
        });
        let main = capos_program_main(env);
        match runtime::with(|rt| rt.block_on(main)) {
            Some(result) => result?,
            None => Err(Error::new("the runtime is not in place")),
        }
    }
}
