//! The key of each user's home.
//!
//! A home has a random key ([`HomeKey`]), which seals what the home holds. The key is kept in a [`Record`], sealed to public keys:
//! one for each secret of the user, and that of the recovery code. So it can be sealed to a secret that is not at hand. The
//! other half of each [`Pair`] is wrapped by what only the secret itself gives ([`capos_volume::SlotSecret`]), and not by the
//! volume key. `docs/reference/home-keys.md` has the format.
//!
//! The crate is pure: the caller gives random bytes and keeps the records.
//!
//! Layers, lowest first: `seal`, `pair`, `home`, `record`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

extern crate alloc;

mod home;
mod pair;
mod record;
mod seal;

pub use home::{HomeKey, ID, NAME_OVERHEAD, NUMBER};
pub use pair::{BOX, PUBLIC, Pair, WRAPPED};
pub use record::{Entry, Record, Recoveries, Recovery, VERSION};
pub use seal::OVERHEAD;

/// Fills bytes with random ones.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]);
