//! The values read from a message take no more memory than its length accounts for, whatever its lists contain.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use crate::everything;
use capos_schema::models::{ChatMessage, InferenceRequest, ToolCall, ToolDescriptor};
use capos_schema::wire::{ALLOCATION, MEMORY_BESIDES, MEMORY_FACTOR, Wire, from_bytes, memory_for, to_bytes};
use proptest::prelude::*;

use crate::everything::{Defaults, Json, Outer, Pointers, Tree};

/// Memory that a value holds besides its own place, in bytes.
trait Held {
    fn held(&self) -> usize;
}

impl Held for String {
    fn held(&self) -> usize {
        self.capacity()
    }
}

impl<T: Held> Held for Vec<T> {
    fn held(&self) -> usize {
        self.capacity() * size_of::<T>() + self.iter().map(Held::held).sum::<usize>()
    }
}

impl<T: Held> Held for Option<Box<T>> {
    fn held(&self) -> usize {
        self.as_ref().map_or(0, |inner| size_of::<T>() + inner.held())
    }
}

macro_rules! hold_nothing {
    ($($plain:ty)*) => {$(
        impl Held for $plain {
            fn held(&self) -> usize {
                0
            }
        }
    )*};
}
hold_nothing!(() bool u8 u16 i64 f32 everything::Colour everything::Scalars everything::OuterInner);

macro_rules! hold {
    ($($structure:ty: $($field:ident)*;)*) => {$(
        impl Held for $structure {
            fn held(&self) -> usize {
                0 $(+ self.$field.held())*
            }
        }
    )*};
}
hold! {
    InferenceRequest: messages tools stop_sequences response_schema nonce;
    ChatMessage: content tool_call_id tool_calls label;
    capos_schema::authority::Label: classes;
    ToolCall: id name arguments handle;
    ToolDescriptor: name description method_name param_schema category handle;
    Pointers: text data note flags numbers halves texts blobs colours structs nested deep nothings;
    Tree: name children best;
    Outer: all;
    Defaults: title;
}

impl Held for Json {
    fn held(&self) -> usize {
        match self {
            Self::Null => 0,
            Self::Text(text) => text.held(),
            Self::List(list) => list.held(),
            Self::Wrapped(inner) => inner.held(),
        }
    }
}

/// Reads it: its values are bounded, or an error names the field.
fn read<T: Wire + Held>(words: &[u64]) -> Result<T, String> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let value = from_bytes::<T>(&bytes).map_err(|error| error.to_string())?;
    let (held, most) = (value.held(), memory_for(bytes.len()));
    assert!(held <= most, "a message of {} bytes became {held}, more than {most}", bytes.len());
    Ok(value)
}

fn to_struct(offset: u64, data: u64, pointers: u64) -> u64 {
    (offset << 2) & 0xffff_ffff | data << 32 | pointers << 48
}

fn to_list(offset: u64, size: u64, count: u64) -> u64 {
    1 | offset << 2 | size << 32 | count << 35
}

/// A message whose root has `pointers` pointers; number `at` leads to the list that follows them.
fn with_list(pointers: usize, at: usize, list: u64, elements: &[u64]) -> Vec<u64> {
    let mut words = vec![to_struct(0, 0, pointers as u64)];
    let offset = (pointers - at - 1) as u64;
    words.extend((0..pointers).map(|pointer| if pointer == at { list | offset << 2 } else { 0 }));
    words.extend(elements);
    words
}

/// A list of `count` structs with these numbers of data words and pointers, all zero.
fn of_structs(count: u64, data: u64, pointers: u64) -> (u64, Vec<u64>) {
    let words = count * (data + pointers);
    let mut elements = vec![to_struct(count, data, pointers)];
    elements.resize(usize::try_from(words).unwrap() + 1, 0);
    (to_list(0, 7, words), elements)
}

