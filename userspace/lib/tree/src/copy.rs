//! Files and folders at new paths.

use alloc::format;
use alloc::string::ToString;

use capos_policy::join;
use capos_schema::authority::Label;

use crate::{FileTree, Kind, NodeId, Opening, Removal, TreeError, WriteAt};

/// Bytes that are copied at once.
const PIECE: usize = 256 * 1024;

/// Whether there is nothing at a path.
async fn is_free<T: FileTree>(tree: &T, base: NodeId, path: &str) -> Result<(), TreeError> {
    match tree.status(base, path).await {
        Err(TreeError::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(TreeError::Exists(path.to_string())),
    }
}

/// Copies a file to a path where nothing is, with its label and `label` joined. Bytes of it. It is written under the name with
/// `.part` behind it first, so a copy that ends early is no file of the new name. Others are served in `pause`.
///
/// # Errors
/// There is no such file, or something at the new path; no space.
pub async fn copy_file<T: FileTree>(
    tree: &T,
    (base, from, to): (NodeId, &str, &str),
    label: &Label,
    now: i64,
    pause: &impl AsyncFn(),
) -> Result<u64, TreeError> {
    let (source, info) = tree.status(base, from).await?;
    if info.kind == Kind::Directory {
        return Err(TreeError::IsDirectory(from.to_string()));
    }
    is_free(tree, base, to).await?;
    let part = format!("{}.part", to.trim_end_matches('/'));
    let opening = Opening { write: true, create: true, exclusive: true, truncate: false, writable: true };
    tree.hold(source).await?;
    let copied = match tree.open_at(base, &part, opening, now).await {
        Ok((copy, _)) => {
            let filled = fill(tree, (source, copy), label, now, pause).await;
            tree.close(copy);
            let named = match filled {
                Ok(bytes) => is_free(tree, base, to).await.map(|()| bytes),
                Err(error) => Err(error),
            };
            let named = match named {
                Ok(bytes) => tree.rename(base, &part, to, now).await.map(|()| bytes),
                Err(error) => Err(error),
            };
            if named.is_err() {
                // That it cannot be removed either is less to know than why.
                let _ = tree.remove(base, &part, Removal::File, now).await;
            }
            named
        }
        Err(error) => Err(error),
    };
    tree.close(source);
    copied
}

async fn fill<T: FileTree>(
    tree: &T,
    (source, copy): (NodeId, NodeId),
    label: &Label,
    now: i64,
    pause: &impl AsyncFn(),
) -> Result<u64, TreeError> {
    let mut at = 0_u64;
    loop {
        let (bytes, own) = tree.read(source, at, PIECE).await?;
        // An empty file has its label, too.
        tree.write(copy, WriteAt::Offset(at), &bytes, &join(label, &own), now).await?;
        at = at.saturating_add(bytes.len() as u64);
        if bytes.len() < PIECE {
            return Ok(at);
        }
        pause().await;
    }
}

/// Gives a file or folder another path, where nothing is.
///
/// # Errors
/// There is nothing of this name, or something at the new path; a folder cannot be there.
pub async fn move_node<T: FileTree>(
    tree: &T,
    (base, from, to): (NodeId, &str, &str),
    now: i64,
) -> Result<(), TreeError> {
    tree.status(base, from).await?;
    is_free(tree, base, to).await?;
    tree.rename(base, from, to, now).await
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;
    use core::cell::RefCell;

    use super::*;
    use crate::Tree;
    use crate::suite::{done, label};

    const ROOT: NodeId = Tree::ROOT;

    fn tree(budget: u64) -> RefCell<Tree> {
        let tree = RefCell::new(Tree::new(budget));
        done(tree.make_directory(ROOT, "notes", 0)).unwrap();
        done(tree.store(ROOT, "a", b"content", false, &label(&["pii.log"]), 0)).unwrap();
        tree
    }

    fn copy(tree: &RefCell<Tree>, from: &str, to: &str) -> Result<u64, TreeError> {
        done(copy_file(tree, (ROOT, from, to), &label(&["pii.mail"]), 7, &async || ()))
    }

    fn content(tree: &RefCell<Tree>, path: &str) -> (Vec<u8>, Label) {
        let (node, _) = done(tree.status(ROOT, path)).unwrap();
        done(tree.read(node, 0, 1 << 20)).unwrap()
    }

    fn names(tree: &RefCell<Tree>) -> Vec<String> {
        let listing = done(tree.list_after(ROOT, ".", "", 1 << 20)).unwrap();
        listing.entries.into_iter().map(|(_, info)| info.name).collect()
    }

    #[test]
    fn a_copy_has_the_content_and_both_labels() {
        let tree = tree(4 << 20);
        assert_eq!(copy(&tree, "a", "notes/b"), Ok(7));
        assert_eq!(content(&tree, "notes/b"), (b"content".to_vec(), label(&["pii.log", "pii.mail"])));
        assert_eq!(content(&tree, "a"), (b"content".to_vec(), label(&["pii.log"])));
        for size in [0, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE] {
            let large = vec![b'x'; size];
            done(tree.store(ROOT, "large", &large, false, &label(&["secret.key"]), 0)).unwrap();
            assert_eq!(copy(&tree, "large", "copy"), Ok(size as u64));
            assert_eq!(content(&tree, "copy").1, label(&["pii.mail", "secret.key"]));
            let (node, _) = done(tree.status(ROOT, "copy")).unwrap();
            assert_eq!(done(tree.read(node, 0, size + 1)).unwrap().0, large);
            done(tree.remove(ROOT, "copy", Removal::File, 0)).unwrap();
        }
    }

    #[test]
    fn nothing_is_replaced_and_a_copy_that_fails_leaves_nothing() {
        let tree = tree(40_000);
        done(tree.store(ROOT, "taken", b"mine", false, &Label::default(), 0)).unwrap();
        done(tree.store(ROOT, "large", &[b'x'; 30_000], false, &Label::default(), 0)).unwrap();
        let before = names(&tree);
        assert_eq!(copy(&tree, "a", "taken"), Err(TreeError::Exists("taken".into())));
        assert_eq!(copy(&tree, "a", "notes/"), Err(TreeError::Exists("notes/".into())));
        assert_eq!(copy(&tree, "a", "a"), Err(TreeError::Exists("a".into())));
        assert_eq!(copy(&tree, "notes", "other"), Err(TreeError::IsDirectory("notes".into())));
        assert!(matches!(copy(&tree, "none", "b"), Err(TreeError::NotFound(_))));
        assert!(matches!(copy(&tree, "a", "none/b"), Err(TreeError::NotFound(_))));
        assert!(matches!(copy(&tree, "large", "b"), Err(TreeError::NoSpace { .. })));
        assert_eq!(names(&tree), before);
        assert_eq!(content(&tree, "taken").0, b"mine");
    }

    /// What somebody else puts at the new path while a copy is made stays.
    #[test]
    fn a_name_that_is_taken_meanwhile_is_not_replaced() {
        let tree = tree(4 << 20);
        done(tree.store(ROOT, "large", &vec![b'x'; PIECE + 1], false, &Label::default(), 0)).unwrap();
        let pause = async || {
            done(tree.store(ROOT, "b", b"theirs", false, &Label::default(), 0)).unwrap();
        };
        let copied = done(copy_file(&tree, (ROOT, "large", "b"), &Label::default(), 0, &pause));
        assert_eq!(copied, Err(TreeError::Exists("b".into())));
        assert_eq!(content(&tree, "b").0, b"theirs");
        assert_eq!(names(&tree), ["a", "b", "large", "notes"]);
    }

    #[test]
    fn a_move_replaces_nothing() {
        let tree = tree(1 << 20);
        let go = |from: &str, to: &str| done(move_node(&tree, (ROOT, from, to), 0));
        go("a", "notes/a").unwrap();
        go("notes", "old").unwrap();
        assert_eq!(content(&tree, "old/a"), (b"content".to_vec(), label(&["pii.log"])));
        done(tree.store(ROOT, "b", b"", false, &Label::default(), 0)).unwrap();
        assert_eq!(go("b", "old/a"), Err(TreeError::Exists("old/a".into())));
        assert_eq!(go("b", "old"), Err(TreeError::Exists("old".into())));
        assert!(matches!(go("old", "old/in"), Err(TreeError::IntoItself(_))));
        assert!(matches!(go("none", "c"), Err(TreeError::NotFound(_))));
    }
}
