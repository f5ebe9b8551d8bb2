//! The log: the kernel's lines and every service's, kept in memory and passed on to the serial log.
//!
//! Provides: `Logger` (0), its name bound to the client it was made for, and `LogReader` (1).
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod kernel_log;
mod store;

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use capos_plural::count;
use capos_rt::{Clock, Env, Error};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::kernel::DebugLogClient;
use capos_schema::system::{LogEntry, LogLevel, LogReaderServer, LogReaderService, LoggerServer, LoggerService};
use capos_terminal::log_line;
use core::cell::RefCell;
use kernel_log::Lines;
use store::Store;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// Longest line, in bytes.
const MAX_TEXT: usize = 8 * 1024;

/// The state that all parts share.
struct Log {
    store: RefCell<Store>,
    clock: Clock,
    debug: DebugLogClient,
}

/// One client's capability to write.
struct LoggerObject {
    log: Rc<Log>,
    service: String,
}

impl LoggerServer for LoggerObject {
    async fn write(&self, _cx: &CallContext, level: LogLevel, text: String) -> Result<(), CallError> {
        if text.len() > MAX_TEXT {
            return Err(CallError::invalid_argument(format!("a log line has at most {MAX_TEXT} bytes")));
        }
        // Logs are read on a screen: a service's text must neither control it nor hide a part of itself.
        let line = log_line(&text).into_string();
        let word = match level {
            LogLevel::Debug => "debug: ",
            LogLevel::Info => "",
            LogLevel::Warning => "warning: ",
            LogLevel::Error => "error: ",
        };
        self.log.debug.write(&format!("{}: {word}{line}", self.service)).await?;
        self.log.store.borrow_mut().add(self.log.clock.now(), level, &self.service, line);
        Ok(())
    }
}

struct Reader {
    log: Rc<Log>,
}

impl LogReaderServer for Reader {
    async fn read(
        &self,
        _cx: &CallContext,
        service: String,
        minimum: LogLevel,
        last_seconds: u64,
        max: u32,
    ) -> Result<Vec<LogEntry>, CallError> {
        let since = self.log.clock.now().saturating_sub(last_seconds.saturating_mul(SECOND));
        Ok(self.log.store.borrow().newest(&service, minimum, since, max))
    }
}

/// Takes over the kernel's lines, for ever. Lines that this service passed on itself are in the store already.
async fn follow(log: &Log, own_name: &str) -> Result<(), Error> {
    let mut lines = Lines::default();
    let mut position = 0;
    loop {
        let read = log.debug.read(position).await?;
        position = read.next;
        if read.lost > 0 {
            let text = format!("overwritten before it was read: {} of the kernel's log", count(read.lost, "byte"));
            log.store.borrow_mut().add(log.clock.now(), LogLevel::Warning, own_name, text);
        }
        for line in lines.push(&read.data) {
            let (service, level, text) = kernel_log::judge(&line);
            if service != own_name && !text.is_empty() {
                let text = log_line(text).into_string();
                log.store.borrow_mut().add(log.clock.now(), level, service, text);
            }
        }
    }
}

async fn run(env: Env) -> Result<(), Error> {
    let log = Rc::new(Log { store: RefCell::default(), clock: env.clock()?, debug: env.cap::<DebugLogClient>("log")? });
    let made = log.clone();
    env.serve_clients(0, move |client| {
        Rc::new(LoggerService(Rc::new(LoggerObject { log: made.clone(), service: client.name.clone() })))
    });
    env.serve(1, Rc::new(LogReaderService(Rc::new(Reader { log: log.clone() }))));
    let name = env.name().to_string();
    match capos_rt::select(follow(&log, &name), env.run()).await {
        capos_rt::Either::First(result) | capos_rt::Either::Second(result) => result,
    }
}
capos_rt::program!(run);
