//! The tokens of a model file.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::hash::BuildHasher;

use capos_gguf::{Array, Header, Value, ValueType};
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::{TokenizerError, limits, sentence_piece};

const TOKENS: &str = "tokenizer.ggml.tokens";
const SCORES: &str = "tokenizer.ggml.scores";
const KINDS: &str = "tokenizer.ggml.token_type";

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A piece of text.
    Normal,
    /// Represents text without a token.
    Unknown,
    /// A mark that structures a conversation or a document. No text has it.
    Control,
    /// A piece of text that is found before all others.
    UserDefined,
    /// Never used.
    Unused,
    /// A single byte, written `<0xNN>`.
    Byte,
}

/// Texts of tokens that end an answer, whatever the file says that they are. Converters have marked some of them as
/// ordinary text.
const ENDS: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<｜end▁of▁sentence｜>",
];

/// Texts of tokens that structure a text with a gap to be filled, or a repository. They are marks, whatever the file says.
const FILLS: &[&str] = &[
    "<|fim_prefix|>",
    "<|fim_suffix|>",
    "<|fim_middle|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<fim_prefix>",
    "<fim_suffix>",
    "<fim_middle>",
    "<fim_pad>",
    "<fim-prefix>",
    "<fim-suffix>",
    "<fim-middle>",
    "<fim-pad>",
    "<reponame>",
    "<｜fim▁begin｜>",
    "<｜fim▁hole｜>",
    "<｜fim▁end｜>",
];

/// Tokens with a role of their own, each if the file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// Begins a text.
    pub begin: Option<u32>,
    /// Ends a text.
    pub end: Option<u32>,
    /// Represents text without a token.
    pub unknown: Option<u32>,
    /// Separates texts.
    pub separator: Option<u32>,
}

/// The tokens of a model file: their texts as they are written there, what they are for, and their scores.
pub struct Vocabulary {
    /// The texts one after another.
    text: alloc::string::String,
    /// Where each ends.
    ends: Vec<u32>,
    kinds: Vec<TokenKind>,
    scores: Vec<f32>,
    by_text: HashTable<u32>,
    hasher: DefaultHashBuilder,
    roles: Roles,
    /// Tokens that end an answer.
    answer_ends: Vec<u32>,
    /// Marks that the file takes for ordinary text, in order.
    mistyped: Vec<u32>,
}

impl Vocabulary {
    /// Reads the vocabulary of a file; `defaults` are the roles that hold if the file names none.
    pub(crate) fn new(header: &Header<'_>, defaults: Roles) -> Result<Self, TokenizerError> {
        let tokens = texts(header, TOKENS, limits::TOKENS)?
            .ok_or(TokenizerError::Missing { key: TOKENS, what: "which lists the vocabulary" })?;
        if tokens.is_empty() {
            return Err(TokenizerError::Entry { key: TOKENS, why: "is empty".to_string() });
        }
        let mut vocabulary = Self {
            text: alloc::string::String::new(),
            ends: Vec::new(),
            kinds: Vec::new(),
            scores: Vec::new(),
            by_text: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            roles: Roles::default(),
            answer_ends: Vec::new(),
            mistyped: Vec::new(),
        };
        for text in tokens.iter().filter_map(|value| value.as_text()) {
            vocabulary.push(text)?;
        }
        vocabulary.kinds = kinds(header, vocabulary.len())?;
        vocabulary.scores = scores(header, vocabulary.len())?;
        vocabulary.roles = Roles {
            begin: vocabulary.role(header, "tokenizer.ggml.bos_token_id", defaults.begin)?,
            end: vocabulary.role(header, "tokenizer.ggml.eos_token_id", defaults.end)?,
            unknown: vocabulary.role(header, "tokenizer.ggml.unknown_token_id", defaults.unknown)?,
            separator: vocabulary.role(header, "tokenizer.ggml.seperator_token_id", defaults.separator)?,
        };
        vocabulary.find_marks(header)?;
        Ok(vocabulary)
    }

    fn push(&mut self, text: &str) -> Result<(), TokenizerError> {
        let id = self.len();
        let wrong = |why: &str| TokenizerError::Token { id, why: why.to_string() };
        if text.len() > limits::TOKEN_BYTES {
            return Err(wrong(&format!("has {} bytes; at most {} are accepted", text.len(), limits::TOKEN_BYTES)));
        }
        if let Some(other) = self.find(text) {
            return Err(wrong(&format!("is '{}', as token {other} is", text.escape_debug())));
        }
        let end = self.text.len().saturating_add(text.len());
        let end32 = u32::try_from(end).ok().filter(|_| end <= limits::TEXT_BYTES);
        let (Some(end32), Ok(id32)) = (end32, u32::try_from(id)) else {
            return Err(wrong(&format!("comes after {} bytes of text, more than is accepted", limits::TEXT_BYTES)));
        };
        self.text.push_str(text);
        self.ends.push(end32);
        // Empty texts are placeholders that no text has in it.
        if !text.is_empty() {
            let hash = self.hasher.hash_one(text);
            let (texts, ends, hasher) = (&self.text, &self.ends, &self.hasher);
            self.by_text.insert_unique(hash, id32, |id| hasher.hash_one(text_of(texts, ends, *id).unwrap_or("")));
        }
        Ok(())
    }

