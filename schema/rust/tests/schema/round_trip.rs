//! Owned values survive the way into a message and back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use capos_schema::wire::{Wire, decode_value, encode_value, from_bytes, to_bytes};
use proptest::prelude::*;

use crate::everything::{Colour, Defaults, Json, Outer, OuterInner, Pointers, Shape, Tree};
use crate::support::{defaults, json, mixed, pointers, scalars, shape, tree};

fn round<T: Wire + PartialEq + std::fmt::Debug>(value: &T) {
    let bytes = to_bytes(value).expect("every value of these fits");
    assert_eq!(&from_bytes::<T>(&bytes).expect("what was written can be read"), value);
}

proptest! {
    #[test]
    fn scalars_round_trip(value in scalars()) { round(&value); }

    #[test]
    fn pointers_round_trip(value in pointers()) { round(&value); }

    #[test]
    fn unions_round_trip(value in shape()) { round(&value); }

    #[test]
    fn unions_among_fields_round_trip(value in mixed()) { round(&value); }

    #[test]
    fn structs_that_hold_themselves_round_trip(value in tree()) { round(&value); }

    #[test]
    fn unions_that_hold_themselves_round_trip(value in json()) { round(&value); }

    #[test]
    fn fields_with_defaults_round_trip(value in defaults()) { round(&value); }

    #[test]
    fn arbitrary_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        // No panic, and no more memory than the message accounts for.
        let _ = from_bytes::<Pointers>(&bytes);
        let _ = from_bytes::<Tree>(&bytes);
        let _ = from_bytes::<Shape>(&bytes);
        let _ = from_bytes::<Json>(&bytes);
    }

    #[test]
    fn damaged_messages_are_refused_or_read(value in pointers(), at in any::<prop::sample::Index>(), flip in 1_u8..) {
        let mut bytes = to_bytes(&value).expect("every value of these fits");
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let _ = from_bytes::<Pointers>(&bytes);
    }
}

#[test]
fn defaults_come_from_the_schema() {
    let value = Defaults::default();
    assert_eq!((value.count, value.below, value.must), (7, -3, 0));
    assert_eq!((value.title.as_str(), value.colour, value.on), ("none", Colour::DarkBlue, true));
    assert!((value.ratio - 0.5).abs() < f64::EPSILON);
    // An empty struct on the wire reads as the defaults, too.
    let empty = [0_u8; 8];
    assert_eq!(from_bytes::<Defaults>(&empty).expect("a null root is an empty struct"), value);
}

#[test]
fn an_unknown_enumerant_or_variant_is_refused() {
    let mut bytes = to_bytes(&Defaults::default()).expect("it fits");
    // Find the colour's 16 bits: written as itself XOR its default, so zero now; try every place.
    let mut refused = 0;
    for at in 8..bytes.len() - 1 {
        let kept = bytes[at + 1];
        bytes[at + 1] = 0x7f;
        refused += usize::from(
            from_bytes::<Defaults>(&bytes).is_err_and(|error| error.to_string().contains("Defaults.colour")),
        );
        bytes[at + 1] = kept;
    }
    assert!(refused > 0);
    let mut bytes = to_bytes(&Shape::Point).expect("it fits");
    let mut refused = 0;
    for at in 8..bytes.len() {
        let kept = bytes[at];
        bytes[at] = 0x7f;
        refused += usize::from(from_bytes::<Shape>(&bytes).is_err_and(|error| error.to_string().contains("value")));
        bytes[at] = kept;
    }
    assert!(refused > 0);
}

#[test]
fn a_message_that_says_more_than_it_holds_is_refused() {
    // A list of structs of no size: 2^28 of them in two words.
    let mut bytes = vec![0_u8; 24];
    let root: u64 = 1 << 48; // 0 data words, 1 pointer.
    let list: u64 = 1 | (7 << 32); // Inline composite of 0 words, tag follows.
    let tag: u64 = (((1_u64 << 28) - 1) << 2) & 0xffff_ffff;
    for (at, word) in [root, list, tag].into_iter().enumerate() {
        bytes[at * 8..at * 8 + 8].copy_from_slice(&word.to_le_bytes());
    }
    let error = from_bytes::<Tree>(&bytes).map(|tree| tree.children.len());
    assert!(error.is_err() || error == Ok(0), "{error:?}");
}

