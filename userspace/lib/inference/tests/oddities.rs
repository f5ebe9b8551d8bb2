//! Files as converters and editors leave them: with entries that are not needed, or that are written in another way.
//! Each has to answer as the plain file does.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // Helpers of tests count as tests.

use capos_chat::{Delta, Message, Role};
use capos_engine::generation::Options;
use capos_engine::{Machine, Sampling, Single, kernel};
use capos_gguf::{Header, TensorType, WriterValue};
use capos_hostile_models::Parts;
use capos_inference::{Assistant, Event, LanguageModel, Request};

/// Codes of types of values.
const U16: u32 = 2;
const U32: u32 = 4;
const I32: u32 = 5;
const TEXT: u32 = 8;
const LIST: u32 = 9;
const F64: u32 = 12;

/// Where each text in a file is, with its length before it.
fn text(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text].concat()
}

/// An entry of any type.
fn entry(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&text(key.as_bytes())[..], &kind.to_le_bytes(), value].concat()
}

/// A list as a value.
fn list(kind: u32, values: &[Vec<u8>]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &(values.len() as u64).to_le_bytes(), &values.concat()].concat()
}

/// The file with its tensors at multiples of `alignment`, in another order, with additional bytes before each and after
/// the last, and with these additional entries.
fn laid_out(file: &[u8], alignment: u64, gap: u64, more: &[Vec<u8>]) -> Vec<u8> {
    let header = Header::parse(file, file.len() as u64).unwrap();
    let entries = header.entries().count() + more.len();
    let table = header.tensors().first().unwrap().name().as_bytes();
    let begin = file.windows(table.len() + 8).position(|part| part == text(table)).unwrap();
    let mut out = [&file[..16], &(entries as u64).to_le_bytes(), &file[24..begin], &more.concat()].concat();
    let mut data = Vec::new();
    for tensor in header.tensors().iter().rev() {
        data.resize((data.len() as u64 + gap).next_multiple_of(alignment) as usize, 0xaa);
        out.extend(text(tensor.name().as_bytes()));
        out.extend((tensor.dimensions().len() as u32).to_le_bytes());
        tensor.dimensions().iter().for_each(|dimension| out.extend(dimension.to_le_bytes()));
        out.extend(tensor.kind().code().to_le_bytes());
        out.extend((data.len() as u64).to_le_bytes());
        let at = (header.data_offset() + tensor.offset()) as usize;
        data.extend_from_slice(&file[at..at + tensor.bytes() as usize]);
    }
    out.resize((out.len() as u64).next_multiple_of(alignment) as usize, 0);
    out.extend(data);
    out.resize(out.len() + gap as usize, 0xaa);
    out
}

/// Numbers that differ from one to the next, so that it matters which tensor is where.
fn filled(mut file: Vec<u8>) -> Vec<u8> {
    let data = Header::parse(&file, file.len() as u64).unwrap().data_offset() as usize;
    let mut state = 1u32;
    for number in file[data..].chunks_exact_mut(4) {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        number.copy_from_slice(&((state >> 8) as f32 / (1 << 24) as f32 - 0.5).to_le_bytes());
    }
    file
}

/// A file's answer, or its error.
fn said(file: &[u8]) -> Result<String, String> {
    let model = LanguageModel::open(file, None).map_err(|error| error.to_string())?;
    let machine = Machine { kernels: kernel::reference(), pool: &Single };
    let mut assistant = Assistant::new(&model, machine, Options::default());
    let sampling = Some(Sampling { temperature: 1.0, seed: 5, ..Sampling::default() });
    let messages = vec![Message::new(Role::User, "Hello!")];
    let request = Request { messages, limit: Some(40), sampling, ..Request::default() };
    assistant.request(request).map_err(|error| error.to_string())?;
    let mut text = String::new();
    while !assistant.idle() {
        for (_, event) in assistant.step() {
            if let Event::Delta(Delta::Text(more)) = event {
                text.push_str(&more);
            }
        }
    }
    Ok(text)
}

