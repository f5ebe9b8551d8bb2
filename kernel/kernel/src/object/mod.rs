//! Kernel objects, one file each, and what they are made of.
//!
//! # How a capability goes
//!
//! | function | what it does | who calls it |
//! |---|---|---|
//! | `Process::take` | takes a capability out of its table, to be put elsewhere; what is in flight through it stays revocable | moves in messages, the answer that uses up a Reply, a delivery that failed, `Process::release` |
//! | `Process::release` | takes one out and discards it; what derives from it lives on | RELEASE, and messages and results that cannot be delivered |
//! | `Process::lose` | takes one out and ends what is in flight through it | revocation (`derivation::revoke`) |
//! | `Process::give_up` | takes all out and discards them, in steps | the end of a process, once it has nothing in flight |
//! | `process::discard` | ends a capability that was taken out: its node goes, and its object is told by `Object::leave_slot` | `Process::release`, `Process::give_up`, `transfer::consume` |
//! | `derivation::forget` | removes a node; what derives from it lives on | whatever has the node, once that ends |
//! | `page_request::lose` | notes that paged memory has no pager any more, and fails its requests | revocation of the capability that names the pager |
//!
//! # How an object goes
//!
//! | function | what it does | who calls it |
//! |---|---|---|
//! | `Object::enter_slot` | counts a slot that designates the object | `Process::insert` and the fast path; a capability that moves was counted before |
//! | `Object::linger` | keeps memory that a device may still work on for a while | loss of a capability without release: `Process::lose`, `Process::give_up` |
//! | `Object::leave_slot` | counts a slot less; the call that a Reply was for is refused | `process::discard`, `Process::lose` |
//! | `Endpoint::let_go` | after the last slot that can receive: closes the endpoint, in steps if many wait | `Object::leave_slot` |
//! | `Process::let_go` | after the last slot: dooms a process without threads | `Object::leave_slot` |
//! | `Account::leave_slot` | after the last slot: retires the account, which becomes one with its parent | `Object::leave_slot`; the end of a process retires its account itself |
//! | `Process::doom` | stops all threads for good, and queues the process to be ended | EXIT, kill, faults, limits, corrupt rings, the end of a process above, `Process::let_go` |
//! | `Process::end`, `Thread::end_alone`, `Endpoint::close` | give back what it had and tell who waits, in steps | the reaper (`events::reap`) |
//!
//! Apart from these, `KeyedList::let_go` frees the place of a list's element that was taken, and `cache::let_go` frees frames that are held
//! for pages to come.

pub mod account;
pub mod address_space;
pub mod capability;
pub mod cpu_time;
pub mod deadline;
pub mod delivery;
pub mod derivation;
pub mod device;
pub mod ending;
pub mod endpoint;
pub mod invocation;
pub mod log;
pub mod memory;
pub mod notification;
pub mod operation;
pub mod priority;
pub mod process;
pub mod reaper;
pub mod reply;
pub mod report;
pub mod ring;
pub mod thread;
pub mod thread_handle;
pub mod transfer;
pub mod words;

use capos_schema::sync::{Completion, Exception};

/// What a method gives back to dispatch.
pub type Answer = Result<Completion, Exception>;
