//! From the first instruction to the program's `main`, and back to the kernel.

use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;

use crate::env::Env;
use crate::error::Error;

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
