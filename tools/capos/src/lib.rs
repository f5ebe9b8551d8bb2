//! What the host command line `capos` is made of: one module per subcommand, and the parts they share.
#![forbid(unsafe_code)]

pub mod accel;
pub mod bench;
pub mod boot_package;
pub mod checks;
pub mod checks_audit;
pub mod checks_home;
pub mod checks_screen;
pub mod date;
pub mod expect;
pub mod export;
pub mod extra_models;
pub mod fat;
pub mod files;
pub mod grub;
pub mod image;
pub mod iso;
pub mod limine;
pub mod lint;
pub mod manifest;
pub mod packages;
pub mod qemu;
pub mod run;
pub mod run_agent;
pub mod scenario;
pub mod script;
pub mod system;
pub mod test_suites;
pub mod tool;
pub mod toolchain;
pub mod ustar;
pub mod weights;
pub mod weights_gguf;
pub mod weights_keygen;
pub mod weights_sign;
pub mod weights_verify;
