//! Inconsistent files: lengths, counts, places.

use anyhow::{Context, Result};

use crate::End::{self, Refused};
use crate::parts::Parts;

/// A file in which these bytes stand in place of as many others, which follow `mark` after `after` more.
fn changed(mark: &[u8], behind: usize, new: &[u8]) -> Result<Vec<u8>> {
    let mut file = Parts::talking().file()?;
    let at = file.windows(mark.len()).position(|part| part == mark).context("the mark is not in the file")?;
    let at = at + mark.len() + behind;
    file.get_mut(at..at + new.len()).context("the file is too short")?.copy_from_slice(new);
    Ok(file)
}

/// Names and contents.
pub fn all() -> Result<Vec<(&'static str, End, Vec<u8>)>> {
    let whole = Parts::talking().file()?;
    let part = |length: usize| whole.get(..length).map(<[u8]>::to_vec).context("the file is too short");
    let most = u64::MAX.to_le_bytes();
    let tokens = b"tokenizer.ggml.tokens";
    // Of a list its type, the type of its values, and their number follow; of a text its length.
    let deep: Vec<u8> = [9u32, 9, 9].iter().flat_map(|kind| kind.to_le_bytes()).collect();
    // Lists of one list each, as deep as the tokens have room for.
    let one = [9u32.to_le_bytes().to_vec(), 1u64.to_le_bytes().to_vec()].concat();
    let deepest = [9u32.to_le_bytes().to_vec(), one.repeat(200)].concat();
    let tensor = b"blk.0.attn_q.weight";
    Ok(vec![
        ("empty", Refused(""), Vec::new()),
        ("magic-alone", Refused("the file ends before"), part(4)?),
        ("not-gguf", Refused("this is not a GGUF file"), b"PK\x03\x04".repeat(64)),
        ("version", Refused("GGUF version 77"), changed(b"GGUF", 0, &77u32.to_le_bytes())?),
        ("tensor-count", Refused("at byte"), changed(b"GGUF", 4, &most)?),
        ("entry-count", Refused("at byte"), changed(b"GGUF", 12, &most)?),
        ("cut-in-header", Refused("the file ends before"), part(whole.len() / 3)?),
        ("cut-in-data", Refused("reaches over the end of the file"), part(whole.len() - 40)?),
        ("text-length", Refused("at byte"), changed(b"general.architecture", 4, &most)?),
        ("text-no-utf8", Refused("is not UTF-8"), changed(b"general.architecture", 12, b"\xff\xfe")?),
        ("list-length", Refused("at byte"), changed(tokens, 8, &most)?),
        ("list-of-lists", Refused(""), changed(tokens, 0, &deep)?),
        ("lists-200-deep", Refused("at byte"), changed(tokens, 0, &deepest)?),
        ("key-length", Refused("at byte"), changed(b"GGUF", 20, &most)?),
        ("text-in-a-list-length", Refused("at byte"), changed(tokens, 16, &most)?),
        ("value-type", Refused("is not known"), changed(tokens, 0, &99u32.to_le_bytes())?),
        ("dimension-count", Refused(""), changed(tensor, 0, &u32::MAX.to_le_bytes())?),
        ("dimension", Refused("the tensor 'blk.0.attn_q.weight'"), changed(tensor, 4, &most)?),
        (
            "product-overflows",
            Refused("the tensor"),
            changed(tensor, 4, &[0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0])?,
        ),
        ("tensor-type", Refused("is not known"), changed(tensor, 20, &1000u32.to_le_bytes())?),
        ("offset-outside", Refused(""), changed(tensor, 24, &(1u64 << 40).to_le_bytes())?),
        ("offset-overflows", Refused(""), changed(tensor, 24, &(u64::MAX - 31).to_le_bytes())?),
        ("offset-unaligned", Refused("the tensor 'blk.0.attn_q.weight'"), changed(tensor, 24, &[1])?),
        ("tensors-overlap", Refused("overlap"), changed(tensor, 24, &0u64.to_le_bytes())?),
        (
            "tensor-twice",
            Refused("there twice"),
            doubled(|parts| parts.tensors.extend(parts.tensors.first().cloned()))?,
        ),
        ("key-twice", Refused("there twice"), doubled(|parts| parts.entries.extend(parts.entries.first().cloned()))?),
    ])
}

/// A file in which something is there twice.
fn doubled(again: impl Fn(&mut Parts)) -> Result<Vec<u8>> {
    let mut parts = Parts::talking();
    again(&mut parts);
    Ok(parts.file()?)
}
