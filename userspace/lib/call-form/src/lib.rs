//! How families of models write calls, according to the templates of their files.
//!
//! Only [`CallForm::of`] decides whether a model calls tools, for the catalog and for the worker.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod lines;
mod names;

use alloc::vec::Vec;

use names::reads;

/// Precedes the arguments in [`CallForm::MistralArgs`].
pub const ARGS: &str = "[ARGS]";
/// Precedes the call's id, which is not needed.
pub const CALL_ID: &str = "[CALL_ID]";

/// A family's form of a call, after a mark. It is a JSON object with the tool's name and its arguments, or the name and
/// an object of the arguments after it, or the tool's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallForm {
    /// `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, once for each call: Hermes, Qwen, SmolLM and others. Small
    /// ones omit the mark.
    Hermes,
    /// `{"name": …, "parameters": {…}}` as the whole answer, or after `<|python_tag|>`: Llama 3.
    Llama3,
    /// `[TOOL_CALLS][{"name": …, "arguments": {…}}, …]`: Mistral.
    Mistral,
    /// `[TOOL_CALLS]name[ARGS]{…}`, once for each call, with `[CALL_ID]` and a name for the call before `[ARGS]` or without:
    /// Mistral since 2025, Ministral, Devstral, Magistral.
    MistralArgs,
    /// `<function=name>{…}</function>`, once for each call: tools of one's own with Llama 3.1, Functionary.
    Function,
    /// `<|tool_call|>[{"name": …, "arguments": {…}}, …]<|/tool_call|>`: Phi, Granite.
    Phi,
    /// `<|invoke|>…<|as|>name{…}`, once for each: capOS's built-in model, which calls a tool by saying its line again.
    Lines,
}

impl CallForm {
    /// The form that a template mentions, if it is a known one and the template lists the tools for the model.
    pub fn of(template: &str) -> Option<Self> {
        Self::mentioned(template).filter(|_| reads(template, "tools"))
    }

    /// The first of a file's templates for conversations with tools whose form is known, and that form.
    pub fn first<'t>(templates: impl IntoIterator<Item = &'t str>) -> Option<(&'t str, Self)> {
        templates.into_iter().find_map(|template| Some((template, Self::of(template)?)))
    }

    /// The form whose marks a template has in it.
    fn mentioned(template: &str) -> Option<Self> {
        let has = |text: &str| template.contains(text);
        if has(lines::INVOKE) && has(lines::AS) {
            return Some(Self::Lines);
        }
        if has("<tool_call>") {
            // Some write XML within the same mark.
            return (!has("<function=") && !has("<arg_key>")).then_some(Self::Hermes);
        }
        if has("[TOOL_CALLS]") {
            return Some(if has(ARGS) { Self::MistralArgs } else { Self::Mistral });
        }
        if has("<function=") {
            // Some have XML inside, too, in place of an object.
            return (has("</function>") && !has("<parameter=")).then_some(Self::Function);
        }
        if has("<|tool_call|>") {
            return Some(Self::Phi);
        }
        (has("<|python_tag|>") || has("<|start_header_id|>") && has("\"parameters\": ")).then_some(Self::Llama3)
    }

    /// The mark at the start of calls.
    pub fn open(self) -> &'static str {
        match self {
            Self::Hermes => "<tool_call>",
            Self::Llama3 => "<|python_tag|>",
            Self::Mistral | Self::MistralArgs => "[TOOL_CALLS]",
            Self::Function => "<function=",
            Self::Phi => "<|tool_call|>",
            Self::Lines => lines::INVOKE,
        }
    }

    /// The mark at the end of calls.
    pub fn close(self) -> Option<&'static str> {
        match self {
            Self::Hermes => Some("</tool_call>"),
            Self::Phi => Some("<|/tool_call|>"),
            Self::Function => Some("</function>"),
            Self::Llama3 | Self::Mistral | Self::MistralArgs | Self::Lines => None,
        }
    }

    /// The text between a tool's name, which follows the mark directly, and the object of its arguments; none if both
    /// are in one object.
    pub fn separator(self) -> Option<&'static str> {
        match self {
            Self::MistralArgs => Some(ARGS),
            Self::Function => Some(">"),
            Self::Hermes | Self::Llama3 | Self::Mistral | Self::Phi | Self::Lines => None,
        }
    }

    /// The marks that answers in this form have in them.
    pub fn marks(self) -> Vec<&'static str> {
        match self {
            Self::Lines => lines::MARKS.to_vec(),
            Self::MistralArgs => Vec::from([self.open(), CALL_ID, ARGS]),
            _ => [self.open()].into_iter().chain(self.close()).collect(),
        }
    }

    /// Whether an answer that begins with an object is a call.
    pub fn is_bare(self) -> bool {
        self == Self::Llama3
    }

    /// Whether an answer that begins with the object of a call is one, be the object in a fence of Markdown or not.
    /// Qwen2.5-Coder with 1.5 billion parameters writes nearly all of its calls so, whatever its template says.
    pub fn may_lack_mark(self) -> bool {
        self == Self::Hermes
    }

    /// Whether a mark is followed by a list of calls.
    pub fn is_list(self) -> bool {
        matches!(self, Self::Mistral | Self::Phi)
    }

    /// The name of the arguments in the object.
    pub fn arguments(self) -> &'static str {
        match self {
            Self::Llama3 => "parameters",
            Self::Hermes | Self::Mistral | Self::MistralArgs | Self::Function | Self::Phi | Self::Lines => "arguments",
        }
    }
}
