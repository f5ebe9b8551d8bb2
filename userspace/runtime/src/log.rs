//! Lines to the log: through the process's `logger`, or to the kernel's log if it holds `log`.
//!
//! ```ignore
//! capos_rt::log::warning!("disk {} answers late", name);
//! ```
//! A process with neither writes nowhere. Lines are sent without waiting; when too many are on
//! their way, further ones are counted and the count is logged later.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use core::cell::Cell;

use capos_async_lock::Waiters;
use capos_plural::count;
use capos_schema::kernel::DebugLogClient;
pub use capos_schema::system::LogLevel;
use capos_schema::system::LoggerClient;

use crate::call::wait_for;
use crate::runtime;
use crate::task::spawn;

/// Lines on their way to the log service at most.
const MAX_IN_FLIGHT: u32 = 64;
/// Longest line, in bytes.
const MAX_LINE: usize = 4000;

/// Where lines go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    pub(crate) logger: Option<LoggerClient>,
    pub(crate) debug: Option<DebugLogClient>,
    in_flight: Rc<InFlight>,
    lost: Rc<Cell<u32>>,
}

/// Lines in transit, and the tasks that wait until there are none.
#[derive(Debug, Default)]
struct InFlight {
    lines: Cell<u32>,
    waiting: Waiters,
}

/// A line in transit, counted until it has arrived or is dropped with its task.
struct OnItsWay(Rc<InFlight>);

impl OnItsWay {
    fn count(in_flight: &Rc<InFlight>) -> Self {
        in_flight.lines.set(in_flight.lines.get().saturating_add(1));
        Self(in_flight.clone())
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        let left = self.0.lines.get().saturating_sub(1);
        self.0.lines.set(left);
        if left == 0 {
            self.0.waiting.wake();
        }
    }
}

/// Writes a line.
pub fn write(level: LogLevel, mut line: String) {
    let Some(log) = runtime::with(|rt| rt.facts.borrow().log.clone()) else { return };
    if line.len() > MAX_LINE {
        line.truncate(line.floor_char_boundary(MAX_LINE));
        line.push('…');
    }
    if let Some(logger) = &log.logger {
        if runtime::idle_ring().is_some() {
            drop(wait_for(logger.write(level, &line)));
            return;
        }
        if log.in_flight.lines.get() >= MAX_IN_FLIGHT {
            log.lost.set(log.lost.get().saturating_add(1));
            return;
        }
        let on_its_way = OnItsWay::count(&log.in_flight);
        let (logger, lost) = (logger.clone(), log.lost.clone());
        spawn(async move {
            let missing = lost.replace(0);
            if missing > 0 {
                let missing = count(missing, "line");
                line = format!("{line} (lost before this one, too many at once: {missing})");
            }
            drop(logger.write(level, &line).await);
            drop(on_its_way);
        });
    } else if let Some(debug) = &log.debug {
        let word = match level {
            LogLevel::Debug => "debug: ",
            LogLevel::Info => "",
            LogLevel::Warning => "warning: ",
            LogLevel::Error => "error: ",
        };
        drop(wait_for(debug.write(&format!("{word}{line}"))));
    }
}

/// Sends lines to this logger from now on.
pub fn set_logger(logger: LoggerClient) {
    runtime::with(|rt| rt.facts.borrow_mut().log.logger = Some(logger));
}

/// Waits until every line that was written has arrived.
pub async fn flush() {
    let Some(in_flight) = runtime::with(|rt| rt.facts.borrow().log.in_flight.clone()) else { return };
    in_flight.waiting.until(|| (in_flight.lines.get() == 0).then_some(())).await;
}

#[doc(hidden)]
#[macro_export]
macro_rules! __log_debug {
    ($($words:tt)*) => {
        $crate::log::write($crate::log::LogLevel::Debug, $crate::macro_support::format!($($words)*))
    };
}
#[doc(hidden)]
#[macro_export]
macro_rules! __log_info {
    ($($words:tt)*) => {
        $crate::log::write($crate::log::LogLevel::Info, $crate::macro_support::format!($($words)*))
    };
}
#[doc(hidden)]
#[macro_export]
macro_rules! __log_warning {
    ($($words:tt)*) => {
        $crate::log::write($crate::log::LogLevel::Warning, $crate::macro_support::format!($($words)*))
    };
}
#[doc(hidden)]
#[macro_export]
macro_rules! __log_error {
    ($($words:tt)*) => {
        $crate::log::write($crate::log::LogLevel::Error, $crate::macro_support::format!($($words)*))
    };
}

pub use crate::{__log_debug as debug, __log_error as error, __log_info as info, __log_warning as warning};
