//! Names: from the schema's camelCase to Rust's.

const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else", "enum",
    "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move",
    "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

const NEVER_RAW: &[&str] = &["self", "super", "crate", "Self", "_"];

/// `fooBar` to `foo_bar`, exactly as capnpc does it, since its getters have these names.
pub fn snake(name: &str) -> String {
    let mut out = String::new();
    for (at, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && at != 0 {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// The name with a capital first letter, as capnpc names variants.
pub fn pascal(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| {
        let mut out = String::new();
        out.push(first.to_ascii_uppercase());
        out.extend(letters);
        out
    })
}

/// A name that Rust takes as an identifier.
pub fn ident(name: &str) -> String {
    if NEVER_RAW.contains(&name) {
        format!("{name}_")
    } else if KEYWORDS.contains(&name) {
        format!("r#{name}")
    } else {
        name.to_owned()
    }
}

/// The module that capnpc makes for a name.
pub fn module(name: &str) -> String {
    /// capnpc's own list; it knows no `async`, `await`, `dyn` or `try`.
    const CAPNPC: &[&str] = &[
        "abstract", "alignof", "as", "be", "become", "box", "break", "const", "continue", "crate", "do", "else",
        "enum", "extern", "false", "final", "fn", "for", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
        "move", "mut", "offsetof", "once", "override", "priv", "proc", "pub", "pure", "ref", "return", "self",
        "sizeof", "static", "struct", "super", "trait", "true", "type", "typeof", "unsafe", "unsized", "use",
        "virtual", "where", "while", "yield",
    ];
    let mut out = snake(name);
    if CAPNPC.contains(&out.as_str()) {
        out.push('_');
    }
    out
}

/// An upper-case name for a constant.
pub fn constant(name: &str) -> String {
    snake(name).to_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_capnpc() {
        assert_eq!(snake("toolCallDelta"), "tool_call_delta");
        assert_eq!(snake("URL"), "u_r_l");
        assert_eq!(pascal("readOnly"), "ReadOnly");
        assert_eq!(ident("type"), "r#type");
        assert_eq!(ident("self"), "self_");
        assert_eq!(module("type"), "type_");
        assert_eq!(constant("modelInfo"), "MODEL_INFO");
    }
}
