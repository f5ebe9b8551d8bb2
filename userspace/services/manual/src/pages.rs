//! The pages of the manual.

/// A page: its path in `docs/` without the ending, and its Markdown text.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// For example `setup` or `reference/audit`.
    pub name: &'static str,
    /// Markdown; the first line is the title.
    pub text: &'static str,
    /// It says how to do something, step by step.
    pub is_guide: bool,
}

macro_rules! pages {
    ($($name:literal: $is_guide:literal),* $(,)?) => {
        &[$(Page {
            name: $name,
            text: include_str!(concat!("../../../../docs/", $name, ".md")),
            is_guide: $is_guide,
        }),*]
    };
}

/// What the manual has, in the order in which equally good passages are shown.
pub const PAGES: &[Page] = pages![
    "first-session": true,
    "setup": true,
    "conversations": true,
    "programs": true,
    "transfer": true,
    "backup": true,
    "upgrade": true,
    "policy": true,
    "skills": true,
    "clients": true,
    "signing": true,
    "reference/sessions": false,
    "reference/runs": false,
    "reference/budgets": false,
    "reference/policy": false,
    "reference/audit": false,
    "reference/files": false,
    "reference/models": false,
    "reference/backup": false,
    "reference/home-keys": false,
    "reference/boot": false,
    "security": false,
    "limits": false,
    "introduction": false,
    "glossary": false,
    "built-in-model-card": false,
];

/// Pages of `docs/` and `docs/reference/` that the manual does not have: they are for somebody who changes capOS or writes for it.
pub const LEFT_OUT: &[&str] = &[
    "SUMMARY",
    "architecture",
    "bugs",
    "built-in-model",
    "contributing",
    "engine",
    "performance",
    "porting",
    "reference/abi",
    "reference/client-protocol",
    "reference/engine-figures",
    "reference/formats",
    "reference/manifest",
    "reference/std-files",
    "reference/store",
    "reference/tokens",
    "reference/unsafe",
    "reference/volume",
    "requirements",
    "retrieval-model",
    "scenarios",
    "scripted-model",
    "std",
    "tutorial",
];
