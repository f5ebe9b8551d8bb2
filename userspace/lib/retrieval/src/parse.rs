//! Reads a handbook as a person writes it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::handbook::{Call, Entry, Handbook};

/// An error in a handbook, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandbookError {
    /// From 1.
    pub line: u64,
    /// As text.
    pub what: String,
}

impl fmt::Display for HandbookError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}: {}", self.line, self.what)
    }
}

impl core::error::Error for HandbookError {}

/// The start of a question's line.
const QUESTION: &str = "? ";
/// How a line begins that calls a tool.
const CALL: &str = "call ";

/// An answer in the notation of a file: text, then a line for each call.
pub fn answer_text(entry: &Entry) -> String {
    let mut text = entry.text.clone();
    for call in &entry.calls {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("{CALL}{} {}", call.tool, call.arguments));
    }
    text
}

/// The reverse of [`answer_text`]; the error is a message.
pub fn answer(lines: &[&str]) -> Result<(String, Vec<Call>), String> {
    let mut text: Vec<&str> = Vec::new();
    let mut calls = Vec::new();
    for line in lines {
        if let Some(rest) = line.strip_prefix(CALL) {
            calls.push(call(rest)?);
        } else if calls.is_empty() {
            text.push(line);
        } else if !line.trim().is_empty() {
            return Err("the text of an answer comes before its calls, not after".to_string());
        }
    }
    Ok((text.join("\n").trim().to_string(), calls))
}

fn call(rest: &str) -> Result<Call, String> {
    let (tool, arguments) = rest.split_once(' ').unwrap_or((rest, "{}"));
    let parsed: serde_json::Value = serde_json::from_str(arguments)
        .map_err(|error| format!("the arguments of the call of {tool:?} are not JSON: {error}"))?;
    if tool.is_empty() || !parsed.is_object() {
        return Err("a call is `call TOOL {\"parameter\": value}`".to_string());
    }
    Ok(Call { tool: tool.to_string(), arguments: parsed.to_string() })
}

impl Handbook {
    /// Reads a handbook. An entry is one line or several that begin with `? `, and the lines until the next such line:
    /// text, then lines that begin with `call `. Any text may precede the first entry.
    ///
    /// # Errors
    /// Names the first line that is not understood, and why.
    pub fn parse(text: &str) -> Result<Self, HandbookError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut open: Option<(u64, Vec<String>, Vec<&str>)> = None;
        let mut close = |open: Option<(u64, Vec<String>, Vec<&str>)>| {
            let Some((line, questions, lines)) = open else { return Ok(()) };
            let (text, calls) = answer(&lines).map_err(|what| HandbookError { line, what })?;
            if text.is_empty() && calls.is_empty() {
                return Err(HandbookError { line, what: "this question has no answer".to_string() });
            }
            entries.push(Entry { questions, text, calls });
            Ok(())
        };
        for (number, line) in (1_u64..).zip(text.lines()) {
            let line = line.trim_end();
            match (line.strip_prefix(QUESTION), &mut open) {
                (Some(question), Some((_, questions, lines))) if lines.is_empty() => {
                    questions.push(question.trim().to_string());
                }
                (Some(question), _) => {
                    let next = (number, Vec::from([question.trim().to_string()]), Vec::new());
                    close(open.replace(next))?;
                }
                (None, Some((_, _, lines))) => lines.push(line),
                (None, None) => {}
            }
        }
        close(open)?;
        if entries.is_empty() {
            let what = "there is no entry; one begins with a line `? ` and a question".to_string();
            return Err(HandbookError { line: 1, what });
        }
        Ok(Self::new(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read() {
        let book = Handbook::parse(
            "# My handbook\n\n? How is the system?\n? status\nI will look.\n\ncall system_status\n\
             call read_file {\"path\": \"a b\"}\n\n? Who are you?\nOne line,\nand another.\n",
        )
        .unwrap();
        let [first, second] = book.entries() else { panic!("{book:?}") };
        assert_eq!(first.questions, ["How is the system?", "status"]);
        assert_eq!(first.text, "I will look.");
        let calls: Vec<(&str, &str)> =
            first.calls.iter().map(|call| (call.tool.as_str(), call.arguments.as_str())).collect();
        assert_eq!(calls, [("system_status", "{}"), ("read_file", "{\"path\":\"a b\"}")]);
        assert_eq!((second.text.as_str(), second.calls.len()), ("One line,\nand another.", 0));
        for entry in book.entries() {
            let text = answer_text(entry);
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(answer(&lines).unwrap(), (entry.text.clone(), entry.calls.clone()));
        }
    }

    #[test]
    fn what_is_not_understood_is_told_with_its_line() {
        for (text, line, part) in [
            ("", 1, "no entry"),
            ("nothing asks\n", 1, "no entry"),
            ("? a\n\n? b\nx\n", 1, "no answer"),
            ("? a\nx\n? b\ncall  {}\n? c\nx", 3, "a call is"),
            ("? a\ncall t x\n", 1, "not JSON"),
            ("? a\ncall t []\n", 1, "a call is"),
            ("? a\ncall t {}\nafter\n", 1, "before its calls"),
        ] {
            let error = Handbook::parse(text).unwrap_err();
            assert!(error.line == line && error.what.contains(part), "{text:?}: {error}");
        }
    }
}
