//! How two texts differ.

use alloc::string::{String, ToString};
use core::fmt;

use capos_plural::count;
use capos_policy::join;
use capos_redact::redact;
use capos_schema::authority::Label;
use similar::TextDiff;

use crate::{FileTree, Kind, NodeId, TreeError};

/// Bytes and lines of the longest texts that are compared: the work grows with the product of both.
const MAX_BYTES: usize = 64 * 1024;
const MAX_LINES: usize = 1000;

/// Why two files are not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompareError {
    /// One cannot be read.
    Tree(TreeError),
    /// One is too long, or no text; the text says which and why.
    Unfit(String),
}

impl From<TreeError> for CompareError {
    fn from(error: TreeError) -> Self {
        Self::Tree(error)
    }
}

impl fmt::Display for CompareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree(error) => error.fmt(f),
            Self::Unfit(why) => f.write_str(why),
        }
    }
}

/// What changes from the first file to the second, as a patch in the unified format, without secrets; empty if nothing does. And
/// the label of both.
///
/// # Errors
/// One of them cannot be read, is no text, or is too long.
pub async fn compare<T: FileTree>(
    tree: &T,
    base: NodeId,
    (first, second): (&str, &str),
) -> Result<(String, Label), CompareError> {
    let (before, before_label) = text_of(tree, base, first).await?;
    let (after, after_label) = text_of(tree, base, second).await?;
    let label = join(&before_label, &after_label);
    if before == after {
        return Ok((String::new(), label));
    }
    let (before, after) = (redact(&before).0, redact(&after).0);
    if before == after {
        return Ok((String::from("the files differ in what looks like a secret, which is not shown\n"), label));
    }
    let diff = TextDiff::from_lines(&before, &after);
    Ok((diff.unified_diff().header(first, second).to_string(), label))
}

async fn text_of<T: FileTree>(tree: &T, base: NodeId, path: &str) -> Result<(String, Label), CompareError> {
    let (node, info) = tree.status(base, path).await?;
    if info.kind == Kind::Directory {
        return Err(TreeError::IsDirectory(path.to_string()).into());
    }
    let unfit = |why: fmt::Arguments<'_>| CompareError::Unfit(alloc::format!("`{path}` {why}"));
    let (bytes, label) = tree.read(node, 0, MAX_BYTES.saturating_add(1)).await?;
    if bytes.len() > MAX_BYTES {
        let size = count(info.bytes, "byte");
        return Err(unfit(format_args!("has {size}; files of at most {MAX_BYTES} bytes are compared")));
    }
    let text = String::from_utf8(bytes).map_err(|error| unfit(format_args!("is not UTF-8 text: {error}")))?;
    let lines = text.lines().count();
    if lines > MAX_LINES {
        let lines = count(lines, "line");
        return Err(unfit(format_args!("has {lines}; files of at most {MAX_LINES} lines are compared")));
    }
    Ok((text, label))
}

#[cfg(test)]
mod tests {
    use core::cell::RefCell;

    use super::*;
    use crate::Tree;
    use crate::suite::{done, label};

    fn compared(first: &[u8], second: &[u8]) -> Result<(String, Label), CompareError> {
        let tree = RefCell::new(Tree::new(1 << 20));
        for (path, content, class) in [("a", first, "pii.log"), ("b", second, "pii.mail")] {
            done(tree.store(Tree::ROOT, path, content, false, &label(&[class]), 0)).unwrap();
        }
        done(compare(&tree, Tree::ROOT, ("a", "b")))
    }

    #[test]
    fn a_patch_tells_what_changes() {
        let (patch, both) = compared(b"one\ntwo\nthree\n", b"one\n2\nthree\n").unwrap();
        assert_eq!(patch, "--- a\n+++ b\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n");
        assert_eq!(both, label(&["pii.log", "pii.mail"]));
        assert_eq!(compared(b"same", b"same").unwrap().0, "");
        assert!(compared(b"end", b"end\n").unwrap().0.contains("No newline"));
    }

    #[test]
    fn secrets_do_not_leave_by_a_comparison() {
        let (patch, _) = compared(b"password: hunter2\nx\n", b"password: hunter2\ny\n").unwrap();
        assert!(patch.contains("-x\n+y") && !patch.contains("hunter2"), "{patch}");
        let (patch, _) = compared(b"password: hunter2\n", b"password: hunter3\n").unwrap();
        assert!(patch.contains("what looks like a secret") && !patch.contains("hunter"), "{patch}");
    }

    #[test]
    fn what_is_too_long_or_no_text_is_rejected_by_name() {
        let why = |first: &[u8], second: &[u8]| compared(first, second).unwrap_err().to_string();
        assert!(why(b"x", &[b'y'; MAX_BYTES + 1]).starts_with("`b` has 65537 bytes; files of at most 65536"));
        assert!(why("\n".repeat(MAX_LINES + 1).as_bytes(), b"").starts_with("`a` has 1001 lines; files of at most"));
        assert!(why(b"\xff", b"").starts_with("`a` is not UTF-8 text"));
    }
}
