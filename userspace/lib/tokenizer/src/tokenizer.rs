//! A model file's tokenizer.

use alloc::string::String;
use alloc::vec::Vec;

use capos_gguf::Header;

use crate::byte_pair::BytePair;
use crate::sentence_piece::{self, SPACE, SentencePiece};
use crate::special::{self, Special};
use crate::vocabulary::Roles;
use crate::word_piece::WordPiece;
use crate::{Marks, Piece, TokenKind, TokenizerError, Vocabulary, byte_alphabet, flag};

const MODEL: &str = "tokenizer.ggml.model";

/// How text that is not a mark becomes tokens.
enum Model {
    BytePair(BytePair),
    SentencePiece(SentencePiece),
    WordPiece(WordPiece),
}

impl Model {
    /// The tokens of a token's text, if no marks are looked for in it.
    fn encode_alone(&self, written: &str, vocabulary: &Vocabulary) -> Vec<u32> {
        let mut ids = Vec::new();
        match self {
            Self::BytePair(model) => {
                // Ordinary tokens are written in the alphabet of bytes, and those that were added as they are.
                let mut bytes = Vec::new();
                let is_ordinary = written.chars().all(|character| byte_alphabet::byte(character).is_some());
                if is_ordinary {
                    byte_alphabet::read(written, &mut bytes);
                }
                let text = String::from_utf8(bytes).ok().filter(|_| is_ordinary);
                model.encode(text.as_deref().unwrap_or(written), vocabulary, &mut ids);
            }
            Self::SentencePiece(model) => model.encode(written, false, vocabulary, &mut ids),
            // Here text is split at brackets, and a text that looks like a mark is one.
            Self::WordPiece(_) => ids.extend(vocabulary.find(written)),
        }
        ids
    }

    /// Makes these of no text.
    fn leave_unmerged(&mut self, ids: Vec<u32>) {
        match self {
            Self::BytePair(model) => model.leave_unmerged(ids),
            Self::SentencePiece(model) => model.leave_unmerged(ids),
            Self::WordPiece(_) => {}
        }
    }
}

/// Turns text into the tokens of a model file, and back.
pub struct Tokenizer {
    vocabulary: Vocabulary,
    special: Special,
    model: Model,
    begin: Option<u32>,
    end: Option<u32>,
    space_prefix: bool,
}

