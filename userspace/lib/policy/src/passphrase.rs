//! The passphrase of a step-up: how it is kept, how it is checked, and how often it may be tried.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use capos_plural::count;
use pbkdf2::pbkdf2_hmac;
use sha2::Sha256;

/// A stored passphrase: salted, and hashed often enough that guessing is slow (PBKDF2 with HMAC-SHA-256).
///
/// As text: `pbkdf2-sha256$ITERATIONS$SALT$HASH`, salt (16 bytes) and hash (32 bytes) in hex.
#[derive(Clone, PartialEq, Eq)]
pub struct Passphrase {
    iterations: u32,
    salt: [u8; 16],
    hash: [u8; 32],
}

/// An error in the text of a kept passphrase, or in a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassphraseError(&'static str);

impl fmt::Display for PassphraseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}

impl core::error::Error for PassphraseError {}

/// Hashing fewer times than this is refused.
const MIN_ITERATIONS: u32 = 1000;
/// Hashing more often than this would lock a person out for minutes.
const MAX_ITERATIONS: u32 = 10_000_000;

const SCHEME: &str = "pbkdf2-sha256";

impl Passphrase {
    /// Keeps a passphrase. `salt` is random and used for nothing else.
    ///
    /// # Errors
    /// An empty passphrase, and a number of iterations outside 1,000 to 10,000,000.
    pub fn new(passphrase: &str, salt: [u8; 16], iterations: u32) -> Result<Self, PassphraseError> {
        if passphrase.is_empty() {
            return Err(PassphraseError("the passphrase is empty"));
        }
        check_iterations(iterations)?;
        Ok(Self { iterations, salt, hash: derive(passphrase, &salt, iterations) })
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// Says which part is wrong.
    pub fn parse(text: &str) -> Result<Self, PassphraseError> {
        let mut parts = text.split('$');
        let mut part = || parts.next().ok_or(PassphraseError("it has the form pbkdf2-sha256$ITERATIONS$SALT$HASH"));
        if part()? != SCHEME {
            return Err(PassphraseError("the scheme is pbkdf2-sha256 and no other"));
        }
        let iterations = part()?.parse().map_err(|_| PassphraseError("the number of iterations is not a number"))?;
        check_iterations(iterations)?;
        let mut passphrase = Self { iterations, salt: [0; 16], hash: [0; 32] };
        let salt = hex::decode_to_slice(part()?, &mut passphrase.salt);
        salt.map_err(|_| PassphraseError("the salt is 32 hexadecimal digits"))?;
        let hash = hex::decode_to_slice(part()?, &mut passphrase.hash);
        hash.map_err(|_| PassphraseError("the hash is 64 hexadecimal digits"))?;
        if parts.next().is_some() {
            return Err(PassphraseError("something follows the hash"));
        }
        Ok(passphrase)
    }

    /// Whether this is the passphrase. Takes the same time whichever byte differs.
    #[must_use]
    pub fn is(&self, passphrase: &str) -> bool {
        let hash = derive(passphrase, &self.salt, self.iterations);
        let difference = hash.iter().zip(&self.hash).fold(0, |sum, (one, other)| sum | (one ^ other));
        core::hint::black_box(difference) == 0 && !passphrase.is_empty()
    }
}

impl fmt::Display for Passphrase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (salt, hash) = (hex::encode(self.salt), hex::encode(self.hash));
        write!(formatter, "{SCHEME}${}${salt}${hash}", self.iterations)
    }
}

/// Reveals nothing that would help a guesser who reads a log.
impl fmt::Debug for Passphrase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Passphrase").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

fn check_iterations(iterations: u32) -> Result<(), PassphraseError> {
    if (MIN_ITERATIONS..=MAX_ITERATIONS).contains(&iterations) {
        Ok(())
    } else {
        Err(PassphraseError("the number of iterations is from 1000 to 10000000"))
    }
}

fn derive(passphrase: &str, salt: &[u8], iterations: u32) -> [u8; 32] {
    let mut hash = [0; 32];
    pbkdf2_hmac::<Sha256>(passphrase.as_bytes(), salt, iterations, &mut hash);
    hash
}

