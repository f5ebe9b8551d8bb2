//! Which piece of a long text a call asks for, and what of it the model is told.

use alloc::format;
use alloc::string::String;

use capos_plural::count;
use serde_json::{Map, Value};

use crate::snapshot::Tool;
use capos_redact::{masked, secrets};

/// Bytes before and after a piece that are looked at as well, so that a secret which the piece holds a part of is found whole.
/// The longest that is looked for is a private key; those of 16,384 bits take 13 KiB.
const AROUND: u64 = 16 << 10;

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    offset: u64,
    length: u64,
}

/// What a service told of a text: a piece of it, where that begins, and how long the whole is.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// The piece.
    pub text: &'a str,
    /// Where it begins in the whole, in bytes.
    pub start: u64,
    /// Bytes of the whole.
    pub bytes: u64,
}

impl Piece {
    /// The piece that these arguments ask for, where the tool has pieces: without a length, or with one that is longer, as much
    /// as may reach the model.
    #[must_use]
    pub fn asked(tool: &Tool, arguments: &Map<String, Value>) -> Option<Self> {
        let number = |name: &str| arguments.get(name).and_then(Value::as_u64).unwrap_or(0);
        let most = tool.max_result as u64;
        let length = Some(number("length")).filter(|length| (1..most).contains(length)).unwrap_or(most);
        tool.pieces.then(|| Self { offset: number("offset"), length })
    }

    /// What to ask the service for: the piece and what lies around it.
    pub fn widen(self, arguments: &mut Map<String, Value>) {
        let start = self.offset.saturating_sub(AROUND);
        let end = self.offset.saturating_add(self.length).saturating_add(AROUND);
        for (name, value) in [("offset", start), ("length", end.saturating_sub(start))] {
            // A number past what the parameter holds is past every end as well.
            arguments.insert(name.into(), value.min(u64::from(u32::MAX)).into());
        }
    }

    /// The piece without what looks like a secret, and where the rest begins, where there is one.
    ///
    /// # Errors
    /// It begins past the end.
    pub fn of(self, told: Told<'_>) -> Result<String, String> {
        let Told { text, start, bytes } = told;
        if self.offset > bytes {
            return Err(format!("offset {} is past the end: the text has {}", self.offset, count(bytes, "byte")));
        }
        let place = |at: u64| text.floor_char_boundary(usize::try_from(at.saturating_sub(start)).unwrap_or(usize::MAX));
        let from = place(self.offset);
        let first = text.get(from..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        // A length that ends within the first character takes it whole, so that reading on reaches the end.
        let to = place(self.offset.saturating_add(self.length)).max(from.saturating_add(first));
        let most = usize::try_from(self.length).unwrap_or(usize::MAX);
        let (mut piece, end) = masked(text, &secrets(text), from..to, most);
        let absolute = |at: usize| start.saturating_add(at as u64);
        if absolute(end) < bytes {
            let (first, next) = (absolute(from), absolute(end));
            piece.push_str(&format!("\n[bytes {first} to {next} of {bytes}; the rest begins at offset {next}]"));
        }
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;
    use serde_json::json;

    fn tool(max_result: usize) -> Tool {
        Tool { pieces: true, max_result, ..Tool::default() }
    }

    /// What a service does: the bytes that are asked for, from the beginning of a character to that of another.
    fn serve(whole: &str, arguments: &Map<String, Value>) -> (String, u64) {
        let number = |name: &str| usize::try_from(arguments[name].as_u64().unwrap()).unwrap();
        let from = whole.floor_char_boundary(number("offset"));
        let to = whole.floor_char_boundary(number("offset").saturating_add(number("length")));
        (whole[from..to].to_string(), from as u64)
    }

    fn read(whole: &str, max_result: usize, arguments: &Value) -> Result<String, String> {
        let mut arguments = arguments.as_object().unwrap().clone();
        let piece = Piece::asked(&tool(max_result), &arguments).unwrap();
        piece.widen(&mut arguments);
        let (text, start) = serve(whole, &arguments);
        piece.of(Told { text: &text, start, bytes: whole.len() as u64 })
    }

    /// Follows the offsets that results name: all that was told, and in how many pieces.
    fn read_on(whole: &str, max_result: usize) -> (String, usize) {
        let (mut all, mut offset, mut pieces) = (String::new(), 0_u64, 0);
        loop {
            let told = read(whole, max_result, &json!({ "offset": offset })).unwrap();
            pieces += 1;
            let Some((text, mark)) = told.rsplit_once("\n[bytes ").filter(|_| told.ends_with(']')) else {
                return (all + &told, pieces);
            };
            all.push_str(text);
            let next = mark.trim_end_matches(']').rsplit(' ').next().unwrap().parse().unwrap();
            assert!(next > offset);
            offset = next;
        }
    }

    #[test]
    fn a_long_text_is_read_to_its_end() {
        for bytes in [40_000, 300_000] {
            let whole: String = (0_u32..)
                .map(|n| format!("line {n} é\n"))
                .scan(0, |sum, line| {
                    *sum += line.len();
                    (*sum < bytes).then_some(line)
                })
                .collect();
            let (all, pieces) = read_on(&whole, 16_384);
            assert_eq!(all, whole);
            assert_eq!(pieces, whole.len().div_ceil(16_384));
        }
        assert_eq!(read("short", 100, &json!({})).unwrap(), "short");
        assert_eq!(
            read("short", 100, &json!({"offset": 1, "length": 2})).unwrap(),
            "ho\n[bytes 1 to 3 of 5; the rest begins at offset 3]"
        );
        assert_eq!(read("short", 100, &json!({"offset": 5})).unwrap(), "");
        let past = read("short", 100, &json!({"offset": 6})).unwrap_err();
        assert_eq!(past, "offset 6 is past the end: the text has 5 bytes");
        assert!(read("short", 100, &json!({"offset": u32::MAX, "length": u32::MAX})).is_err());
    }

    #[test]
    fn no_choice_of_the_piece_shows_a_part_of_a_secret() {
        let key = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", "QUJD\n".repeat(2_500));
        let secrets = [
            "password=hunter2secret",
            "passwd = \"hunter, \\\"hunter\\\" 'hunter\nhunter\"",
            "secret_key: |\n  hunter\n\n  hunter",
            "https://user:hunter@host/",
            "Bearer hunter2hunter2hunter2",
            key.as_str(),
        ];
        for secret in secrets {
            let whole = format!("{}\n{secret}\n{}", "before ".repeat(4_000), "after ".repeat(4_000));
            let at = whole.find(secret).unwrap();
            for offset in (at..at + secret.len()).step_by(secret.len().div_ceil(300)) {
                for length in [1, 7, 500, 16_384] {
                    let told = read(&whole, 16_384, &json!({ "offset": offset, "length": length })).unwrap();
                    assert!(!told.contains("unter") && !told.contains("QUJD"), "{offset} {length}: {told:.80}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn pieces_come_together_as_the_whole(whole in "[aé\u{1f512}\n]{0,300}", most in 4_usize..80) {
            prop_assert_eq!(read_on(&whole, most).0, whole);
        }
    }
}
