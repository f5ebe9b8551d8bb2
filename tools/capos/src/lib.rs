//! What the host command line `capos` is made of: one module per subcommand, and the parts they share.
#![forbid(unsafe_code)]

pub mod boot_package;
pub mod date;
pub mod fat;
pub mod grub;
pub mod image;
pub mod limine;
pub mod tool;
pub mod ustar;
pub mod weights;
pub mod weights_gguf;
pub mod weights_keygen;
pub mod weights_sign;
pub mod weights_verify;
