//! A program on `std`: its capabilities on any of its threads, and an executor on those that want one.
//!
//! ```ignore
//! use capos_rt::Error;
//! use capos_schema::hello::GreeterClient;
//!
//! fn main() -> Result<(), Error> {
//!     let greeter = capos_rt::env()?.cap::<GreeterClient>("greeter")?;
//!     println!("{}", capos_rt::call(greeter.greet("world"))?);
//!     Ok(())
//! }
//! ```
//!
//! A call blocks its thread, unless it is made inside [`block_on`]: there it is an operation of the thread's
//! executor, in parallel with the others. Clients stay on the thread that made them; another thread asks for
//! its own with [`env`].

use core::future::Future;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use capos_ring::Ring;
use capos_ring::message::Lent;
use capos_schema::cap::CallError;
use capos_schema::kernel::LaunchRecord;

use crate::env::Env;
use crate::error::{Context, Error};
use crate::pool::USUAL;
use crate::runtime::Runtime;

/// The C library's exports for the program's own runtime. `docs/std.md` describes it.
mod library {
    unsafe extern "C" {
        /// Where the calling thread's ring is mapped.
        pub(super) safe fn capos_thread_ring() -> u64;
        /// Where the launch record is; its length is written to the argument.
        pub(super) safe fn capos_launch_record(length: &mut usize) -> *const u8;
        /// Takes a range of this many bytes, in whole pages, for a mapping; 0 if none is free.
        pub(super) safe fn capos_take_addresses(length: u64) -> u64;
        /// Returns a range at which nothing is mapped any more.
        pub(super) safe fn capos_give_addresses(start: u64, length: u64);
    }
}

std::thread_local! {
    static ENV: RefCell<Option<Env>> = const { RefCell::new(None) };
    /// Made when the thread first needs it. Between runs of its executor it has nothing in flight: an operation that is
    /// started then is run to its end at once.
    static PLACE: OnceCell<Option<Rc<Runtime>>> = const { OnceCell::new() };
    /// Memory for calls that block the thread, kept from the last one.
    static SPARE: Cell<Lent> = Cell::default();
}

/// The process's grants, for the calling thread.
///
/// # Errors
/// The launch record makes no sense, or the thread is about to end.
pub fn env() -> Result<Env, Error> {
    let known = ENV.try_with(|place| place.borrow().clone());
    if let Some(env) = known.map_err(|_| Error::new("the thread is about to end"))? {
        return Ok(env);
    }
    let mut length = 0;
    let start = library::capos_launch_record(&mut length);
    // SAFETY: the library knows where the kernel has mapped the record, read-only, for the life of the process.
    let record = unsafe { core::slice::from_raw_parts(start, length) };
    let env = Env::new(capos_schema::wire::from_bytes::<LaunchRecord>(record).context("the launch record")?);
    ENV.set(Some(env.clone()));
    Ok(env)
}

/// Makes a call, or waits for or sets a notification, and blocks the thread until that has ended. Inside [`block_on`]
/// this blocks all tasks of the thread: there `await` the call instead.
///
/// # Errors
/// The call's own.
pub fn call<T>(call: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
    if idle_ring().is_some() { capos_ring::wait(call) } else { crate::wait_for(call) }
}

/// Runs an executor on the calling thread until `main` has ended. Tasks that still run then are dropped, and their
/// operations in flight are cancelled.
///
/// # Errors
/// `main`'s own; that the thread's executor runs already.
pub fn block_on<T, E: From<Error>>(main: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let main = async {
        let result = main.await;
        crate::log::flush().await;
        result
    };
    with(|rt| rt.block_on(main)).unwrap_or_else(|| Err(Error::new("the thread is about to end")))?
}

/// The runtime of the calling thread. `None` if the thread has no ring or is about to end.
pub(crate) fn with<R>(act: impl FnOnce(&Runtime) -> R) -> Option<R> {
    let runtime = PLACE.try_with(|place| place.get_or_init(make).clone()).ok().flatten()?;
    Some(act(&runtime))
}

fn make() -> Option<Rc<Runtime>> {
    // SAFETY: the library returns the calling thread's ring, which stays while the thread runs; the runtime stays on
    // this thread, and takes turns with the library.
    let runtime = Runtime::new(unsafe { Ring::at(here()) }.ok()?);
    if let Ok(env) = env() {
        runtime.facts.borrow_mut().learn(&env);
    }
    Some(Rc::new(runtime))
}

/// The calling thread's ring, by its address.
pub(crate) fn here() -> u64 {
    library::capos_thread_ring()
}

/// The calling thread's ring, if its executor does not run: calls then block the thread.
pub(crate) fn idle_ring() -> Option<Ring> {
    if PLACE.try_with(|place| place.get().and_then(Option::as_ref).is_some_and(|rt| rt.is_running())).unwrap_or(false) {
        return None;
    }
    // SAFETY: as in `make`.
    unsafe { Ring::at(here()) }.ok()
}

/// Lends memory to a call that blocks the thread: that of the last one, unless it was large or is in use.
pub(crate) fn with_spare<R>(act: impl FnOnce(&mut Lent) -> R) -> R {
    let mut lent = SPARE.try_with(Cell::take).unwrap_or_default();
    let result = act(&mut lent);
    if lent.received.len() <= USUAL {
        // The thread may be about to end.
        let _ = SPARE.try_with(|spare| spare.set(lent));
    }
    result
}

/// Takes addresses for a mapping, from the table that the whole process shares.
pub(crate) fn take_addresses(length: u64) -> Option<u64> {
    Some(library::capos_take_addresses(length)).filter(|start| *start != 0)
}

/// Gives them back.
pub(crate) fn give_addresses(start: u64, length: u64) {
    library::capos_give_addresses(start, length);
}

/// The thread that answers at the process's endpoint `serve`, by its ring; 0 while none does.
static SERVING: AtomicU64 = AtomicU64::new(0);

/// Objects that the process's threads have exported at its endpoint `serve`.
static EXPORTED: AtomicU64 = AtomicU64::new(0);

/// A number for an object that is exported there: no two threads give the same.
pub(crate) fn next_exported() -> u64 {
    EXPORTED.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}

/// Whether the calling thread answers at the endpoint `serve`, or could.
pub(crate) fn may_answer() -> bool {
    let serving = SERVING.load(Ordering::Acquire);
    serving == 0 || serving == here()
}

/// The right to answer at the process's endpoint, which one thread has at a time: another's would receive calls for
/// objects that it does not know.
#[derive(Debug)]
pub(crate) struct Serving(());

impl Serving {
    pub(crate) fn begin() -> Result<Self, Error> {
        match SERVING.compare_exchange(0, here(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(Self(())),
            Err(_) => Err(Error::new("the process answers at its endpoint `serve` already; one thread of it does")),
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        SERVING.store(0, Ordering::Release);
    }
}
