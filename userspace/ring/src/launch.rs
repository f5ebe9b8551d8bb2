//! The part of the launch record that a process needs before it has memory to read it into.

use capnp::message::{Reader, ReaderOptions, SegmentArray};
use capos_schema::kernel::{AddressSpaceClient, DebugLogClient, ResourceAccountClient};
use capos_schema::kernel_capnp::{launch_record, named_capability};
use capos_schema::system::LoggerClient;

/// The identifiers of the account and of the address space with which the process's heap can grow. The record is read
/// in place, since it may be larger than the process's first memory. `None` if it lacks one of them, or is not a
/// record.
#[must_use]
pub fn means_to_grow(record: &[u8]) -> Option<(u64, u64)> {
    let account = ("account", ResourceAccountClient::INTERFACE_ID);
    let [account, space] = granted(record, [account, ("space", AddressSpaceClient::INTERFACE_ID)]);
    Some((account?, space?))
}

/// The part of a process that can log why it ends ([`write_line`](crate::write_line)), before it has memory to read its
/// record.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LastWords {
    /// The kernel's log.
    pub debug: Option<u64>,
    /// The log service.
    pub logger: Option<u64>,
}

/// Those of its capabilities that the launch record names, read in place.
#[must_use]
pub fn last_words(record: &[u8]) -> LastWords {
    let [debug, logger] =
        granted(record, [("log", DebugLogClient::INTERFACE_ID), ("logger", LoggerClient::INTERFACE_ID)]);
    LastWords { debug, logger }
}

/// The identifiers of capabilities by name and interface.
fn granted<const N: usize>(record: &[u8], wanted: [(&str, u64); N]) -> [Option<u64>; N] {
    let segments = [record];
    let message = Reader::new(SegmentArray::new(&segments), ReaderOptions::new());
    let Ok(record) = message.get_root::<launch_record::Reader<'_>>() else { return [None; N] };
    let Ok(capabilities) = record.get_capabilities() else { return [None; N] };
    wanted.map(|(name, interface)| {
        let named = |given: &named_capability::Reader<'_>| {
            given.get_interface() == interface
                && given.get_name().is_ok_and(|found| found.as_bytes() == name.as_bytes())
        };
        capabilities.iter().find(named).map(|given| given.get_id())
    })
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

    use capnp::Word;
    use capos_schema::kernel::{LaunchRecord, NamedCapability};

    use super::*;

    /// The record as the kernel maps it: aligned.
    fn words(record: &LaunchRecord) -> Vec<Word> {
        let bytes = capos_schema::wire::to_bytes(record).unwrap();
        let mut words = Word::allocate_zeroed_vec(bytes.len() / 8);
        Word::words_to_bytes_mut(&mut words).copy_from_slice(&bytes);
        words
    }

    #[test]
    fn means_are_found_by_name_and_interface() {
        let (account, space) = (ResourceAccountClient::INTERFACE_ID, AddressSpaceClient::INTERFACE_ID);
        let named = |name: &str, id, interface| NamedCapability { name: name.to_string(), id, interface };
        let mut record = LaunchRecord {
            arguments: vec!["a".repeat(1000); 500],
            capabilities: vec![named("space", 1, account), named("account", 2, account), named("space", 3, space)],
            ..LaunchRecord::default()
        };
        assert_eq!(means_to_grow(Word::words_to_bytes(&words(&record))), Some((2, 3)));
        assert_eq!(last_words(Word::words_to_bytes(&words(&record))), LastWords::default());
        record.capabilities.pop();
        assert_eq!(means_to_grow(Word::words_to_bytes(&words(&record))), None);
        record.capabilities.push(named("log", 4, DebugLogClient::INTERFACE_ID));
        record.capabilities.push(named("logger", 5, DebugLogClient::INTERFACE_ID));
        let found = LastWords { debug: Some(4), logger: None };
        assert_eq!(last_words(Word::words_to_bytes(&words(&record))), found);
        assert_eq!(last_words(&[]), LastWords::default());
        assert_eq!(means_to_grow(&[]), None);
        assert_eq!(means_to_grow(Word::words_to_bytes(&Word::allocate_zeroed_vec(4))), None);
    }
}
