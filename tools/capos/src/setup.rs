//! `etc/setup.toml` of an image, checked before it is on one: at the machine's start nobody may be there who reads the error.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use capos_setup::Unattended;
use capos_setup::rules::check_key_file;
use capos_setup::unattended::Key;

/// Where the file is in the tree of the image.
const FILE: &str = "etc/setup.toml";

/// Checks the file in the tree of an image, where there is one, with the key file that it names.
///
/// # Errors
/// File, line and field, what is wrong, and what to do.
pub fn check(tree: &Path) -> Result<()> {
    let path = tree.join(FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    let wrong = |why: String| {
        anyhow!(
            "{}: {why}; correct it, or remove the file: the machine would not use it, and ask a person at its start",
            path.display()
        )
    };
    let setup = Unattended::read(&text).map_err(wrong)?;
    let Key::File(named) = &setup.key else { return Ok(()) };
    let line = text.lines().position(|line| line.trim_start().starts_with("key_file")).unwrap_or_default() + 1;
    let wrong =
        |why: &dyn std::fmt::Display| wrong(format!("line {line}: key_file: {}: {why}", tree.join(named).display()));
    let key = std::fs::read_to_string(tree.join(named)).map_err(|error| wrong(&error))?;
    check_key_file(&key).map_err(|why| wrong(&why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_told_before_an_image_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path();
        assert!(check(tree).is_ok(), "an image needs no such file");
        std::fs::create_dir(tree.join("etc")).unwrap();
        let with = |text: &str| {
            std::fs::write(tree.join(FILE), text).unwrap();
            check(tree).map_err(|error| error.to_string())
        };
        let key = "name = \"site\"\n\nkey_file = \"/etc/site.key\"\n";
        for (text, words) in [
            (
                "name = \"site\"\npassphrase = \"short\"\n",
                "etc/setup.toml: line 2: passphrase: a passphrase has at least 8",
            ),
            ("name = \"a b\"\npassphrase = \"correct horse\"\n", "etc/setup.toml: line 1: name: a name has no spaces"),
            ("name = \"site\"\nmigrate = 1\n", "etc/setup.toml: line 2: write true or false here"),
            (key, "etc/setup.toml: line 3: key_file: "),
        ] {
            let why = with(text).unwrap_err();
            assert!(why.contains(words) && why.contains("; correct it, or remove the file"), "{why}");
        }
        std::fs::write(tree.join("etc/site.key"), "k").unwrap();
        assert!(with(key).unwrap_err().contains("site.key: a key file has 32 to 1024 bytes"));
        std::fs::write(tree.join("etc/site.key"), "k".repeat(44)).unwrap();
        assert_eq!(with(key), Ok(()));
    }
}
