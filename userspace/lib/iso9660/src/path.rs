//! Paths: from a directory to a node, through links, never above where they start.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::{Error, Kind, Node, ReadSectors, Volume, limits};

impl<R: ReadSectors> Volume<R> {
    /// The node at `path`, symbolic links followed. Paths are `/`-separated and begin at `root`
    /// whether or not they start with `/`; neither `..` nor a link leads above it. Empty
    /// components and `.` say nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotADirectory`], [`Error::TooManyLinks`],
    /// [`Error::BadPath`], [`Error::Malformed`], [`Error::Source`].
    pub async fn resolve(&self, root: &Node, path: &str) -> Result<Node, Error<R::Error>> {
        self.walk(root, path, true).await
    }

    /// Like [`Self::resolve`], but where the path ends at a symbolic link it gives the link.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub async fn resolve_link(&self, root: &Node, path: &str) -> Result<Node, Error<R::Error>> {
        self.walk(root, path, false).await
    }

    async fn walk(&self, root: &Node, path: &str, follow_last: bool) -> Result<Node, Error<R::Error>> {
        check(path).map_err(|why| Error::BadPath { why })?;
        // The directories between the root and here; components still to go, the next one last.
        let mut trail: Vec<Node> = Vec::new();
        let mut todo: Vec<String> = components(path);
        let mut links = 0usize;
        while let Some(component) = todo.pop() {
            if component == ".." {
                trail.pop();
                continue;
            }
            let here = trail.last().unwrap_or(root);
            if !here.is_directory() {
                return Err(Error::NotADirectory { path: path.to_string() });
            }
            let node = match self.lookup(here, &component).await {
                Err(Error::NotFound { .. }) => {
                    return Err(Error::NotFound { path: path.to_string() });
                }
                other => other?,
            };
            let Kind::Link(target) = node.kind() else {
                trail.push(node);
                continue;
            };
            if todo.is_empty() && !follow_last {
                return Ok(node);
            }
            links = links.saturating_add(1);
            let steps = components(target);
            let waiting = todo.len().saturating_add(steps.len());
            if links > limits::LINKS || waiting > limits::PATH_BYTES {
                return Err(Error::TooManyLinks { path: path.to_string() });
            }
            if target.starts_with('/') {
                trail.clear();
            }
            todo.extend(steps);
        }
        match trail.pop() {
            Some(node) => Ok(node),
            None if root.is_directory() => Ok(root.clone()),
            None => Err(Error::NotADirectory { path: path.to_string() }),
        }
    }
}

fn check(path: &str) -> Result<(), &'static str> {
    if path.len() > limits::PATH_BYTES {
        Err("it is longer than 4096 bytes")
    } else if path.contains('\0') {
        Err("it holds a NUL")
    } else {
        Ok(())
    }
}

/// The components that say something, last first.
fn components(path: &str) -> Vec<String> {
    let says = |component: &&str| !component.is_empty() && *component != ".";
    path.rsplit('/').filter(says).map(str::to_string).collect()
}
