//! Lines of files in which a text stands.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_policy::{MAX_SEARCHED, join};
use capos_redact::redact_lines;
use capos_schema::authority::Label;

use crate::walk::{Wanted, walk, written};
use crate::{FileTree, Info, Kind, NodeId, TreeError};

/// Lines after which others are served.
const LINES: usize = 1000;
/// Bytes of a line that are shown, and how many of them stand before the text.
const MAX_LINE: usize = 240;
const BEFORE: usize = 80;
/// What a match takes besides its texts in the JSON that a model reads, in bytes.
const MATCH_BYTES: usize = 40;

/// A line with the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineFound {
    /// Its file.
    pub path: String,
    /// Its number, from 1 on.
    pub line: u32,
    /// The line, or the part around the text.
    pub text: String,
}

/// What a search has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The lines, file by file.
    pub matches: Vec<LineFound>,
    /// How many more there are.
    pub left_out: u64,
    /// Files that are no text, have more than `MAX_SEARCHED` bytes, or cannot be read.
    pub not_searched: u64,
    /// The label of all that was searched: that a text is nowhere tells something of each file.
    pub label: Label,
}

/// The lines below a folder, or of the file at this path, in which a text stands, in a list of at most `most` bytes of JSON. What
/// looks like a secret is neither found nor shown.
///
/// # Errors
/// There is no such path; [`TreeError::TooMany`].
pub async fn search<T: FileTree>(
    tree: &T,
    place: (NodeId, &str),
    text: &str,
    most: usize,
    pause: &impl AsyncFn(),
) -> Result<Found, TreeError> {
    let wanted = Wanted::new(text);
    let (mut found, mut room) = (Found::default(), most);
    walk(tree, place, pause, async |path, node, info| {
        if info.kind == Kind::Directory {
            return Ok(());
        }
        let content = text_of(tree, node, info, &mut found.label).await;
        pause().await;
        let Some(content) = content else {
            found.not_searched = found.not_searched.saturating_add(1);
            return Ok(());
        };
        for (line, content) in (1_u32..).zip(redact_lines(&content).lines()) {
            if (line as usize).is_multiple_of(LINES) {
                pause().await;
            }
            let Some(at) = wanted.place_in(content) else { continue };
            let shown = around(content, at);
            let taken = written(path).saturating_add(written(&shown)).saturating_add(MATCH_BYTES);
            match room.checked_sub(taken) {
                Some(rest) if found.left_out == 0 => {
                    room = rest;
                    found.matches.push(LineFound { path: path.to_string(), line, text: shown });
                }
                _ => found.left_out = found.left_out.saturating_add(1),
            }
        }
        pause().await;
        Ok(())
    })
    .await?;
    Ok(found)
}

/// What a file holds; none if that is no text, too long, or cannot be read. Joins its label to `label`.
async fn text_of<T: FileTree>(tree: &T, node: NodeId, info: &Info, label: &mut Label) -> Option<String> {
    if info.bytes > MAX_SEARCHED as u64 {
        return None;
    }
    let (bytes, own) = tree.read(node, 0, MAX_SEARCHED.saturating_add(1)).await.ok()?;
    *label = join(label, &own);
    if bytes.len() > MAX_SEARCHED { None } else { String::from_utf8(bytes).ok() }
}

