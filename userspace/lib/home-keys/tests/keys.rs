//! Keys of homes: who opens them, what they seal, and what of other bytes is rejected.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use capos_home_keys::{BOX, HomeKey, OVERHEAD, Pair, Record, Recoveries, Recovery};
use capos_volume::{CipherKind, SlotSecret};
use proptest::prelude::*;

/// Bytes that follow from a number.
fn random(mut state: u64) -> impl FnMut(&mut [u8]) {
    move |bytes| {
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
    }
}

fn secret(number: u8) -> SlotSecret {
    SlotSecret { id: [number; 16], key: [number ^ 0x5a; 32].into() }
}

fn home(number: u64) -> HomeKey {
    HomeKey::new(CipherKind::Aes256Gcm, &mut random(number))
}

#[test]
fn a_record_is_opened_by_its_own_secrets_alone() {
    let (home, mut numbers) = (home(1), random(2));
    let code = Pair::new(&mut numbers).unwrap();
    let kept = Recovery::new(&code, &secret(9), &mut numbers).unwrap();
    let mut record = Record::new(&home);
    assert!(record.add(&secret(1), Some(&home), &mut numbers) && record.add(&secret(2), None, &mut numbers));
    assert!(record.seal_to(code.public(), &home, &mut numbers));
    let record = Record::decode(&record.encode()).unwrap();
    assert_eq!(*record.open(&secret(1)).unwrap().bytes(), *home.bytes());
    assert!(record.open(&secret(2)).is_none() && record.open(&secret(3)).is_none());
    // The right slot, and another key.
    assert!(record.open(&SlotSecret { id: [1; 16], ..secret(4) }).is_none());
    let recoveries = Recoveries::decode(&Recoveries(vec![kept]).encode()).unwrap();
    assert!(recoveries.0[0].open(&SlotSecret { id: [9; 16], ..secret(4) }).is_none());
    let code = recoveries.0[0].open(&secret(9)).unwrap();
    let recovered = record.recover(&code).unwrap();
    let mut record = record;
    assert!(record.complete(&recovered, &mut numbers));
    assert_eq!(*record.open(&secret(2)).unwrap().bytes(), *home.bytes());
    assert!(record.keep(&[[2; 16]], &[]));
    assert!(record.open(&secret(1)).is_none() && record.open(&secret(2)).is_some() && record.recover(&code).is_none());
}

#[test]
fn a_box_is_bound_to_its_pair_and_purpose() {
    let mut numbers = random(3);
    let (one, two) = (Pair::new(&mut numbers).unwrap(), Pair::new(&mut numbers).unwrap());
    let sealed = Pair::seal(one.public(), b"a", &[7; 32], &mut numbers).unwrap();
    assert_eq!(*one.open(&sealed, b"a").unwrap(), [7; 32]);
    assert!(one.open(&sealed, b"b").is_none() && two.open(&sealed, b"a").is_none());
    for at in 0..BOX {
        let mut changed = sealed;
        changed[at] ^= 1;
        assert!(one.open(&changed, b"a").is_none(), "byte {at}");
    }
    // A public half without a point that gives a key.
    assert!(Pair::seal(&[0; 32], b"a", &[7; 32], &mut numbers).is_none());
}

proptest! {
    #[test]
    fn values_are_bound_to_their_place(value: Vec<u8>, salt: [u8; 24], at: prop::sample::Index) {
        let home = home(1);
        let place: [&[u8]; 3] = [b"files", b"1/content", b"key"];
        let sealed = home.seal(&place, &value, &salt).unwrap();
        prop_assert_eq!(sealed.len(), value.len() + OVERHEAD);
        prop_assert_eq!(home.open(&place, &sealed).unwrap(), value);
        prop_assert!(is_bound(&sealed));
        let mut changed = sealed.clone();
        let at = at.index(sealed.len());
        changed[at] ^= 1;
        prop_assert!(home.open(&place, &changed).is_none());
    }

    #[test]
    fn names_have_one_form_in_one_table_and_number(number: [u8; 8], name: Vec<u8>, other in 1..=255_u8) {
        let home = home(1);
        let table: [&[u8]; 2] = [b"files", b"1/entries"];
        let key = [number.as_slice(), &name].concat();
        let sealed = home.seal_name(&table, &key);
        prop_assert_eq!(&sealed, &home.seal_name(&table, &key));
        prop_assert_eq!(home.open_name(&table, &sealed).unwrap(), key.clone());
        prop_assert!(sealed.starts_with(&number));
        if !name.is_empty() {
            prop_assert!(home.open_name(&[b"files", b"2/entries"], &sealed).is_none());
            prop_assert!(crate::home(2).open_name(&table, &sealed).is_none());
            let mut elsewhere = sealed.clone();
            elsewhere[0] ^= other;
            prop_assert!(home.open_name(&table, &elsewhere).is_none());
            let mut moved = key;
            moved[0] ^= other;
            prop_assert_ne!(&home.seal_name(&table, &moved)[8..], &sealed[8..]);
        }
    }

    #[test]
    fn any_bytes_are_a_record_or_none(bytes: Vec<u8>) {
        let _ = (Recoveries::decode(&bytes), Record::decode(&bytes));
    }
}

/// No other place, and no other home, opens it.
fn is_bound(sealed: &[u8]) -> bool {
    let others: [[&[u8]; 3]; 3] =
        [[b"files", b"2/content", b"key"], [b"files", b"1/content", b"kez"], [b"file", b"s1/content", b"key"]];
    others.iter().all(|place| home(1).open(place, sealed).is_none())
        && home(2).open(&[b"files", b"1/content", b"key"], sealed).is_none()
}
