//! Text and tokens of a template's source.

use crate::Error;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// Text outside of blocks.
    Data(String),
    BlockBegin,
    BlockEnd,
    PrintBegin,
    PrintEnd,
    Name(String),
    Text(String),
    Int(i128),
    Float(f64),
    /// An operator or a bracket.
    Sign(&'static str),
}

/// Signs, longer ones first.
const SIGNS: [&str; 26] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".",
    ":", "|", ",", ";",
];

/// The tokens of a source with their lines.
///
/// # Errors
/// Something that is no token, or is not closed.
pub fn tokens(source: &str) -> Result<Vec<(Token, u32)>, Error> {
    let mut source = source.replace("\r\n", "\n").replace('\r', "\n");
    // jinja2 leaves the last line break out.
    if source.ends_with('\n') {
        source.pop();
    }
    let mut lexer = Lexer { rest: &source, line: 1, at_line_start: true, out: Vec::new() };
    lexer.template()?;
    Ok(lexer.out)
}

struct Lexer<'s> {
    rest: &'s str,
    line: u32,
    /// Whether the text that follows begins a line.
    at_line_start: bool,
    out: Vec<(Token, u32)>,
}

/// Characters that Python counts as white space.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

impl<'s> Lexer<'s> {
    fn template(&mut self) -> Result<(), Error> {
        while !self.rest.is_empty() {
            let is_mark =
                |at: &usize| matches!(self.rest.as_bytes().get(at.saturating_add(1)), Some(b'{' | b'%' | b'#'));
            let Some(at) = self.rest.match_indices('{').map(|(at, _)| at).find(is_mark) else {
                let data = std::mem::take(&mut self.rest);
                self.data(data);
                return Ok(());
            };
            let (text, behind) = self.rest.split_at_checked(at).unwrap_or((self.rest, ""));
            let mark = behind.get(..2).unwrap_or("");
            let sign = behind.get(2..).unwrap_or("").chars().next().filter(|c| matches!(c, '-' | '+'));
            let kept = self.before_mark(text, mark != "{{", sign);
            self.data(kept);
            self.count(text.get(kept.len()..).unwrap_or(""));
            self.rest = behind.get(2..).unwrap_or("");
            if let Some(sign) = sign {
                self.rest = self.rest.strip_prefix(sign).unwrap_or(self.rest);
            }
            match mark {
                "{{" => self.print()?,
                "{#" => self.comment()?,
                _ => self.block()?,
            }
        }
        Ok(())
    }

