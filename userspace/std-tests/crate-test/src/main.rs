//! Popular crates from the registry as they are, each used once in earnest: a test has its crate's name. They run on
//! capOS as the suite `std-crates`, and on the host with `cargo test`. `docs/porting.md` lists them.
#![cfg(test)]

mod collections;
mod cryptography;
mod data;
mod languages;
mod program;
mod storage;
mod text;
mod threads;
mod time;
