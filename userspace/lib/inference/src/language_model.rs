//! A model file, ready for conversations.

use std::sync::OnceLock;

use capos_chat::{CallForm, ChatError, ChatFormat};
use capos_engine::{EngineError, Model, Sampling};
use capos_gguf::Header;
use capos_grammar::Grammars;
use capos_tokenizer::Tokenizer;

use crate::{Family, InferenceError, Prompts};

/// A model file, ready for conversations. It stays where it is; only small parts are copied.
pub struct LanguageModel<'f> {
    model: Model<'f>,
    prompts: Prompts,
    sampling: Sampling,
    /// Made when the first answer is constrained to one: for large vocabularies that takes a while.
    grammars: OnceLock<Result<Grammars, ChatError>>,
}

impl<'f> LanguageModel<'f> {
    /// Reads a whole file. Conversations have at most `context` tokens, or as many as the model was made for.
    ///
    /// # Errors
    /// [`InferenceError`] if the file is malformed, or not one that can be run and talked to.
    pub fn open(file: &'f [u8], context: Option<usize>) -> Result<Self, InferenceError> {
        let header = Header::parse(file, file.len() as u64)?;
        let model = Model::new(&header, file, context)?;
        if !model.writes() {
            return Err(EngineError::WritesNothing.into());
        }
        Ok(Self {
            prompts: Prompts::of(&header, Some(model.context()))?,
            model,
            sampling: sampling(&header),
            grammars: OnceLock::new(),
        })
    }

    /// The model.
    pub fn model(&self) -> &Model<'f> {
        &self.model
    }

    /// How text becomes tokens.
    pub fn tokenizer(&self) -> &Tokenizer {
        self.prompts.tokenizer()
    }

    /// Whether it can be shown tools, and its calls be read.
    pub fn supports_tools(&self) -> bool {
        self.form().is_some()
    }

    /// How it writes calls.
    pub fn form(&self) -> Option<CallForm> {
        self.format().form()
    }

    /// How the file writes conversations.
    #[must_use]
    pub fn format(&self) -> &ChatFormat {
        self.prompts.format()
    }

    /// How its prompts are made.
    #[must_use]
    pub fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    /// Sets what it reads besides conversations about tools.
    pub fn set_family(&mut self, family: Option<Family>) {
        self.prompts.set_family(family);
    }

    pub(crate) fn sampling(&self) -> Sampling {
        self.sampling
    }

    pub(crate) fn stops(&self) -> impl Iterator<Item = String> {
        self.format().stops().iter().map(ToString::to_string)
    }

    pub(crate) fn grammars(&self) -> Result<&Grammars, ChatError> {
        self.grammars.get_or_init(|| Grammars::new(self.tokenizer())).as_ref().map_err(Clone::clone)
    }
}

/// The file's own setting for choosing tokens.
fn sampling(header: &Header<'_>) -> Sampling {
    let number = |key: &str, default: f32| {
        let found = header.get(&format!("general.sampling.{key}")).and_then(|value| value.as_f64());
        #[expect(clippy::cast_possible_truncation, reason = "The settings have no more digits.")]
        found.map_or(default, |found| found as f32)
    };
    let top_k = header.get("general.sampling.top_k").and_then(|value| value.as_u64());
    let default = Sampling::default();
    let found = Sampling {
        temperature: number("temp", default.temperature),
        top_k: top_k.and_then(|count| usize::try_from(count).ok()).unwrap_or(default.top_k),
        top_p: number("top_p", default.top_p),
        min_p: number("min_p", default.min_p),
        repetition_penalty: number("penalty_repeat", default.repetition_penalty),
        ..default
    };
    // Impossible values are not taken for an answer.
    if found.check().is_ok() { found } else { default }
}

#[cfg(test)]
mod tests {
    use capos_gguf::{Writer, WriterValue};

    use super::*;

    fn sampling_of(entries: &[(&str, WriterValue)]) -> Sampling {
        let mut writer = Writer::new();
        entries.iter().for_each(|(key, value)| writer.entry(&format!("general.sampling.{key}"), value.clone()));
        let file = writer.header();
        sampling(&Header::parse(&file, file.len() as u64).unwrap())
    }

    #[test]
    fn a_file_says_how_tokens_are_chosen() {
        assert_eq!(sampling_of(&[]), Sampling::default());
        let (temperature, top_k) = (("temp", WriterValue::F32(0.5)), ("top_k", WriterValue::U32(20)));
        let expected = Sampling { temperature: 0.5, top_k: 20, ..Sampling::default() };
        assert_eq!(sampling_of(&[temperature.clone(), top_k]), expected);
        // Impossible values count as absent.
        assert_eq!(sampling_of(&[temperature, ("top_p", WriterValue::F32(7.0))]), Sampling::default());
    }
}