    /// What is kept of the text before a mark.
    fn before_mark<'t>(&self, text: &'t str, strips: bool, sign: Option<char>) -> &'t str {
        if sign == Some('-') {
            return text.trim_end_matches(is_space);
        }
        if !strips || sign == Some('+') {
            return text;
        }
        let line = text.rfind('\n').map_or(0, |at| at.saturating_add(1));
        let last = text.get(line..).unwrap_or("");
        let blank = !last.is_empty() && last.chars().all(is_space);
        if blank && (line > 0 || self.at_line_start) { text.get(..line).unwrap_or("") } else { text }
    }

    fn count(&mut self, text: &str) {
        let lines = text.bytes().filter(|byte| *byte == b'\n').count();
        self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
    }

    fn data(&mut self, text: &str) {
        if !text.is_empty() {
            self.out.push((Token::Data(text.into()), self.line));
            self.count(text);
        }
    }

    /// Continues after this many bytes.
    fn skip(&mut self, bytes: usize) -> &'s str {
        let (passed, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        self.count(passed);
        passed
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest.trim_start_matches(is_space);
        self.skip(self.rest.len().saturating_sub(rest.len()));
    }

    /// Behind the end of a block or a comment: the line break goes with it. A sign before the end says otherwise.
    fn behind_block(&mut self, sign: Option<char>) {
        self.at_line_start = false;
        match sign {
            Some('-') => {
                let rest = self.rest.trim_start_matches(is_space);
                let passed = self.skip(self.rest.len().saturating_sub(rest.len()));
                self.at_line_start = passed.ends_with('\n');
            }
            Some(_) => {}
            None if self.rest.starts_with('\n') => {
                self.skip(1);
                self.at_line_start = true;
            }
            None => {}
        }
    }

    fn comment(&mut self) -> Result<(), Error> {
        let end = self.rest.find("#}").ok_or_else(|| Error::syntax("a comment has no end", self.line))?;
        let text = self.skip(end);
        self.skip(2);
        self.behind_block(text.chars().next_back().filter(|c| matches!(c, '-' | '+')));
        Ok(())
    }

    fn print(&mut self) -> Result<(), Error> {
        self.out.push((Token::PrintBegin, self.line));
        let sign = self.inner("}}")?;
        self.out.push((Token::PrintEnd, self.line));
        self.at_line_start = false;
        if sign == Some('-') {
            self.behind_block(sign);
        }
        Ok(())
    }

    fn block(&mut self) -> Result<(), Error> {
        if let Some(behind) = self.raw_begins() {
            return self.raw(behind);
        }
        self.out.push((Token::BlockBegin, self.line));
        let sign = self.inner("%}")?;
        self.out.push((Token::BlockEnd, self.line));
        self.behind_block(sign);
        Ok(())
    }

    /// Behind `raw %}`, and whether white space goes.
    fn raw_begins(&self) -> Option<(&'s str, bool)> {
        let rest = self.rest.trim_start_matches(is_space).strip_prefix("raw")?.trim_start_matches(is_space);
        match rest.strip_prefix("-%}") {
            Some(rest) => Some((rest, true)),
            None => rest.strip_prefix("%}").map(|rest| (rest, false)),
        }
    }

    fn raw(&mut self, (behind, trims): (&'s str, bool)) -> Result<(), Error> {
        self.skip(self.rest.len().saturating_sub(behind.len()));
        self.at_line_start = false;
        if trims {
            self.behind_block(Some('-'));
        }
        let mut from = 0usize;
        while let Some(found) = self.rest.get(from..).and_then(|rest| rest.find("{%")) {
            let at = from.saturating_add(found);
            let inner = self.rest.get(at.saturating_add(2)..).unwrap_or("");
            let sign = inner.chars().next().filter(|c| matches!(c, '-' | '+'));
            let inner = sign.map_or(inner, |sign| inner.strip_prefix(sign).unwrap_or(inner));
            let end =
                inner.trim_start_matches(is_space).strip_prefix("endraw").map(|rest| rest.trim_start_matches(is_space));
            let closed = end.and_then(|end| {
                let last = end.chars().next().filter(|c| matches!(c, '-' | '+'));
                last.map_or(end, |last| end.strip_prefix(last).unwrap_or(end))
                    .strip_prefix("%}")
                    .map(|rest| (last, rest))
            });
            if let Some((last, rest)) = closed {
                let text = self.rest.get(..at).unwrap_or("");
                let kept = self.before_mark(text, true, sign);
                self.data(kept);
                let passed = self.rest.len().saturating_sub(rest.len());
                self.count(self.rest.get(kept.len()..passed).unwrap_or(""));
                self.rest = rest;
                self.behind_block(last);
                return Ok(());
            }
            from = at.saturating_add(2);
        }
        Err(Error::syntax("a raw block has no end", self.line))
    }

    /// The tokens up to `end`; the sign before it.
    fn inner(&mut self, end: &str) -> Result<Option<char>, Error> {
        let mut open: Vec<char> = Vec::new();
        loop {
            self.skip_spaces();
            if open.is_empty() {
                for sign in [Some('-'), Some('+'), None] {
                    // A `+` belongs to the end of blocks only.
                    if sign == Some('+') && end == "}}" {
                        continue;
                    }
                    let rest = sign.map_or(Some(self.rest), |sign| self.rest.strip_prefix(sign));
                    if let Some(rest) = rest.and_then(|rest| rest.strip_prefix(end)) {
                        self.skip(self.rest.len().saturating_sub(rest.len()));
                        return Ok(sign);
                    }
                }
            }
            let Some(first) = self.rest.chars().next() else {
                return Err(Error::syntax(format!("the end of the template, where {end} was expected"), self.line));
            };
            let line = self.line;
            let token = match first {
                '\'' | '"' => self.text(first)?,
                '0'..='9' => self.number()?,
                c if c == '_' || c.is_alphanumeric() => {
                    let rest = self.rest.trim_start_matches(|c: char| c == '_' || c.is_alphanumeric());
                    Token::Name(self.skip(self.rest.len().saturating_sub(rest.len())).into())
                }
                _ => self.sign(&mut open)?,
            };
            self.out.push((token, line));
        }
    }

    fn sign(&mut self, open: &mut Vec<char>) -> Result<Token, Error> {
        let Some(sign) = SIGNS.iter().find(|sign| self.rest.starts_with(**sign)) else {
            let found = self.rest.chars().next().unwrap_or_default();
            return Err(Error::syntax(format!("unexpected character {found:?}"), self.line));
        };
        match *sign {
            "(" => open.push(')'),
            "[" => open.push(']'),
            "{" => open.push('}'),
            ")" | "]" | "}" => {
                let expected = open.pop();
                if expected.is_none_or(|expected| !sign.starts_with(expected)) {
                    return Err(Error::syntax(format!("unexpected '{sign}'"), self.line));
                }
            }
            _ => {}
        }
        self.skip(sign.len());
        Ok(Token::Sign(sign))
    }

    fn digits(&mut self, base: u32) -> String {
        let rest = self.rest.trim_start_matches(|c: char| c == '_' || c.is_digit(base));
        self.skip(self.rest.len().saturating_sub(rest.len())).replace('_', "")
    }

    fn number(&mut self) -> Result<Token, Error> {
        let too_large = |line| Error::syntax("a number is too large", line);
        for (prefix, base) in [("0x", 16), ("0o", 8), ("0b", 2)] {
            let lower = self.rest.get(..2).unwrap_or("").to_ascii_lowercase();
            if lower == prefix {
                self.skip(2);
                let digits = self.digits(base);
                return i128::from_str_radix(&digits, base).map(Token::Int).map_err(|_| too_large(self.line));
            }
        }
        // What follows an access by a dot is never a part of a number: `a.0.1`.
        let behind_dot = matches!(self.out.last(), Some((Token::Sign("."), _)));
        let mut text = self.digits(10);
        let mut is_float = false;
        let is_digit = |rest: &str| rest.chars().next().is_some_and(|c| c.is_ascii_digit());
        if !behind_dot && self.rest.strip_prefix('.').is_some_and(is_digit) {
            self.skip(1);
            text.push('.');
            text.push_str(&self.digits(10));
            is_float = true;
        }
        let exponent =
            self.rest.strip_prefix(['e', 'E']).filter(|rest| is_digit(rest.strip_prefix(['+', '-']).unwrap_or(rest)));
        if exponent.is_some() && !behind_dot {
            self.skip(1);
            text.push('e');
            if self.rest.starts_with(['+', '-']) {
                text.push_str(self.skip(1));
            }
            text.push_str(&self.digits(10));
            is_float = true;
        }
        if is_float {
            return text.parse().map(Token::Float).map_err(|_| Error::syntax("this is not a number", self.line));
        }
        text.parse().map(Token::Int).map_err(|_| too_large(self.line))
    }

    fn text(&mut self, quote: char) -> Result<Token, Error> {
        let unclosed = Error::syntax("a text has no closing quote", self.line);
        self.skip(1);
        let mut out = String::new();
        loop {
            let Some(character) = self.rest.chars().next() else { return Err(unclosed) };
            self.skip(character.len_utf8());
            match character {
                '\\' => self.escape(&mut out)?,
                c if c == quote => return Ok(Token::Text(out)),
                c => out.push(c),
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), Error> {
        let Some(character) = self.rest.chars().next() else { return Ok(()) };
        self.skip(character.len_utf8());
        let coded = |lexer: &mut Self, digits: usize| {
            let code = lexer.rest.get(..digits).and_then(|text| u32::from_str_radix(text, 16).ok());
            lexer.skip(digits);
            code.and_then(char::from_u32).ok_or_else(|| Error::syntax("this escape is not a character", lexer.line))
        };
        let made = match character {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'v' => '\x0b',
            '\\' | '\'' | '"' => character,
            '\n' => return Ok(()),
            'x' => coded(self, 2)?,
            'u' => coded(self, 4)?,
            'U' => coded(self, 8)?,
            '0'..='7' => {
                let mut code = character.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    let Some(digit) = self.rest.chars().next().and_then(|c| c.to_digit(8)) else { break };
                    self.skip(1);
                    code = code.saturating_mul(8).saturating_add(digit);
                }
                char::from_u32(code).unwrap_or_default()
            }
            // Python keeps what it does not know.
            other => {
                out.push('\\');
                other
            }
        };
        out.push(made);
        Ok(())
    }
}
