//! The formats between a driver and the drives at an AHCI controller, without the controller.
//!
//! Structures that a driver writes to memory for the controller: [`command`] (AHCI 1.3.1, section 4.2). Requests to the
//! drive: [`fis`] (ATA8-ACS commands in a register FIS) and [`packet`] (MMC commands for optical drives). Its answers,
//! which are trusted for nothing else: [`identity`], [`packet::capacity`] and [`sense`]. And where the controller's own
//! registers lie: [`registers`].
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

extern crate alloc;

pub mod command;
pub mod fis;
pub mod identity;
pub mod packet;
pub mod registers;
pub mod sense;
