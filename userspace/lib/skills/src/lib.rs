//! Skills: a teaching text with the tools that it needs, its data classes and its settings.
//!
//! A skill gives a model no right. It names tools of capabilities that a session holds already. The person decides whether
//! the model gets all of them together. [`Skill::parse`] reads the file, and [`Skill::bind`] checks the values of its settings.
//! This crate does no input or output.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod bind;
mod parse;
mod yaml;

pub use bind::Bound;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use capos_settings::{Setting, is_name};

/// The ending of a skill's file name.
pub const ENDING: &str = ".skill.yaml";
/// Bytes of a file at most.
pub const MAX_FILE: usize = 16 << 10;
/// Bytes of a teaching text at most.
pub const MAX_TEACHING: usize = 4 << 10;
/// Bytes of each other text at most.
pub const MAX_TEXT: usize = 200;
/// Entries of each list at most.
pub const MAX_ENTRIES: usize = 16;

/// A skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Its name, which its file has too.
    pub name: String,
    /// What it is for, in one line.
    pub description: String,
    /// What the model is taught. `{NAME}` stands for the value of a setting.
    pub teaching: String,
    /// The names of the tools that it needs, at least one.
    pub tools: Vec<String>,
    /// The classes of data that it works with.
    pub labels: Vec<String>,
    /// The settings that it requires.
    pub settings: Vec<Setting>,
}

/// What is wrong with a skill's file, and in which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillError {
    /// From 1; 0 if it is about the whole file.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for SkillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.what),
            line => write!(f, "line {line}: {}", self.what),
        }
    }
}

impl core::error::Error for SkillError {}

/// The name of the skill that a file of this name holds; none if it holds none.
#[must_use]
pub fn name_of_file(file: &str) -> Option<&str> {
    file.strip_suffix(ENDING).filter(|name| is_name(name))
}
