//! Everything below a folder, and what of it has a name.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::path::components;
use crate::{FileTree, Info, Kind, NodeId, TreeError};

/// What an entry takes besides its path in that JSON.
const ENTRY_BYTES: usize = 96;

/// Files and folders below a folder that one call looks at.
pub const MAX_BELOW: usize = 10_000;
/// Bytes of a folder's list that are fetched at once.
const LISTED: usize = 16 * 1024;

/// Calls `see` with the path and status of everything below a folder, or of the file at that path: names in order, a folder before
/// what is in it. What is removed meanwhile is left out. Others are served in `pause`. Folders are looked at by their nodes, since
/// what is deep below one can have a path that is too long.
///
/// # Errors
/// There is no such path; [`TreeError::TooMany`]; what `see` returns.
pub(crate) async fn walk<T: FileTree>(
    tree: &T,
    (base, path): (NodeId, &str),
    pause: &impl AsyncFn(),
    mut see: impl AsyncFnMut(&str, NodeId, &Info) -> Result<(), TreeError>,
) -> Result<(), TreeError> {
    let (node, info) = tree.status(base, path).await?;
    let top = components(path)?.join("/");
    if info.kind == Kind::File {
        return see(&top, node, &info).await;
    }
    let mut left = MAX_BELOW;
    let mut folders = Vec::from([(node, top)]);
    while let Some((folder_node, folder)) = folders.pop() {
        let (mut after, mut below) = (String::new(), Vec::new());
        loop {
            let listing = match tree.list_after(folder_node, "", &after, LISTED).await {
                Err(TreeError::Gone) => break,
                found => found?,
            };
            for (node, info) in listing.entries {
                left = left.checked_sub(1).ok_or(TreeError::TooMany(MAX_BELOW))?;
                let path = if folder.is_empty() { info.name.clone() } else { format!("{folder}/{}", info.name) };
                see(&path, node, &info).await?;
                after = info.name;
                if info.kind == Kind::Directory {
                    below.push((node, path));
                }
            }
            pause().await;
            if !listing.more {
                break;
            }
        }
        below.reverse();
        folders.append(&mut below);
    }
    Ok(())
}

/// A text that is looked for. One without capitals matches both cases.
#[derive(Debug)]
pub(crate) struct Wanted {
    text: String,
    folds: bool,
}

impl Wanted {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_string(), folds: !text.chars().any(char::is_uppercase) }
    }

    /// Where in a text it begins, in bytes.
    pub(crate) fn place_in(&self, text: &str) -> Option<usize> {
        if !self.folds {
            return text.find(&self.text);
        }
        let folded = text.to_lowercase().find(&self.text)?;
        // A letter can have another length in the other case.
        let mut length = 0_usize;
        let place = text.char_indices().find(|(_, letter)| {
            let is_there = length >= folded;
            length = letter.to_lowercase().map(char::len_utf8).fold(length, usize::saturating_add);
            is_there
        });
        Some(place.map_or(text.len(), |(at, _)| at))
    }

    /// Whether a name has it as a part. With a `*`, which stands for any characters, it is the whole name.
    fn matches(&self, name: &str) -> bool {
        if !self.text.contains('*') {
            return self.place_in(name).is_some();
        }
        let folded = if self.folds { name.to_lowercase() } else { name.to_string() };
        capos_policy::matches_wildcard(&self.text, &folded)
    }
}

/// Bytes that a text takes in the JSON that a model reads.
pub(crate) fn written(text: &str) -> usize {
    let bytes = |letter: char| match letter {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        letter if letter.is_control() => 6,
        letter => letter.len_utf8(),
    };
    text.chars().map(bytes).fold(0, usize::saturating_add)
}

