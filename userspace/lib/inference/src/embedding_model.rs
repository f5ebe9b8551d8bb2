//! A model file, ready to embed texts.

use capos_engine::{EngineError, Model};
use capos_gguf::Header;
use capos_tokenizer::Tokenizer;

use crate::InferenceError;

/// A model file, ready to embed texts: an embedder, or a language model, which then needs no template. It stays where
/// it is; only small parts are copied.
pub struct EmbeddingModel<'f> {
    model: Model<'f>,
    tokenizer: Tokenizer,
}

impl<'f> EmbeddingModel<'f> {
    /// Reads a whole file. Texts have at most `context` tokens, or as many as the model was made for.
    ///
    /// # Errors
    /// [`InferenceError`] if the file is malformed, or not one that texts can be embedded with.
    pub fn open(file: &'f [u8], context: Option<usize>) -> Result<Self, InferenceError> {
        let header = Header::parse(file, file.len() as u64)?;
        let model = Model::new(&header, file, context)?;
        if model.config().pooling.is_none() {
            return Err(EngineError::EmbedsNothing.into());
        }
        Ok(Self { model, tokenizer: Tokenizer::new(&header)? })
    }

    /// The model.
    pub fn model(&self) -> &Model<'f> {
        &self.model
    }

    /// How text becomes tokens.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }
}
