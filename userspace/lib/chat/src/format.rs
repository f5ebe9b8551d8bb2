//! How a model file is talked to.

use capos_call_form::CallForm;
use capos_gguf::Header;
use capos_tokenizer::Tokenizer;

use crate::{ChatError, Template};

/// What stands for the chat template of a file without one, which was made to go on with texts: a transcript.
const TRANSCRIPT: &str = "{% for message in messages %}{{ message.role | capitalize }}: {{ message.content }}\n\n\
                          {% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}";

/// Where an answer in a transcript ends.
const TRANSCRIPT_STOPS: [&str; 3] = ["\nUser:", "\nTool:", "\nSystem:"];

/// How a model file is talked to: its template, or a transcript where it has none.
pub struct ChatFormat {
    template: Template,
    form: Option<CallForm>,
    stops: &'static [&'static str],
}

impl ChatFormat {
    /// The format of the file whose tokenizer this is.
    ///
    /// # Errors
    /// [`ChatError::Syntax`] where its template is none.
    pub fn of(header: &Header<'_>, tokenizer: &Tokenizer) -> Result<Self, ChatError> {
        let source = header.facts().chat_template;
        Ok(Self {
            template: Template::new(source.unwrap_or(TRANSCRIPT), tokenizer)?,
            form: source.and_then(CallForm::of),
            stops: if source.is_some() { &[] } else { &TRANSCRIPT_STOPS },
        })
    }

    /// What makes a prompt of a conversation.
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// How the model writes calls; none where it cannot be told of tools, or its calls not be read.
    pub fn form(&self) -> Option<CallForm> {
        self.form
    }

    /// Texts at which each answer ends, besides the model's own end.
    pub fn stops(&self) -> &'static [&'static str] {
        self.stops
    }
}
