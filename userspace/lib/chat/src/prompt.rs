//! What a template made of a conversation.

use capos_jinja::Char;
use capos_tokenizer::{Marks, Piece, Tokenizer};

use crate::guard::Guard;
use crate::lines::{RESULT, USER};

/// A text of a conversation that strings in calls repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaidText {
    /// The text.
    pub text: String,
    /// Whether a tool returned it. Others are a person's, or have the same role.
    pub is_result: bool,
}

/// What a model is to read, with what people, tools and documents wrote masked in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    masked: String,
}

impl From<&str> for SaidText {
    /// What a person says.
    fn from(text: &str) -> Self {
        Self { text: text.into(), is_result: false }
    }
}

impl Prompt {
    pub(crate) fn new(made: &[Char], guard: &Guard) -> Self {
        Self { masked: guard.mask(made) }
    }

    /// The text for people to look at. Marks in it and text that only looks like one cannot be told apart.
    pub fn text(&self) -> String {
        Guard::restore(&self.masked)
    }

    /// The tokens. Marks come from the template only.
    pub fn encode(&self, tokenizer: &Tokenizer) -> Vec<u32> {
        let restored = self.pieces(tokenizer);
        let begins = restored.first().and_then(|first| first.as_ref().ok().copied());
        // Templates write the begin token or leave it to the tokenizer.
        let added = tokenizer.begin().filter(|begin| begins != Some(*begin));
        let mut pieces: Vec<Piece<'_>> = added.map(Piece::Token).into_iter().collect();
        for piece in &restored {
            match piece {
                Ok(id) => pieces.push(Piece::Token(*id)),
                Err(text) => pieces.extend(tokenizer.split(text, Marks::Foreign)),
            }
        }
        tokenizer.encode_pieces(&pieces)
    }

    /// What people and tools say in a prompt of the built-in model, as far as the model is shown it.
    pub fn said(&self, tokenizer: &Tokenizer) -> Vec<SaidText> {
        let [user, result] = [USER, RESULT].map(|mark| tokenizer.vocabulary().find(mark));
        let pieces = self.pieces(tokenizer);
        let pairs = pieces.iter().zip(pieces.iter().skip(1));
        let said = pairs.filter_map(|(mark, text)| {
            let (mark, text) = (mark.as_ref().ok().copied()?, text.as_ref().err()?);
            let is_result = Some(mark) == result;
            (is_result || Some(mark) == user).then(|| SaidText { text: text.clone(), is_result })
        });
        said.collect()
    }

    /// The marks, and the texts between them as they are meant.
    fn pieces(&self, tokenizer: &Tokenizer) -> Vec<Result<u32, String>> {
        let pieces = tokenizer.split(&self.masked, Marks::All);
        let restored = pieces.into_iter().map(|piece| match piece {
            Piece::Token(id) => Ok(id),
            Piece::Text(text) => Err(Guard::restore(text)),
        });
        restored.collect()
    }
}
