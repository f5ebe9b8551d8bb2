//! Tests that run on the machine: the kernel's command line says `test=kernel`. One line each, a
//! sum, and the machine ends with status 33 where all passed.

mod machine;

use alloc::sync::Arc;

use crate::arch::exit;
use crate::log;
use crate::object::account::Account;

/// Status for the debug-exit device where all passed: the emulator ends with 33.
const PASSED: u8 = 0x10;

/// Runs all tests and ends the machine. A test that fails panics, which ends it with the panic's
/// status.
pub fn run(_account: &Arc<Account>) -> ! {
    let mut passed = 0;
    for (name, test) in machine::TESTS {
        test();
        log!("ok {name}");
        passed += 1;
    }
    log!("{passed} passed, 0 failed");
    exit::debug_exit(PASSED)
}
