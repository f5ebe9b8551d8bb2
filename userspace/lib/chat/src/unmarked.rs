//! Calls without a mark: an answer that begins with the object of one, alone or in a fence of Markdown.

use serde_json::Value;

use crate::{CallForm, Tool};

/// The most tools of a turn, and the most bytes of all their names, for which calls without a mark are found. For more, the
/// grammar of such calls is too large.
pub const MOST_TOOLS: usize = 64;
const MOST_BYTES: usize = 8 * 1024;
/// The most bytes up to a call's arguments, and between a call and its closing mark. Longer input is text.
const MOST_BEFORE: usize = 16 * 1024;
/// The fence around blocks of code.
pub const FENCE: &str = "```";
/// JSON's white space. The grammar knows no other white space, so that any other is text here.
pub const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];
/// The characters that can end a call, and those that can separate it from the next one.
const ENDS: [char; 6] = [' ', '\t', '\r', '\n', ']', '}'];
const BETWEEN: [char; 6] = [' ', '\t', '\r', '\n', ',', ';'];

/// Whether calls without a mark are found in answers of this form, with tools of these names. The reader and the grammar
/// both use this function.
pub fn are_found<'n>(form: CallForm, names: impl ExactSizeIterator<Item = &'n str>) -> bool {
    let few = names.len() <= MOST_TOOLS;
    few && form.may_lack_mark() && names.map(str::len).fold(0, usize::saturating_add) <= MOST_BYTES
}

/// Whether a call without a mark may lack its arguments: the tool's schema accepts an object without members. Small models write
/// just the name then. A schema with other keywords than those of a plain object may require some in another way.
pub fn may_lack_arguments(tool: &Tool) -> bool {
    let Some(schema) = tool.parameters.as_object() else { return false };
    schema.iter().all(|(key, value)| match key.as_str() {
        "type" => value == "object",
        "required" => value.as_array().is_some_and(Vec::is_empty),
        "properties" | "additionalProperties" | "title" | "description" => true,
        _ => false,
    })
}

/// The kind of a text, judged by its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Text.
    Text,
    /// The text is too short to decide.
    Open,
    /// A call.
    Call {
        /// The start of its object.
        at: usize,
        /// Whether its object lies in a fence.
        fenced: bool,
    },
}

/// A parser of calls without a mark.
pub struct Unmarked {
    /// The tools' names as JSON strings, and whether their calls may lack arguments.
    names: Vec<(String, bool)>,
    arguments: &'static str,
    close: &'static str,
}

impl Unmarked {
    /// Creates a parser for this form and tools. None if such calls are not found.
    pub fn of(form: CallForm, tools: &[Tool]) -> Option<Self> {
        // Of several tools with one name, each may be meant.
        let may = |name: &str| tools.iter().any(|tool| tool.name == name && may_lack_arguments(tool));
        let name = |tool: &Tool| (Value::from(tool.name.as_str()).to_string(), may(&tool.name));
        are_found(form, tools.iter().map(|tool| tool.name.as_str())).then(|| Self {
            names: tools.iter().map(name).collect(),
            arguments: form.arguments(),
            close: form.close().unwrap_or_default(),
        })
    }

    /// Judges the text at the start of an answer, or behind a call if it is not the `first`. `open` says whether a fence is open
    /// there.
    ///
    /// An object is a call if its first member is the name of a tool, written as in `names`, and its second member is the
    /// arguments. In place of the first call there may be an object with the name of a tool alone that requires no arguments; in a
    /// list, that is somebody's list of names. An object that names a tool and continues differently is text. The object can follow the end of the call before it, separators, a fence and a bracket. It can also follow an
    /// extra brace, because templates of Qwen2.5 show one. The grammar has the same rules as a pattern.
    pub fn beginning(&self, text: &str, first: bool, open: bool) -> Beginning {
        match self.read(text, first, open) {
            Ok(Some((call, taken))) if taken <= MOST_BEFORE => call,
            Err(TooShort) if text.len() <= MOST_BEFORE => Beginning::Open,
            Ok(_) | Err(TooShort) => Beginning::Text,
        }
    }

