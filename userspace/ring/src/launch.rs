//! What a process must know of its launch record before it has memory to read it into.

use capnp::message::{Reader, ReaderOptions, SegmentArray};
use capos_schema::kernel::{AddressSpaceClient, ResourceAccountClient};
use capos_schema::kernel_capnp::{launch_record, named_capability};

/// The identifiers of the account and of the address space with which the process's heap can grow, read where the record
/// lies: it may be larger than the memory that a process begins with. `None` where it has not both, or is no record.
#[must_use]
pub fn means_to_grow(record: &[u8]) -> Option<(u64, u64)> {
    let segments = [record];
    let message = Reader::new(SegmentArray::new(&segments), ReaderOptions::new());
    let record: launch_record::Reader<'_> = message.get_root().ok()?;
    let capabilities = record.get_capabilities().ok()?;
    let granted = |name: &str, interface: u64| {
        let named = |given: &named_capability::Reader<'_>| {
            given.get_interface() == interface
                && given.get_name().is_ok_and(|found| found.as_bytes() == name.as_bytes())
        };
        capabilities.iter().find(named).map(|given| given.get_id())
    };
    let account = granted("account", ResourceAccountClient::INTERFACE_ID)?;
    Some((account, granted("space", AddressSpaceClient::INTERFACE_ID)?))
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
        record.capabilities.pop();
        assert_eq!(means_to_grow(Word::words_to_bytes(&words(&record))), None);
        assert_eq!(means_to_grow(&[]), None);
        assert_eq!(means_to_grow(Word::words_to_bytes(&Word::allocate_zeroed_vec(4))), None);
    }
}
