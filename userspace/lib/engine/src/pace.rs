//! How many tokens go through the model in one pass.

/// Nanoseconds that a pass may take, so that cancellation and the next token wait no longer.
const PASS: u64 = 40_000_000;

/// Tokens of a pass at least: six take about three times as long as one, which cannot be divided, if a pass takes long,
/// that is if the processor is emulated.
const LEAST: usize = 6;

/// Tokens of the first pass, before it is known how long one takes.
const FIRST: usize = 16;

/// Finds out how many tokens a pass can have to be over in time.
pub(crate) struct Pace<'m> {
    clock: Option<&'m dyn Fn() -> u64>,
    /// Most tokens, however fast they go.
    most: usize,
    tokens: usize,
}

impl<'m> Pace<'m> {
    /// Without a clock, all passes have `most` tokens.
    pub fn new(clock: Option<&'m dyn Fn() -> u64>, most: usize) -> Self {
        let most = most.max(1);
        Self { clock, most, tokens: if clock.is_some() { FIRST.min(most) } else { most } }
    }

    /// Tokens of the next pass.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Nanoseconds since a time that stays the same.
    pub fn now(&self) -> u64 {
        self.clock.map_or(0, |clock| clock())
    }

    /// Records that a pass of `count` tokens, which began at `began`, is over.
    pub fn passed(&mut self, count: usize, began: u64) {
        if self.clock.is_none() {
            return;
        }
        let elapsed = self.now().saturating_sub(began).max(1);
        let affordable =
            u64::try_from(count).unwrap_or(u64::MAX).saturating_mul(PASS).checked_div(elapsed).unwrap_or(0);
        let affordable = usize::try_from(affordable).unwrap_or(usize::MAX);
        // A small pass that was over in time says nothing about a large one. And one that was over sooner by chance
        // must not make the next one much too long.
        if count >= self.tokens || elapsed > PASS {
            self.tokens = affordable.min(self.tokens.saturating_mul(2)).max(LEAST).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    #[test]
    fn passes_come_to_take_as_long_as_they_may() {
        let time = Cell::new(0);
        let clock = || time.get();
        let mut pace = Pace::new(Some(&clock), 4096);
        // A millisecond a token, then a tenth of that, then ten times that.
        for nanoseconds in [1_000_000, 100_000, 8_000_000] {
            for _ in 0..10 {
                let (began, tokens) = (pace.now(), pace.tokens());
                time.set(began + tokens as u64 * nanoseconds);
                pace.passed(tokens, began);
            }
            assert_eq!(pace.tokens() as u64, (PASS / nanoseconds).max(LEAST as u64));
        }
        // However long they take, some go together.
        time.set(time.get() + 10 * PASS);
        pace.passed(4, time.get() - 10 * PASS);
        assert_eq!(pace.tokens(), LEAST);
    }

    #[test]
    fn small_passes_do_not_make_large_ones_smaller() {
        let time = Cell::new(0);
        let clock = || time.get();
        let mut pace = Pace::new(Some(&clock), 64);
        time.set(PASS);
        pace.passed(1, 0);
        assert_eq!(pace.tokens(), FIRST);
    }

    #[test]
    fn without_a_clock_all_passes_are_alike() {
        let mut pace = Pace::new(None, 33);
        pace.passed(33, 0);
        assert_eq!(pace.tokens(), 33);
    }
}
