//! The format of conversations with a model file.

use capos_call_form::CallForm;
use capos_gguf::Header;
use capos_tokenizer::Tokenizer;

use crate::again::call_again;
use crate::asked::AskedWith;
use crate::{ChatError, Conversation, Message, Prompt, Role, Template, Tool};

/// The chat template for a file without one. Such a model continues texts, so the conversation is written as a transcript.
const TRANSCRIPT: &str = "{% for message in messages %}{{ message.role | capitalize }}: {{ message.content }}\n\n\
                          {% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}";

/// The turns of a conversation that the built-in model is shown.
const SHOWN_TURNS: usize = 2;
/// Where an answer in a transcript ends.
const TRANSCRIPT_STOPS: [&str; 3] = ["\nUser:", "\nTool:", "\nSystem:"];

/// The format of conversations with a model file: its template, or a transcript if it has none.
pub struct ChatFormat {
    template: Template,
    /// The template for conversations with tools, if the file has a separate one.
    with_tools: Option<Template>,
    form: Option<CallForm>,
    asked_with: AskedWith,
    stops: &'static [&'static str],
}

impl ChatFormat {
    /// The format of the file whose tokenizer this is.
    ///
    /// # Errors
    /// [`ChatError::Syntax`] where a template of it is none.
    pub fn of(header: &Header<'_>, tokenizer: &Tokenizer) -> Result<Self, ChatError> {
        let facts = header.facts();
        let source = facts.template_without_tools();
        let with_tools = CallForm::first(facts.templates_with_tools());
        let apart = with_tools.map(|(template, _)| template).filter(|template| Some(*template) != source);
        Ok(Self {
            template: Template::new(source.unwrap_or(TRANSCRIPT), tokenizer)?,
            with_tools: apart.map(|template| Template::new(template, tokenizer)).transpose()?,
            form: with_tools.map(|(_, form)| form),
            asked_with: AskedWith::of(header),
            stops: if source.is_some() { &[] } else { &TRANSCRIPT_STOPS },
        })
    }

    /// What the model is to read of a conversation.
    ///
    /// # Errors
    /// [`ChatError::Rendering`] where the template refuses the conversation.
    pub fn render(&self, conversation: &Conversation<'_>) -> Result<Prompt, ChatError> {
        self.template_for(conversation).render(conversation)
    }

    /// The same, with calls and results written as texts: for a template that rejects a conversation with them.
    ///
    /// # Errors
    /// [`ChatError::Rendering`] where the template rejects that, too.
    pub fn render_plain(&self, conversation: &Conversation<'_>) -> Result<Prompt, ChatError> {
        self.template_for(conversation).render_plain(conversation)
    }

    fn template_for(&self, conversation: &Conversation<'_>) -> &Template {
        let with_tools = self.with_tools.as_ref().filter(|_| !conversation.tools.is_empty());
        with_tools.unwrap_or(&self.template)
    }

    /// The form of the model's calls. None if the template does not show tools, or the form is unknown.
    pub fn form(&self) -> Option<CallForm> {
        self.form
    }

    /// The tools that the model can call in an answer of the form [`CallForm::Lines`]: all but those that no person asked for
    /// in the two latest turns. The file lists the words for that ([`crate::ASKED_WITH`], [`crate::NOT_NAMES`]).
    pub fn callable(&self, tools: &[Tool], messages: &[Message]) -> Vec<Tool> {
        let is_persons = |message: &Message| message.role == Role::User && !message.untrusted;
        let requests = messages.iter().enumerate().rev().filter(|(_, message)| is_persons(message)).take(SHOWN_TURNS);
        let (first, said) = requests.fold((0, Vec::new()), |(_, mut said), (at, message)| {
            said.insert(0, message.content.clone());
            (at, said)
        });
        let results = messages.iter().skip(first).any(|message| message.role == Role::Tool);
        self.asked_with.callable(tools, &said, results)
    }

    /// What is added to the logit of a further call, if the latest message is a result: the model makes them where nothing is
    /// left to do.
    pub fn call_again(&self, messages: &[Message]) -> Option<f32> {
        messages.last().filter(|last| last.role == Role::Tool)?;
        let request = messages.iter().rev().find(|message| message.role == Role::User && !message.untrusted);
        request.map(|request| call_again(&request.content))
    }

    /// The words that alone are the name of nothing ([`crate::FUNCTION_WORDS`]).
    pub fn function_words(&self) -> &[String] {
        self.asked_with.function_words()
    }

    /// The texts that end an answer, in addition to the model's end token.
    pub fn stops(&self) -> &'static [&'static str] {
        self.stops
    }
}
