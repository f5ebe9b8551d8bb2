//! Exactly what a person agreed to.

use alloc::string::String;
use alloc::vec::Vec;

use capos_schema::authority::ToolQuestion;
use sha2::{Digest, Sha256};

/// A tool, as it was described, and the arguments it was to be called with. Arguments are the same when their canonical text
/// is, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExactCall {
    interface: u64,
    method: String,
    tool: String,
    descriptor: Vec<u8>,
    arguments: [u8; 32],
}

impl ExactCall {
    pub(crate) fn of(question: &ToolQuestion) -> Self {
        Self {
            interface: question.interface_id,
            method: question.method_name.clone(),
            tool: question.tool.clone(),
            descriptor: question.descriptor.clone(),
            arguments: Sha256::digest(question.arguments.as_bytes()).into(),
        }
    }

    pub(crate) fn same_tool(&self, other: &Self) -> bool {
        self.interface == other.interface
            && self.method == other.method
            && self.tool == other.tool
            && self.descriptor == other.descriptor
    }
}
