//! Calls without a mark: an answer that begins with the object of one, alone or in a fence of Markdown.

use crate::CallForm;

/// Tools of a turn, and bytes of all their names, up to which calls without a mark are found. For more of them, grammars that
/// hold such calls are too large.
pub const MOST_TOOLS: usize = 64;
const MOST_BYTES: usize = 8 * 1024;
/// Bytes up to a call's arguments, and behind a call up to what ended it. What takes more is text.
const MOST_BEFORE: usize = 16 * 1024;
/// What stands around blocks of code.
pub const FENCE: &str = "```";
/// White space of JSON. Whatever else is space to others is none to the grammar, and so is text here.
pub const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];
/// What ends a call, and what parts it from the next, with white space.
const ENDS: [char; 6] = [' ', '\t', '\r', '\n', ']', '}'];
const BETWEEN: [char; 6] = [' ', '\t', '\r', '\n', ',', ';'];

/// Whether calls without a mark are found in answers of this form, with tools of these names. Reader and grammar both ask.
pub fn are_found<'n>(form: CallForm, names: impl ExactSizeIterator<Item = &'n str>) -> bool {
    let few = names.len() <= MOST_TOOLS;
    few && form.may_lack_mark() && names.map(str::len).fold(0, usize::saturating_add) <= MOST_BYTES
}

/// What the beginning of a text may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Text.
    Text,
    /// It is too short to tell.
    Open,
    /// A call.
    Call {
        /// Where its object begins.
        at: usize,
        /// Whether its object lies in a fence.
        fenced: bool,
    },
}

/// How calls without a mark are written.
pub struct Unmarked {
    /// The tools' names as strings of JSON.
    names: Vec<String>,
    arguments: &'static str,
    close: &'static str,
}

impl Unmarked {
    /// In answers of this form, with tools of these names; none where there are no such calls.
    pub fn of<'n>(form: CallForm, names: impl ExactSizeIterator<Item = &'n str> + Clone) -> Option<Self> {
        let literal = |name| serde_json::Value::from(name).to_string();
        are_found(form, names.clone()).then(|| Self {
            names: names.map(literal).collect(),
            arguments: form.arguments(),
            close: form.close().unwrap_or_default(),
        })
    }

    /// Looks at a text at the beginning of an answer, or behind a call, around which a fence may be open. It is a call
    /// if its first member is the name of a tool, written as in `names`, and the second its arguments. An object that
    /// names a tool and continues otherwise is text. Before the object may stand what ended the call before it and what
    /// parts calls; a fence, a bracket and, since templates of Qwen2.5 show it so, a brace too many. The grammar has
    /// the same as a pattern.
    pub fn beginning(&self, text: &str, open: bool) -> Beginning {
        match self.read(text, open) {
            Ok(Some((call, taken))) if taken <= MOST_BEFORE => call,
            Err(TooShort) if text.len() <= MOST_BEFORE => Beginning::Open,
            Ok(_) | Err(TooShort) => Beginning::Text,
        }
    }

    /// The call, if it is one, and how many bytes there are up to its arguments.
    fn read(&self, text: &str, open: bool) -> Result<Option<(Beginning, usize)>, TooShort> {
        let mut rest = text.trim_start_matches(ENDS);
        let mut fenced;
        if take(&mut rest, FENCE)? {
            let begins = take(&mut rest, "json")?;
            // Another may begin where this one ends, or where there was none.
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
        take(&mut rest, "[")?;
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
        let named = part(&mut rest, "\"name\"")? && part(&mut rest, ":")? && self.name(&mut rest)?;
        let given = named
            && part(&mut rest, ",")?
            && take(&mut rest, "\"")?
            && take(&mut rest, self.arguments)?
            && part(&mut rest, "\"")?;
        let called = given && take(&mut rest, ":")?;
        Ok(called.then_some((Beginning::Call { at, fenced }, text.len().saturating_sub(rest.len()))))
    }

    /// Takes the name of a tool. No such string begins as another does, since each ends with a quote that none has inside.
    fn name(&self, rest: &mut &str) -> Result<bool, TooShort> {
        let mut found = Ok(false);
        for name in &self.names {
            match take(rest, name) {
                Ok(false) => {}
                Ok(true) => {
                    skip(rest);
                    return Ok(true);
                }
                short => found = short,
            }
        }
        found
    }

    /// What is left of a text behind a call, of what ended it: brackets, the fence that is open, and the mark that was to end it,
    /// in either order.
    pub fn behind_end<'t>(&self, text: &'t str, open: bool) -> &'t str {
        let near = |rest: &&str| text.len().saturating_sub(rest.len()) <= MOST_BEFORE;
        let Some(mut rest) = Some(text.trim_start_matches(ENDS)).filter(near) else { return text };
        let mut ends = [Some(FENCE).filter(|_| open), Some(self.close)];
        for _ in 0..ends.len() {
            let start = rest.trim_start_matches(SPACE);
            for end in &mut ends {
                let Some(behind) = end.and_then(|end| start.strip_prefix(end)).filter(near) else { continue };
                // A fence that names a language begins something else.
                if *end != Some(FENCE) || !behind.starts_with(char::is_alphanumeric) {
                    (rest, *end) = (behind, None);
                    break;
                }
            }
        }
        rest
    }
}

/// The text ends where more of it would decide.
struct TooShort;

fn skip(rest: &mut &str) {
    *rest = rest.trim_start_matches(SPACE);
}

/// Takes what opens a fence, if it is there.
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

    fn look(text: &str) -> Beginning {
        let names = ["read", "read_all", "a\"b"];
        Unmarked::of(CallForm::Hermes, names.into_iter()).unwrap().beginning(text, false)
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