    /// The token that a role falls to.
    fn role(
        &self,
        header: &Header<'_>,
        key: &'static str,
        default: Option<u32>,
    ) -> Result<Option<u32>, TokenizerError> {
        let Some(value) = header.get(key).filter(|value| !names_nothing(value)) else {
            return Ok(default.filter(|id| self.text(*id).is_some()));
        };
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok()).filter(|id| self.text(*id).is_some());
        let why = || format!("is not the number of a token; there are {}", self.len());
        id.map(Some).ok_or_else(|| TokenizerError::Entry { key, why: why() })
    }

    /// Finds the tokens that end an answer, and turns known marks into marks.
    fn find_marks(&mut self, header: &Header<'_>) -> Result<(), TokenizerError> {
        let named = ENDS.iter().filter_map(|text| self.find(text));
        // In vocabularies that have both of the others, `<|end|>` ends a message and the answer continues.
        let harmony = self.find("<|return|>").is_some() && self.find("<|call|>").is_some();
        let message_end = self.find("<|end|>").filter(|_| harmony);
        let mut all: Vec<u32> = named.filter(|id| Some(*id) != message_end).collect();
        let fills: Vec<u32> = FILLS.iter().filter_map(|text| self.find(text)).collect();
        // The same holds for a token that begins texts and separates them, if it looks like it.
        let named = [self.roles.begin, self.roles.end, self.roles.separator].into_iter().flatten();
        let roles: Vec<u32> = named.filter(|id| self.text(*id).is_some_and(looks_like_mark)).collect();
        for id in all.iter().chain(&message_end).chain(&fills).chain(&roles) {
            self.set_kind(*id, TokenKind::Control);
        }
        all.extend(self.roles.end);
        for key in ["tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"] {
            all.extend(self.role(header, key, None)?);
        }
        all.sort_unstable();
        all.dedup();
        self.answer_ends = all;
        Ok(())
    }

    /// Takes ordinary tokens for the marks that they are: they are found in a template's output, and in no other text.
    pub(crate) fn set_mistyped(&mut self, ids: Vec<u32>) {
        for id in &ids {
            self.set_kind(*id, TokenKind::UserDefined);
        }
        self.mistyped = ids;
    }

    /// Marks that the file takes for ordinary text, in order.
    pub(crate) fn mistyped(&self) -> &[u32] {
        &self.mistyped
    }

    fn set_kind(&mut self, id: u32, kind: TokenKind) {
        if let Some(found) = usize::try_from(id).ok().and_then(|id| self.kinds.get_mut(id)) {
            *found = kind;
        }
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it is empty; never so.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// A token's text as the file has it.
    pub fn text(&self, id: u32) -> Option<&str> {
        text_of(&self.text, &self.ends, id)
    }

    /// The token of this text.
    pub fn find(&self, text: &str) -> Option<u32> {
        self.by_text.find(self.hasher.hash_one(text), |id| self.text(*id) == Some(text)).copied()
    }

    /// The kind of a token.
    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        self.kinds.get(usize::try_from(id).ok()?).copied()
    }

    /// How much a token is preferred to others; 0 if the file does not have it.
    pub fn score(&self, id: u32) -> f32 {
        usize::try_from(id).ok().and_then(|id| self.scores.get(id)).copied().unwrap_or(0.0)
    }

    /// The tokens' numbers.
    pub fn ids(&self) -> impl Iterator<Item = u32> + use<> {
        0..u32::try_from(self.len()).unwrap_or(u32::MAX)
    }

    /// The tokens with a role of their own.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// The tokens that end an answer, in order.
    pub fn answer_ends(&self) -> &[u32] {
        &self.answer_ends
    }
}

/// Whether a token's text looks like a mark and not like something that a person writes: a name in angle brackets, or one in
/// capital letters in square ones.
pub(crate) fn looks_like_mark(text: &str) -> bool {
    let within = |open, close| text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    let is_name = |name: &str, brackets: [char; 2]| {
        name.chars().any(char::is_alphabetic) && !name.contains(|c: char| c.is_whitespace() || brackets.contains(&c))
    };
    let angled = within('<', '>').is_some_and(|name| is_name(name, ['<', '>']));
    let square = within('[', ']').is_some_and(|name| is_name(name, ['[', ']']) && !name.contains(char::is_lowercase));
    (angled || square) && sentence_piece::byte(text).is_none()
}

