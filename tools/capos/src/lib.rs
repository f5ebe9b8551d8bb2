//! The host command line `capos`: one module per subcommand, and their common parts.
#![forbid(unsafe_code)]

pub mod acp;
pub mod audit;
pub mod backup;
pub mod build;
pub mod data;
pub mod manifest;
pub mod measure;
pub mod models;
pub mod run;
pub mod scaffold;
pub mod scenario;
pub mod secret;
pub mod session_tools;
pub mod setup;
pub mod sign;
pub mod suites;