/// The first pointer of a request leads to its messages, each of which takes 104 bytes in memory. Without the limit
/// they could take fifty times the message's size, and with elements of single bytes a hundred times.
#[test]
fn lists_of_nothing_are_refused_before_they_are_made() {
    let count = 100_000;
    let words = usize::try_from(count).unwrap();
    let filled = |list: u64, words: usize| with_list(5, 0, list, &vec![0; words]);
    let (nothing, tag) = of_structs(count, 0, 0);
    let mut nothing = with_list(5, 0, nothing, &tag);
    // The message is long enough because of words that nothing points to.
    nothing.resize(words / 4, 0);
    let (pointer, elements) = of_structs(count, 0, 1);
    let (number, numbers) = of_structs(count, 1, 0);
    for (what, words) in [
        ("structs of nothing", nothing),
        ("structs of a pointer that leads nowhere", with_list(5, 0, pointer, &elements)),
        ("structs of a number", with_list(5, 0, number, &numbers)),
        ("pointers that lead nowhere", filled(to_list(0, 6, count), words)),
        ("bytes", filled(to_list(0, 2, count), words / 8)),
        ("elements of no size", filled(to_list(0, 0, count), words / 4)),
    ] {
        let error = read::<InferenceRequest>(&words).map(|read| read.messages.len()).expect_err(what);
        assert!(
            error.contains("InferenceRequest.messages") && error.contains("more memory"),
            "{count} {what}: {error}"
        );
    }
}

/// Each of many messages leads to the same list of calls, and each of many texts to the same bytes.
#[test]
fn what_is_pointed_to_many_times_counts_many_times() {
    let (messages, calls) = (500_u64, 200);
    let (list, mut elements) = of_structs(messages, 1, 4);
    // A list of calls of no size after the last message.
    let end = elements.len();
    elements.push(to_struct(calls, 0, 0));
    for message in 0..usize::try_from(messages).unwrap() {
        // The third pointer after a word of data.
        let at = 1 + message * 5 + 1 + 2;
        elements[at] = to_list((end - at - 1) as u64, 7, 0);
    }
    // As long as may be read.
    elements.resize(elements.len() + 30_000, 0);
    let error = read::<InferenceRequest>(&with_list(5, 0, list, &elements)).map(drop).unwrap_err();
    assert!(error.contains("ChatMessage.toolCalls") && error.contains("more memory"), "{error}");
    let texts = 5000;
    let mut pointers: Vec<u64> = (0..texts).map(|text| to_list(texts - text - 1, 2, 8)).collect();
    pointers.push(u64::from_le_bytes(*b"a text.\0"));
    let error = read::<Pointers>(&with_list(15, 7, to_list(0, 6, texts), &pointers)).map(drop).unwrap_err();
    assert!(error.contains("Pointers.texts") && error.contains("more memory"), "{error}");
}

/// Fields that lead to the same long text: the read values are no longer than the message.
#[test]
fn a_long_text_is_read_once() {
    let words = 4000_u64;
    let text = |fields: u64| {
        // Texts of a call, after its head.
        let mut message = vec![to_struct(0, 0, 4)];
        message.extend((0..4).map(|field| if field < fields { to_list(3 - field, 2, words * 8) } else { 0 }));
        message.extend((1..words).map(|_| u64::from_le_bytes([b'x'; 8])));
        message.push(u64::from_le_bytes(*b"xxxxxxx\0"));
        read::<ToolCall>(&message)
    };
    assert!(text(1).is_ok_and(|call| [call.id, call.name, call.arguments].iter().any(|text| text.len() == 31_999)));
    for fields in 2..5 {
        let error = text(fields).map(drop).unwrap_err();
        assert!(error.contains("more memory"), "{error}");
    }
}

/// Flags, eight of which are a byte in a message; recursive structs, in lists and single; and numbers whose size in
/// memory is at the limit.
#[test]
fn every_kind_of_list_is_counted() {
    let count = 20_000;
    let words = usize::try_from(count).unwrap();
    let flags = with_list(15, 4, to_list(0, 1, count * 64), &vec![0; words]);
    let error = read::<Pointers>(&flags).map(drop).unwrap_err();
    assert!(error.contains("Pointers.flags") && error.contains("more memory"), "{error}");
    let (trees, elements) = of_structs(count, 0, 1);
    let error = read::<Tree>(&with_list(2, 1, trees, &elements)).map(drop).unwrap_err();
    assert!(error.contains("Tree.children") && error.contains("more memory"), "{error}");
    // A list whose elements are each a box of nothing, which is at its own pointer.
    let wrapped = [3, 0xffff_fffc].repeat(words);
    let mut json = vec![to_struct(0, 1, 1), 2, to_list(0, 7, count * 2), to_struct(count, 1, 1)];
    json.extend(wrapped);
    let error = read::<Json>(&json).map(drop).unwrap_err();
    assert!(error.contains("Json.wrapped") && error.contains("more memory"), "{error}");
    let outer = with_list(2, 1, to_list(0, 2, count * 8), &vec![0; words]);
    let read = read::<Outer>(&outer).map(|outer| outer.all.len());
    assert_eq!(read, Ok(words * 8), "four bytes each are as much as may be");
}