fn text_of<'a>(text: &'a str, ends: &[u32], id: u32) -> Option<&'a str> {
    let id = usize::try_from(id).ok()?;
    let place = |end: u32| usize::try_from(end).ok();
    let start = id.checked_sub(1).map_or(Some(0), |before| ends.get(before).copied().and_then(place))?;
    text.get(start..place(*ends.get(id)?)?)
}

/// Whether a token's number is -1, by which converters say that there is no such token; in 32 bits it is often unsigned.
fn names_nothing(value: &Value<'_>) -> bool {
    matches!(value, Value::I32(-1) | Value::I64(-1) | Value::U32(u32::MAX) | Value::U64(u64::MAX))
}

/// A truth value, if it is there.
pub(crate) fn flag(header: &Header<'_>, key: &'static str) -> Result<Option<bool>, TokenizerError> {
    let Some(value) = header.get(key) else {
        return Ok(None);
    };
    let why = "is no truth value".to_string();
    value.as_bool().map(Some).ok_or(TokenizerError::Entry { key, why })
}

/// An array of texts, no longer than `limit`.
pub(crate) fn texts<'a>(
    header: &Header<'a>,
    key: &'static str,
    limit: u64,
) -> Result<Option<Array<'a>>, TokenizerError> {
    let Some(array) = array(header, key)? else {
        return Ok(None);
    };
    if array.kind() != ValueType::Text {
        return Err(TokenizerError::Entry { key, why: "is not an array of texts".to_string() });
    }
    if array.len() > limit {
        let why = format!("has {} values; at most {limit} are accepted", array.len());
        return Err(TokenizerError::Entry { key, why });
    }
    Ok(Some(array))
}

fn array<'a>(header: &Header<'a>, key: &'static str) -> Result<Option<Array<'a>>, TokenizerError> {
    let Some(value) = header.get(key) else {
        return Ok(None);
    };
    let why = "is not an array".to_string();
    value.as_array().map(Some).ok_or(TokenizerError::Entry { key, why })
}

/// One value for each token.
fn per_token<'a>(header: &Header<'a>, key: &'static str, tokens: usize) -> Result<Option<Array<'a>>, TokenizerError> {
    let array = array(header, key)?;
    if let Some(array) = array.filter(|array| usize::try_from(array.len()) != Ok(tokens)) {
        let why = format!("has {} values, but there are {tokens} tokens", array.len());
        return Err(TokenizerError::Entry { key, why });
    }
    Ok(array)
}

fn scores(header: &Header<'_>, tokens: usize) -> Result<Vec<f32>, TokenizerError> {
    let Some(array) = per_token(header, SCORES, tokens)? else {
        return Ok(Vec::new());
    };
    let wrong = |why: &str| TokenizerError::Entry { key: SCORES, why: why.to_string() };
    let number = |value: Value<'_>| match value {
        Value::F32(score) if score.is_nan() => Err(wrong("has a value that is not a number (NaN)")),
        Value::F32(score) => Ok(score),
        #[expect(clippy::cast_precision_loss, reason = "Only their order counts.")]
        Value::I32(score) => Ok(score as f32),
        _ => Err(wrong("is not an array of numbers of 32 bits")),
    };
    array.iter().map(number).collect()
}

fn kinds(header: &Header<'_>, tokens: usize) -> Result<Vec<TokenKind>, TokenizerError> {
    let Some(array) = per_token(header, KINDS, tokens)? else {
        return Ok(core::iter::repeat_n(TokenKind::Normal, tokens).collect());
    };
    let kind = |(id, value): (usize, Value<'_>)| {
        let code = match value {
            Value::I32(code) => i64::from(code),
            Value::U32(code) => i64::from(code),
            _ => {
                let why = "is not an array of whole numbers of 32 bits".to_string();
                return Err(TokenizerError::Entry { key: KINDS, why });
            }
        };
        match code {
            // Undefined: written by converters that do not distinguish kinds.
            0 | 1 => Ok(TokenKind::Normal),
            2 => Ok(TokenKind::Unknown),
            3 => Ok(TokenKind::Control),
            4 => Ok(TokenKind::UserDefined),
            5 => Ok(TokenKind::Unused),
            6 => Ok(TokenKind::Byte),
            _ => Err(TokenizerError::Token { id, why: format!("is of type {code}; only 0 to 6 are known") }),
        }
    };
    array.iter().enumerate().map(kind).collect()
}
