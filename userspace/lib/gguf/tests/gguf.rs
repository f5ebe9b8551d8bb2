//! Reading written files, and rejecting inconsistent ones.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.

use capos_gguf::*;
use proptest::prelude::*;

/// A small file with one of everything that the writer knows.
fn sample() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.text("general.architecture", "qwen2");
    writer.text("general.name", "Sample");
    writer.text("general.license", "apache-2.0");
    writer.entry("qwen2.context_length", WriterValue::U64(4096));
    writer.entry("general.file_type", WriterValue::U32(15));
    writer.entry("x.bool", WriterValue::Bool(true));
    writer.entry("x.float", WriterValue::F32(0.5));
    writer.entry("tokenizer.ggml.tokens", WriterValue::Texts(vec!["a".into(), "".into(), "ß".into()]));
    writer.entry("x.numbers", WriterValue::I32s(vec![-1, 2]));
    writer.tensor("one", TensorType::F32, &[3, 5]).unwrap();
    writer.tensor("two", TensorType::Q8_0, &[64, 2]).unwrap();
    let mut file = writer.header();
    file.resize(file.len() + writer.data_bytes() as usize, 0xaa);
    file
}

fn parse(file: &[u8]) -> Result<Header<'_>, GgufError> {
    Header::parse(file, file.len() as u64)
}

#[test]
fn what_is_written_is_read() {
    let file = sample();
    let header = parse(&file).unwrap();
    assert_eq!((header.version(), header.alignment()), (3, 32));
    assert_eq!(header.entries().count(), 9);
    assert_eq!(header.get("x.bool").unwrap().as_bool(), Some(true));
    assert_eq!(header.get("x.float").unwrap().as_f64(), Some(0.5));
    let tokens = header.get("tokenizer.ggml.tokens").unwrap().as_array().unwrap();
    assert_eq!((tokens.kind(), tokens.len()), (ValueType::Text, 3));
    assert_eq!(tokens.iter().filter_map(|t| t.as_text()).collect::<Vec<_>>(), ["a", "", "ß"]);
    let numbers = header.get("x.numbers").unwrap().as_array().unwrap();
    assert_eq!(numbers.into_iter().collect::<Vec<_>>(), [Value::I32(-1), Value::I32(2)]);
    assert_eq!(header.get("absent"), None);
    let two = header.tensor("two").unwrap();
    assert_eq!((two.kind().name(), two.dimensions(), two.offset(), two.bytes()), ("Q8_0", &[64, 2][..], 64, 136));
    assert_eq!(header.data_offset() % 32, 0);
    assert_eq!(header.data_offset() + 64 + 136, file.len() as u64);
    assert_eq!(
        header.facts(),
        Facts {
            name: Some("Sample"),
            architecture: "qwen2",
            context_length: 4096,
            license: Some("apache-2.0"),
            description: None,
            quantisation: "Q4_K_M",
            chat_template: None,
            tool_template: None,
            vocabulary: 3,
            parameters: 15 + 128,
        }
    );
}

#[test]
fn files_that_tell_little_have_few_facts() {
    let mut writer = Writer::new();
    writer.tensor("t", TensorType::F16, &[32]).unwrap();
    let mut file = writer.header();
    file.resize(file.len() + 64, 0);
    let facts = parse(&file).unwrap().facts().clone();
    assert_eq!((facts.name, facts.architecture, facts.context_length), (None, "", 0));
    assert_eq!((facts.quantisation, facts.license, facts.vocabulary), ("F16", None, 0));
    let empty = Writer::new().header();
    assert_eq!(parse(&empty).unwrap().facts().quantisation, "unknown");
}

