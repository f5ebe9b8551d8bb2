//! What the host command line `capos` is made of: one module per subcommand, and the parts they share.
#![forbid(unsafe_code)]

pub mod boot_package;
pub mod ustar;
