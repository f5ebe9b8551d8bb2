//! A value that stays on the process's only thread.

/// What the database wants to be able to send to another thread, and never does.
#[derive(Clone)]
pub struct Here<T>(T);

// SAFETY: the process has one thread: it makes no other (`capos_rt` starts none, and this service holds no capability to start
// one in its own process). So the value is never on another thread.
unsafe impl<T> Send for Here<T> {}

impl<T> Here<T> {
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value.
    pub fn get(&self) -> &T {
        &self.0
    }
}