/// The reader asks for the bytes that it needs, never for more than there are, and finishes soon.
#[test]
fn only_the_beginning_of_the_file_is_needed() {
    let file = Synthetic::new(8 << 20, 1).unwrap().to_vec();
    let (mut wanted, mut rounds) = (1u64, 0);
    let needed = loop {
        rounds += 1;
        match Header::parse(&file[..wanted as usize], file.len() as u64) {
            Err(GgufError::NeedMore { bytes }) => {
                assert!(bytes > wanted && bytes <= file.len() as u64);
                wanted = bytes;
            }
            other => break other.unwrap().metadata_bytes(),
        }
    };
    assert!(rounds < 20, "{rounds} rounds");
    assert!(needed < 40_000, "{needed} bytes of {}", file.len());
    Header::parse(&file[..needed as usize], file.len() as u64).unwrap();
    assert!(matches!(Header::parse(&file[..needed as usize - 1], file.len() as u64), Err(GgufError::NeedMore { .. })));
    // Cut off there, the file is not short of bytes to read but wrong.
    assert!(matches!(parse(&file[..needed as usize - 1]), Err(GgufError::CutOff { .. })));
    assert!(matches!(parse(&file[..file.len() - 1]), Err(GgufError::Tensor { .. })));
}

/// The start of a file with these counts, followed by `rest`.
fn start(tensors: u64, entries: u64, rest: &[&[u8]]) -> Vec<u8> {
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend(tensors.to_le_bytes());
    file.extend(entries.to_le_bytes());
    file.extend(rest.concat());
    file.resize(file.len() + 4096, 0);
    file
}

fn text(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text].concat()
}

fn tensor(name: &str, dimensions: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let mut out = text(name.as_bytes());
    out.extend((dimensions.len() as u32).to_le_bytes());
    out.extend(dimensions.iter().flat_map(|d| d.to_le_bytes()));
    out.extend(kind.to_le_bytes());
    out.extend(offset.to_le_bytes());
    out
}

#[track_caller]
fn refused(file: &[u8], words: &str) {
    let text = parse(file).unwrap_err().to_string();
    assert!(text.contains(words), "{text:?} should hold {words:?}");
}

#[test]
fn files_of_version_2_are_read_alike() {
    let file = sample();
    let mut second = file.clone();
    second[4..8].copy_from_slice(&2u32.to_le_bytes());
    let (third, second) = (parse(&file).unwrap(), parse(&second).unwrap());
    assert_eq!(second.version(), 2);
    assert_eq!(second.entries().count(), third.entries().count());
    let names = |header: &Header<'_>| -> Vec<String> {
        header.tensors().iter().map(|tensor| tensor.name().to_owned()).collect()
    };
    assert_eq!(names(&second), names(&third));
}

#[test]
fn other_files_and_versions_are_refused() {
    refused(b"", "the file ends before the magic number, which would take 4 bytes from byte 0");
    refused(b"GGML0000", "it begins with 'GGML' instead of 'GGUF'");
    refused(b"GGUF\x01\0\0\0", "this is GGUF version 1; versions 2 and 3 in little-endian order can be read; convert");
    refused(b"GGUF\0\0\0\x03", "this is GGUF version 50331648; ");
    refused(b"GGUF\x03\0\0", "the file ends before the version");
}

#[test]
fn absurd_counts_and_lengths_are_refused() {
    refused(&start(u64::MAX, 0, &[]), "the number of tensors at byte 8 is 18446744073709551615; at most 65536");
    refused(&start(0, 65_537, &[]), "the number of metadata entries at byte 16 is 65537");
    refused(&start(65_536, 65_536, &[]), "the file ends before the metadata and the table of tensors");
    refused(&start(0, 1, &[&u64::MAX.to_le_bytes()]), "a metadata key at byte 24");
    let array =
        |kind: u32, length: u64| [&text(b"k")[..], &[9, 0, 0, 0], &kind.to_le_bytes(), &length.to_le_bytes()].concat();
    refused(&start(0, 1, &[&array(4, u64::MAX)]), "an array's length at byte 41 is 18446744073709551615");
    refused(&start(0, 1, &[&array(8, 1 << 20)]), "the file ends before an array, which would take 8388608 bytes");
    refused(&start(0, 1, &[&array(13, 1)]), "the type of an array's values at byte 37 is 13");
    let deep: Vec<u8> = [9u32.to_le_bytes().to_vec(), 1u64.to_le_bytes().to_vec()].concat().repeat(10);
    refused(&start(0, 1, &[&text(b"k"), &[9, 0, 0, 0], &deep]), "the nesting of arrays");
    refused(&start(0, 1, &[&text(b"k"), &[13, 0, 0, 0]]), "the type of a metadata value at byte 33 is 13");
    refused(&start(0, 1, &[&text(b"k"), &[7, 0, 0, 0, 2]]), "the truth value at byte 37 is neither 0 nor 1");
    refused(&start(0, 1, &[&text(b"\xff"), &[0, 0, 0, 0, 2]]), "a metadata key at byte 32 is not UTF-8");
    let twice = [&text(b"k")[..], &[0, 0, 0, 0, 7]].concat();
    refused(&start(0, 2, &[&twice, &twice]), "the metadata key 'k' is there twice");
}

