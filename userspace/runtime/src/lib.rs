//! The runtime of a capOS process.
//!
//! A program names its entry with [`program!`] and gets an [`Env`]: its name, its arguments and
//! the capabilities that it was given, nothing else. Everything it does is a call through one of
//! them; calls are futures on a single-threaded executor that uses the thread's ring.
//!
//! ```ignore
//! #![cfg_attr(capos_guest, no_std, no_main)]
//! use capos_rt::{Env, Error, log};
//! use capos_schema::hello::GreeterClient;
//!
//! async fn run(env: Env) -> Result<(), Error> {
//!     let greeter = env.cap::<GreeterClient>("greeter")?;
//!     log::info!("{}", greeter.greet("world").await?);
//!     Ok(())
//! }
//! capos_rt::program!(run);
//! ```
//!
//! Unsafe code lives in `process` (the entry, the heap), `reactor` and `raw` (what entries name), and `memory` (mapped
//! memory); nowhere else. System calls, rings and the heap are `capos_ring`'s.
//!
//! Without `cfg(capos_guest)` the crate is an ordinary library for host tests: system calls go to
//! a simulated kernel (`simulated`) that the test installs.
#![no_std]

extern crate alloc;
#[cfg(any(not(capos_guest), feature = "std"))]
extern crate std;

mod call;
mod cancel;
mod capability;
mod clock;
mod env;
mod error;
mod executor;
pub mod exit_code;
mod future;
pub mod log;
pub mod memory;
mod notification;
#[cfg(all(capos_guest, feature = "std"))]
mod on_std;
mod operation;
mod pool;
#[cfg(all(capos_guest, not(feature = "std")))]
mod process;
mod program;
pub mod raw;
mod reactor;
#[cfg(all(capos_guest, feature = "std"))]
mod rouse;
mod runtime;
mod server;
#[cfg(not(capos_guest))]
pub mod simulated;
mod task;
mod watch;

pub use call::wait_for;
pub use cancel::{CancelToken, Cancelled};
pub use capability::{KernelCap, adopt, capabilities, interface_of, with_results};
pub use capos_ring::exit;
pub use clock::{Clock, now, sleep, sleep_until};
pub use env::{ClientInfo, Env, processors};
pub use error::{Context, Error};
pub use future::{Either, TimedOut, join, join_all, or_cancelled, select, timeout, yield_now};
pub use notification::{notify, wait};
#[cfg(all(capos_guest, feature = "std"))]
pub use on_std::{block_on, call, env};
#[doc(hidden)]
pub use program::{MainFuture, start};
#[cfg(all(not(capos_guest), feature = "std"))]
pub use program::{block_on, call, env};
pub use server::{ServeOptions, Server, refuse_calls};
pub use task::{Task, TaskGroup, spawn};
pub use watch::cancelled;

#[doc(hidden)]
pub mod macro_support {
    pub use alloc::boxed::Box;
    pub use alloc::format;
}
