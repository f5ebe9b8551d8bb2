//! The marks of the built-in model's form.

/// Begins a call, or the text about a forbidden tool.
pub const INVOKE: &str = "<|invoke|>";
/// Separates what a tool does from its name.
pub const AS: &str = "<|as|>";
/// Marks a forbidden tool.
pub const FORBIDDEN: &str = "<|forbidden|>";
/// Begins text.
pub const SAY: &str = "<|say|>";
/// Begins text that says that no tool fits.
pub const NONE: &str = "<|none|>";
/// Begins a person's message.
pub const USER: &str = "<|user|>";
/// Begins what a tool gave back.
pub const RESULT: &str = "<|result|>";
/// The marks of an answer.
pub const MARKS: [&str; 5] = [INVOKE, AS, FORBIDDEN, SAY, NONE];