#[test]
fn deep_nesting_is_refused() {
    let mut value = Tree::default();
    for _ in 0..100 {
        value = Tree { best: Some(Box::new(value)), ..Tree::default() };
    }
    let bytes = to_bytes(&value).expect("writing is not limited");
    assert!(from_bytes::<Tree>(&bytes).is_err());
}

#[test]
fn a_large_value_is_still_one_segment() {
    let value = Pointers { texts: vec!["x".repeat(1000); 300], ..Pointers::default() };
    let message = encode_value(&value).expect("it fits");
    assert!(message.words.len() * 8 >= 300_000);
    let incoming = capos_schema::cap::IncomingMessage { words: message.words, caps: Vec::new() };
    assert_eq!(decode_value::<Pointers>(&incoming).expect("one segment"), value);
}

#[test]
fn nested_names_are_joined() {
    let value = Outer { inner: OuterInner { value: 4 }, all: vec![OuterInner { value: -1 }] };
    round(&value);
}

#[test]
fn enums_have_names() {
    assert_eq!(Colour::DarkBlue.name(), "darkBlue");
    assert_eq!(Colour::from_name("green"), Some(Colour::Green));
    assert_eq!(Colour::from_name("Green"), None);
    assert_eq!(Colour::default(), Colour::Red);
    assert_eq!(Colour::DarkBlue.to_string(), "darkBlue");
}

/// Bytes of these words.
fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A pointer to a struct of these sizes, `offset` words on.
fn to_struct(offset: u64, data: u64, pointers: u64) -> u64 {
    offset << 2 | data << 32 | pointers << 48
}

/// A pointer to a list of `count` elements of this size, `offset` words on.
fn to_list(offset: u64, size: u64, count: u64) -> u64 {
    1 | offset << 2 | size << 32 | count << 35
}

#[test]
fn messages_of_other_versions_are_read_as_far_as_they_are_known() {
    // `Outer`: `inner` has a word and a pointer more than is known, `all` elements with two words more.
    let mut words = vec![to_struct(0, 0, 2), to_struct(1, 2, 1), to_list(3, 7, 6), 5, 77, 0];
    words.extend([to_struct(2, 3, 0), 6, 88, 99, 7, 88, 99]);
    let inner = |value| OuterInner { value };
    let read = |words: &[u64]| from_bytes::<Outer>(&bytes_of(words));
    assert_eq!(read(&words), Ok(Outer { inner: inner(5), all: vec![inner(6), inner(7)] }));
    // A root with less, whose `inner` has none of its fields.
    assert_eq!(read(&[to_struct(0, 0, 1), 0xffff_fffc]), Ok(Outer { inner: inner(0), all: vec![] }));
    // A list of the struct's one field from before: numbers of 32 bits, then of 16, which are too few to be read as 32.
    let wide = [to_struct(0, 0, 2), 0, to_list(0, 4, 3), 8 | 9 << 32, 10];
    assert_eq!(read(&wide), Ok(Outer { inner: inner(0), all: vec![inner(8), inner(9), inner(10)] }));
    let narrow = [to_struct(0, 0, 2), 0, to_list(0, 3, 2), 8 | 9 << 16];
    assert_eq!(read(&narrow), Ok(Outer { inner: inner(0), all: vec![inner(0), inner(0)] }));
    // Numbers that have become structs, which begin with them.
    let mut words = vec![to_struct(0, 0, 15)];
    words.extend((0..15).map(|pointer| if pointer == 5 { to_list(9, 7, 4) } else { 0 }));
    words.extend([to_struct(2, 2, 0), 11, 1, 12, 1]);
    assert_eq!(from_bytes::<Pointers>(&bytes_of(&words)).map(|read| read.numbers), Ok(vec![11, 12]));
}

