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

/// A program's `main` on the host: it says where the program belongs.
#[cfg(not(capos_guest))]
pub fn start(_main: fn(Env) -> MainFuture) {
    std::eprintln!("this is a capOS program; build the image with `make iso` and start it with `make run`");
    std::process::exit(2);
}

/// Not used in the guest, where `_start` is the entry.
#[cfg(capos_guest)]
pub fn start(_main: fn(Env) -> MainFuture) {}

#[cfg(all(not(capos_guest), feature = "std"))]
pub use host::{block_on, call, env};

/// What a program on `std` finds on the host, where it can be built and says where it belongs.
#[cfg(all(not(capos_guest), feature = "std"))]
mod host {
    use core::future::Future;

    use capos_schema::cap::CallError;

    use crate::env::Env;
    use crate::error::Error;

    const ELSEWHERE: &str = "this is a capOS program; build the image with `make iso` and start it with `make run`";

    /// None: there are no capabilities here.
    ///
    /// # Errors
    /// Always.
    pub fn env() -> Result<Env, Error> {
        Err(Error::new(ELSEWHERE))
    }

    /// Makes a call that needs no kernel.
    ///
    /// # Errors
    /// The call's own.
    pub fn call<T>(call: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
        capos_ring::wait(call)
    }

    /// Rejects: there is no ring here.
    ///
    /// # Errors
    /// Always.
    pub fn block_on<T, E: From<Error>>(_main: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        Err(Error::new(ELSEWHERE).into())
    }
}
