//! Where unsafe code is, counted by file: `docs/reference/unsafe.md` states it, and this test checks it.
//!
//! `UPDATE_DOCS=1 cargo test -p capos-tools --test unsafe_code` updates the page's table.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests count as tests.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

const PAGE: &str = "docs/reference/unsafe.md";
/// Folders with code that is ours and runs on an image, or makes one.
const FOLDERS: &[&str] = &["kernel", "userspace", "tools"];
/// The text before and after the table.
const BEGIN: &str = "<!-- The table is counted: see tools/capos/tests/unsafe_code.rs. -->\n";
const END: &str = "<!-- Its end. -->\n";

/// The unsafe code of a file.
#[derive(Default, PartialEq, Eq, Debug)]
struct Count {
    blocks: usize,
    functions: usize,
    implementations: usize,
    /// Blocks of foreign functions, and attributes that promise something: `no_mangle`, `naked`.
    others: usize,
}

impl Count {
    fn of(file: &Path) -> Self {
        let source = std::fs::read_to_string(file).unwrap();
        let mut count = Self::default();
        count.add(source.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display())));
        count
    }

    fn add(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut rest = tokens.as_slice();
        while let [token, after @ ..] = rest {
            rest = after;
            match token {
                TokenTree::Group(group) if is_for_tests(group) => {
                    // With the reason of the attribute, up to its body.
                    let end = after.iter().position(|token| {
                        matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
                            || matches!(token, TokenTree::Punct(mark) if mark.as_char() == ';')
                    });
                    rest = end.and_then(|end| after.get(end + 1..)).unwrap_or_default();
                }
                TokenTree::Group(group) => self.add(group.stream()),
                TokenTree::Ident(word) if word == "unsafe" => self.add_unsafe(after),
                _ => {}
            }
        }
    }

    /// The text after the word.
    fn add_unsafe(&mut self, after: &[TokenTree]) {
        let is = |token: Option<&TokenTree>, what: &str| matches!(token, Some(TokenTree::Ident(word)) if word == what);
        let mut after = after.iter().peekable();
        let foreign = is(after.peek().copied(), "extern");
        if foreign {
            after.next();
            after.next_if(|token| matches!(token, TokenTree::Literal(_)));
        }
        match after.next() {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace && !foreign => self.blocks += 1,
            Some(TokenTree::Group(_)) => self.others += 1,
            // Not the type of a pointer to one.
            word if is(word, "fn") => self.functions += usize::from(matches!(after.next(), Some(TokenTree::Ident(_)))),
            word if is(word, "impl") => self.implementations += 1,
            _ => {}
        }
    }

    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether a group is that of `#[cfg(test)]`.
fn is_for_tests(group: &Group) -> bool {
    group.delimiter() == Delimiter::Bracket && group.stream().to_string().replace(' ', "") == "cfg(test)"
}

/// The files of Rust below a folder, without tests and build output.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !["target", "tests", "tests_in_kernel", "std-tests"].contains(&name) && !name.starts_with('.') {
                sources(&path, into);
            }
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            into.push(path);
        }
    }
}

fn table(top: &Path) -> String {
    let mut files = Vec::new();
    FOLDERS.iter().for_each(|folder| sources(&top.join(folder), &mut files));
    let mut counts = BTreeMap::new();
    for file in files {
        let count = Count::of(&file);
        if !count.is_none() {
            counts.insert(file.strip_prefix(top).unwrap().to_str().unwrap().to_owned(), count);
        }
    }
    let mut out = "| file | blocks | functions | implementations | others |\n|---|---|---|---|---|\n".to_owned();
    let mut all = Count::default();
    for (file, Count { blocks, functions, implementations, others }) in &counts {
        writeln!(out, "| `{file}` | {blocks} | {functions} | {implementations} | {others} |").unwrap();
        all.blocks += blocks;
        all.functions += functions;
        all.implementations += implementations;
        all.others += others;
    }
    let Count { blocks, functions, implementations, others } = all;
    writeln!(out, "| {} files | {blocks} | {functions} | {implementations} | {others} |", counts.len()).unwrap();
    out
}

#[test]
fn the_page_says_where_unsafe_code_is() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let page = std::fs::read_to_string(top.join(PAGE)).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (told, after) = rest.split_once(END).unwrap();
    let found = table(&top);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(top.join(PAGE), format!("{before}{BEGIN}{found}{END}{after}")).unwrap();
        return;
    }
    assert!(
        told == found,
        "{PAGE} is not true any more; look at what has come, then set UPDATE_DOCS=1. It is:\n{found}"
    );
}

#[test]
fn what_only_looks_like_unsafe_code_does_not_count() {
    let source = "#[unsafe(naked)] unsafe extern \"C\" fn f() { let s = \"unsafe {\"; /* unsafe { */ unsafe { g() } } \
                  unsafe impl Send for T {} unsafe fn h() {} unsafe extern \"C\" { fn i(); } \
                  struct P(unsafe extern \"C\" fn(u8)); #[cfg(test)] mod tests { fn t() { unsafe { g() } } }";
    let mut count = Count::default();
    count.add(source.parse().unwrap());
    assert_eq!(count, Count { blocks: 1, functions: 2, implementations: 1, others: 2 });
}