fn plain() -> Vec<u8> {
    filled(Parts::talking().file().unwrap())
}

/// Additional entries of a file, and the places of its tensors, change nothing.
#[test]
fn harmless_oddities_change_nothing() {
    let file = plain();
    let expected = said(&file).unwrap();
    assert!(expected.chars().count() > 5, "{expected:?}");
    let nested = list(LIST, &[list(TEXT, &[text(b"a"), text(b"")]), list(F64, &[f64::NAN.to_le_bytes().to_vec()])]);
    let latin = b"J\xfcrgen";
    let entries: [(&str, Vec<u8>); 16] = [
        ("an author in Latin-1", entry("general.author", TEXT, &text(latin))),
        ("a description that is cut within a letter", entry("general.description", TEXT, &text(b"caf\xc3"))),
        ("tags that are no UTF-8", entry("general.tags", LIST, &list(TEXT, &[text(b"a"), text(latin)]))),
        ("another's file name", entry("quantize.imatrix.file", TEXT, &text(b"C:\\\xe4.dat"))),
        ("an unknown text", entry("general.quantized_by", TEXT, &text("Jürgen 🦙".as_bytes()))),
        ("an unknown number that is none", entry("general.odd", F64, &f64::NAN.to_le_bytes())),
        ("lists in lists", entry("general.base_model.tags", LIST, &nested)),
        ("an empty list", entry("general.languages", LIST, &list(TEXT, &[]))),
        ("an empty key", entry("", TEXT, &text(b"nobody"))),
        ("a key with a space and a colon", entry("quantize.imatrix: file", TEXT, &text(b"/training/x.dat"))),
        ("one file of one", entry("split.count", U16, &1u16.to_le_bytes())),
        ("no file of none", entry("split.count", U16, &0u16.to_le_bytes())),
        ("no padding, as -1", entry("tokenizer.ggml.padding_token_id", U32, &u32::MAX.to_le_bytes())),
        ("no separator, as -1", entry("tokenizer.ggml.seperator_token_id", I32, &(-1i32).to_le_bytes())),
        ("no end of a turn, as -1", entry("tokenizer.ggml.eot_token_id", U32, &u32::MAX.to_le_bytes())),
        ("a rope of another kind", entry("gemma3.rope.freq_base", TEXT, &text(b"not a number"))),
    ];
    for (what, bytes) in &entries {
        assert_eq!(said(&laid_out(&file, 32, 0, std::slice::from_ref(bytes))), Ok(expected.clone()), "{what}");
    }
    for alignment in [8u32, 16, 64, 4096, 65_536] {
        let named = entry("general.alignment", U32, &alignment.to_le_bytes());
        for gap in [0, 1, 100, 5000] {
            let odd = laid_out(&file, alignment.into(), gap, std::slice::from_ref(&named));
            assert_eq!(said(&odd), Ok(expected.clone()), "aligned to {alignment}, gaps of {gap}");
        }
    }
    let all: Vec<Vec<u8>> =
        entries.iter().filter(|(what, _)| *what != "no file of none").map(|(_, e)| e.clone()).collect();
    let mut second = laid_out(&file, 32, 7, &all);
    second[4..8].copy_from_slice(&2u32.to_le_bytes());
    assert_eq!(said(&second), Ok(expected), "all of them, in version 2");
}

