//! Byte-level byte pair encoding: text is split into words, and within a word the pair of neighbours whose merge comes
//! first in the file's list is merged, until there is none.

use alloc::collections::BinaryHeap;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use capos_gguf::Header;
use hashbrown::HashMap;

use crate::parts::parts;
use crate::pre_tokenizer::PreTokenizer;
use crate::vocabulary::{self, Vocabulary};
use crate::{TokenizerError, byte_alphabet, families, limits};

const PRE: &str = "tokenizer.ggml.pre";
const MERGES: &str = "tokenizer.ggml.merges";

/// A piece of a word: a token, or from the number of tokens on a text that only merges know.
type Part = u32;

/// No neighbour.
const NONE: usize = usize::MAX;

/// The result of a merge, and its rank.
#[derive(Clone, Copy)]
struct Merge {
    rank: u32,
    part: Part,
}

/// A vocabulary's encoder of text.
pub struct BytePair {
    pre_tokenizer: PreTokenizer,
    whole_words: bool,
    /// The part that each byte is, if it has one.
    bytes: [Option<Part>; 256],
    merges: HashMap<(Part, Part), Merge>,
    /// Parts from here on are not tokens.
    tokens: u32,
    /// Tokens that no text becomes, in order.
    unmerged: Vec<u32>,
}

/// A piece of the word that is being merged.
#[derive(Clone, Copy)]
struct Symbol {
    /// `None` for a byte without a token, and for a symbol that was merged into its neighbour.
    part: Option<Part>,
    start: usize,
    end: usize,
    previous: usize,
    next: usize,
}

/// A merge that may be made: its rank, where its left part is, and the parts it was found for.
type Candidate = Reverse<(u32, usize, Part, Part, Part)>;

impl BytePair {
    /// Reads the parts of a byte-level vocabulary; also returns whether text begins with the begin token if the file
    /// does not say.
    pub fn new(header: &Header<'_>, vocabulary: &Vocabulary) -> Result<(Self, bool), TokenizerError> {
        let name = match header.get(PRE) {
            Some(value) => {
                value.as_text().ok_or_else(|| TokenizerError::Entry { key: PRE, why: "is not a text".into() })?
            }
            None => "default",
        };
        let family = families::find(name).ok_or_else(|| TokenizerError::Unsupported {
            key: PRE,
            found: name.into(),
            known: families::KNOWN,
        })?;
        let tokens = u32::try_from(vocabulary.len()).unwrap_or(u32::MAX);
        let mut bytes = [None; 256];
        for (byte, part) in (0u8..=255).zip(bytes.iter_mut()) {
            *part = vocabulary.find(byte_alphabet::character(byte).encode_utf8(&mut [0; 4]));
        }
        let merges = read_merges(header, vocabulary, tokens)?;
        let pre_tokenizer = PreTokenizer::new(family)?;
        let (whole_words, unmerged) = (family.whole_words, Vec::new());
        Ok((Self { pre_tokenizer, whole_words, bytes, merges, tokens, unmerged }, family.add_begin))
    }

    /// Makes these tokens, which are in order, of no text.
    pub fn leave_unmerged(&mut self, ids: Vec<u32>) {
        self.merges.retain(|_, merge| ids.binary_search(&merge.part).is_err());
        self.unmerged = ids;
    }

    /// Appends the tokens of `text`.
    pub fn encode(&self, text: &str, vocabulary: &Vocabulary, ids: &mut Vec<u32>) {
        let (mut symbols, mut candidates, mut written) = (Vec::new(), BinaryHeap::new(), String::new());
        self.pre_tokenizer.split(text, &mut |word| {
            if self.whole_words {
                written.clear();
                byte_alphabet::write(word.as_bytes(), &mut written);
                let whole = vocabulary.find(&written).filter(|id| self.unmerged.binary_search(id).is_err());
                if let Some(id) = whole {
                    ids.push(id);
                    return;
                }
            }
            for part in parts(word, |_, _| false) {
                self.merge(part.as_bytes(), &mut symbols, &mut candidates);
                for symbol in &symbols {
                    self.append(symbol, part.as_bytes(), vocabulary, ids);
                }
            }
        });
    }

