//! The capabilities of a session, in as many parts as it takes: a message carries only some.

use alloc::vec::Vec;

use capos_abi::entry::MAX_CAPS;

/// Grants of a part: with the audit writer, as many as a message may carry.
const AT_ONCE: usize = MAX_CAPS as usize - 1;

/// The part of a list that begins with number `first`, the number of what follows it, or 0, and the length of the whole.
#[must_use]
pub fn from<T>(mut all: Vec<T>, first: u16) -> (Vec<T>, u16, u16) {
    let number = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
    let total = all.len();
    let end = usize::from(first).saturating_add(AT_ONCE);
    all.truncate(end);
    all.drain(..all.len().min(first.into()));
    (all, if end < total { number(end) } else { 0 }, number(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_together_are_the_list() {
        for length in 0..100_u16 {
            let list: Vec<u16> = (0..length).collect();
            let (mut whole, mut first) = (Vec::new(), 0);
            loop {
                let (part, next, total) = from(list.clone(), first);
                assert!(part.len() <= AT_ONCE && total == length, "{length}: {part:?}");
                whole.extend(part);
                first = next;
                if next == 0 {
                    break;
                }
            }
            assert_eq!(whole, list);
        }
        for first in [1, 15, u16::MAX] {
            assert_eq!(from(vec![1], first), (Vec::new(), 0, 1));
        }
    }
}
