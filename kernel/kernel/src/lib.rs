//! The capOS microkernel
