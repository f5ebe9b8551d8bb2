//! The tools of one turn.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_schema::authority::Label;
use capos_schema::models::ToolDescriptor;

use crate::result::hash;

/// One tool: what the model sees, and what the runner needs besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tool {
    /// What the model sees.
    pub descriptor: ToolDescriptor,
    /// The session's capability that is invoked.
    pub capability: u64,
    /// Ordinal of the method.
    pub method: u16,
    /// Capabilities that a call touches: calls that share one run in order.
    pub touches: Vec<u64>,
    /// Bytes of a result that may reach the model.
    pub max_result: usize,
    /// Whether results hold what others wrote.
    pub untrusted: bool,
    /// Whether its text comes in pieces, which the arguments `offset` and `length` choose.
    pub pieces: bool,
    /// Label that results carry at least.
    pub label: Label,
}

impl Tool {
    /// SHA-256 of all that the model and the person are told of the tool: a consent to it holds as long as that is the same.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        let ToolDescriptor { name, description, interface_id, method_name, param_schema, category, .. } =
            &self.descriptor;
        // Lengths first, so that no part can stand for another.
        let parts = [name, method_name, category, description, param_schema];
        let lengths = parts.map(|part| format!("{} ", part.len())).concat();
        hash(&format!("{interface_id:016x} {lengths}{}", parts.map(String::as_str).concat()))
    }
}

/// What is kept of a tool with a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    pub name: String,
    /// SHA-256 of its interface, method and parameters.
    pub hash: [u8; 32],
}

impl From<&Tool> for Mark {
    fn from(tool: &Tool) -> Self {
        let found = &tool.descriptor;
        let schema = format!("{:016x} {} {}", found.interface_id, found.method_name, found.param_schema);
        Self { name: found.name.clone(), hash: hash(&schema) }
    }
}

/// The tools that one turn advertises. Nothing that is not in it can be called in that turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    tools: Vec<Tool>,
}

impl Snapshot {
    /// A snapshot of these tools, in this order.
    ///
    /// # Errors
    /// Two tools have the same name or the same handle, or one has none.
    pub fn new(tools: Vec<Tool>) -> Result<Self, String> {
        for (at, tool) in tools.iter().enumerate() {
            let found = &tool.descriptor;
            if found.name.is_empty() || found.handle.is_empty() {
                return Err(format!("tool {at} has no name or no handle"));
            }
            let mut earlier = tools.iter().take(at).map(|earlier| &earlier.descriptor);
            if let Some(other) = earlier.find(|other| other.name == found.name || other.handle == found.handle) {
                return Err(format!("tools `{}` and `{}` have the same name or handle", other.name, found.name));
            }
        }
        Ok(Self { tools })
    }

    /// The tools, in order.
    #[must_use]
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// What is kept of them with the conversation.
    #[must_use]
    pub fn marks(&self) -> Vec<Mark> {
        self.tools.iter().map(Mark::from).collect()
    }

    /// What the model is shown.
    #[must_use]
    pub fn descriptors(&self) -> Vec<ToolDescriptor> {
        self.tools.iter().map(|tool| tool.descriptor.clone()).collect()
    }

    /// The tool with exactly this name and exactly this handle, byte for byte. There is no folding and no nearest
    /// match.
    ///
    /// # Errors
    /// Why there is none, for the model.
    pub fn find(&self, name: &str, handle: &str) -> Result<&Tool, String> {
        match self.tools.iter().find(|tool| tool.descriptor.name == name) {
            Some(tool) if tool.descriptor.handle == handle => Ok(tool),
            Some(_) => Err(format!(
                "the handle does not belong to the tool {}; use the handle advertised in this turn",
                quote(name)
            )),
            None => Err(format!("no tool {} is advertised in this turn", quote(name))),
        }
    }
}

/// A model's name for something, shortened and with everything outside printable ASCII written as an escape.
pub fn quote(name: &str) -> String {
    quote_long(name, 64)
}

/// The same, shortened to `most` characters.
pub fn quote_long(name: &str, most: usize) -> String {
    let mut text = String::from("\"");
    for (count, letter) in name.chars().enumerate() {
        if count >= most {
            text.push('…');
            break;
        }
        if letter == ' ' || letter.is_ascii_graphic() && letter != '"' && letter != '\\' {
            text.push(letter);
        } else {
            text.extend(letter.escape_unicode());
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn tool(name: &str, handle: &str) -> Tool {
        let descriptor = ToolDescriptor { name: name.into(), handle: handle.into(), ..ToolDescriptor::default() };
        Tool { descriptor, capability: 1, max_result: 100, ..Tool::default() }
    }

    #[test]
    fn j06_look_alike_names_never_reach_a_tool() {
        let snapshot = Snapshot::new(Vec::from([tool("bash", "/object/a"), tool("read_file", "/object/b")])).unwrap();
        assert!(snapshot.find("bash", "/object/a").is_ok());
        let look_alikes = [
            "BASH",
            "Bash",
            "bаsh",
            "bash ",
            " bash",
            "ba\u{200b}sh",
            "bash\0",
            "ｂａｓｈ",
            "bas\u{2f}h",
            "",
            "b",
            "bash2",
            "read-file",
            "read_file\u{301}",
            "readfile",
            "/object/a",
        ];
        for name in look_alikes {
            assert!(snapshot.find(name, "/object/a").is_err(), "{name:?}");
        }
        for handle in ["/object/b", "", "a", "/OBJECT/A", "/object/a ", "/object/zzz", "object/a", "/object//a"] {
            assert!(snapshot.find("bash", handle).is_err(), "{handle:?}");
        }
    }

    #[test]
    fn a_mark_has_a_name_and_changes_with_the_interface() {
        let mark = |change: &dyn Fn(&mut ToolDescriptor)| {
            let mut tool = tool("read", "/object/a");
            change(&mut tool.descriptor);
            Mark::from(&tool)
        };
        let plain = mark(&|_| {});
        assert_eq!(plain.name, "read");
        assert_eq!(plain, mark(&|found| found.handle = "/object/b".into()), "each session has other handles");
        let changes: [&dyn Fn(&mut ToolDescriptor); 3] =
            [&|found| found.interface_id = 7, &|found| found.method_name = "read".into(), &|found| {
                found.param_schema = "{}".into()
            }];
        assert!(changes.iter().all(|change| mark(change).hash != plain.hash));
    }

    #[test]
    fn snapshots_refuse_doubles() {
        assert!(Snapshot::new(Vec::from([tool("a", "1"), tool("a", "2")])).is_err());
        assert!(Snapshot::new(Vec::from([tool("a", "1"), tool("b", "1")])).is_err());
        assert!(Snapshot::new(Vec::from([tool("a", "")])).is_err());
    }

    #[test]
    fn names_are_quoted_for_people() {
        assert_eq!(quote("bаsh\u{1b}[2J\"\\"), "\"b\\u{430}sh\\u{1b}[2J\\u{22}\\u{5c}\"");
        assert_eq!(quote(&"x".repeat(70)).chars().count(), 67);
    }
}
