//! How two texts differ.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_plural::count;
use capos_policy::{MAX_COMPARED, join};
use capos_redact::{MASK, redact_lines};
use capos_schema::authority::Label;
use similar::TextDiff;

use crate::{FileTree, Kind, NodeId, TreeError};

/// Lines of the longest texts that are compared.
const MAX_LINES: usize = 1000;

/// What changes from the first file to the second, as a patch in the unified format, or that nothing does. What looks like a
/// secret is masked before the texts are compared, so that no result tells whether two secrets are the same. Joins the labels of
/// both files to `label`, also if they are not compared.
///
/// # Errors
/// One of them cannot be read, is no text, or is too long; the text says which and why.
pub async fn compare<T: FileTree>(
    tree: &T,
    base: NodeId,
    (first, second): (&str, &str),
    label: &mut Label,
) -> Result<String, CompareError> {
    let before = text_of(tree, base, first, label).await?;
    let after = text_of(tree, base, second, label).await?;
    if before == after {
        let has_secrets = before.contains(MASK);
        return Ok(if has_secrets {
            "the files are equal, but for what looks like a secret, if that differs\n"
        } else {
            "the files are equal\n"
        }
        .to_string());
    }
    // A line ends with a line feed only.
    let lines = |text| str::split_inclusive(text, '\n').collect::<Vec<&str>>();
    let (before, after) = (lines(&before), lines(&after));
    let diff = TextDiff::configure().newline_terminated(true).diff_slices(&before, &after);
    Ok(diff.unified_diff().header(first, second).to_string())
}

/// Why two files are not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompareError {
    /// One cannot be read.
    Tree(TreeError),
    /// One is no text or has too many lines; the text says which and why.
    Unfit(String),
}

impl From<TreeError> for CompareError {
    fn from(error: TreeError) -> Self {
        Self::Tree(error)
    }
}

async fn text_of<T: FileTree>(tree: &T, base: NodeId, path: &str, label: &mut Label) -> Result<String, CompareError> {
    let (node, info) = tree.status(base, path).await?;
    if info.kind == Kind::Directory {
        return Err(TreeError::IsDirectory(path.to_string()).into());
    }
    let (bytes, own) = tree.read(node, 0, MAX_COMPARED.saturating_add(1)).await?;
    *label = join(label, &own);
    if bytes.len() > MAX_COMPARED {
        let size = count(info.bytes, "byte");
        return Err(CompareError::Unfit(format!(
            "`{path}` has {size}; files of at most {MAX_COMPARED} bytes are compared"
        )));
    }
    let text = String::from_utf8(bytes);
    let text = text.map_err(|error| CompareError::Unfit(format!("`{path}` is not UTF-8 text: {error}")))?;
    let lines = text.split_inclusive('\n').count();
    if lines > MAX_LINES {
        let lines = count(lines, "line");
        return Err(CompareError::Unfit(format!(
            "`{path}` has {lines}; files of at most {MAX_LINES} lines are compared"
        )));
    }
    Ok(redact_lines(&text))
}

#[cfg(test)]
mod tests {
    use core::cell::RefCell;

    use super::*;
    use crate::Tree;
    use crate::suite::{done, label};

    fn compared(first: &[u8], second: &[u8]) -> (Result<String, CompareError>, Label) {
        let tree = RefCell::new(Tree::new(1 << 20));
        for (path, content, class) in [("a", first, "pii.log"), ("b", second, "pii.mail")] {
            done(tree.store(Tree::ROOT, path, content, false, &label(&[class]), 0)).unwrap();
        }
        let mut label = Label::default();
        (done(compare(&tree, Tree::ROOT, ("a", "b"), &mut label)), label)
    }

    fn patch(first: &[u8], second: &[u8]) -> String {
        compared(first, second).0.unwrap()
    }

    #[test]
    fn a_patch_tells_what_changes() {
        let (changes, both) = compared(b"one\ntwo\nthree\n", b"one\n2\nthree\n");
        assert_eq!(changes.unwrap(), "--- a\n+++ b\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n");
        assert_eq!(both, label(&["pii.log", "pii.mail"]));
        assert_eq!(patch(b"same", b"same"), "the files are equal\n");
        assert!(patch(b"end", b"end\n").contains("No newline"));
        assert!(patch(b"a\rb\n", b"a\rc\n").contains("-a\rb\n+a\rc\n"), "a carriage return ends no line");
    }

    /// The result is the same whether a guess is right or wrong.
    #[test]
    fn secrets_do_not_leave_by_a_comparison() {
        let changes = patch(b"password: hunter2\nx\n", b"password: hunter2\ny\n");
        assert!(changes.contains("-x\n+y") && !changes.contains("hunter2"), "{changes}");
        let (right, wrong) = (
            patch(b"pin: 1\npassword: hunter2\n", b"pin: 1\npassword: hunter2\n"),
            patch(b"pin: 1\npassword: hunter2\n", b"pin: 1\npassword: hunter3\n"),
        );
        assert_eq!(right, wrong);
        assert!(right.contains("looks like a secret"), "{right}");
        let key = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n";
        let changes = patch(format!("{key}x\n").as_bytes(), format!("{key}y\n").as_bytes());
        assert!(changes.contains("@@ -1,4 +1,4 @@"), "{changes}");
    }

    #[test]
    fn what_is_too_long_or_no_text_is_rejected_by_name_and_its_label_counts() {
        let why = |first: &[u8], second: &[u8]| match compared(first, second) {
            (Err(CompareError::Unfit(why)), label) => (why, label),
            other => panic!("{other:?}"),
        };
        assert!(why(b"x", &[b'y'; MAX_COMPARED + 1]).0.starts_with("`b` has 65537 bytes; files of at most 65536"));
        let (text, found) = why("\n".repeat(MAX_LINES + 1).as_bytes(), b"");
        assert!(text.starts_with("`a` has 1001 lines; files of at most"), "{text}");
        assert_eq!(found, label(&["pii.log"]));
        assert!(why(b"\xff", b"").0.starts_with("`a` is not UTF-8 text"));
    }
}