/// The files and folders below a folder whose names match, by their paths, in a list of at most `most` bytes; and how many more
/// there are.
///
/// # Errors
/// There is no such folder; [`TreeError::TooMany`].
pub async fn find<T: FileTree>(
    tree: &T,
    place: (NodeId, &str),
    name: &str,
    most: usize,
    pause: &impl AsyncFn(),
) -> Result<(Vec<Info>, u64), TreeError> {
    let wanted = Wanted::new(name);
    let (mut found, mut left_out, mut room) = (Vec::new(), 0_u64, most);
    walk(tree, place, pause, async |path, _, info| {
        if wanted.matches(&info.name) {
            match room.checked_sub(written(path).saturating_add(ENTRY_BYTES)) {
                Some(rest) if left_out == 0 => {
                    room = rest;
                    found.push(Info { name: path.to_string(), ..info.clone() });
                }
                _ => left_out = left_out.saturating_add(1),
            }
        }
        Ok(())
    })
    .await?;
    Ok((found, left_out))
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use core::cell::RefCell;

    use capos_schema::authority::Label;

    use super::*;
    use crate::Tree;
    use crate::suite::{BUDGET, done};

    fn tree(files: &[&str]) -> RefCell<Tree> {
        let tree = RefCell::new(Tree::new(BUDGET * 1000));
        for file in files {
            if let Some((folder, _)) = file.rsplit_once('/') {
                let mut path = String::new();
                for part in folder.split('/') {
                    path = if path.is_empty() { part.to_string() } else { format!("{path}/{part}") };
                    let _ = done(tree.make_directory(Tree::ROOT, &path, 0));
                }
            }
            done(tree.store(Tree::ROOT, file, b"x", false, &Label::default(), 0)).unwrap();
        }
        tree
    }

    fn names(tree: &RefCell<Tree>, path: &str, name: &str) -> Vec<String> {
        let (found, left_out) = done(find(tree, (Tree::ROOT, path), name, 1 << 20, &async || ())).unwrap();
        assert_eq!(left_out, 0);
        found.into_iter().map(|info| info.name).collect()
    }

    #[test]
    fn names_are_found_by_a_part_or_as_a_whole() {
        let tree = tree(&["notes/Plan.txt", "notes/old/plan.md", "plan", "b.txt"]);
        assert_eq!(names(&tree, ".", "plan"), ["plan", "notes/Plan.txt", "notes/old/plan.md"]);
        assert_eq!(names(&tree, "", "Plan"), ["notes/Plan.txt"]);
        assert_eq!(names(&tree, "notes/", "plan"), ["notes/Plan.txt", "notes/old/plan.md"]);
        assert_eq!(names(&tree, ".", "*.txt"), ["b.txt", "notes/Plan.txt"]);
        assert_eq!(names(&tree, ".", "plan*"), ["plan", "notes/Plan.txt", "notes/old/plan.md"]);
        assert_eq!(names(&tree, ".", "old"), ["notes/old"]);
        assert_eq!(names(&tree, "notes/old/plan.md", "p"), ["notes/old/plan.md"]);
        assert!(names(&tree, ".", "*z*").is_empty());
        let missing = done(find(&tree, (Tree::ROOT, "none"), "a", 99, &async || ()));
        assert!(matches!(missing, Err(TreeError::NotFound(_))));
    }

    #[test]
    fn a_long_list_ends_with_the_number_of_the_rest_and_too_much_is_rejected() {
        let files: Vec<String> = (0..50).map(|number| format!("f{number:02}")).collect();
        let tree = tree(&files.iter().map(String::as_str).collect::<Vec<_>>());
        let (found, left_out) = done(find(&tree, (Tree::ROOT, "."), "f", 990, &async || ())).unwrap();
        assert_eq!((found.len(), left_out), (10, 40));
        for number in 0..MAX_BELOW {
            done(tree.store(Tree::ROOT, &format!("g{number}"), b"", false, &Label::default(), 0)).unwrap();
        }
        let all = done(find(&tree, (Tree::ROOT, "."), "g", 99, &async || ()));
        assert_eq!(all.map(drop), Err(TreeError::TooMany(MAX_BELOW)));
    }

    /// What is removed while others are served is left out.
    #[test]
    fn a_folder_that_goes_meanwhile_is_left_out() {
        let tree = tree(&["a/b/c", "d"]);
        let gone = vec!["a/b/c", "a/b", "a"];
        let pause = async || {
            for path in &gone {
                let _ = tree.borrow_mut().remove(Tree::ROOT, path, 0);
            }
        };
        let (found, _) = done(find(&tree, (Tree::ROOT, "."), "*", 999, &pause)).unwrap();
        assert_eq!(found.into_iter().map(|info| info.name).collect::<Vec<_>>(), ["a", "d"]);
    }
}