/// How often a passphrase may be tried. After five wrong ones in a row there is a wait: 30 seconds at first and twice
/// as long after each further wrong one, up to an hour. The right one resets the count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    wrong: u32,
    closed_until: u64,
}

/// Why a step-up failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepUpError {
    /// No passphrase is set on this system, so no step-up can succeed.
    NotSet,
    Wrong,
    /// Too many were wrong. The passphrase was not looked at.
    Closed {
        seconds: u64,
    },
}

impl fmt::Display for StepUpError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::NotSet => "no passphrase is set on this system".to_string(),
            Self::Wrong => "the passphrase is wrong".to_string(),
            Self::Closed { seconds } => {
                format!("too many wrong passphrases; try again in {}", count(*seconds, "second"))
            }
        };
        formatter.write_str(&text)
    }
}

impl core::error::Error for StepUpError {}

const FREE_ATTEMPTS: u32 = 5;
const SECOND: u64 = 1_000_000_000;
const FIRST_WAIT: u64 = 30;
const LONGEST_WAIT: u64 = 3600;

impl Attempts {
    /// Tries a passphrase.
    ///
    /// # Errors
    /// Why it did not open.
    pub fn attempt(&mut self, kept: Option<&Passphrase>, given: &str, now: u64) -> Result<(), StepUpError> {
        let kept = self.begin(kept, now)?;
        self.finish(kept, given)
    }

    /// Counts an attempt as a wrong one before anything is compared, so that the stored count is never too low
    /// meanwhile.
    ///
    /// # Errors
    /// Why none may be made now. It was not counted.
    pub fn begin<'a>(&mut self, kept: Option<&'a Passphrase>, now: u64) -> Result<&'a Passphrase, StepUpError> {
        let Some(kept) = kept else {
            return Err(StepUpError::NotSet);
        };
        self.count(now)?;
        Ok(kept)
    }

    /// The same for a secret that is compared elsewhere. If it is right, [`Self::default`] is the next count.
    ///
    /// # Errors
    /// [`StepUpError::Closed`]
    pub fn count(&mut self, now: u64) -> Result<(), StepUpError> {
        if now < self.closed_until {
            let seconds = self.closed_until.saturating_sub(now).div_ceil(SECOND);
            return Err(StepUpError::Closed { seconds });
        }
        self.wrong = self.wrong.saturating_add(1);
        self.close(now);
        Ok(())
    }

    /// A count from a time whose clock has ended. The wait of that many wrong ones begins again.
    #[must_use]
    pub fn continued(wrong: u32, now: u64) -> Self {
        let mut attempts = Self { wrong, closed_until: 0 };
        attempts.close(now);
        attempts
    }

    /// Wrong ones since the last right one.
    #[must_use]
    pub fn wrong(&self) -> u32 {
        self.wrong
    }

    fn close(&mut self, now: u64) {
        if let Some(over) = self.wrong.checked_sub(FREE_ATTEMPTS) {
            let wait = FIRST_WAIT.saturating_mul(1 << over.min(10)).min(LONGEST_WAIT);
            self.closed_until = now.saturating_add(wait.saturating_mul(SECOND));
        }
    }

    /// Compares the passphrase of an attempt that was counted. The right one resets the count.
    ///
    /// # Errors
    /// It is the wrong one.
    pub fn finish(&mut self, kept: &Passphrase, given: &str) -> Result<(), StepUpError> {
        if !kept.is(given) {
            return Err(StepUpError::Wrong);
        }
        *self = Self::default();
        Ok(())
    }

    /// The count in the form that is stored outside the counting process.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 12] {
        let mut bytes = [0; 12];
        let (wrong, closed_until) = bytes.split_at_mut(4);
        wrong.copy_from_slice(&self.wrong.to_le_bytes());
        closed_until.copy_from_slice(&self.closed_until.to_le_bytes());
        bytes
    }

    /// The count that was kept; nothing if nothing was.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        let (wrong, closed_until) = bytes.split_at_checked(4)?;
        Some(Self {
            wrong: u32::from_le_bytes(wrong.try_into().ok()?),
            closed_until: u64::from_le_bytes(closed_until.try_into().ok()?),
        })
    }
}

/// The text form, for a configuration file.
impl From<&Passphrase> for String {
    fn from(passphrase: &Passphrase) -> Self {
        passphrase.to_string()
    }
}