#[test]
fn pointers_that_lead_elsewhere_are_refused() {
    let read = |words: &[u64]| from_bytes::<Outer>(&bytes_of(words)).map_err(|error| error.to_string());
    for (what, words, reason) in [
        ("no word", &[][..], "no root"),
        ("a struct behind the end", &[to_struct(5, 1, 0)], "out of the message"),
        ("a struct before the start", &[0xffff_fff0 | 1 << 32], "out of the message"),
        ("a struct that is cut", &[to_struct(0, 3, 1), 0, 0], "out of the message"),
        ("a list for a root", &[to_list(0, 2, 1), 0], "no struct"),
        ("a far pointer", &[2, 0], "no struct"),
        ("a struct for a list", &[to_struct(0, 0, 2), 0, to_struct(0, 1, 0), 0], "no list"),
        ("flags for structs", &[to_struct(0, 0, 2), 0, to_list(0, 1, 8), 0], "no structs"),
        ("a list behind the end", &[to_struct(0, 0, 2), 0, to_list(0, 5, 2), 0], "out of the message"),
        ("a list that is cut", &[to_struct(0, 0, 2), 0, to_list(0, 7, 1), to_struct(2, 1, 0), 0], "shorter"),
        ("elements that are no structs", &[to_struct(0, 0, 2), 0, to_list(0, 7, 1), to_list(1, 2, 0), 0], "no structs"),
        ("no more room than four times", &[to_struct(0, 0, 2), 0, to_list(0, 0, 1 << 28)], "four times"),
        ("a capability for a struct", &[to_struct(0, 0, 2), 3, 0], "no struct"),
    ] {
        let error = read(words).expect_err(what);
        assert!(error.contains(reason), "{what}: {error}");
        let place = error.strip_prefix("malformed message at ").expect("it says where");
        assert!(place.starts_with("Outer.") || place.starts_with("message:"), "{what}: {error}");
    }
    // A hundred pointers to the same text, of a hundred words: each alone is as it should be.
    let mut words = vec![to_struct(0, 0, 15)];
    words.extend((0..15).map(|pointer| if pointer == 7 { to_list(7, 6, 100) } else { 0 }));
    words.extend((0..100).map(|pointer| to_list(99 - pointer, 2, 800)));
    words.extend([0; 100]);
    let error = from_bytes::<Pointers>(&bytes_of(&words)).expect_err("it is a hundred times as large as it is");
    assert!(error.to_string().contains("more memory"), "{error}");
    // Text without its end, of the wrong bytes, and of the wrong size.
    for (word, reason) in [(u64::from_le_bytes(*b"abcdefgh"), "end with a zero"), (0xff, "UTF-8")] {
        let words = [to_struct(0, 0, 2), to_list(1, 2, 8), 0, word];
        let error = from_bytes::<Tree>(&bytes_of(&words)).map(|tree| tree.name).expect_err(reason);
        assert!(error.to_string().contains(reason), "{error}");
    }
    // Bytes after the text in its last word do not belong to it.
    let words = [to_struct(0, 0, 2), to_list(1, 2, 4), 0, u64::from_le_bytes(*b"abc\0\xff\xff\xff\xff")];
    assert_eq!(from_bytes::<Tree>(&bytes_of(&words)).map(|tree| tree.name).as_deref(), Ok("abc"));
}

/// Messages of capnp's own builders can be read, and capnp's own readers read those that are written here, and copy
/// them to the same.
#[test]
fn capnp_reads_what_is_written_and_is_read() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let values = (pointers(), mixed(), tree(), defaults());
    runner
        .run(&values, |(pointers, mixed, tree, defaults)| {
            prop_assert_eq!(through_capnp(&pointers), pointers);
            prop_assert_eq!(through_capnp(&mixed), mixed);
            prop_assert_eq!(through_capnp(&tree), tree);
            prop_assert_eq!(through_capnp(&defaults), defaults);
            Ok(())
        })
        .unwrap();
}

/// A value written here, copied by capnp and read here.
fn through_capnp<T: Wire>(value: &T) -> T
where
    for<'a> <T::Capnp as capnp::traits::Owned>::Reader<'a>: capnp::traits::SetterInput<T::Capnp>,
{
    let message = encode_value(value).unwrap();
    let incoming = capos_schema::cap::IncomingMessage { words: message.words, caps: Vec::new() };
    let copied = capos_schema::wire::decode::<T::Capnp, _>(&incoming, |reader, _| {
        let room = capnp::message::HeapAllocator::new().first_segment_words(1 << 16);
        let mut copy = capnp::message::Builder::new(room);
        copy.set_root::<T::Capnp>(reader).unwrap();
        Ok(copy.get_segments_for_output().concat())
    });
    from_bytes(&copied.unwrap()).unwrap()
}