    /// The call, if the text is one, and the number of bytes up to its arguments.
    fn read(&self, text: &str, first: bool, open: bool) -> Result<Option<(Beginning, usize)>, TooShort> {
        let mut rest = text.trim_start_matches(ENDS);
        let mut fenced;
        if take(&mut rest, FENCE)? {
            let begins = take(&mut rest, "json")?;
            // This fence can close the open one, and another one can follow.
            fenced = begins || !open;
            if begins {
                rest = rest.trim_start_matches(SPACE);
            } else {
                skip(&mut rest);
                take(&mut rest, self.close)?;
                rest = rest.trim_start_matches(BETWEEN);
                fenced |= fence(&mut rest)?;
            }
        } else {
            take(&mut rest, self.close)?;
            rest = rest.trim_start_matches(BETWEEN);
            fenced = fence(&mut rest)? || open;
        }
        let listed = take(&mut rest, "[")?;
        skip(&mut rest);
        let mut at = text.len().saturating_sub(rest.len());
        if !take(&mut rest, "{")? {
            return Ok(None);
        }
        skip(&mut rest);
        let inner = text.len().saturating_sub(rest.len());
        if take(&mut rest, "{")? {
            at = inner;
            skip(&mut rest);
        }
        if !part(&mut rest, "\"name\"")? || !part(&mut rest, ":")? {
            return Ok(None);
        }
        let Some(may_lack_arguments) = self.name(&mut rest)? else { return Ok(None) };
        let without = may_lack_arguments && first && !listed && take(&mut rest, "}")?;
        let given = !without
            && part(&mut rest, ",")?
            && take(&mut rest, "\"")?
            && take(&mut rest, self.arguments)?
            && part(&mut rest, "\"")?
            && take(&mut rest, ":")?;
        Ok((without || given).then_some((Beginning::Call { at, fenced }, text.len().saturating_sub(rest.len()))))
    }

    /// Takes the name of a tool. No name is the start of another one: each ends with a quote, and contains no other quote
    /// that is not escaped. Returns whether the call may lack arguments.
    fn name(&self, rest: &mut &str) -> Result<Option<bool>, TooShort> {
        let mut found = Ok(None);
        for (name, may_lack_arguments) in &self.names {
            match take(rest, name) {
                Ok(false) => {}
                Ok(true) => {
                    skip(rest);
                    return Ok(Some(*may_lack_arguments));
                }
                Err(short) => found = Err(short),
            }
        }
        found
    }

    /// The text behind a call without the end of the call: brackets, the open fence, and the closing mark. The fence and the
    /// mark can come in either order.
    pub fn behind_end<'t>(&self, text: &'t str, open: bool) -> &'t str {
        let near = |rest: &&str| text.len().saturating_sub(rest.len()) <= MOST_BEFORE;
        let Some(mut rest) = Some(text.trim_start_matches(ENDS)).filter(near) else { return text };
        let mut ends = [Some(FENCE).filter(|_| open), Some(self.close)];
        for _ in 0..ends.len() {
            let start = rest.trim_start_matches(SPACE);
            for end in &mut ends {
                let Some(behind) = end.and_then(|end| start.strip_prefix(end)).filter(near) else { continue };
                // A fence that names a language opens another block.
                if *end != Some(FENCE) || !behind.starts_with(char::is_alphanumeric) {
                    (rest, *end) = (behind, None);
                    break;
                }
            }
        }
        rest
    }
}

/// More text is needed to decide.
struct TooShort;

fn skip(rest: &mut &str) {
    *rest = rest.trim_start_matches(SPACE);
}

/// Takes the start of a fence, if it is there.
fn fence(rest: &mut &str) -> Result<bool, TooShort> {
    let fenced = take(rest, FENCE)?;
    if fenced {
        take(rest, "json")?;
    }
    skip(rest);
    Ok(fenced)
}

