//! Malicious archives: each is rejected with an error message, or read without a panic.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.

use capos_ustar::{ArchiveError, BLOCK, END, entries, file_header, find, padding};
use proptest::prelude::*;

/// An archive of these files.
fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, content) in files {
        out.extend(file_header(name, content.len() as u64).unwrap());
        out.extend_from_slice(content);
        out.resize(out.len() + padding(content.len()), 0);
    }
    out.extend(END);
    out
}

fn good() -> Vec<u8> {
    archive(&[("init", &[7; 600]), ("empty", b""), ("manifest", b"x")])
}

/// Name, place and length of each file.
fn list(bytes: &[u8]) -> Result<Vec<(String, u64, u64)>, ArchiveError> {
    let mut found = Vec::new();
    let read = |at: u64, block: &mut [u8; BLOCK]| {
        block.copy_from_slice(&bytes[at as usize..][..BLOCK]);
        Ok(())
    };
    entries(bytes.len() as u64, read, |entry| {
        found.push((entry.name().to_owned(), entry.offset, entry.bytes));
        Ok::<(), ArchiveError>(())
    })?;
    Ok(found)
}

fn refused(bytes: &[u8]) -> String {
    list(bytes).unwrap_err().to_string()
}

/// The archive with a field of its second header changed, and that header's checksum made good.
fn with_field(at: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = good();
    let header = &mut bytes[1536..2048];
    header[at..at + value.len()].copy_from_slice(value);
    header[148..156].copy_from_slice(b"        ");
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    bytes
}

#[test]
fn files_are_found_where_they_lie() {
    let bytes = good();
    let found = list(&bytes).unwrap();
    assert_eq!(found, [("init".into(), 512, 600), ("empty".into(), 2048, 0), ("manifest".into(), 2560, 1)]);
    assert_eq!(find(&bytes, "manifest"), Ok(Some(&b"x"[..])));
    assert_eq!(find(&bytes, "init").unwrap().map(<[u8]>::len), Some(600));
    assert_eq!(find(&bytes, "other"), Ok(None));
    assert_eq!(find(&END, "init"), Ok(None));
}

#[test]
fn archives_that_are_cut_short_are_refused() {
    let bytes = good();
    assert_eq!(refused(&[]), "it is empty");
    assert_eq!(refused(&bytes[..100]), "it is cut short: it ends within the header at byte 0");
    assert_eq!(refused(&bytes[..1700]), "it is cut short: it ends within the header at byte 1536");
    assert_eq!(refused(&bytes[..1000]), "it is cut short: of the 600 bytes of `init` only 488 are there");
    assert_eq!(refused(&bytes[..2561]), "it is cut short: it ends at byte 2561 without the mark of its end");
    assert_eq!(refused(&bytes[..3072]), "it is cut short: it ends at byte 3072 without the mark of its end");
    // `find` reads all of it, though its file comes first.
    assert!(find(&bytes[..1700], "init").is_err());
    for cut in 0..3072 {
        assert!(list(&bytes[..cut]).is_err(), "{cut}");
    }
}

#[test]
fn headers_that_were_changed_are_refused() {
    let mut bytes = good();
    bytes[1536] ^= 1;
    assert_eq!(refused(&bytes), "the header at byte 1536 does not have the checksum that it says");
    let mut bytes = good();
    bytes[1536 + 257] = 0;
    assert_eq!(refused(&bytes), "byte 1536 does not begin a header of a ustar archive");
    for size in ["-0000000001\0", "+0000000001\0", "00000000008\0", "0x000000001\0", "\0          \0", "           \0"]
    {
        let words = refused(&with_field(124, size.as_bytes()));
        assert_eq!(words, "the header at byte 1536 has a file size that is no octal number", "{size:?}");
    }
    // The binary form that some writers have for sizes over 8 GiB.
    let words = refused(&with_field(124, &[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]));
    assert!(words.contains("no octal number"), "{words}");
    let words = refused(&with_field(124, b"777777777777"));
    assert_eq!(words, "it is cut short: of the 68719476735 bytes of `empty` only 2048 are there");
    assert!(refused(&with_field(156, b"5")).contains("no regular file"));
    assert!(refused(&with_field(0, b"\xff")).contains("no file name"));
    assert!(refused(&with_field(0, b"\0")).contains("no file name"));
    assert!(refused(&with_field(345, b"prefix")).contains("no file name"));
}

proptest! {
    /// Whatever the bytes are, there is an answer, and every reported file is inside the archive.
    #[test]
    fn any_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        let _ = list(&bytes);
        let _ = find(&bytes, "init");
    }

    /// A good archive with changes, the headers' checksums made good after them or not, and cut anywhere.
    #[test]
    fn any_change_is_judged(
        changes in prop::collection::vec((0_usize..4096, any::<u8>()), 0..12),
        cut in 0_usize..4200,
        mend in any::<bool>(),
    ) {
        let mut bytes = good();
        let length = bytes.len();
        for (at, value) in changes {
            bytes[at % length] = value;
        }
        for header in [0, 1536, 2048].iter().filter(|_| mend) {
            let header = &mut bytes[*header..*header + BLOCK];
            header[148..156].copy_from_slice(b"        ");
            let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
            header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
        bytes.truncate(cut);
        if let Ok(found) = list(&bytes) {
            for (_, offset, length) in found {
                prop_assert!(offset + length <= bytes.len() as u64);
            }
        }
    }
}
