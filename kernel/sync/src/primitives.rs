//! The atomics and locks that everything here is made of: `core`'s and `spin`'s, or loom's.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
#[cfg(not(loom))]
pub use spin::Mutex;

/// Loom's mutex with the methods of `spin`'s.
#[cfg(loom)]
#[derive(Debug)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

#[cfg(loom)]
impl<T> Mutex<T> {
    /// A lock that is free.
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    /// Takes the lock.
    ///
    /// # Panics
    /// If a thread panicked with it: the model has failed already then.
    #[expect(clippy::unwrap_used, reason = "only loom compiles it")]
    pub fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}

/// A function that is `const`, except with loom's atomics, which have no such constructors.
macro_rules! const_unless_loom {
    ($(#[$attribute:meta])* pub const fn $name:ident($($argument:ident: $type:ty),*) -> Self $body:block) => {
        $(#[$attribute])*
        #[cfg(not(loom))]
        pub const fn $name($($argument: $type),*) -> Self $body

        $(#[$attribute])*
        #[cfg(loom)]
        pub fn $name($($argument: $type),*) -> Self $body
    };
}
pub(crate) use const_unless_loom;
