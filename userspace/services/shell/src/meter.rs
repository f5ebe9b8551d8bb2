//! The progress of a model's answer, as a text.

use alloc::format;
use alloc::string::String;

use capos_plural::count;
use capos_schema::models::TokenUsage;

/// What takes less than this is not worth telling while it lasts, in nanoseconds.
const NOTICEABLE: u64 = 300_000_000;
/// Between two lines about the same reading, in nanoseconds.
const PAUSE: u64 = 2_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// One answer. Times are in nanoseconds since boot.
#[derive(Debug, Default)]
pub struct Meter {
    began: u64,
    /// When the model first told how much of the prompt it had read, and how much: what lies before that may have been
    /// known to it already.
    read: Option<(u64, u32)>,
    /// When it had read all of it, and how much that was.
    finished: Option<(u64, u32)>,
    /// When a line was last told.
    told: Option<u64>,
    /// When the first piece of the answer came.
    spoke: Option<u64>,
}

impl Meter {
    /// An answer is asked for.
    pub fn begin(&mut self, now: u64) {
        *self = Self { began: now, ..Self::default() };
    }

    /// Takes the number of tokens of the prompt that the model has read; gives the line to show, if any.
    pub fn read(&mut self, now: u64, done: u32, total: u32) -> Option<String> {
        let (since, before) = *self.read.get_or_insert((now, done));
        if done >= total {
            self.finished.get_or_insert((now, total));
        }
        let quiet = self.told.is_some_and(|told| now.saturating_sub(told) < PAUSE);
        if now.saturating_sub(self.began) < NOTICEABLE || quiet || done >= total {
            return None;
        }
        self.told = Some(now);
        // The first time nothing is known of how fast it reads.
        let (tokens, time) = (done.saturating_sub(before), now.saturating_sub(since));
        let rest = total.saturating_sub(done);
        let left = u64::from(rest).saturating_mul(time).checked_div(tokens.into()).map(|left| left.div_ceil(SECOND));
        let left = left.map(|left| format!(", {left} s left")).unwrap_or_default();
        Some(format!("reading {done} of {}{}{left}", count(total, "token"), rate(tokens, time)))
    }

    /// A piece of the answer has come.
    pub fn spoke(&mut self, now: u64) {
        self.spoke.get_or_insert(now);
    }

    /// The answer is whole: what it took, of a model that told of its reading.
    pub fn end(&mut self, now: u64, usage: &TokenUsage, context: u32) -> Option<String> {
        self.read?;
        let used = usage.prompt_tokens.saturating_add(usage.completion_tokens);
        let share = u64::from(used).saturating_mul(100).checked_div(context.into());
        let of = share.map(|share| format!(" of {context}, {share} %")).unwrap_or_default();
        // The first token comes with the prompt's last.
        let speed = self.spoke.map(|spoke| rate(usage.completion_tokens.saturating_sub(1), now.saturating_sub(spoke)));
        let written = count(usage.completion_tokens, "token");
        Some(format!("context: {used} tokens{of}{}; answer: {written}{}", self.reading(), speed.unwrap_or_default()))
    }

    /// How the prompt was read, where that took long enough to be told of.
    fn reading(&self) -> String {
        let (Some((since, before)), Some((finished, total))) = (self.read, self.finished) else { return String::new() };
        let (tokens, time) = (total.saturating_sub(before), finished.saturating_sub(since));
        if time < NOTICEABLE {
            return String::new();
        }
        format!("; read: {}{}", count(tokens, "token"), rate(tokens, time))
    }
}

/// The rate of these tokens in this time, as the end of a line; empty if the rate is 0.
fn rate(tokens: u32, nanoseconds: u64) -> String {
    let tenths = u64::from(tokens).saturating_mul(SECOND).saturating_mul(10).checked_div(nanoseconds).unwrap_or(0);
    match tenths {
        0 => String::new(),
        1..1000 => format!(", {}.{} tokens/s", tenths / 10, tenths % 10),
        more => format!(", {} tokens/s", more / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    fn usage(prompt_tokens: u32, completion_tokens: u32) -> TokenUsage {
        TokenUsage { prompt_tokens, completion_tokens }
    }

    #[test]
    fn c10_a_reading_is_told_once_it_lasts_and_not_too_often() {
        let mut meter = Meter::default();
        meter.begin(5 * SECOND);
        let mut at = |milliseconds: u64, done| meter.read(5 * SECOND + milliseconds * MILLISECOND, done, 1000);
        assert_eq!(at(100, 20), None);
        assert_eq!(at(299, 60), None);
        assert_eq!(at(300, 60).unwrap(), "reading 60 of 1000 tokens, 200 tokens/s, 5 s left");
        assert_eq!(at(1100, 220), None);
        assert_eq!(at(2300, 460).unwrap(), "reading 460 of 1000 tokens, 200 tokens/s, 3 s left");
        assert_eq!(at(5100, 1000), None, "it has been read");
        let told = meter.end(11 * SECOND, &usage(1000, 1), 2000).unwrap();
        assert_eq!(told, "context: 1001 tokens of 2000, 50 %; read: 980 tokens, 196 tokens/s; answer: 1 token");
    }

    #[test]
    fn what_was_known_already_was_not_read_fast() {
        let mut meter = Meter::default();
        meter.begin(0);
        assert_eq!(meter.read(100 * MILLISECOND, 900, 1000), None);
        assert_eq!(
            meter.read(1100 * MILLISECOND, 905, 1000).unwrap(),
            "reading 905 of 1000 tokens, 5.0 tokens/s, 19 s left"
        );
        // Where the first word of it comes late, too.
        meter.begin(0);
        assert_eq!(meter.read(900 * MILLISECOND, 900, 1000).unwrap(), "reading 900 of 1000 tokens");
        assert_eq!(
            meter.read(2900 * MILLISECOND, 910, 1000).unwrap(),
            "reading 910 of 1000 tokens, 5.0 tokens/s, 18 s left"
        );
    }

    #[test]
    fn an_answer_tells_its_rate_and_how_full_the_context_is() {
        let mut meter = Meter::default();
        meter.begin(0);
        assert_eq!(meter.end(SECOND, &usage(3, 4), 1024), None, "of a model that computes nothing");
        assert_eq!(meter.read(MILLISECOND, 200, 200), None);
        meter.spoke(SECOND);
        meter.spoke(2 * SECOND);
        assert_eq!(
            meter.end(3 * SECOND, &usage(200, 56), 1024).unwrap(),
            "context: 256 tokens of 1024, 25 %; answer: 56 tokens, 27.5 tokens/s"
        );
        assert_eq!(meter.end(SECOND, &usage(200, 1), 0).unwrap(), "context: 201 tokens; answer: 1 token");
    }
}
