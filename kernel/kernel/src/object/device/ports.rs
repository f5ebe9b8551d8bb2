//! IoPorts: a range of I/O ports.

/// Ports `first .. first + count`.
#[derive(Clone, Copy, Debug)]
pub struct IoPorts {
    pub first: u16,
    pub count: u32,
}