/// Messages of this system pass. In no list are the elements larger in memory than their charge, even if everything
/// that they point to is missing; otherwise not even with the shortest texts.
#[test]
fn what_the_schema_describes_is_never_refused() {
    for element in capos_schema::ELEMENTS.iter().flat_map(|file| file.iter()) {
        let (memory, bytes) = (element.memory * 8, element.bits as usize * MEMORY_FACTOR);
        assert!(memory <= bytes, "{}: {} bytes of {} bits", element.field, element.memory, element.bits);
    }
    let text = || "x".to_owned();
    let calls = vec![ToolCall { id: text(), name: text(), arguments: text(), handle: text() }];
    let label = capos_schema::authority::Label { classes: vec![text()] };
    let (content, tool_call_id) = (text(), text());
    let message = ChatMessage { content, tool_call_id, tool_calls: calls, label, ..ChatMessage::default() };
    let tool = ToolDescriptor { name: text(), description: text(), category: text(), ..ToolDescriptor::default() };
    let request = InferenceRequest {
        messages: vec![message; 3000],
        tools: vec![tool; 3000],
        stop_sequences: vec![text(); 3000],
        ..InferenceRequest::default()
    };
    let bytes = to_bytes(&request).unwrap();
    assert_eq!(from_bytes::<InferenceRequest>(&bytes).as_ref(), Ok(&request));
    // Texts of one byte alone: a pointer and a word each.
    assert!(size_of::<String>() + 1 + ALLOCATION <= 16 * MEMORY_FACTOR);
    let sparse = InferenceRequest { messages: vec![ChatMessage::default(); 10_000], ..InferenceRequest::default() };
    assert_eq!(from_bytes(&to_bytes(&sparse).unwrap()), Ok(sparse));
    // A short message may hold any lists.
    let (list, elements) = of_structs(MEMORY_BESIDES as u64 / 128, 0, 0);
    assert!(read::<InferenceRequest>(&with_list(5, 0, list, &elements)).is_ok());
}

/// Words, many of which are pointers to structs and lists of small sizes.
fn hostile_words() -> impl Strategy<Value = Vec<u64>> {
    let offset = || 0_u64..40;
    let word = prop_oneof![
        2 => Just(0),
        3 => (offset(), 0_u64..3, 0_u64..6).prop_map(|(offset, data, pointers)| to_struct(offset, data, pointers)),
        4 => (offset(), 0_u64..8, 0_u64..300).prop_map(|(offset, size, count)| to_list(offset, size, count)),
        2 => (0_u64..400, 0_u64..2, 0_u64..2).prop_map(|(count, data, pointers)| to_struct(count, data, pointers)),
        1 => Just(u64::from_le_bytes(*b"a text.\0")),
    ];
    (1_u64..6, proptest::collection::vec(word, 1..80)).prop_map(|(pointers, rest)| {
        let mut words = vec![to_struct(0, 0, pointers)];
        words.extend(rest);
        words
    })
}

#[test]
fn hostile_messages_take_no_more_than_their_length_accounts_for() {
    let config = ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let refused = core::cell::Cell::new(0);
    runner
        .run(&hostile_words(), |words| {
            let results = [
                read::<InferenceRequest>(&words).err(),
                read::<Pointers>(&words).err(),
                read::<Tree>(&words).err(),
                read::<Json>(&words).err(),
                read::<Outer>(&words).err(),
                read::<Defaults>(&words).err(),
            ];
            for error in results.into_iter().flatten().filter(|error| error.contains("more memory")) {
                let place = error.strip_prefix("malformed message at ").and_then(|rest| rest.split_once(": "));
                prop_assert!(place.is_some_and(|(field, _)| field.contains('.')), "{error}");
                refused.set(refused.get() + 1);
            }
            Ok(())
        })
        .unwrap();
    assert!(refused.get() > 100, "{} were refused for their memory", refused.get());
}
