//! What is kept of a node.

use alloc::string::String;
use alloc::vec::Vec;

use capos_schema::authority::Label;
use capos_tree::{Kind, NodeId};

/// What is kept of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub id: NodeId,
    pub kind: Kind,
    /// Length of a file in bytes, entries of a directory.
    pub bytes: u64,
    /// When it was last changed, milliseconds since 1970.
    pub modified: i64,
    /// Of what was written into it, joined.
    pub label: Label,
}

impl Record {
    /// A new node.
    pub fn new(id: NodeId, kind: Kind, modified: i64) -> Self {
        Self { id, kind, bytes: 0, modified, label: Label::default() }
    }

    /// As bytes: kind (1), number, bytes, time (8 each), and for each class of the label its length (1) and its name.
    pub fn encode(&self) -> Vec<u8> {
        let kind = match self.kind {
            Kind::File => 0,
            Kind::Directory => 1,
        };
        let mut bytes = alloc::vec![kind];
        bytes.extend_from_slice(&self.id.number().to_le_bytes());
        bytes.extend_from_slice(&self.bytes.to_le_bytes());
        bytes.extend_from_slice(&self.modified.to_le_bytes());
        for class in &self.label.classes {
            // A longer name is none of a class.
            bytes.push(u8::try_from(class.len()).unwrap_or(u8::MAX));
            bytes.extend(class.bytes().take(usize::from(u8::MAX)));
        }
        bytes
    }

    /// From bytes; none if they are malformed.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, bytes) = bytes.split_first()?;
        let kind = match kind {
            0 => Kind::File,
            1 => Kind::Directory,
            _ => return None,
        };
        let (id, bytes) = bytes.split_first_chunk()?;
        let (length, bytes) = bytes.split_first_chunk()?;
        let (modified, mut bytes) = bytes.split_first_chunk()?;
        let mut label = Label::default();
        while let Some((length, rest)) = bytes.split_first() {
            let (class, rest) = rest.split_at_checked(usize::from(*length))?;
            label.classes.push(String::from(core::str::from_utf8(class).ok()?));
            bytes = rest;
        }
        Some(Self {
            id: NodeId::from_number(u64::from_le_bytes(*id)),
            kind,
            bytes: u64::from_le_bytes(*length),
            modified: i64::from_le_bytes(*modified),
            label,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_is_read_as_it_was_written(
            (id, bytes, modified) in any::<(u64, u64, i64)>(),
            is_file: bool,
            classes in prop::collection::vec("[a-z.*]{1,64}", 0..5),
        ) {
            let kind = if is_file { Kind::File } else { Kind::Directory };
            let record = Record { id: NodeId::from_number(id), kind, bytes, modified, label: Label { classes } };
            prop_assert_eq!(Record::decode(&record.encode()), Some(record));
        }

        #[test]
        fn other_bytes_are_rejected_or_read(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(record) = Record::decode(&bytes) {
                prop_assert_eq!(record.encode(), bytes);
            }
        }
    }
}
