//! Keys of the one table that the database has: a namespace, a table's name, and the key within it.

use alloc::vec::Vec;
use core::ops::Bound;

use crate::StoreError;

/// Bytes of a table's name at most.
pub const MAX_TABLE: usize = 64;
/// Bytes of a key at most.
pub const MAX_KEY: usize = 1024;
/// Bytes of a value at most. What is larger is cut by its owner.
pub const MAX_VALUE: usize = 1 << 20;

/// Whether something is not empty and no longer than it may be.
pub(crate) fn fits(what: &'static str, bytes: usize, most: usize) -> Result<(), StoreError> {
    if (1..=most).contains(&bytes) { Ok(()) } else { Err(StoreError::Length { what, bytes, most }) }
}

/// What the keys of a table begin with. The length comes first, so that no table's keys begin with those of another.
pub(crate) fn prefix(namespace: u64, table: &str) -> Result<Vec<u8>, StoreError> {
    fits("table's name", table.len(), MAX_TABLE)?;
    let mut key = Vec::from(namespace.to_be_bytes());
    key.push(u8::try_from(table.len()).unwrap_or(u8::MAX));
    key.extend_from_slice(table.as_bytes());
    Ok(key)
}

/// The whole key.
pub(crate) fn whole(namespace: u64, table: &str, key: &[u8]) -> Result<Vec<u8>, StoreError> {
    fits("key", key.len(), MAX_KEY)?;
    let mut whole = prefix(namespace, table)?;
    whole.extend_from_slice(key);
    Ok(whole)
}

/// Table and key of a whole key; none if it is not one.
pub(crate) fn parts(whole: &[u8]) -> Option<(&str, &[u8])> {
    let (_, rest) = whole.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first()?;
    let (table, key) = rest.split_at_checked(usize::from(*length))?;
    Some((core::str::from_utf8(table).ok()?, key))
}

/// Where a part of a table begins and ends, as whole keys.
pub(crate) fn bounds(prefix: &[u8], from: Bound<&[u8]>, to: Bound<&[u8]>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let whole = |key: &[u8]| [prefix, key].concat();
    let start = match from {
        Bound::Unbounded => Bound::Included(prefix.to_vec()),
        bound => bound.map(whole),
    };
    let end = match to {
        Bound::Unbounded => after(prefix),
        bound => bound.map(whole),
    };
    (start, end)
}

/// Whether nothing lies between two bounds. The database does not accept such a range.
pub(crate) fn is_empty(start: &Bound<Vec<u8>>, end: &Bound<Vec<u8>>) -> bool {
    match (start, end) {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => start >= end,
        _ => false,
    }
}

/// The first key that does not begin with this; none where each later one does.
pub(crate) fn after(prefix: &[u8]) -> Bound<Vec<u8>> {
    let mut after = prefix.to_vec();
    while let Some(last) = after.pop() {
        if let Some(next) = last.checked_add(1) {
            after.push(next);
            return Bound::Excluded(after);
        }
    }
    Bound::Unbounded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_tables_and_namespaces_are_apart() {
        let of = |namespace, table: &str| prefix(namespace, table).unwrap();
        let all = [of(1, "a"), of(1, "ab"), of(1, "b"), of(2, "a"), of(256, "a")];
        for (at, one) in all.iter().enumerate() {
            for (other_at, other) in all.iter().enumerate() {
                assert_eq!(one.starts_with(other), at == other_at, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn what_begins_with_a_prefix_lies_before_what_comes_after_it() {
        for prefix in [&b"a"[..], b"a\xff", b"\xff\xff", b"\x00"] {
            let last = [prefix, &[0xff; 8]].concat();
            match after(prefix) {
                Bound::Excluded(end) => assert!(last < end && !end.starts_with(prefix)),
                _ => assert!(prefix.iter().all(|byte| *byte == 0xff)),
            }
        }
    }
}
