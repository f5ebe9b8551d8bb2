//! Calls without a mark: an answer that begins with the object of one, alone or in a fence of Markdown.

use crate::CallForm;

/// Tools of a turn, and bytes of all their names, up to which calls without a mark are found. For more of them, grammars that
/// hold such calls are too large.
pub const MOST_TOOLS: usize = 64;
const MOST_BYTES: usize = 8 * 1024;
/// What stands around blocks of code.
pub const FENCE: &str = "```";
/// White space of JSON. Whatever else is space to others is none to the grammar, and so is text here.
pub const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

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
        /// Whether a fence was opened before it.
        fenced: bool,
    },
}

/// Looks at a text at the beginning of an answer, or behind a call. It is a call where its first member is the name of a tool,
/// written as in `names` (each a string of JSON, with its quotes), and the second its arguments: an object that names a tool
/// and goes on otherwise is text. Before the object may stand a fence, a bracket and, since templates of Qwen2.5 show it so, a
/// brace too many; before these, white space and what parts calls.
pub fn beginning<'n>(text: &str, names: impl Iterator<Item = &'n str>, arguments: &str) -> Beginning {
    match read(text, names, arguments) {
        Ok(Some((at, fenced))) => Beginning::Call { at, fenced },
        Ok(None) => Beginning::Text,
        Err(TooShort) => Beginning::Open,
    }
}

/// The text ends where more of it would decide.
struct TooShort;

/// Where the object begins, if one does, and whether in a fence.
fn read<'n>(
    text: &str,
    names: impl Iterator<Item = &'n str>,
    arguments: &str,
) -> Result<Option<(usize, bool)>, TooShort> {
    let mut rest = text.trim_start_matches(SPACE).trim_start_matches([' ', '\t', '\r', '\n', ',', ';']);
    let fenced = take(&mut rest, FENCE)?;
    if fenced {
        take(&mut rest, "json")?;
    }
    skip(&mut rest);
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
    if !take(&mut rest, "\"name\"")? {
        return Ok(None);
    }
    skip(&mut rest);
    if !take(&mut rest, ":")? {
        return Ok(None);
    }
    skip(&mut rest);
    // No such string begins as another does, since each ends with a quote that none has inside.
    let mut found = Ok(false);
    for name in names {
        found = match take(&mut rest, name) {
            Ok(false) => found,
            other => other,
        };
        if matches!(found, Ok(true)) {
            break;
        }
    }
    if !found? {
        return Ok(None);
    }
    skip(&mut rest);
    if !take(&mut rest, ",")? {
        return Ok(None);
    }
    skip(&mut rest);
    if !(take(&mut rest, "\"")? && take(&mut rest, arguments)? && take(&mut rest, "\"")?) {
        return Ok(None);
    }
    skip(&mut rest);
    Ok(take(&mut rest, ":")?.then_some((at, fenced)))
}

fn skip(rest: &mut &str) {
    *rest = rest.trim_start_matches(SPACE);
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
        beginning(text, ["\"read\"", "\"read_all\"", "\"a\\\"b\""].into_iter(), "arguments")
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
            "} {",
        ] {
            assert_eq!(look(text), Beginning::Text, "{text}");
        }
    }
}
