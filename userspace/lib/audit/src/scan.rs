//! Reads a line of canonical JSON in one pass, without building its values.
//!
//! A text is canonical if writing what it says gives the same bytes: members sorted by the bytes of their names, no
//! white space, whole numbers of 64 bits, and in texts the escapes that writing uses.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// How deep values may lie in each other.
const DEPTH: usize = 32;

/// A member of the object that a line is.
#[derive(Debug)]
pub(crate) struct Member<'a> {
    pub name: Cow<'a, str>,
    /// Its value as it is written.
    pub value: &'a str,
    /// Where name and value lie in the line.
    pub place: Range<usize>,
}

/// The members of the object that a canonical line is; `None` if it is anything else.
pub(crate) fn members(line: &[u8]) -> Option<Vec<Member<'_>>> {
    let line = core::str::from_utf8(line).ok()?;
    let mut scan = Scan { line, at: 0 };
    let mut members = Vec::with_capacity(32);
    scan.object(DEPTH, &mut |member| members.push(member))?;
    (scan.at == line.len()).then_some(members)
}

/// The text of a member's value in the line.
pub(crate) fn value<'a>(members: &[Member<'a>], name: &str) -> Option<&'a str> {
    let at = members.binary_search_by(|member| member.name.as_ref().cmp(name)).ok()?;
    members.get(at).map(|member| member.value)
}

/// The text that a canonical text value stands for.
pub(crate) fn text(value: &str) -> Option<Cow<'_, str>> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str::<String>(value).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

