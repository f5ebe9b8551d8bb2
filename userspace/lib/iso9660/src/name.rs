//! Names: which are accepted, and what becomes of plain ISO 9660 identifiers.

use alloc::string::String;

use crate::{Malformed, Place, Problem, limits};

/// A Rock Ridge name as text.
pub(crate) fn accept(name: &[u8], place: Place) -> Result<String, Malformed> {
    if name.is_empty() {
        return Err(place.rule("a name is empty"));
    }
    if name.len() > limits::NAME_BYTES {
        let (found, limit) = (name.len() as u64, limits::NAME_BYTES as u64);
        return Err(place.wrong(Problem::TooLarge { what: "the length of a name", found, limit }));
    }
    if name == b"." || name == b".." {
        return Err(place.rule("a name is '.' or '..'"));
    }
    if name.iter().any(|byte| *byte == b'/' || *byte == 0) {
        return Err(place.rule("a name holds '/' or NUL"));
    }
    core::str::from_utf8(name).map(String::from).map_err(|_| place.rule("a name is not UTF-8"))
}

/// The name of a record without Rock Ridge: lower case, no version, no final dot, which is what
/// other systems show.
pub(crate) fn from_identifier(identifier: &[u8], place: Place) -> Result<String, Malformed> {
    let end = identifier.iter().position(|byte| *byte == b';').unwrap_or(identifier.len());
    let name = identifier.get(..end).unwrap_or(&[]);
    let name = name.strip_suffix(b".").filter(|rest| !rest.is_empty()).unwrap_or(name);
    let mut name = accept(name, place)?;
    name.make_ascii_lowercase();
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Place = Place::new("test", 20);

    #[test]
    fn identifiers_become_names() {
        assert_eq!(from_identifier(b"README.TXT;1", HERE).unwrap(), "readme.txt");
        assert_eq!(from_identifier(b"KERNEL.;1", HERE).unwrap(), "kernel");
        assert_eq!(from_identifier(b"BOOT", HERE).unwrap(), "boot");
        assert!(from_identifier(b";1", HERE).is_err());
    }

    #[test]
    fn names_that_could_be_paths_are_refused() {
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0", b"\xff", &[b'x'; 256]] {
            assert!(accept(name, HERE).is_err(), "{name:?}");
        }
        assert_eq!(accept("Grüße.txt".as_bytes(), HERE).unwrap(), "Grüße.txt");
        assert!(accept(&[b'x'; 255], HERE).is_ok());
    }
}