/// Takes a part and the white space behind it, if it is there.
fn part(rest: &mut &str, part: &str) -> Result<bool, TooShort> {
    let taken = take(rest, part)?;
    skip(rest);
    Ok(taken)
}

/// Takes a part from the front of the rest, if it is there.
fn take(rest: &mut &str, part: &str) -> Result<bool, TooShort> {
    if let Some(behind) = rest.strip_prefix(part) {
        *rest = behind;
        return Ok(true);
    }
    if part.starts_with(*rest) { Err(TooShort) } else { Ok(false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, schema: &str) -> Tool {
        let (name, description, handle) = (name.into(), String::new(), String::new());
        Tool { name, description, parameters: serde_json::from_str(schema).unwrap(), handle, forbidden: false }
    }

    fn look(text: &str) -> Beginning {
        let schemas = [("read", r#"{"required": ["path"]}"#), ("read_all", r#"{"required": []}"#), ("a\"b", "{}")];
        let tools = schemas.map(|(name, schema)| tool(name, schema));
        Unmarked::of(CallForm::Hermes, &tools).unwrap().beginning(text, true, false)
    }

    #[test]
    fn calls_are_found_behind_what_models_write_before_them() {
        for (before, fenced) in [
            ("", false),
            (" ", false),
            ("```json\n", true),
            ("```\n", true),
            ("[", false),
            ("```json\n[\n  ", true),
            ("{", false),
            ("```json{ ", true),
            (",\n", false),
            ("}]", false),
            ("```\n```json\n", true),
            ("</tool_call>\n", false),
            ("```\n</tool_call>\n", true),
        ] {
            for name in ["\"read\"", "\"read_all\"", "\"a\\\"b\""] {
                let text = format!("{before}{{\n  \"name\" : {name},\n \"arguments\" :");
                assert_eq!(look(&text), Beginning::Call { at: before.len(), fenced }, "{text}");
                for cut in 0..text.len() {
                    assert_eq!(look(&text[..cut]), Beginning::Open, "{}", &text[..cut]);
                }
            }
        }
    }

    #[test]
    fn arguments_may_be_missing_if_none_is_required() {
        for name in ["\"read_all\"", "\"a\\\"b\""] {
            let text = format!(" {{\"name\": {name} }}");
            assert_eq!(look(&text), Beginning::Call { at: 1, fenced: false }, "{text}");
            assert_eq!(look(&format!("[{text}")), Beginning::Text, "{text}");
            for cut in 0..text.len() {
                assert_eq!(look(&text[..cut]), Beginning::Open, "{}", &text[..cut]);
            }
        }
    }

    /// What a schema requires may be said in other ways.
    #[test]
    fn schemas_that_may_require_something_do_not_let_arguments_lack() {
        let may = |schema: &str| may_lack_arguments(&tool("a", schema));
        for schema in
            ["{}", r#"{"type": "object", "properties": {"a": {}}, "required": [], "additionalProperties": false}"#]
        {
            assert!(may(schema), "{schema}");
        }
        for schema in [
            "true",
            "false",
            r#"{"required": ["a"]}"#,
            r#"{"required": 1}"#,
            r#"{"type": "string"}"#,
            r##"{"$ref": "#/$defs/a"}"##,
            r#"{"allOf": [{"required": ["a"]}]}"#,
            r#"{"minProperties": 1}"#,
        ] {
            assert!(!may(schema), "{schema}");
        }
    }

    #[test]
    fn all_else_is_text() {
        for text in [
            "a",
            "``a",
            "```python\n",
            "{\"nam\"",
            "{\"name\": 1",
            "[1",
            "{{{",
            "{}",
            "<tool",
            "``` json",
            "\u{a0}{\"name\": \"",
            "{\u{c}\"name\": \"",
            "{\"name\": \"x",
            "{\"name\": \"reads",
            "{\"name\": \"re\\",
            "{\"name\": \"read\"}",
            "{\"name\": \"read\", \"version\"",
            "{\"name\": \"read\", \"argument\"",
            "} x",
        ] {
            assert_eq!(look(text), Beginning::Text, "{text}");
        }
    }
}
