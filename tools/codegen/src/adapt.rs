//! Changes to what capnpc writes, so that it compiles here, and in less time.
//!
//! capnpc 0.27 writes for crates with the standard library's prelude, and gives the data of an enum
//! and an annotation of the same name the same module. It also writes what nothing here uses: the
//! clients, servers and pipelines of its own RPC system, and each word of a schema as a call.

/// What is left out: how the first lines of these items begin.
const UNUSED: [&str; 16] = [
    "pub struct Pipeline ",
    "impl ::capnp::capability::FromTypelessPipeline for Pipeline ",
    "impl Pipeline ",
    "impl ::capnp::traits::Pipelined for Owned ",
    "impl  Client ",
    "pub trait Server<",
    "pub struct ServerDispatch<",
    "impl <_S: Server ",
    "impl <_T: Server",
    "impl <_T :Server",
    "impl <> ::core::fmt::Debug for Reader<",
    "impl <'a,> ::core::convert::From<Reader<'a,>> for ::capnp::dynamic_value::Reader<",
    "impl <'a,> ::core::convert::From<Builder<'a,>> for ::capnp::dynamic_value::Builder<",
    "pub fn total_size(",
    "pub fn reborrow_as_reader(",
    "impl <> ::capnp::traits::HasTypeId for Builder<",
];

/// The text with these repairs, without what is unused.
pub fn adapt(text: &str) -> String {
    let mut out = shortened(text)
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

/// The text without unused items, with `#[inline]` on the functions of items, and with the words of a schema node as one
/// string of bytes. A function with `#[inline]` is compiled in the programs that call it, and nowhere else.
fn shortened(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let item = line.trim_start();
        if UNUSED.iter().any(|start| item.starts_with(start)) || call_type(item) {
            skip(line, &mut lines);
        } else if let Some(kind) = item.strip_prefix("pub(crate) static ENCODED_NODE: ") {
            out.push_str(&encoded(kind.trim_end_matches(" = ["), &mut lines));
        } else if item != "#[inline]" {
            if item.starts_with("fn ") || item.starts_with("pub fn ") {
                out.push_str("#[inline]\n");
            }
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// Whether an item is the type of a method's parameters or results in capnpc's own RPC system.
fn call_type(item: &str) -> bool {
    item.starts_with("pub type ") && item.contains(" = ::capnp::capability::")
}

/// Skips the rest of the item that begins with this line: to the line that closes it, which is indented as much.
fn skip<'a>(first: &str, lines: &mut impl Iterator<Item = &'a str>) {
    let indent = |line: &str| line.len() - line.trim_start().len();
    if first.ends_with('{') {
        let depth = indent(first);
        lines.find(|line| line.trim_start().starts_with('}') && indent(line) == depth);
    }
}

/// The static of this type with the words of a schema node, one on each line.
fn encoded<'a>(kind: &str, lines: &mut impl Iterator<Item = &'a str>) -> String {
    let mut bytes = String::new();
    while let Some(word) = lines.next().and_then(|line| line.trim_start().strip_prefix("::capnp::word(")) {
        for byte in word.trim_end_matches([')', ',']).split(", ") {
            // The compiler rejects what is not a number.
            bytes.push_str(&byte.parse::<u8>().map_or_else(|_| byte.to_owned(), |byte| format!("\\x{byte:02x}")));
        }
    }
    format!("pub(crate) static ENCODED_NODE: {kind} = ::capos_schema::words(b\"{bytes}\");\n")
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
        assert_eq!(adapt("x -> Box<T>"), "x -> ::alloc::boxed::Box<T>\n");
    }

    #[test]
    fn unused_items_are_left_out_to_their_end() {
        let text = "pub mod m {
    impl  Client {
        pub fn f() {
        }
    }
    pub type FParams<> = ::capnp::capability::Params<x>;
    pub struct Pipeline { _typeless: P }
    struct Kept;
}
";
        assert_eq!(adapt(text), "pub mod m {\n    struct Kept;\n}\n");
    }

    #[test]
    fn functions_are_inlined() {
        let text = "    #[inline]\n    pub fn a() {\n    }\n    fn b() {\n    }\n    pub(crate) fn c() {\n    }\n";
        let expected =
            "#[inline]\n    pub fn a() {\n    }\n#[inline]\n    fn b() {\n    }\n    pub(crate) fn c() {\n    }\n";
        assert_eq!(adapt(text), expected);
    }

    #[test]
    fn words_are_one_string() {
        let text = "  pub(crate) static ENCODED_NODE: [::capnp::Word; 2] = [
    ::capnp::word(0, 255, 0, 0, 5, 0, 6, 0),
    ::capnp::word(1, 0, 0, 0, 0, 0, 0, 9),
  ];
end
";
        let expected = "pub(crate) static ENCODED_NODE: [::capnp::Word; 2] = ::capos_schema::words(b\"\\x00\\xff\\x00\\x00\\x05\\x00\\x06\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x09\");\nend\n";
        assert_eq!(adapt(text), expected);
    }
}
