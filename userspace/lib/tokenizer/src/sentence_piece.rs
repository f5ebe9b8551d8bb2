//! SentencePiece with scores: of all neighbours that make a token together those with the highest score are merged,
//! until there are none. Spaces are written `▁`; characters without a token become the tokens of their bytes.

use alloc::collections::BinaryHeap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::parts::parts;
use crate::vocabulary::Vocabulary;

/// The character for a space.
pub const SPACE: char = '▁';

/// No neighbour.
const NONE: usize = usize::MAX;

/// A vocabulary's encoder of text.
pub struct SentencePiece {
    /// The token that each byte is, if it has one.
    bytes: [Option<u32>; 256],
    /// Bytes of the longest token.
    longest: usize,
    /// Tokens that no text becomes, in order.
    unmerged: Vec<u32>,
}

/// A piece of the text that is being merged; removed if it is empty.
#[derive(Clone, Copy)]
struct Symbol {
    start: usize,
    end: usize,
    previous: usize,
    next: usize,
}

/// A possible merge: of the text between `start` and `end`, by the symbol at `at`, whose right neighbour begins at
/// `middle`.
struct Candidate {
    score: f32,
    at: usize,
    middle: usize,
    end: usize,
}

impl Ord for Candidate {
    /// Higher scores come first, then what is further left.
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.at.cmp(&self.at))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

impl SentencePiece {
    pub fn new(vocabulary: &Vocabulary) -> Self {
        let mut bytes = [None; 256];
        for (byte, id) in (0u8..=255).zip(bytes.iter_mut()) {
            *id = vocabulary.find(&format!("<0x{byte:02X}>"));
        }
        let longest = vocabulary.ids().filter_map(|id| vocabulary.text(id)).map(str::len).max().unwrap_or(0);
        Self { bytes, longest, unmerged: Vec::new() }
    }

    /// Makes these tokens, which are in order, of no text.
    pub fn leave_unmerged(&mut self, ids: Vec<u32>) {
        self.unmerged = ids;
    }

    /// The token of a piece of text.
    fn find(&self, piece: &str, vocabulary: &Vocabulary) -> Option<u32> {
        vocabulary.find(piece).filter(|id| self.unmerged.binary_search(id).is_err())
    }

    /// Appends the tokens of `text`, with a space before it if asked.
    pub fn encode(&self, text: &str, space_before: bool, vocabulary: &Vocabulary, ids: &mut Vec<u32>) {
        let mut written = String::with_capacity(text.len());
        if space_before {
            written.push(SPACE);
        }
        written.extend(text.chars().map(|character| if character == ' ' { SPACE } else { character }));
        let is_border = |before: &str, behind: &str| !before.ends_with(SPACE) && behind.starts_with(SPACE);
        let mut symbols = Vec::new();
        for part in parts(&written, is_border) {
            self.encode_part(part, &mut symbols, vocabulary, ids);
        }
    }

    fn encode_part(&self, text: &str, symbols: &mut Vec<Symbol>, vocabulary: &Vocabulary, ids: &mut Vec<u32>) {
        symbols.clear();
        let mut at = 0usize;
        for character in text.chars() {
            let (start, end) = (at, at.saturating_add(character.len_utf8()));
            let next = symbols.len().saturating_add(1);
            let previous = symbols.len().checked_sub(1).unwrap_or(NONE);
            symbols.push(Symbol { start, end, previous, next });
            at = end;
        }
        if let Some(last) = symbols.last_mut() {
            last.next = NONE;
        }
        self.merge(text, symbols, vocabulary);
        for symbol in symbols {
            let piece = text.get(symbol.start..symbol.end).unwrap_or("");
            match self.find(piece, vocabulary) {
                Some(id) => ids.push(id),
                None => ids.extend(piece.bytes().filter_map(|byte| self.byte(byte, vocabulary))),
            }
        }
    }

    /// The token of a byte, or the unknown token.
    fn byte(&self, byte: u8, vocabulary: &Vocabulary) -> Option<u32> {
        self.bytes.get(usize::from(byte)).copied().flatten().or(vocabulary.roles().unknown)
    }

    fn merge(&self, text: &str, symbols: &mut [Symbol], vocabulary: &Vocabulary) {
        let mut candidates = BinaryHeap::new();
        for at in 0..symbols.len() {
            candidates.extend(self.candidate(text, symbols, at, vocabulary));
        }
        while let Some(Candidate { at, middle, end, .. }) = candidates.pop() {
            let Some(first) = symbols.get(at).copied().filter(|symbol| symbol.end == middle) else {
                continue;
            };
            let is_same = |symbol: &Symbol| symbol.start == middle && symbol.end == end;
            let Some(second) = symbols.get(first.next).copied().filter(is_same) else {
                continue;
            };
            if let Some(gone) = symbols.get_mut(first.next) {
                *gone = Symbol { start: gone.end, next: NONE, ..*gone };
            }
            if let Some(merged) = symbols.get_mut(at) {
                (merged.end, merged.next) = (second.end, second.next);
            }
            if let Some(after) = symbols.get_mut(second.next) {
                after.previous = at;
            }
            candidates.extend(self.candidate(text, symbols, first.previous, vocabulary));
            candidates.extend(self.candidate(text, symbols, at, vocabulary));
        }
    }

    /// The merge of a symbol with the next one, if they make a token.
    fn candidate(&self, text: &str, symbols: &[Symbol], at: usize, vocabulary: &Vocabulary) -> Option<Candidate> {
        let first = symbols.get(at)?;
        let second = symbols.get(first.next)?;
        let whole = text.get(first.start..second.end).filter(|whole| whole.len() <= self.longest)?;
        let score = vocabulary.score(self.find(whole, vocabulary)?);
        Some(Candidate { score, at, middle: first.end, end: second.end })
    }
}

/// The byte that a token such as `<0x0A>` stands for.
pub fn byte(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    u8::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 2)
}