struct Scan<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    fn peek(&self) -> Option<u8> {
        self.line.as_bytes().get(self.at).copied()
    }

    /// Takes this byte, if it is the next one.
    fn takes(&mut self, byte: u8) -> bool {
        let taken = self.peek() == Some(byte);
        if taken {
            self.at = self.at.saturating_add(1);
        }
        taken
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        self.takes(byte).then_some(())
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match self.peek()? {
            b'"' => self.text(),
            b'{' => self.object(depth, &mut |_| ()),
            b'[' => self.array(depth),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => self.number(),
        }
    }

    fn object(&mut self, depth: usize, found: &mut dyn FnMut(Member<'a>)) -> Option<()> {
        self.take(b'{')?;
        if self.takes(b'}') {
            return Some(());
        }
        let mut last: Option<Cow<'a, str>> = None;
        loop {
            let start = self.at;
            self.text()?;
            let name = text(self.line.get(start..self.at)?)?;
            if last.is_some_and(|last| last >= name) {
                return None;
            }
            self.take(b':')?;
            let from = self.at;
            self.value(depth)?;
            last = Some(name.clone());
            found(Member { name, value: self.line.get(from..self.at)?, place: start..self.at });
            if self.takes(b'}') {
                return Some(());
            }
            self.take(b',')?;
        }
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        self.take(b'[')?;
        if self.takes(b']') {
            return Some(());
        }
        loop {
            self.value(depth)?;
            if self.takes(b']') {
                return Some(());
            }
            self.take(b',')?;
        }
    }

    fn text(&mut self) -> Option<()> {
        self.take(b'"')?;
        loop {
            let rest = self.line.as_bytes().get(self.at..)?;
            let plain = rest.iter().position(|byte| matches!(byte, 0..0x20 | b'"' | b'\\'))?;
            self.at = self.at.checked_add(plain)?;
            if self.takes(b'"') {
                return Some(());
            }
            self.take(b'\\')?;
            self.escape()?;
        }
    }

    /// After a backslash: an escape that writing uses.
    fn escape(&mut self) -> Option<()> {
        let length = match self.peek()? {
            b'"' | b'\\' | b'b' | b't' | b'n' | b'f' | b'r' => 1,
            b'u' => {
                let digits = self.line.as_bytes().get(self.at..self.at.checked_add(5)?)?;
                let [_, b'0', b'0', high @ (b'0' | b'1'), low @ (b'0'..=b'9' | b'a'..=b'f')] = digits else {
                    return None;
                };
                // Those with an escape of their own are written with it.
                let short = *high == b'0' && matches!(low, b'8' | b'9' | b'a' | b'c' | b'd');
                if short {
                    return None;
                }
                5
            }
            _ => return None,
        };
        self.at = self.at.checked_add(length)?;
        Some(())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        let end = self.at.checked_add(word.len())?;
        (self.line.get(self.at..end)? == word).then(|| self.at = end)
    }

    /// A whole number of 64 bits.
    fn number(&mut self) -> Option<()> {
        let rest = self.line.get(self.at..)?;
        let length = rest.bytes().position(|byte| !matches!(byte, b'0'..=b'9' | b'-')).unwrap_or(rest.len());
        let number = rest.get(..length)?;
        let fits = match number.strip_prefix('-') {
            Some(digits) => !digits.starts_with('0') && number.parse::<i64>().is_ok(),
            None => (number == "0" || !number.starts_with('0')) && number.parse::<u64>().is_ok(),
        };
        fits.then_some(())?;
        self.at = self.at.checked_add(length)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::canonical;

    fn is_canonical(line: &str) -> bool {
        members(line.as_bytes()).is_some()
    }

    #[test]
    fn only_the_written_form_passes() {
        for line in [
            "{}",
            r#"{"a":1,"b":-1,"c":[],"d":{},"e":[true,false,null,0]}"#,
            r#"{"":"\"\\\b\t\n\f\r\u0000\u001f/é"}"#,
            r#"{"n":18446744073709551615,"z":-9223372036854775808}"#,
            "{\"\\n\":1,\"\\u001f\":2,\" \":3}",
        ] {
            assert!(is_canonical(line), "{line}");
        }
        for line in [
            "",
            "1",
            "[]",
            "{} ",
            r#"{"a": 1}"#,
            r#"{"b":1,"a":1}"#,
            r#"{"a":1,"a":1}"#,
            r#"{"a":01}"#,
            r#"{"a":-0}"#,
            r#"{"a":--1}"#,
            r#"{"a":1.0}"#,
            r#"{"a":18446744073709551616}"#,
            r#"{"a":"\/"}"#,
            r#"{"a":"\u000A"}"#,
            r#"{"a":"\u000a"}"#,
            r#"{"a":"\u0041"}"#,
            r#"{"a":"\u001F"}"#,
            "{\" \":3,\"\\n\":1}",
            r#"{"a":1,}"#,
            r#"{"a":tru}"#,
            r#"{"a":"#,
            r#"{"a":"x"#,
        ] {
            assert!(!is_canonical(line), "{line}");
        }
        let deep = |depth: usize| alloc::format!(r#"{{"a":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        assert!(is_canonical(&deep(DEPTH)) && !is_canonical(&deep(100_000)));
    }

    /// Values of whole numbers and texts, as records hold them.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<u64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[\\x00-\\x30\\\\]{0,8}".prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("\\PC{0,4}|[\\x00-\\x30]{0,3}", inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in value()) {
            let line = canonical::text(&value);
            let Some(members) = members(line.as_bytes()) else {
                prop_assert!(!value.is_object(), "{line}");
                return Ok(());
            };
            let object = value.as_object().unwrap();
            prop_assert_eq!(members.len(), object.len());
            for member in members {
                let own = object.get(member.name.as_ref()).unwrap();
                prop_assert_eq!(member.value, canonical::text(own));
                let read = text(member.value);
                prop_assert_eq!(read.as_deref(), own.as_str());
            }
        }

        /// One byte changed: it passes only if the line still is what writing gives.
        #[test]
        fn what_is_not_written_so_does_not_pass(value in value(), at: prop::sample::Index, byte: u8) {
            let mut line = canonical::text(&value).into_bytes();
            let place = at.index(line.len());
            line[place] = byte;
            if members(&line).is_some() {
                let again: Value = serde_json::from_slice(&line).unwrap();
                prop_assert_eq!(canonical::text(&again).into_bytes(), line);
            }
        }
    }
}
