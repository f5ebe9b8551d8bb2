//! Bounds of a template and of what it makes, which the library that renders it does not have.

use std::io;

use minijinja::machinery::{Token, tokenize};

/// Parts of one expression or statement. The library goes a level deeper for each one in a chain, such as `a + a + a`.
const PARTS: usize = 512;
/// Further branches of conditions in a whole template, each of which is a level, too.
const BRANCHES: usize = 256;
/// Bytes that a template may make of a conversation: more than a context has room for.
const TEXT: usize = 16 << 20;

/// Why a template cannot be taken, if it goes past a bound.
pub fn excess(source: &str) -> Option<String> {
    let (mut parts, mut branches) = (0usize, 0usize);
    // What is no token the library tells by itself.
    let tokens = || tokenize(source, false, Default::default(), Default::default()).map_while(Result::ok);
    let mut before = None;
    let mut behind = tokens().skip(1).map(|(token, _)| token).peekable();
    for (token, place) in tokens() {
        let next = behind.next();
        match &token {
            Token::TemplateData(_) | Token::VariableStart | Token::BlockStart => parts = 0,
            _ => parts = parts.saturating_add(1),
        }
        if matches!(token, Token::Ident("elif")) {
            branches = branches.saturating_add(1);
        }
        let line = place.start_line;
        if parts > PARTS {
            return Some(format!("one expression has more than {PARTS} parts (line {line} of the template)"));
        }
        if branches > BRANCHES {
            return Some(format!("it has more than {BRANCHES} times elif (line {line} of the template)"));
        }
        let beside_text = is_text(before.as_ref()) || is_text(next.as_ref()) && ends(behind.peek());
        if matches!(token, Token::Mul) && !beside_text {
            return Some(format!(
                "* has no text in quotes beside it, so it can repeat a list without end (line {line} of the template)"
            ));
        }
        before = Some(token);
    }
    None
}

/// Whether a token is a text as it stands, which the library repeats up to a bound of its own; lists it repeats as often as
/// it is told, and neither fuel nor the bound of what is made ends that.
fn is_text(token: Option<&Token<'_>>) -> bool {
    matches!(token, Some(Token::Str(_) | Token::String(_)))
}

/// Whether what stands before this token is not made another thing by it.
fn ends(token: Option<&Token<'_>>) -> bool {
    !matches!(token, Some(Token::Pipe | Token::Dot | Token::BracketOpen | Token::ParenOpen))
}

/// What a template makes, up to the bound.
#[derive(Default)]
pub struct Made {
    text: Vec<u8>,
    /// Whether there would be more.
    full: bool,
}

impl Made {
    /// The text; why there is none, where it would be too long.
    pub fn finish(self) -> Result<String, String> {
        if self.full {
            return Err(format!("it makes more than {} MiB of it", TEXT >> 20));
        }
        String::from_utf8(self.text).map_err(|_| "what it makes is no text".into())
    }
}

impl io::Write for Made {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.full |= self.text.len().saturating_add(bytes.len()) > TEXT;
        if self.full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_are_repeated() {
        for source in ["2 * 3 outside", "{{ '=' * 20 }}", "{{ n * \"ab\" }}"] {
            assert_eq!(excess(source), None, "{source}");
        }
        for source in ["{{ [1] * 9 }}", "{{ 9 * tools }}", "{{ [1] * '9'|int }}", "{{ a['b'] * 9 }}", "{{ x * 'a'.n }}"]
        {
            let why = excess(&format!("{{% if 1 %}}\n{source}{{% endif %}}")).unwrap_or_default();
            assert!(why.contains("repeat a list") && why.contains("line 2"), "{source}: {why}");
        }
    }
}
