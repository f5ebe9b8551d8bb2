//! Changes that capnpc's output needs to compile here.
//!
//! capnpc 0.27 writes for crates with the standard library's prelude, and gives the data of an enum
//! and an annotation of the same name the same module.

/// The text with these repairs.
pub fn adapt(text: &str) -> String {
    let mut out = text
        .replace(" not implemented\".to_string()", " not implemented\".into()")
        .replace(" not implemented.\".to_string()", " not implemented.\".into()")
        .replace(" Box<", " ::alloc::boxed::Box<");
    for name in private_modules(text) {
        if text.contains(&format!("\npub mod {name} {{")) {
            out = out
                .replace(&format!("\nmod {name} {{"), &format!("\nmod {name}_enum {{"))
                .replace(&format!("&{name}::ARENA"), &format!("&{name}_enum::ARENA"))
                .replace(&format!(" {name}::get_annotation_types"), &format!(" {name}_enum::get_annotation_types"));
        }
    }
    out
}

fn private_modules(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(" {"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enum_and_an_annotation_may_share_a_name() {
        let text = "\nf(&category::ARENA, category::get_annotation_types)\nmod category {\n}\npub mod category {\n}\n";
        let expected = "\nf(&category_enum::ARENA, category_enum::get_annotation_types)\nmod category_enum {\n}\npub mod category {\n}\n";
        assert_eq!(adapt(text), expected);
    }

    #[test]
    fn the_prelude_is_not_needed() {
        assert_eq!(adapt("x -> Box<T>"), "x -> ::alloc::boxed::Box<T>");
    }
}
