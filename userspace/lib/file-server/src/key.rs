//! The keys of durable capabilities: which tree they are of, and what of it.
//!
//! Of the 62 bits, the highest tells a pager from a root, and the 12 after it have the tree's number. The rest is a pager's
//! file (48 bits, with the lowest unused), or a root's trail (48 bits) and whether it may be written to (the lowest).

use capos_tree::NodeId;

/// Trees that one service has at most.
pub const MAX_TREES: u64 = 1 << TREE_BITS;

const TREE_BITS: u32 = 12;
const NUMBER_BITS: u32 = 48;
const PAGER: u64 = 1 << (1 + NUMBER_BITS + TREE_BITS);

/// What a durable capability names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A root, with the number of its trail; 0 if it has none.
    Root { trail: u64, writable: bool },
    /// The pager of a file's memory.
    Pager(NodeId),
}

impl Key {
    /// As a number, for the tree of this number.
    ///
    /// None if the tree's or the key's own number is too large.
    pub fn encode(self, tree: u64) -> Option<u64> {
        let (kind, number, low) = match self {
            Self::Root { trail, writable } => (0, trail, u64::from(writable)),
            Self::Pager(id) => (PAGER, id.number(), 0),
        };
        let fits = tree < MAX_TREES && number < 1 << NUMBER_BITS;
        fits.then_some(kind | tree << (1 + NUMBER_BITS) | number << 1 | low)
    }

    /// The tree's number, and what is meant of that tree.
    pub fn decode(key: u64) -> (u64, Self) {
        let tree = (key >> (1 + NUMBER_BITS)) & (MAX_TREES - 1);
        let number = (key >> 1) & ((1 << NUMBER_BITS) - 1);
        if key & PAGER != 0 {
            return (tree, Self::Pager(NodeId::from_number(number)));
        }
        (tree, Self::Root { trail: number, writable: key & 1 == 1 })
    }
}

/// The number of the tree that the key of a durable capability is of.
#[must_use]
pub fn tree_of(key: u64) -> u64 {
    Key::decode(key).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_made() {
        let most = (1 << 48) - 1;
        for tree in [0, 1, MAX_TREES - 1] {
            for number in [0, 1, most] {
                let roots = [true, false].map(|writable| Key::Root { trail: number, writable });
                for key in roots.into_iter().chain([Key::Pager(NodeId::from_number(number))]) {
                    let encoded = key.encode(tree).unwrap();
                    assert!(encoded < 1 << 62 && Key::decode(encoded) == (tree, key));
                }
            }
        }
        assert_eq!(Key::Root { trail: most + 1, writable: true }.encode(0), None);
        assert_eq!(Key::Pager(NodeId::from_number(0)).encode(MAX_TREES), None);
    }
}
