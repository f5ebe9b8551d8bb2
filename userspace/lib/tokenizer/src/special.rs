//! Marks in text: tokens that are found as they are written, before anything else.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use capos_gguf::{CHAT_TEMPLATE, Header, TOOL_TEMPLATE};

use crate::vocabulary::looks_like_mark;
use crate::{TokenKind, TokenizerError, Vocabulary, limits};

/// Which tokens are found in text as they are written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// All of them. For text that the file's template made.
    All,
    /// Those that the file counts as text, and none that structures a conversation.
    Text,
    /// As [`Marks::Text`], without those that the file's chat template gives a meaning to, such as `<tool_call>`.
    /// For text of people, tools and documents.
    Foreign,
}

/// A part of the text to encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A token.
    Token(u32),
    /// Text.
    Text(&'a str),
}

/// Finds marks. If several begin at one place, the longest is found.
struct Finder {
    automaton: Option<AhoCorasick>,
    ids: Vec<u32>,
}

/// The marks of a vocabulary.
pub struct Special {
    all: Finder,
    text: Finder,
    foreign: Finder,
    /// Tokens after which white space is left out.
    strips: Vec<u32>,
    /// Marks that foreign text never has in it.
    guarded: Vec<u32>,
}

impl Special {
    pub fn new(header: &Header<'_>, vocabulary: &Vocabulary) -> Result<Self, TokenizerError> {
        let templates = templates(header);
        let kind = |id: u32| vocabulary.kind(id);
        let is_mark = |id: u32| matches!(kind(id), Some(TokenKind::Control | TokenKind::Unknown));
        let is_piece = |id: u32| kind(id) == Some(TokenKind::UserDefined);
        let is_mistyped = |id: u32| vocabulary.mistyped().binary_search(&id).is_ok();
        let text = |id: u32| vocabulary.text(id).unwrap_or("");
        let with = |test: &dyn Fn(u32) -> bool| {
            vocabulary.ids().filter(|id| !text(*id).is_empty() && test(*id)).collect::<Vec<u32>>()
        };
        let all = with(&|id| is_mark(id) || is_piece(id));
        check_work(vocabulary, &all, 0)?;
        let pieces = with(&is_piece);
        let searched = templates.iter().map(|template| template.len()).fold(0usize, usize::saturating_add);
        check_work(vocabulary, &pieces, searched)?;
        // Templates may put marks of bars together, from the speaker's name.
        let is_barred = |text: &str| ["<|", "<｜"].iter().any(|open| text.starts_with(open)) && text.ends_with('>');
        let said = |text: &str| is_barred(text) || templates.iter().any(|template| template.contains(text));
        let (spoken, foreign): (Vec<u32>, Vec<u32>) =
            pieces.iter().copied().partition(|id| text(*id).contains(|c: char| !c.is_whitespace()) && said(text(*id)));
        let foreign = foreign.into_iter().filter(|id| !is_mistyped(*id)).collect();
        let strips = if is_phi_3(header) {
            let keep = ["<unk>", "<s>", "<|endoftext|>"];
            all.iter().copied().filter(|id| !keep.contains(&text(*id))).collect()
        } else {
            Vec::new()
        };
        Ok(Self {
            guarded: with(&|id| is_mark(id) || is_mistyped(id) || spoken.binary_search(&id).is_ok()),
            foreign: Finder::new(vocabulary, foreign)?,
            text: Finder::new(vocabulary, with(&|id| is_piece(id) && !is_mistyped(id)))?,
            all: Finder::new(vocabulary, all)?,
            strips,
        })
    }

    /// The marks that foreign text never has in it.
    pub fn guarded(&self) -> &[u32] {
        &self.guarded
    }

    /// The marks among them that text must not come to by merging, either. Words that a template speaks of may be in it.
    pub fn unmerged(&self, vocabulary: &Vocabulary) -> Vec<u32> {
        let is_word = |id: &u32| {
            let is_text = vocabulary.kind(*id) == Some(TokenKind::UserDefined);
            is_text && !vocabulary.text(*id).is_some_and(looks_like_mark)
        };
        self.guarded.iter().copied().filter(|id| !is_word(id)).collect()
    }

