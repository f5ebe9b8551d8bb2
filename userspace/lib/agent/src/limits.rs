//! Bounds on what one response of a model may be. A worker is not trusted to keep to any.

/// Bounds on one response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of text.
    pub text: usize,
    /// Calls; more are answered with one refusal.
    pub calls: usize,
    /// Bytes of one call's arguments.
    pub arguments: usize,
    /// Bytes of one call's id, name or handle.
    pub name: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { text: 1 << 20, calls: 64, arguments: 64 << 10, name: 256 }
    }
}

/// Tokens that a response is charged at least, whatever its worker reports: one for 16 bytes received.
pub fn least_tokens(received: u64) -> u64 {
    received.div_ceil(16)
}
