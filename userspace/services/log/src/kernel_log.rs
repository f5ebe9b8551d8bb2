//! The kernel's log, cut into lines.

use alloc::string::String;
use alloc::vec::Vec;
use capos_schema::system::LogLevel;

/// Collects bytes into lines.
#[derive(Default)]
pub struct Lines {
    rest: Vec<u8>,
}

/// Longest line that is waited for, in bytes.
const MAX_LINE: usize = 4096;

impl Lines {
    /// Takes bytes; the lines that are whole now.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for byte in bytes {
            if *byte == b'\n' || self.rest.len() >= MAX_LINE {
                let line = core::mem::take(&mut self.rest);
                lines.push(String::from_utf8_lossy(&line).into_owned());
            }
            if *byte != b'\n' && *byte != b'\r' {
                self.rest.push(*byte);
            }
        }
        lines
    }
}

/// The writer of a line of the kernel's log, its level, and its text. Lines of processes begin with the
/// process's name.
pub fn judge(line: &str) -> (&str, LogLevel, &str) {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.len() <= 32
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let (service, text) = match line.split_once(": ") {
        Some((name, text)) if is_name(name) => (name, text),
        _ => ("kernel", line),
    };
    if let Some(text) = text.strip_prefix("error: ") {
        (service, LogLevel::Error, text)
    } else if let Some(text) = text.strip_prefix("warning: ") {
        (service, LogLevel::Warning, text)
    } else if let Some(text) = text.strip_prefix("debug: ") {
        (service, LogLevel::Debug, text)
    } else {
        let died = text.starts_with("process `");
        (service, if died { LogLevel::Error } else { LogLevel::Info }, text)
    }
}