/// A line, or the part of a long one around a place.
fn around(line: &str, at: usize) -> String {
    if line.len() <= MAX_LINE {
        return line.to_string();
    }
    let start = line.floor_char_boundary(at.saturating_sub(BEFORE));
    let end = line.floor_char_boundary(start.saturating_add(MAX_LINE));
    let (before, behind) = (if start > 0 { "…" } else { "" }, if end < line.len() { "…" } else { "" });
    format!("{before}{}{behind}", line.get(start..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use core::cell::RefCell;

    use proptest::prelude::*;

    use super::*;
    use crate::Tree;
    use crate::suite::{done, label};

    fn tree(files: &[(&str, &[u8], &[&str])]) -> RefCell<Tree> {
        let tree = RefCell::new(Tree::new(8 << 20));
        done(tree.make_directory(Tree::ROOT, "notes", 0)).unwrap();
        for (path, content, classes) in files {
            done(tree.store(Tree::ROOT, path, content, false, &label(classes), 0)).unwrap();
        }
        tree
    }

    fn found(tree: &RefCell<Tree>, path: &str, text: &str) -> Found {
        done(search(tree, (Tree::ROOT, path), text, 14 << 10, &async || ())).unwrap()
    }

    fn shown(found: &Found) -> Vec<String> {
        found.matches.iter().map(|LineFound { path, line, text }| format!("{path}:{line}: {text}")).collect()
    }

    #[test]
    fn lines_are_found_with_their_file_and_number() {
        let tree = tree(&[
            ("notes/a.txt", b"one\r\nTwo milk\nthree", &["pii.log"]),
            ("b.txt", "buy MILK\nand eggs\nmilk\u{e9}".as_bytes(), &[]),
            ("image", b"milk\xff", &[]),
            ("large", &[b'm'; MAX_SEARCHED + 1], &[]),
        ]);
        let all = found(&tree, ".", "milk");
        assert_eq!(shown(&all), ["b.txt:1: buy MILK", "b.txt:3: milk\u{e9}", "notes/a.txt:2: Two milk"]);
        assert_eq!((all.left_out, all.not_searched, &all.label), (0, 2, &label(&["pii.log"])));
        assert_eq!(shown(&found(&tree, "b.txt", "MILK")), ["b.txt:1: buy MILK"]);
        assert_eq!(shown(&found(&tree, "notes", "T")), ["notes/a.txt:2: Two milk"]);
        assert!(found(&tree, ".", "cheese").matches.is_empty());
    }

    #[test]
    fn a_list_is_bounded_and_a_long_line_is_shown_around_the_text() {
        let long = format!("{}needle{}\n", "a ".repeat(500), " b".repeat(500));
        let tree = tree(&[("long", long.repeat(100).as_bytes(), &[])]);
        let all = found(&tree, ".", "needle");
        assert_eq!(all.matches.len() as u64 + all.left_out, 100);
        assert!(all.matches.len() > 40 && all.left_out > 0);
        for found in &all.matches {
            assert!(found.text.contains("needle") && found.text.len() <= MAX_LINE + 6, "{}", found.text);
            assert!(found.text.starts_with('…') && found.text.ends_with('…'));
        }
    }

    /// What is shown fits its room as JSON, whatever the lines hold.
    #[test]
    fn the_room_is_that_of_json() {
        for line in ["\"\"\"\"\"\"\"\"\"\"x\n", "\u{1}\u{1}\u{1}\u{1}x\n", "\\\t\\\tx\n", "éx\n"] {
            let tree = tree(&[("f", line.repeat(5000).as_bytes(), &[])]);
            let all = found(&tree, "f", "x");
            let json: usize =
                all.matches.iter().map(|found| written(&found.text) + written(&found.path) + MATCH_BYTES).sum();
            assert!(json <= 14 << 10 && json > 13 << 10 && all.left_out > 0, "{json} of {line:?}");
        }
    }

    #[test]
    fn a_match_behind_letters_that_grow_is_shown() {
        let line = format!("{}needle{}", "İ".repeat(500), "İ".repeat(500));
        let tree = tree(&[("f", line.as_bytes(), &[])]);
        let all = found(&tree, "f", "needle");
        assert!(all.matches[0].text.contains("needle"), "{}", all.matches[0].text);
    }

    /// A secret of several lines, or without its name on the line, stays hidden, and no search tells what it is.
    #[test]
    fn secrets_are_neither_found_nor_shown() {
        let key = "-----BEGIN PRIVATE KEY-----\nMIIEsecretline\nAAAA\n-----END PRIVATE KEY-----\nafter the key";
        let tree = tree(&[("key", key.as_bytes(), &[]), ("login", b"user: bob\npassword: hunter2\n", &[])]);
        for secret in ["MIIE", "secretline", "hunter2", "AAAA"] {
            assert!(found(&tree, ".", secret).matches.is_empty(), "{secret}");
        }
        assert_eq!(shown(&found(&tree, ".", "password")), ["login:2: password: [redacted]"]);
        assert_eq!(shown(&found(&tree, ".", "after")), ["key:5: after the key"]);
    }

    proptest! {
        /// A line is found exactly if it has the text, whatever the text is.
        #[test]
        fn no_line_is_missed(lines in prop::collection::vec("[aBé ]{0,6}", 0..8), text in "[aBé]{1,2}") {
            let tree = tree(&[("f", lines.join("\n").as_bytes(), &[])]);
            let all = found(&tree, "f", &text);
            let folds = !text.contains('B');
            let has = |line: &&String| if folds { line.to_lowercase().contains(&text) } else { line.contains(&text) };
            prop_assert_eq!(all.matches.len(), lines.iter().filter(has).count());
        }
    }
}
