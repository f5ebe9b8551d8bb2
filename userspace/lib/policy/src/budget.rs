//! Requests to models: how many a session and a principal may make in a minute. What they use is in `capos-budget`.

use alloc::string::String;
use core::fmt;

use capos_plural::count;
use hashbrown::HashMap;

/// Requests made by sessions, and by principals over all their sessions.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    sessions: HashMap<String, Rate>,
    principals: HashMap<String, Rate>,
}

/// Principals that have asked something and are kept apart, before another one may begin.
const PRINCIPALS: usize = 24;

/// There were too many requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooMany {
    /// How long to wait.
    pub seconds: u64,
}

impl fmt::Display for TooMany {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "too many requests to models; try again in {}", count(self.seconds, "second"))
    }
}

impl core::error::Error for TooMany {}

impl Rates {
    /// Counts a request to a model, made `now`, against the limits per minute of the session and of the principal. A
    /// rejected one counts for neither.
    ///
    /// # Errors
    /// There were too many, and how long to wait.
    pub fn request(
        &mut self,
        (session, session_limit): (&str, u32),
        (principal, principal_limit): (&str, u32),
        now: u64,
    ) -> Result<(), TooMany> {
        let of_session = self.sessions.entry_ref(session).or_default();
        let of_principal = self.principals.entry_ref(principal).or_default();
        of_session.check(session_limit, now)?;
        of_principal.check(principal_limit, now)?;
        of_session.count(now);
        of_principal.count(now);
        Ok(())
    }

    /// Whether one more principal can ask something, or this one is known already. The counts kept over a restart are
    /// bounded.
    #[must_use]
    pub fn has_place_for(&self, principal: &str) -> bool {
        self.principals.len() < PRINCIPALS || self.principals.contains_key(principal)
    }

    /// The requests of each principal, for a restart of the counting process.
    pub fn principals(&self) -> impl Iterator<Item = (&str, Rate)> {
        self.principals.iter().map(|(name, rate)| (name.as_str(), *rate))
    }

    /// Adds a principal's requests from before a restart.
    pub fn restore(&mut self, principal: &str, rate: Rate) {
        self.principals.insert(String::from(principal), rate);
    }

    /// Forgets a session that has ended; its requests still count for its principal.
    pub fn end_session(&mut self, session: &str) {
        self.sessions.remove(session);
    }
}

/// Nanoseconds of the window in which requests are counted.
const WINDOW: u64 = 60_000_000_000;

/// Requests in the window of time that the first of them began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    began: u64,
    count: u32,
}

impl Rate {
    /// Bytes that hold it.
    pub const BYTES: usize = 12;

    /// For keeping over a restart of the counting process: the start of the window, and the requests in it.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (began, count) = bytes.split_at_mut(8);
        began.copy_from_slice(&self.began.to_le_bytes());
        count.copy_from_slice(&self.count.to_le_bytes());
        bytes
    }

    /// The stored bytes, and those after them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (began, rest) = bytes.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        Some((Self { began: u64::from_le_bytes(*began), count: u32::from_le_bytes(*count) }, rest))
    }

    fn ends(self) -> u64 {
        self.began.saturating_add(WINDOW)
    }

    /// Whether one more is within the limit.
    fn check(self, limit: u32, now: u64) -> Result<(), TooMany> {
        let open = self.count > 0 && now < self.ends();
        let counted = if open { self.count } else { 0 };
        if counted < limit {
            return Ok(());
        }
        let wait = if open { self.ends().saturating_sub(now) } else { WINDOW };
        Err(TooMany { seconds: wait.div_ceil(1_000_000_000) })
    }

    fn count(&mut self, now: u64) {
        if self.count == 0 || now >= self.ends() {
            *self = Self { began: now, count: 0 };
        }
        self.count = self.count.saturating_add(1);
    }
}