/// Tensors of models for other things than texts are ignored, of whatever type they are, and so are numbers that are
/// written as a list with the same value for every layer.
#[test]
fn what_the_model_has_no_part_for_is_left_alone() {
    let expected = said(&plain()).unwrap();
    let odd = |parts: Parts| said(&filled_as_plain(&parts));
    let mxfp4 = TensorType::from_code(39).unwrap();
    let more = Parts::talking()
        .with_tensor("mm.0.weight", mxfp4, &[64, 3])
        .with_tensor("v.patch_embd.weight", TensorType::F16, &[2, 2, 3, 4])
        .with_tensor("", TensorType::I8, &[1]);
    assert_eq!(odd(more), Ok(expected.clone()));
    let lists = ["attention.head_count", "attention.head_count_kv", "feed_forward_length"].into_iter().zip([2, 1, 12]);
    let lists = lists.fold(Parts::talking(), |parts, (key, count)| {
        parts.with(&format!("llama.{key}"), WriterValue::I32s(vec![count]))
    });
    assert_eq!(odd(lists), Ok(expected));
    let differing = Parts::talking().with("llama.attention.head_count_kv", WriterValue::I32s(vec![1, 2]));
    assert_eq!(
        odd(differing).unwrap_err(),
        "the metadata entry 'llama.attention.head_count_kv' is not one whole number from 0 on"
    );
    let none = Parts::talking().with("llama.attention.head_count_kv", WriterValue::I32s(Vec::new()));
    assert!(odd(none).unwrap_err().contains("is not one whole number"));
}

/// The file of these parts, with the numbers of the plain one in the tensors that it has, too.
fn filled_as_plain(parts: &Parts) -> Vec<u8> {
    let (mut file, plain) = (parts.file().unwrap(), plain());
    let from = Header::parse(&plain, plain.len() as u64).unwrap();
    let places: Vec<(usize, usize, usize)> = {
        let to = Header::parse(&file, file.len() as u64).unwrap();
        let place = |header: &Header<'_>, tensor: &capos_gguf::TensorInfo<'_>| {
            (header.data_offset() + tensor.offset()) as usize
        };
        let same = from.tensors().iter().filter_map(|old| {
            let new = to.tensor(old.name())?;
            Some((place(&from, old), place(&to, new), old.bytes() as usize))
        });
        same.collect()
    };
    for (old, new, bytes) in places {
        file[new..new + bytes].copy_from_slice(&plain[old..old + bytes]);
    }
    file
}

/// An entry that running a model needs is rejected if it is not UTF-8, with the entry's name; in a list as well.
#[test]
fn text_that_is_needed_has_to_be_utf8() {
    let file = plain();
    let latin = text(b"J\xfcrgen");
    let one = |key| (key, laid_out(&file, 32, 0, &[entry(key, TEXT, &latin)]));
    let several = entry("tokenizer.ggml.added_tokens", LIST, &list(TEXT, &[text(b"a"), latin.clone()]));
    // For an entry that exists: a type and a length after its key.
    let changed = |key: &'static str| {
        let mut file = file.clone();
        let at = file.windows(key.len()).position(|part| part == key.as_bytes()).unwrap();
        file[at + key.len() + 12] = 0xff;
        (key, file)
    };
    for (key, file) in [
        one("llama.rope.scaling.type"),
        one("tokenizer.ggml.pre"),
        one("tokenizer.chat_template.tool_use"),
        one("capos.backend"),
        ("tokenizer.ggml.added_tokens", laid_out(&file, 32, 0, &[several])),
        changed("tokenizer.chat_template"),
        changed("general.architecture"),
    ] {
        let why = said(&file).unwrap_err();
        let expected = format!("the metadata entry '{key}' is needed to run the model, and its text is not UTF-8");
        assert!(why.starts_with(&expected) && why.contains("; convert the model again"), "{why}");
    }
}

/// A file that is one of several is distinguished from a file that lacks something.
#[test]
fn a_part_of_a_model_is_refused_with_what_to_do() {
    let file = plain();
    for count in [2u16, 3, u16::MAX] {
        let part = laid_out(&file, 32, 0, &[entry("split.count", U16, &count.to_le_bytes())]);
        let why = said(&part).unwrap_err();
        assert!(why.contains("one part of a model") && why.contains("--merge"), "{why}");
    }
}
