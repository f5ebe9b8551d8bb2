//! Where unsafe code is, counted by file: `docs/reference/unsafe.md` says it, and this test that it is true.
//!
//! `UPDATE_DOCS=1 cargo test -p capos-tools --test unsafe_code` writes the page's table anew.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

const PAGE: &str = "docs/reference/unsafe.md";
/// Folders with code that is ours and runs on an image, or makes one.
const FOLDERS: &[&str] = &["kernel", "userspace", "tools"];
/// What stands before and behind the table.
const BEGIN: &str = "<!-- The table is counted: see tools/capos/tests/unsafe_code.rs. -->\n";
const END: &str = "<!-- Its end. -->\n";

/// What a file has of unsafe code.
#[derive(Default)]
struct Count {
    blocks: usize,
    functions: usize,
    implementations: usize,
}

impl Count {
    fn of(source: &str) -> Self {
        let mut count = Self::default();
        count.add(source.parse().unwrap());
        count
    }

    fn add(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Group(group) => self.add(group.stream()),
                TokenTree::Ident(word) if word == "unsafe" => match tokens.peek() {
                    Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => self.blocks += 1,
                    // `unsafe fn`, and `unsafe extern "C" fn`.
                    Some(TokenTree::Ident(next)) if next == "fn" || next == "extern" => self.functions += 1,
                    Some(TokenTree::Ident(next)) if next == "impl" => self.implementations += 1,
                    // An attribute, `#[unsafe(naked)]`, or a trait's declaration.
                    _ => {}
                },
                _ => {}
            }
        }
    }

    fn is_none(&self) -> bool {
        self.blocks + self.functions + self.implementations == 0
    }
}

/// The files of Rust below a folder, tests and what is built left out.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !["target", "tests", "tests_in_kernel", "std-tests"].contains(&name) {
                sources(&path, into);
            }
        } else if name.ends_with(".rs") {
            into.push(path);
        }
    }
}

fn table(top: &Path) -> String {
    let mut files = Vec::new();
    FOLDERS.iter().for_each(|folder| sources(&top.join(folder), &mut files));
    let mut counts = BTreeMap::new();
    for file in files {
        let count = Count::of(&std::fs::read_to_string(&file).unwrap());
        if !count.is_none() {
            counts.insert(file.strip_prefix(top).unwrap().to_str().unwrap().to_owned(), count);
        }
    }
    let sum = |part: fn(&Count) -> usize| counts.values().map(part).sum::<usize>();
    let mut out = "| file | blocks | functions | implementations |\n|---|---|---|---|\n".to_owned();
    for (file, Count { blocks, functions, implementations }) in &counts {
        writeln!(out, "| `{file}` | {blocks} | {functions} | {implementations} |").unwrap();
    }
    let all = (sum(|count| count.blocks), sum(|count| count.functions), sum(|count| count.implementations));
    writeln!(out, "| {} files | {} | {} | {} |", counts.len(), all.0, all.1, all.2).unwrap();
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
fn comments_texts_and_attributes_do_not_count() {
    let source = "#[unsafe(naked)] unsafe extern \"C\" fn f() { let s = \"unsafe {\"; /* unsafe { */ unsafe { g() } } \
                  unsafe impl Send for T {} unsafe fn h() {}";
    let Count { blocks, functions, implementations } = Count::of(source);
    assert_eq!((blocks, functions, implementations), (1, 2, 1));
}
