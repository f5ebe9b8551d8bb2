//! The input of the programs: files, or standard input.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

/// Why a program ends early.
#[derive(Debug)]
pub enum Failure {
    /// Its arguments are wrong.
    Usage,
    /// It cannot read: what, and why.
    Input(String, io::Error),
    /// It cannot write.
    Output(io::Error),
}

/// Opens the files that are named, or standard input if none is, one after the other.
pub fn each(
    files: &[String],
    mut read: impl FnMut(&str, &mut dyn BufRead) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if files.is_empty() {
        return read("", &mut io::stdin().lock());
    }
    for name in files {
        let file = File::open(name).map_err(|error| Failure::Input(name.clone(), error))?;
        read(name, &mut BufReader::with_capacity(32 << 10, file))?;
    }
    Ok(())
}

/// Passes on the input, piece by piece as it arrives.
pub fn pieces(
    name: &str,
    input: &mut (impl Read + ?Sized),
    mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut buffer = vec![0; 32 << 10];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => take(buffer.get(..count).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::Input(named(name), error)),
        }
    }
}

/// A file's name, for people.
pub fn named(name: &str) -> String {
    if name.is_empty() { "standard input".to_owned() } else { name.to_owned() }
}
