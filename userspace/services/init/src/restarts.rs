//! Restart intensity: how often a service may restart within its window; services that die slowly restart without
//! bound.

use alloc::collections::VecDeque;

/// The deaths of one service that still count.
#[derive(Debug)]
pub struct Restarts {
    /// Starts after a death that are within bounds in one window.
    most: usize,
    /// Length of the window in nanoseconds.
    window: u64,
    /// When it died lately, in nanoseconds since boot.
    deaths: VecDeque<u64>,
}

impl Restarts {
    /// At most `most` deaths within `seconds` seconds.
    pub fn new(most: u32, seconds: u32) -> Self {
        let window = u64::from(seconds).saturating_mul(1_000_000_000);
        Self { most: usize::try_from(most).unwrap_or(usize::MAX), window, deaths: VecDeque::new() }
    }

    /// Notes a death at this time. Whether another start is within bounds.
    pub fn may_follow(&mut self, now: u64) -> bool {
        self.deaths.push_back(now);
        while self.deaths.front().is_some_and(|death| now.saturating_sub(*death) > self.window) {
            self.deaths.pop_front();
        }
        self.deaths.len() <= self.most
    }

    /// Forgets the deaths: a restart by hand is a new chance.
    pub fn forgive(&mut self) {
        self.deaths.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn who_dies_too_often_within_the_window_is_stopped() {
        let mut restarts = Restarts::new(3, 10);
        for death in [1, 4, 7] {
            assert!(restarts.may_follow(death * SECOND), "the death at {death} s");
        }
        assert!(!restarts.may_follow(11 * SECOND), "the window's end is in it");
        restarts.forgive();
        assert!(restarts.may_follow(11 * SECOND));
        assert!(!Restarts::new(0, 10).may_follow(1));
    }

    #[test]
    fn who_dies_slowly_is_started_again_for_ever() {
        let mut restarts = Restarts::new(3, 10);
        for death in 0..10_000 {
            assert!(restarts.may_follow(death * 4 * SECOND), "death {death}");
            assert!(restarts.deaths.len() <= 3, "deaths that count no more are forgotten");
        }
        // Faster from now on: the slow ones before it count while they are in the window.
        let last = 9_999 * 4 * SECOND;
        assert!(!restarts.may_follow(last + SECOND));
    }
}
