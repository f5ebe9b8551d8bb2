//! Programs: their command lines, grants, jobs and streams.

pub mod command_line;
pub mod commands;
pub mod grant_plan;
mod job;
pub mod jobs;
mod pipe;
mod streams;
