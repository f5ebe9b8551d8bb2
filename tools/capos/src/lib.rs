//! What the host command line `capos` is made of: one module per subcommand, and the parts they share.
#![forbid(unsafe_code)]

pub mod build;
pub mod image;
pub mod machine;
pub mod manifest;
pub mod measure;
pub mod models;
pub mod run;
pub mod scaffold;
pub mod scenario;
pub mod session_tools;
pub mod sign;
pub mod suites;
