//! From sources to programs: tools, packages, the standard library, lints.

pub mod boot_package;
pub mod c_library;
pub mod iso;
pub mod lint;
pub mod packages;
pub mod std_library;
pub mod system;
pub mod toolchain;