#[test]
fn wrong_alignments_are_refused() {
    let alignment =
        |kind: u8, value: u32| start(0, 1, &[&text(b"general.alignment"), &[kind, 0, 0, 0], &value.to_le_bytes()]);
    for value in [0, 1, 4, 48, 131_072] {
        refused(&alignment(4, value), "'general.alignment' is not a power of two from 8 to 65536");
    }
    refused(&alignment(6, 0), "'general.alignment' is not a number of 32 bits");
    assert_eq!(parse(&alignment(4, 4096)).unwrap().alignment(), 4096);
}

#[test]
fn tensors_that_cannot_be_are_refused() {
    let one = |dimensions: &[u64], kind, offset| start(1, 0, &[&tensor("t", dimensions, kind, offset)]);
    parse(&one(&[32, 2], 0, 64)).unwrap();
    refused(&one(&[], 0, 0), "the tensor 't' has no dimensions");
    refused(&one(&[1; 5], 0, 0), "a tensor's number of dimensions at byte 33 is 5");
    refused(&one(&[32, 0], 0, 0), "the tensor 't' has a dimension of zero");
    refused(&one(&[u64::MAX, 2], 0, 0), "has more values than can be counted");
    refused(&one(&[1 << 62], 0, 0), "has more bytes than can be counted");
    refused(&one(&[33], 8, 0), "rows that are no whole number of its type's blocks");
    refused(&one(&[32], 4, 0), "the type of a tensor at byte 45 is 4");
    refused(&one(&[32], 0, 8), "does not begin at a multiple of the alignment");
    refused(&one(&[2000], 0, 0), "the tensor 't' reaches over the end of the file");
    refused(&one(&[32], 0, u64::MAX - 31), "the tensor 't' reaches over the end of the file");
    let two = |name: &str, offset| start(2, 0, &[&tensor("t", &[32], 0, 128), &tensor(name, &[33], 0, offset)]);
    refused(&two("t", 512), "the tensor 't' is there twice");
    refused(&two("u", 128), "overlap");
    refused(&two("u", 0), "the data of the tensors 'u' and 't' overlap");
    parse(&two("u", 256)).unwrap();
}

