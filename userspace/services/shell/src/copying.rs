//! How far the work of a service is, a copy or a check: how much is done, at which rate, and how long it still takes.

use alloc::format;
use alloc::string::String;

use capos_rt::{Clock, Either, select};
use capos_schema::cap::CallError;
use capos_schema::terminal::Style;

use crate::screen::Screen;

const SECOND: u64 = 1_000_000_000;
/// Between two looks, in nanoseconds.
const LOOK: u64 = 500_000_000;
/// Between two lines, in nanoseconds.
const PAUSE: u64 = 2_000_000_000;

/// What is counted, and how a line says it.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    done: &'static str,
    unit: &'static str,
    /// A unit is two to the power of this.
    shift: u32,
    /// After the figures.
    end: &'static str,
}

/// A copy of bytes.
pub const COPIED: Counted = Counted { done: "copied", unit: "KiB", shift: 10, end: "" };
/// A check of records that Ctrl-C ends.
pub const CHECKED: Counted = Counted { done: "checked", unit: "records", shift: 0, end: "; Ctrl-C ends it" };

/// Waits for a call, and shows how far it is. `progress` gives what is done and the whole; the whole is 0 while it is not known.
pub async fn watch<T>(
    screen: &Screen,
    clock: &Clock,
    counted: Counted,
    call: impl Future<Output = Result<T, CallError>>,
    progress: impl AsyncFn() -> Result<(u64, u64), CallError>,
) -> Result<T, CallError> {
    let shown = async {
        let mut watched = Watched::new(counted);
        loop {
            clock.sleep(LOOK).await;
            // The call itself tells what is wrong.
            let Ok((done, total)) = progress().await else { continue };
            if let Some(line) = watched.tell(clock.now(), done, total) {
                screen.status(Style::Dim, &line).await;
            }
        }
    };
    match select(call, shown).await {
        Either::First(done) => done,
        Either::Second(never) => never,
    }
}

/// Work that is watched from outside.
#[derive(Debug)]
struct Watched {
    counted: Counted,
    /// When it was first looked at, and how much was done.
    first: Option<(u64, u64)>,
    told: Option<u64>,
}

impl Watched {
    fn new(counted: Counted) -> Self {
        Self { counted, first: None, told: None }
    }

    /// Takes how much is done, at a time in nanoseconds; gives the line to show, if any.
    fn tell(&mut self, now: u64, done: u64, total: u64) -> Option<String> {
        let (since, before) = *self.first.get_or_insert((now, done));
        let last = *self.told.get_or_insert(now);
        if done >= total || now.saturating_sub(last) < PAUSE {
            return None;
        }
        self.told = Some(now);
        let Counted { done: verb, unit, shift, end } = self.counted;
        let (new, time) = (done.saturating_sub(before), now.saturating_sub(since));
        let rate = (u128::from(new) * u128::from(SECOND)).checked_div(time.into()).unwrap_or(0);
        let share = (u128::from(done) * 100).checked_div(total.into()).unwrap_or(100);
        let left = u128::from(total.saturating_sub(done)).checked_div(rate);
        let left = left.map(|left| format!(", {} {unit}/s, {left} s left", rate >> shift)).unwrap_or_default();
        Some(format!("{verb} {} of {} {unit}, {share} %{left}{end}", done >> shift, total.div_ceil(1 << shift)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_told_every_two_seconds_with_rate_and_time_left() {
        let mut copying = Watched::new(COPIED);
        assert_eq!(copying.tell(SECOND, 1 << 20, 9 << 20), None);
        assert_eq!(copying.tell(2 * SECOND, 2 << 20, 9 << 20), None);
        let line = copying.tell(3 * SECOND, 3 << 20, 9 << 20).unwrap();
        assert_eq!(line, "copied 3072 of 9216 KiB, 33 %, 1024 KiB/s, 6 s left");
        assert_eq!(copying.tell(4 * SECOND, 3 << 20, 9 << 20), None);
        assert_eq!(copying.tell(9 * SECOND, 9 << 20, 9 << 20), None);
        let mut still = Watched::new(COPIED);
        assert_eq!(still.tell(0, 5, 100), None);
        assert_eq!(still.tell(3 * SECOND, 5, 100).unwrap(), "copied 0 of 1 KiB, 5 %");
    }

    #[test]
    fn a_check_is_told_in_records_and_how_to_end_it() {
        let mut check = Watched::new(CHECKED);
        assert_eq!(check.tell(0, 0, 1_000_000), None);
        let line = check.tell(4 * SECOND, 40_960, 1_000_000).unwrap();
        assert_eq!(line, "checked 40960 of 1000000 records, 4 %, 10240 records/s, 93 s left; Ctrl-C ends it");
    }
}