    /// Splits `text` at its marks.
    pub fn split<'t>(&self, text: &'t str, marks: Marks) -> Vec<Piece<'t>> {
        let finder = match marks {
            Marks::All => &self.all,
            Marks::Text => &self.text,
            Marks::Foreign => &self.foreign,
        };
        let mut pieces = Vec::new();
        let mut at = 0;
        for (start, end, id) in finder.find(text) {
            // White space that was left out may have reached over a mark of white space.
            if start < at {
                continue;
            }
            pieces.extend(text.get(at..start).filter(|text| !text.is_empty()).map(Piece::Text));
            pieces.push(Piece::Token(id));
            at = end;
            if self.strips.contains(&id) {
                let rest = text.get(end..).unwrap_or("");
                let kept = rest.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
                at = text.len().saturating_sub(kept.len());
            }
        }
        pieces.extend(text.get(at..).filter(|text| !text.is_empty()).map(Piece::Text));
        pieces
    }
}

/// Ordinary tokens that are marks nevertheless, in order. They look like marks, and either the template contains them
/// or `encode` never produces them from text, so they were added to an existing vocabulary. Some converters do not
/// record that.
pub fn mistyped(
    header: &Header<'_>,
    vocabulary: &Vocabulary,
    encode: impl Fn(&str) -> Vec<u32>,
) -> Result<Vec<u32>, TokenizerError> {
    let templates = templates(header);
    let searched = templates.iter().map(|template| template.len()).fold(0usize, usize::saturating_add);
    let text = |id: u32| vocabulary.text(id).unwrap_or("");
    let is_open = |id: &u32| match vocabulary.kind(*id) {
        Some(TokenKind::Normal | TokenKind::Unused) => looks_like_mark(text(*id)),
        _ => false,
    };
    let mut found: Vec<u32> = vocabulary.ids().filter(is_open).collect();
    check_work(vocabulary, &found, searched)?;
    found.retain(|id| {
        let said = templates.iter().any(|template| template.contains(text(*id)));
        said || vocabulary.kind(*id) == Some(TokenKind::Normal) && encode(text(*id)) != [*id]
    });
    Ok(found)
}

/// The templates of a file.
fn templates<'a>(header: &Header<'a>) -> Vec<&'a str> {
    [CHAT_TEMPLATE, TOOL_TEMPLATE].into_iter().filter_map(|key| header.get(key)?.as_text()).collect()
}

/// Refuses tokens that would take too much work to be looked for, in templates of `searched` bytes.
fn check_work(vocabulary: &Vocabulary, ids: &[u32], searched: usize) -> Result<(), TokenizerError> {
    let bytes = ids.iter().filter_map(|id| vocabulary.text(*id)).map(str::len).fold(0usize, usize::saturating_add);
    if bytes > limits::MARK_BYTES {
        let why = format!("makes marks of tokens of {bytes} bytes; at most {} are accepted", limits::MARK_BYTES);
        return Err(TokenizerError::Entry { key: "tokenizer.ggml.token_type", why });
    }
    if searched.saturating_mul(ids.len()) > limits::SEARCHED_BYTES {
        let why = format!("has {searched} bytes, in which {} tokens would have to be looked for", ids.len());
        return Err(TokenizerError::Entry { key: CHAT_TEMPLATE, why });
    }
    Ok(())
}

impl Finder {
    fn new(vocabulary: &Vocabulary, ids: Vec<u32>) -> Result<Self, TokenizerError> {
        if ids.is_empty() {
            return Ok(Self { automaton: None, ids });
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(ids.iter().map(|id| vocabulary.text(*id).unwrap_or("")))
            .map_err(|error| TokenizerError::Rules { why: error.to_string() })?;
        Ok(Self { automaton: Some(automaton), ids })
    }

    /// Where marks begin and end, and which they are.
    fn find<'t>(&'t self, text: &'t str) -> impl Iterator<Item = (usize, usize, u32)> + 't {
        let found = self.automaton.iter().flat_map(move |automaton| automaton.find_iter(text));
        found.filter_map(|found| Some((found.start(), found.end(), *self.ids.get(found.pattern().as_usize())?)))
    }
}

/// Models of this name were trained without white space after marks; their files do not state that otherwise.
fn is_phi_3(header: &Header<'_>) -> bool {
    let name = header.get("general.name").and_then(|value| value.as_text()).unwrap_or("").to_ascii_lowercase();
    name.contains("phi-3") || name.contains("phi3")
}