#[test]
fn synthetic_files_have_the_size_asked_for_and_are_repeatable() {
    for size in [128 << 10, (1 << 20) + 32, 9 << 20, (64 << 20) - 4096, 64 << 20] {
        let synthetic = Synthetic::new(size, 42).unwrap();
        let mut digest = 0u64;
        let mut head = Vec::new();
        let mut written = 0u64;
        let done: Result<(), std::convert::Infallible> = synthetic.write(|piece| {
            assert!(piece.len() <= 1 << 16);
            written += piece.len() as u64;
            if head.len() < 1 << 16 {
                head.extend_from_slice(piece);
            }
            digest = piece.iter().fold(digest, |d, byte| d.wrapping_mul(31).wrapping_add(u64::from(*byte)));
            Ok(())
        });
        done.unwrap();
        assert_eq!(written, size);
        let header = Header::parse(&head, size).unwrap();
        let facts = header.facts();
        assert_eq!((facts.architecture, facts.context_length, facts.quantisation), ("llama", 8192, "Q8_0"));
        assert_eq!((facts.license, facts.vocabulary), (Some("MIT OR Apache-2.0"), 259));
        assert!(facts.chat_template.is_some_and(|template| template.contains("<|im_start|>")));
        let layers = header.get("llama.block_count").unwrap().as_u64().unwrap();
        assert_eq!(header.tensors().len() as u64, 3 + 9 * layers + 1);
        // Most of a large file is the model and not the filler.
        let filler = header.tensor("capos.filler").unwrap();
        assert!(size < 1 << 23 || filler.bytes() < size / 3, "{} of {size}", filler.bytes());
        let end = filler.offset() + filler.bytes() + header.data_offset();
        assert_eq!(end, size);
    }
    let make = |seed| Synthetic::new(1 << 20, seed).unwrap().to_vec();
    assert!(make(1) == make(1));
    assert!(make(1) != make(2));
}

#[test]
fn synthetic_numbers_are_finite() {
    let file = Synthetic::new(1 << 20, 3).unwrap().to_vec();
    let header = parse(&file).unwrap();
    for tensor in header.tensors() {
        let start = (header.data_offset() + tensor.offset()) as usize;
        let bytes = &file[start..start + tensor.bytes() as usize];
        let exponents: Vec<u16> = match tensor.kind().name() {
            "F16" => bytes.chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect(),
            "Q8_0" => bytes.chunks(34).map(|b| u16::from_le_bytes([b[0], b[1]])).collect(),
            _ => continue,
        };
        // Not near infinity (exponent 31), and not all alike.
        assert!(exponents.iter().all(|half| (half >> 10) & 31 < 15), "{}", tensor.name());
        assert!(exponents.iter().any(|half| *half != exponents[0]), "{}", tensor.name());
    }
}

#[test]
fn sizes_without_a_file_are_refused() {
    assert_eq!(Synthetic::new((1 << 20) + 1, 0).err(), Some(SyntheticError::Unaligned));
    assert_eq!(Synthetic::new(1 << 41, 0).err(), Some(SyntheticError::TooLarge));
    let Some(SyntheticError::TooSmall { least }) = Synthetic::new(0, 0).err() else { panic!() };
    assert_eq!(Synthetic::new(least, 0).unwrap().to_vec().len() as u64, least);
    assert!(Synthetic::new(least - 32, 0).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), size in any::<u64>()) {
        let file = [b"GGUF\x03\0\0\0".as_slice(), &bytes].concat();
        let _ = parse(&file);
        let _ = Header::parse(&file, size);
    }

    /// Whatever is changed in the metadata: no panic, and accepted tensors are inside the file.
    #[test]
    fn mutated_files_are_refused_or_read(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut file = sample();
        let metadata = parse(&file).unwrap().metadata_bytes() as usize;
        for (at, value) in changes {
            file[at.index(metadata)] = value;
        }
        if let Ok(header) = parse(&file) {
            let _ = header.facts();
            for (key, value) in header.entries() {
                prop_assert_eq!(header.get(key), Some(value));
                if let Some(array) = value.as_array() {
                    prop_assert_eq!(array.iter().count() as u64, array.len());
                }
            }
            for tensor in header.tensors() {
                prop_assert!(header.data_offset() + tensor.offset() + tensor.bytes() <= file.len() as u64);
            }
        }
    }

    /// Every prefix either is enough, or asks for more.
    #[test]
    fn prefixes_ask_for_more(length in 0usize..2000) {
        let file = sample();
        let prefix = &file[..length.min(file.len())];
        match Header::parse(prefix, file.len() as u64) {
            Ok(header) => prop_assert!(header.metadata_bytes() <= prefix.len() as u64),
            Err(GgufError::NeedMore { bytes }) => {
                prop_assert!(bytes > prefix.len() as u64 && bytes <= file.len() as u64);
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}
