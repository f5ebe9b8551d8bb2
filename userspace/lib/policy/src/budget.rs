//! Tokens and requests: how many a session and a principal may use.

use alloc::string::String;
use core::fmt;

use hashbrown::HashMap;

/// Tokens used by sessions, and by principals over all their sessions.
#[derive(Clone, Debug, Default)]
pub struct Budgets {
    sessions: HashMap<String, u64>,
    principals: HashMap<String, u64>,
}

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
                write!(formatter, "this session has used its {limit} tokens; start a new one to go on")
            }
            Self::Principal { limit } => {
                write!(formatter, "your sessions have used their {limit} tokens together")
            }
            Self::Rate { seconds } => write!(formatter, "too many requests; try again in {seconds} seconds"),
        }
    }
}

impl core::error::Error for Spent {}

impl Budgets {
    /// Counts tokens, which have been used whatever the answer, and returns how many remain. `tokens` of 0 only asks.
    ///
    /// # Errors
    /// The budget that is used up now: nothing more may be asked of a model.
    pub fn charge(
        &mut self,
        (session, session_limit): (&str, u64),
        (principal, principal_limit): (&str, u64),
        tokens: u64,
    ) -> Result<u64, Spent> {
        let mut add = |session_or_principal: bool, key: &str| {
            let table = if session_or_principal { &mut self.sessions } else { &mut self.principals };
            let used = table.entry_ref(key).or_insert(0);
            *used = used.saturating_add(tokens);
            *used
        };
        let in_session = session_limit.saturating_sub(add(true, session));
        let of_principal = principal_limit.saturating_sub(add(false, principal));
        if in_session == 0 {
            return Err(Spent::Session { limit: session_limit });
        }
        if of_principal == 0 {
            return Err(Spent::Principal { limit: principal_limit });
        }
        Ok(in_session.min(of_principal))
    }

    /// What each principal has used, for keeping over a restart of whoever counts.
    pub fn principals(&self) -> impl Iterator<Item = (&str, u64)> {
        self.principals.iter().map(|(name, used)| (name.as_str(), *used))
    }

    /// Takes up what a principal had used before a restart.
    pub fn restore(&mut self, principal: &str, used: u64) {
        self.principals.insert(String::from(principal), used);
    }

    /// Forgets a session that has ended; what it used still counts for its principal.
    pub fn end_session(&mut self, session: &str) {
        self.sessions.remove(session);
    }
}

/// At most so many requests in each window of time.
#[derive(Clone, Debug)]
pub struct Rate {
    limit: u32,
    /// Nanoseconds.
    window: u64,
    began: u64,
    count: u32,
}

impl Rate {
    /// `limit` requests in each `window` of nanoseconds.
    #[must_use]
    pub fn new(limit: u32, window: u64) -> Self {
        Self { limit, window, began: 0, count: 0 }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// How long to wait. The request was not counted.
    pub fn take(&mut self, now: u64) -> Result<(), Spent> {
        let ends = self.began.saturating_add(self.window);
        if now >= ends || self.count == 0 {
            self.began = now;
            self.count = 0;
        } else if self.count >= self.limit {
            return Err(Spent::Rate { seconds: ends.saturating_sub(now).div_ceil(1_000_000_000) });
        }
        self.count = self.count.saturating_add(1);
        Ok(())
    }
}
