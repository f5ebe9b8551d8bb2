//! Files of the build: written only when their content changes, so that their dependents stay up to date.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};

/// Writes `content` to `path` unless it holds just that; true when it was written.
pub fn write_if_changed(path: &Path, content: &[u8]) -> Result<bool> {
    if std::fs::read(path).is_ok_and(|old| old == content) {
        return Ok(false);
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    write_whole(path, |file| Ok(file.write_all(content)?))?;
    Ok(true)
}

/// Writes a file whole or not at all: under another name first, then renamed.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let new = beside(path, "new");
    let result = File::create(&new)
        .with_context(|| format!("creating {}", new.display()))
        .and_then(|mut file| write(&mut file))
        .and_then(|()| std::fs::rename(&new, path).with_context(|| format!("writing {}", path.display())));
    if result.is_err() {
        // The first error counts; there may be nothing to remove.
        let _ = std::fs::remove_file(&new);
    }
    result
}

/// Removes a file if there is one.
pub fn remove_if_there(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing the old {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Every regular file below `folder`, sorted; a missing folder has none.
pub fn walk(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        if !folder.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    Ok(found)
}

/// When a file was last changed.
pub fn changed(path: &Path) -> Result<SystemTime> {
    let data = std::fs::metadata(path).with_context(|| format!("looking at {}", path.display()))?;
    data.modified().context("this host keeps no modification times")
}

/// True when `out` exists and no input is newer.
pub fn up_to_date(out: &Path, inputs: &[PathBuf]) -> Result<bool> {
    let Ok(made) = changed(out) else { return Ok(false) };
    for input in inputs {
        if changed(input)? > made {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes `to` hold exactly the files of `from` given by name: others are removed.
pub fn mirror(wanted: &[(String, PathBuf)], to: &Path) -> Result<()> {
    for old in walk(to)? {
        if !wanted.iter().any(|(name, _)| to.join(name) == old) {
            std::fs::remove_file(&old).with_context(|| format!("removing {}", old.display()))?;
        }
    }
    for (name, from) in wanted {
        copy_if_newer(from, &to.join(name))?;
    }
    Ok(())
}

/// Copies `from` to `to` if that is older or missing. A hard link is made if possible: models are large.
///
/// The new file is written under another name and then renamed. So no reader finds half of it, and nothing is ever
/// written through a link that leads back to `from`.
pub fn copy_if_newer(from: &Path, to: &Path) -> Result<()> {
    if up_to_date(to, &[from.to_owned()])? && std::fs::metadata(from)?.len() == std::fs::metadata(to)?.len() {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let new = beside(to, "new");
    let _ = std::fs::remove_file(&new);
    if std::fs::hard_link(from, &new).is_err() {
        std::fs::copy(from, &new).with_context(|| format!("copying {} to {}", from.display(), to.display()))?;
    }
    // Renaming a link over another link to the same file does nothing and leaves both names.
    std::fs::rename(&new, to).with_context(|| format!("writing {}", to.display()))?;
    let _ = std::fs::remove_file(&new);
    Ok(())
}

/// `path` with a process's own ending, for a file that is being made.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.{ending}", std::process::id()));
    name.into()
}

/// Waits until no other process builds in `folder`, and keeps others out until it is dropped.
pub fn lock(folder: &Path) -> Result<File> {
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let path = folder.join(".capos-lock");
    let file = File::create(&path).with_context(|| format!("opening {}", path.display()))?;
    file.lock().with_context(|| format!("locking {}", path.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        assert!(write_if_changed(&path, b"1").unwrap());
        assert!(!write_if_changed(&path, b"1").unwrap());
        assert!(write_if_changed(&path, b"2").unwrap());
        assert_eq!(walk(folder.path()).unwrap(), [path]);
    }

    #[test]
    fn files_are_written_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write_whole(&path, |file| Ok(file.write_all(b"good")?)).unwrap();
        let error = write_whole(&path, |file| {
            file.write_all(b"half")?;
            anyhow::bail!("no more")
        });
        assert_eq!(error.unwrap_err().to_string(), "no more");
        assert_eq!(std::fs::read(&path).unwrap(), b"good");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_mirror_has_no_leftovers() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        std::fs::write(&source, "x").unwrap();
        let to = folder.path().join("to");
        write_if_changed(&to.join("old/file"), b"").unwrap();
        mirror(&[("bin/new".into(), source.clone())], &to).unwrap();
        assert_eq!(walk(&to).unwrap(), [to.join("bin/new")]);
        assert!(up_to_date(&to.join("bin/new"), std::slice::from_ref(&source)).unwrap());
        assert!(!up_to_date(&to.join("none"), &[]).unwrap());
        // A link to the source is replaced without the source being touched.
        std::fs::write(&source, "longer").unwrap();
        std::fs::remove_file(to.join("bin/new")).unwrap();
        std::fs::hard_link(&source, to.join("bin/new")).unwrap();
        mirror(&[("bin/new".into(), source.clone())], &to).unwrap();
        assert_eq!(std::fs::read(&source).unwrap(), b"longer");
        assert_eq!(walk(&to).unwrap(), [to.join("bin/new")]);
    }
}