impl Tokenizer {
    /// Takes the tokenizer out of a file's metadata.
    ///
    /// # Errors
    /// [`TokenizerError`] if the metadata is inconsistent or names a tokenizer that is not known here.
    pub fn new(header: &Header<'_>) -> Result<Self, TokenizerError> {
        let name = header
            .get(MODEL)
            .and_then(|value| value.as_text())
            .ok_or(TokenizerError::Missing { key: MODEL, what: "which names the kind of tokenizer" })?;
        let defaults = match name {
            "gpt2" => Roles::default(),
            "llama" => Roles { begin: Some(1), end: Some(2), unknown: Some(0), separator: None },
            "bert" => Roles { begin: Some(101), end: None, unknown: Some(100), separator: Some(102) },
            _ => {
                let known = "gpt2 (byte-level byte pair encoding), llama (SentencePiece) and bert (WordPiece)";
                return Err(TokenizerError::Unsupported { key: MODEL, found: name.into(), known });
            }
        };
        let mut vocabulary = Vocabulary::new(header, defaults)?;
        let (mut model, add_begin) = match name {
            "gpt2" => {
                let (model, add_begin) = BytePair::new(header, &vocabulary)?;
                (Model::BytePair(model), add_begin)
            }
            "llama" => (Model::SentencePiece(SentencePiece::new(&vocabulary)), true),
            _ => (Model::WordPiece(WordPiece::new(header, &vocabulary)?), true),
        };
        vocabulary.set_mistyped(special::mistyped(header, &vocabulary, |text| model.encode_alone(text, &vocabulary))?);
        let special = Special::new(header, &vocabulary)?;
        model.leave_unmerged(special.unmerged(&vocabulary));
        let is_sentence_piece = matches!(model, Model::SentencePiece(_));
        let space_prefix = is_sentence_piece && flag(header, "tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
        let roles = vocabulary.roles();
        let (begin, end) = match model {
            // The tokens around texts of these models are fixed.
            Model::WordPiece(_) => (roles.begin, roles.separator),
            _ => (
                added(header, "tokenizer.ggml.add_bos_token", add_begin, roles.begin)?,
                added(header, "tokenizer.ggml.add_eos_token", false, roles.end)?,
            ),
        };
        Ok(Self { vocabulary, special, model, begin, end, space_prefix })
    }

    /// The tokens.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// The token that text begins with, if the file says that it does.
    pub fn begin(&self) -> Option<u32> {
        self.begin
    }

    /// The token that text ends with, if the file says that it does.
    pub fn end(&self) -> Option<u32> {
        self.end
    }

    /// The marks that text of people and tools never has in it ([`Marks::Foreign`]).
    pub fn guarded_marks(&self) -> impl Iterator<Item = &str> {
        self.special.guarded().iter().filter_map(|id| self.vocabulary.text(*id))
    }

    /// The tokens of a text, without [`Self::begin`] and [`Self::end`].
    pub fn encode(&self, text: &str, marks: Marks) -> Vec<u32> {
        self.encode_pieces(&self.special.split(text, marks))
    }

    /// Splits a text at its marks.
    pub fn split<'t>(&self, text: &'t str, marks: Marks) -> Vec<Piece<'t>> {
        self.special.split(text, marks)
    }

    /// The tokens of marks and of text between them, in which no marks are looked for.
    pub fn encode_pieces(&self, pieces: &[Piece<'_>]) -> Vec<u32> {
        let mut ids = Vec::new();
        // Text that follows a mark starts over.
        let mut anew = true;
        for piece in pieces {
            match (piece, &self.model) {
                (Piece::Token(id), _) => ids.push(*id),
                (Piece::Text(text), Model::BytePair(model)) => model.encode(text, &self.vocabulary, &mut ids),
                (Piece::Text(text), Model::SentencePiece(model)) => {
                    model.encode(text, anew && self.space_prefix, &self.vocabulary, &mut ids);
                }
                (Piece::Text(text), Model::WordPiece(model)) => model.encode(text, &self.vocabulary, &mut ids),
            }
            anew = matches!(piece, Piece::Token(_));
        }
        ids
    }

    /// Appends the bytes that a token stands for; those of a mark only with `marks`.
    pub fn append_bytes(&self, id: u32, marks: bool, bytes: &mut Vec<u8>) {
        let (Some(text), Some(kind)) = (self.vocabulary.text(id), self.vocabulary.kind(id)) else {
            return;
        };
        match kind {
            TokenKind::Control | TokenKind::Unknown if !marks => {}
            TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined => {
                bytes.extend_from_slice(text.as_bytes())
            }
            TokenKind::Normal | TokenKind::Byte | TokenKind::Unused => {
                match (&self.model, sentence_piece::byte(text)) {
                    (Model::BytePair(_), _) => byte_alphabet::read(text, bytes),
                    (_, Some(byte)) if kind == TokenKind::Byte => bytes.push(byte),
                    _ => text.split(SPACE).enumerate().for_each(|(at, part)| {
                        bytes.extend((at > 0).then_some(b' '));
                        bytes.extend_from_slice(part.as_bytes());
                    }),
                }
            }
        }
    }

    /// Whether text gets a space before it when it is encoded.
    pub(crate) fn begins_with_space(&self) -> bool {
        self.space_prefix
    }
}

/// A token that is added to each text, as an entry of the file says.
fn added(
    header: &Header<'_>,
    key: &'static str,
    default: bool,
    token: Option<u32>,
) -> Result<Option<u32>, TokenizerError> {
    // A default without a token in the file is absent.
    let wanted = flag(header, key)?.unwrap_or(default && token.is_some());
    let why = || "asks for a token that the file does not name".into();
    if wanted && token.is_none() {
        return Err(TokenizerError::Entry { key, why: why() });
    }
    Ok(token.filter(|_| wanted))
}
