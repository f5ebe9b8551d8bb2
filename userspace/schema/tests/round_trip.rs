//! Owned values survive the way into a message and back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

extern crate alloc;

use capos_schema::wire::{Wire, decode_value, encode_value, from_bytes, to_bytes};
use proptest::prelude::*;

mod support;

include!(concat!(env!("OUT_DIR"), "/test/modules.rs"));

use everything::{Colour, Defaults, Json, Outer, OuterInner, Pointers, Shape, Tree};
use support::{defaults, json, mixed, pointers, scalars, shape, tree};

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