    /// Leaves in `symbols` what the word is in the end, between others that were merged away.
    fn merge(&self, word: &[u8], symbols: &mut Vec<Symbol>, candidates: &mut BinaryHeap<Candidate>) {
        symbols.clear();
        candidates.clear();
        symbols.extend(word.iter().enumerate().map(|(at, byte)| {
            let next = at.saturating_add(1);
            Symbol {
                part: self.bytes.get(usize::from(*byte)).copied().flatten(),
                start: at,
                end: next,
                previous: at.checked_sub(1).unwrap_or(NONE),
                next: if next < word.len() { next } else { NONE },
            }
        }));
        for at in 0..symbols.len() {
            self.add_candidate(symbols, at, candidates);
        }
        while let Some(Reverse((_, at, left, right, part))) = candidates.pop() {
            let Some(first) = symbols.get(at).copied().filter(|symbol| symbol.part == Some(left)) else {
                continue;
            };
            let Some(second) = symbols.get(first.next).copied().filter(|symbol| symbol.part == Some(right)) else {
                continue;
            };
            if let Some(gone) = symbols.get_mut(first.next) {
                (gone.part, gone.start) = (None, gone.end);
            }
            if let Some(merged) = symbols.get_mut(at) {
                (merged.part, merged.end, merged.next) = (Some(part), second.end, second.next);
            }
            if let Some(after) = symbols.get_mut(second.next) {
                after.previous = at;
            }
            self.add_candidate(symbols, first.previous, candidates);
            self.add_candidate(symbols, at, candidates);
        }
    }

    /// Adds the merge of a symbol with the next one, if there is such a merge.
    fn add_candidate(&self, symbols: &[Symbol], at: usize, candidates: &mut BinaryHeap<Candidate>) {
        let Some(first) = symbols.get(at) else {
            return;
        };
        let (Some(left), Some(right)) = (first.part, symbols.get(first.next).and_then(|next| next.part)) else {
            return;
        };
        if let Some(merge) = self.merges.get(&(left, right)) {
            candidates.push(Reverse((merge.rank, at, left, right, merge.part)));
        }
    }

    /// Appends the token of a symbol; those of its bytes, if it is not a token. A byte without a token is left out, or
    /// is the unknown token if the file has one.
    fn append(&self, symbol: &Symbol, word: &[u8], vocabulary: &Vocabulary, ids: &mut Vec<u32>) {
        if let Some(id) = symbol.part.filter(|part| *part < self.tokens) {
            ids.push(id);
            return;
        }
        for byte in word.get(symbol.start..symbol.end).unwrap_or(&[]) {
            let known = self.bytes.get(usize::from(*byte)).copied().flatten();
            ids.extend(known.filter(|part| *part < self.tokens).or(vocabulary.roles().unknown));
        }
    }
}

/// Gives a number to each text that is merged or comes out of a merge: its token, or one after all tokens.
struct Parts<'a> {
    vocabulary: &'a Vocabulary,
    others: HashMap<String, Part>,
    next: Part,
}

impl Parts<'_> {
    fn number(&mut self, text: &str) -> Part {
        if let Some(id) = self.vocabulary.find(text) {
            return id;
        }
        if let Some(part) = self.others.get(text) {
            return *part;
        }
        let part = self.next;
        self.next = part.saturating_add(1);
        self.others.insert(text.into(), part);
        part
    }
}

fn read_merges(
    header: &Header<'_>,
    vocabulary: &Vocabulary,
    tokens: u32,
) -> Result<HashMap<(Part, Part), Merge>, TokenizerError> {
    let list = vocabulary::texts(header, MERGES, limits::MERGES)?
        .ok_or(TokenizerError::Missing { key: MERGES, what: "which says how bytes become tokens" })?;
    let mut parts = Parts { vocabulary, others: HashMap::new(), next: tokens };
    let mut merges = HashMap::with_capacity(usize::try_from(list.len()).unwrap_or(0));
    let mut whole = String::new();
    for (index, text) in list.iter().filter_map(|value| value.as_text()).enumerate() {
        let wrong = TokenizerError::Merge { index };
        // A space that begins the text is its first part.
        let first = text.chars().next().map_or(0, char::len_utf8);
        let space = text.get(first..).and_then(|rest| rest.find(' ')).map(|at| at.saturating_add(first));
        let Some((left, right)) = space.and_then(|at| Some((text.get(..at)?, text.get(at.checked_add(1)?..)?))) else {
            return Err(wrong);
        };
        if left.is_empty() || right.is_empty() || text.len() > limits::TOKEN_BYTES {
            return Err(wrong);
        }
        whole.clear();
        whole.push_str(left);
        whole.push_str(right);
        let pair = (parts.number(left), parts.number(right));
        let part = parts.number(&whole);
        let rank = u32::try_from(index).unwrap_or(u32::MAX);
        merges.entry(pair).or_insert(Merge { rank, part });
    }
    Ok(merges)
}
