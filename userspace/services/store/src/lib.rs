//! What the store's service decides and does, apart from calls: which disk is the data disk, what opens it, and what its
//! namespaces answer.
//!
//! Layers, lowest first: [`base`], [`kept`], [`marks`], [`names`], [`shares`], [`disks`], [`spaces`] with [`sealed`],
//! [`homes`], [`waiting`], [`vault`].
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

extern crate alloc;

pub mod base;
pub mod disks;
pub mod homes;
pub mod kept;
pub mod marks;
pub mod names;
pub mod sealed;
pub mod shares;
pub mod spaces;
pub mod vault;
pub mod waiting;
