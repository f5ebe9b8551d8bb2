//! Calls without a mark: an answer that begins with the object of one, alone or in a fence of Markdown.

/// Tools of a turn up to which calls without a mark are found. For more of them, grammars that hold such calls are too large.
pub const MOST_TOOLS: usize = 64;
/// What stands around blocks of code.
pub const FENCE: &str = "```";
/// White space of JSON. Whatever else is space to others is none to the grammar, and so is text here.
pub const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];
/// Bytes of what may stand before the object. Behind more of it text is text.
const LONGEST: usize = 256;

/// What the beginning of a text may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Text.
    Text,
    /// It is too short to tell.
    Open,
    /// An object that begins here, with a name as its first member.
    Object(usize),
}

/// Looks at a text from which nothing was given yet. Before the object may stand a fence, a bracket and, since templates of
/// Qwen2.5 show it so, a brace too many.
pub fn beginning(text: &str) -> Beginning {
    match read(text) {
        Ok(Some(at)) => Beginning::Object(at),
        Ok(None) => Beginning::Text,
        Err(TooShort) if text.len() > LONGEST => Beginning::Text,
        Err(TooShort) => Beginning::Open,
    }
}

/// The text ends where more of it would decide.
struct TooShort;

/// Where the object begins, if one does.
fn read(text: &str) -> Result<Option<usize>, TooShort> {
    let mut rest = text.trim_start_matches(SPACE);
    if take(&mut rest, FENCE)? {
        take(&mut rest, "json")?;
    }
    rest = rest.trim_start_matches(SPACE);
    take(&mut rest, "[")?;
    rest = rest.trim_start_matches(SPACE);
    let mut at = text.len().saturating_sub(rest.len());
    if !take(&mut rest, "{")? {
        return Ok(None);
    }
    rest = rest.trim_start_matches(SPACE);
    let inner = text.len().saturating_sub(rest.len());
    if take(&mut rest, "{")? {
        at = inner;
    }
    for part in ["\"name\"", ":", "\""] {
        rest = rest.trim_start_matches(SPACE);
        if !take(&mut rest, part)? {
            return Ok(None);
        }
    }
    Ok(Some(at))
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

    #[test]
    fn objects_are_found_behind_what_models_write_before_them() {
        for before in ["", " ", "```json\n", "```\n", "[", "```json\n[\n  ", "{", "```json{ "] {
            let text = format!("{before}{{\n  \"name\" : \"");
            assert_eq!(beginning(&text), Beginning::Object(before.len()), "{text}");
            for cut in 0..text.len() {
                assert_eq!(beginning(&text[..cut]), Beginning::Open, "{}", &text[..cut]);
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
        ] {
            assert_eq!(beginning(text), Beginning::Text, "{text}");
        }
        assert_eq!(beginning(&" ".repeat(LONGEST)), Beginning::Open);
        assert_eq!(beginning(&" ".repeat(LONGEST + 1)), Beginning::Text);
    }
}
