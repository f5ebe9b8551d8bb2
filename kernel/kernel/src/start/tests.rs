//! Tests that run in the kernel. A kernel that is built with them runs those that its command line asks for.

#[cfg(feature = "tests")]
pub use crate::tests_in_kernel::{begin, needs_loader, processors, run};

#[cfg(not(feature = "tests"))]
mod none {
    use alloc::sync::Arc;

    use crate::cpu::boot::Handover;
    use crate::cpu::panic::refuse;
    use crate::object::account::Account;

    /// At each start of the kernel, before it has asked for any memory.
    pub fn begin(_handover: &Handover) {}

    /// Whether what the loader has left is needed once more.
    pub fn needs_loader() -> bool {
        false
    }

    /// How many processors the tests of this command line permit.
    pub fn processors(_command_line: &str) -> Option<usize> {
        None
    }

    /// The machine has started, and there is no process yet.
    pub fn run(command_line: &str, _account: &Arc<Account>) {
        if let Some(word) = command_line.split_whitespace().find(|word| word.starts_with("test=")) {
            refuse(format_args!(
                "its command line says {word}, and this kernel is built without its tests: build it with the feature `tests`"
            ));
        }
    }
}

#[cfg(not(feature = "tests"))]
pub use none::{begin, needs_loader, processors, run};
