//! Files and folders at new paths.

use alloc::string::ToString;

use capos_policy::join;
use capos_schema::authority::Label;

use crate::{Basis, FileTree, Kind, MAX_TEXT, NodeId, TreeError};

/// Copies a file to a path where nothing is, with its label and `label` joined. Returns how many bytes it has. The copy is there
/// whole or not at all.
///
/// # Errors
/// There is no such file, or something at the new path; it has more than [`MAX_TEXT`] bytes; no space.
pub async fn copy_file<T: FileTree>(
    tree: &T,
    (base, from, to): (NodeId, &str, &str),
    label: &Label,
    now: i64,
) -> Result<u64, TreeError> {
    let (source, info) = tree.status(base, from).await?;
    if info.kind == Kind::Directory {
        return Err(TreeError::IsDirectory(from.to_string()));
    }
    let (bytes, own) = tree.read(source, 0, MAX_TEXT.saturating_add(1)).await?;
    if bytes.len() > MAX_TEXT {
        return Err(TreeError::TooLong { name: from.to_string(), bytes: info.bytes });
    }
    if crate::found_or_none(tree.status(base, to).await)?.is_some() {
        return Err(TreeError::Exists(to.to_string()));
    }
    // Nothing may be there when it is written, either.
    let nothing = Basis::Hash("");
    match tree.store_on(nothing, (base, to), &bytes, false, &join(label, &own), now).await {
        Err(TreeError::Changed(to)) => Err(TreeError::Exists(to)),
        stored => stored.map(|_| bytes.len() as u64),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use core::cell::RefCell;

    use super::*;
    use crate::suite::done;
    use crate::{Removal, Tree};

    const ROOT: NodeId = Tree::ROOT;

    #[test]
    fn files_of_any_length_up_to_the_limit_are_copied() {
        let tree = RefCell::new(Tree::new(4 << 20));
        for size in [0, 1, MAX_TEXT - 1, MAX_TEXT, MAX_TEXT + 1] {
            let content = vec![b'x'; size];
            done(tree.store(ROOT, "a", &content, false, &Label::default(), 0)).unwrap();
            let copied = done(copy_file(&tree, (ROOT, "a", "b"), &Label::default(), 0));
            if size > MAX_TEXT {
                assert_eq!(copied, Err(TreeError::TooLong { name: "a".into(), bytes: size as u64 }));
                assert!(matches!(done(tree.status(ROOT, "b")), Err(TreeError::NotFound(_))));
                continue;
            }
            assert_eq!(copied, Ok(size as u64));
            let (node, _) = done(tree.status(ROOT, "b")).unwrap();
            assert_eq!(done(tree.read(node, 0, size + 1)).unwrap().0, content);
            done(tree.remove(ROOT, "b", Removal::File, 0)).unwrap();
        }
    }
}
