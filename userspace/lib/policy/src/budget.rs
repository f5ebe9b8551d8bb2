//! Tokens and requests: how many a session and a principal may use.

use alloc::string::String;
use core::fmt;

use capos_plural::count;
use hashbrown::HashMap;

/// Tokens used and requests made by sessions, and by principals over all their sessions.
#[derive(Clone, Debug, Default)]
pub struct Budgets {
    sessions: HashMap<String, Used>,
    principals: HashMap<String, Used>,
}

/// The usage of one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    tokens: u64,
    rate: Rate,
}

impl Used {
    /// Bytes that hold it.
    pub const BYTES: usize = 20;

    /// For keeping over a restart of the counting process: the tokens, the start of the window, the requests in it.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (tokens, rest) = bytes.split_at_mut(8);
        let (began, count) = rest.split_at_mut(8);
        tokens.copy_from_slice(&self.tokens.to_le_bytes());
        began.copy_from_slice(&self.rate.began.to_le_bytes());
        count.copy_from_slice(&self.rate.count.to_le_bytes());
        bytes
    }

    /// The stored bytes, and those after them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (tokens, rest) = bytes.split_first_chunk()?;
        let (began, rest) = rest.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let rate = Rate { began: u64::from_le_bytes(*began), count: u32::from_le_bytes(*count) };
        Some((Self { tokens: u64::from_le_bytes(*tokens), rate }, rest))
    }
}

/// Principals that have used something and are kept apart, before another one may begin.
const PRINCIPALS: usize = 24;

/// A budget that is used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spent {
    Session { limit: u64 },
    Principal { limit: u64 },
    Rate { seconds: u64 },
}

impl fmt::Display for Spent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session { limit } => {
                write!(formatter, "this session has used its {}; start a new one to continue", count(*limit, "token"))
            }
            Self::Principal { limit } => {
                write!(formatter, "your sessions together have used their {}", count(*limit, "token"))
            }
            Self::Rate { seconds } => {
                write!(formatter, "too many requests to models; try again in {}", count(*seconds, "second"))
            }
        }
    }
}

impl core::error::Error for Spent {}

impl Budgets {
    /// Counts tokens, which have been used whatever the answer, and returns how many remain. `tokens` of 0 only asks.
    ///
    /// # Errors
    /// The budget that is used up now: no further request to a model is permitted.
    pub fn charge(
        &mut self,
        (session, session_limit): (&str, u64),
        (principal, principal_limit): (&str, u64),
        tokens: u64,
    ) -> Result<u64, Spent> {
        let add = |table: &mut HashMap<String, Used>, key: &str| {
            if tokens == 0 {
                return table.get(key).map_or(0, |used| used.tokens);
            }
            let used = &mut table.entry_ref(key).or_default().tokens;
            *used = used.saturating_add(tokens);
            *used
        };
        let in_session = session_limit.saturating_sub(add(&mut self.sessions, session));
        let of_principal = principal_limit.saturating_sub(add(&mut self.principals, principal));
        if in_session == 0 {
            return Err(Spent::Session { limit: session_limit });
        }
        if of_principal == 0 {
            return Err(Spent::Principal { limit: principal_limit });
        }
        Ok(in_session.min(of_principal))
    }

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
    ) -> Result<(), Spent> {
        let of_session = &mut self.sessions.entry_ref(session).or_default().rate;
        let of_principal = &mut self.principals.entry_ref(principal).or_default().rate;
        of_session.check(session_limit, now)?;
        of_principal.check(principal_limit, now)?;
        of_session.count(now);
        of_principal.count(now);
        Ok(())
    }

    /// Whether one more principal can use something, or this one is known already. The counts kept over a restart are
    /// bounded.
    #[must_use]
    pub fn has_place_for(&self, principal: &str) -> bool {
        self.principals.len() < PRINCIPALS || self.principals.contains_key(principal)
    }

    /// The usage of each principal, for a restart of the counting process.
    pub fn principals(&self) -> impl Iterator<Item = (&str, Used)> {
        self.principals.iter().map(|(name, used)| (name.as_str(), *used))
    }

    /// Adds a principal's usage from before a restart.
    pub fn restore(&mut self, principal: &str, used: Used) {
        self.principals.insert(String::from(principal), used);
    }

    /// Forgets a session that has ended; its usage still counts for its principal.
    pub fn end_session(&mut self, session: &str) {
        self.sessions.remove(session);
    }
}

/// Nanoseconds of the window in which requests are counted.
const WINDOW: u64 = 60_000_000_000;

/// Requests in the window of time that the first of them began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rate {
    began: u64,
    count: u32,
}

impl Rate {
    fn ends(self) -> u64 {
        self.began.saturating_add(WINDOW)
    }

    /// Whether one more is within the limit.
    fn check(self, limit: u32, now: u64) -> Result<(), Spent> {
        let open = self.count > 0 && now < self.ends();
        let counted = if open { self.count } else { 0 };
        if counted < limit {
            return Ok(());
        }
        let wait = if open { self.ends().saturating_sub(now) } else { WINDOW };
        Err(Spent::Rate { seconds: wait.div_ceil(1_000_000_000) })
    }

    fn count(&mut self, now: u64) {
        if self.count == 0 || now >= self.ends() {
            *self = Self { began: now, count: 0 };
        }
        self.count = self.count.saturating_add(1);
    }
}
