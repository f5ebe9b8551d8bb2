//! Figures of the running system and programs that measure them.

pub mod bench;
pub mod bench_first_token;
pub mod bench_std;
pub mod bench_store;
pub mod bench_token;
pub mod figure;
pub mod figures;
pub mod profile;
pub mod throughput;
