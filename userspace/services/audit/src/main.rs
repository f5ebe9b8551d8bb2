//! The audit log: what was decided before an effect, and how the effect ended after it, hash-chained.
//!
//! Provides: `AuditLog` (0), `AuditWriter` (1) and `AuditReader` (2). A writer that the manifest gave records general
//! events under its service's name; only one that the log made for a session may record tool calls, and only of that
//! session. A full log refuses, and then the caller must not continue. A session has a share of it and no more.
//!
//! Records are kept in the namespace that the manifest grants. What that may take bounds a log on a disk; one in memory
//! is bounded by `LIMIT_KIB` of the environment as well.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod log;
mod outside;
mod reader;
mod writer;

use alloc::rc::Rc;

use capos_audit::Room;
use capos_rt::{Context, Env, Error, ServeOptions, spawn};
use capos_schema::audit::{AuditLogService, AuditReaderService, AuditWriterService};
use capos_schema::store::NamespaceClient;
use log::{AuditObject, Log};
use reader::Reader;
use writer::Writer;

/// Kibibytes of records that are kept where the manifest does not say.
const LIMIT_KIB: usize = 8 << 10;
/// A record holds arguments of 64 KiB, and a descriptor.
const OPTIONS: ServeOptions = ServeOptions { buffers: 4, message_bytes: 256 << 10, concurrent: 16 };

async fn start(env: Env) -> Result<(), Error> {
    let limit = match env.variable("LIMIT_KIB") {
        Some(text) => text.parse().ok().context("LIMIT_KIB is not a number of kibibytes")?,
        None => LIMIT_KIB,
    };
    let limit = limit.saturating_mul(1024);
    // Lives of this service in this boot: the first record of each one says which it is. A chain that was lost with the
    // memory of its process is counted, and no later one passes for the first.
    let earlier: u64 = match env.variable("EPOCH") {
        Some(text) => text.parse().ok().context("EPOCH is not a number of restarts")?,
        None => 0,
    };
    let place = env.cap::<NamespaceClient>("namespace")?;
    let log = Rc::new(Log::new(place, Room::Shared(limit), earlier, env.clock()?, env.server().clone())?);
    let begun = log.clone();
    spawn(async move { begun.begin().await });
    env.serve(0, Rc::new(AuditLogService(Rc::new(AuditObject(log.clone())))));
    let writers = log.clone();
    env.serve_clients(1, move |client| {
        let source = client.name.clone();
        Rc::new(AuditWriterService(Rc::new(Writer::service(writers.clone(), source))))
    });
    env.serve(2, Rc::new(AuditReaderService(Rc::new(Reader::new(log.reader())))));
    env.run_with(OPTIONS).await
}
capos_rt::program!(start);
