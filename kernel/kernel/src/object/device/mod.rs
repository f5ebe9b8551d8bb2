//! What drivers reach devices by.

pub mod dma;
pub mod interrupt;
pub mod mmio;
pub mod ports;
