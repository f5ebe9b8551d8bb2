//! Malformed files are rejected with an error message and never end the process.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // Helpers of tests count as tests.

use crate::support;
use std::fs;

use crate::support::{files, folder};
use capos_engine::{Batch, Cache, EngineError, Forward, Machine, Model, Single, kernel};
use capos_gguf::{Header, TensorType, WriterValue};
use capos_hostile_models::{Parts, Random, WIDTH, changed};

/// Why a file is refused.
fn refused(parts: &Parts) -> String {
    refused_file(&parts.file().unwrap())
}

fn refused_file(file: &[u8]) -> String {
    match Model::open(file, None) {
        Ok(_) => panic!("the file is not refused"),
        Err(error) => error.to_string(),
    }
}

/// A pass of some tokens, whatever the result.
fn try_out(file: &[u8]) -> Result<(), EngineError> {
    let model = Model::open(file, None)?;
    let machine = Machine { kernels: support::kernels().last().unwrap().to_owned(), pool: &Single };
    let mut caches = [Cache::new(model.config(), 16)];
    let mut forward = Forward::new();
    forward.pass(&model, machine, &Batch::prompt(&[0, 1, 2, 3, 4, 5, 6]), &mut caches)?;
    let logits = forward.pass(&model, machine, &Batch::prompt(&[1]), &mut caches)?;
    capos_engine::greedy(logits);
    Ok(())
}

#[test]
fn the_file_is_run_as_it_is() {
    try_out(&Parts::llama().file().unwrap()).unwrap();
}

#[test]
fn every_entry_and_tensor_that_is_needed_is_missed_by_name() {
    let parts = Parts::llama();
    for (key, _) in &parts.entries {
        // Without an entry for it, there are as many heads of keys as of queries, which the shapes do not fit.
        if key != "llama.attention.head_count_kv" {
            assert_eq!(refused(&Parts::llama().without(key)), format!("the metadata entry '{key}' is missing"));
        }
    }
    for (name, ..) in &parts.tensors {
        let mut parts = Parts::llama();
        parts.tensors.retain(|(known, ..)| known != name);
        assert_eq!(refused(&parts), format!("the tensor '{name}' is missing"));
    }
}

#[test]
fn every_entry_and_tensor_that_an_embedder_needs_is_missed_by_name() {
    for key in ["attention.layer_norm_epsilon", "context_length", "feed_forward_length"] {
        let key = format!("bert.{key}");
        assert_eq!(refused(&Parts::bert().without(&key)), format!("the metadata entry '{key}' is missing"));
    }
    for (name, ..) in &Parts::bert().tensors {
        let mut parts = Parts::bert();
        parts.tensors.retain(|(known, ..)| known != name);
        // Texts are of one type, which need not be marked.
        match name.as_str() {
            "token_types.weight" => assert!(Model::open(&parts.file().unwrap(), None).is_ok()),
            _ => assert_eq!(refused(&parts), format!("the tensor '{name}' is missing")),
        }
    }
}

/// A tensor that would change what is computed is computed with or refused by its name, whatever the architecture.
#[test]
fn no_tensor_of_the_text_is_left_alone() {
    let unknown = [
        "blk.0.attn_q_norm.weight",
        "blk.0.attn_k_norm.weight",
        "blk.0.attn_norm.bias",
        "blk.0.attn_sinks.weight",
        "blk.0.ffn_gate_inp.weight",
        "blk.0.ffn_gate_shexp.weight",
        "blk.0.ffn_up.scale",
        "blk.0.attn_q.weight.lora_a",
        "blk.1.attn_q.weight",
        "blk.x.attn_q.weight",
        "output_norm.bias",
        "output_norm_2.weight",
        "token_embd_norm.weight",
        "token_types.weight",
        "position_embd.weight",
        "rope_other.weight",
    ];
    for name in unknown {
        let said = refused(&Parts::llama().with_tensor(name, TensorType::F32, &[WIDTH]));
        assert!(said.starts_with(&format!("the tensor '{name}' ")) && said.contains("'llama"), "{said}");
        assert!(said.ends_with("; take a file that was converted without it"), "{said}");
    }
    let said = refused(&Parts::llama().with_tensor("blk.1.attn_q.weight", TensorType::F32, &[WIDTH]));
    assert!(said.contains("is of layer 1, and 'llama.block_count' says that there are 1;"), "{said}");
    // Among the files that are compared with a reference, those of all architectures.
    for path in files(&folder()) {
        let file = fs::read(&path).unwrap();
        let header = Header::parse(&file, file.len() as u64).unwrap();
        assert_eq!(Model::open(&file, None).unwrap().unused(), [""; 0], "{}", path.display());
        let architecture = header.facts().architecture;
        for name in ["blk.0.attn_sinks.weight", "blk.1.ffn_up.scale", "output.scale", "blk.77.attn_norm.weight"] {
            let said = refused_file(&with_tensor(&header, &file, name, &[0.5; 4]));
            assert!(said.contains(&format!("'{name}'")) && said.contains(architecture), "{said}");
        }
    }
    // Tensors of other models are reported.
    let parts = ["v.blk.0.attn_q.weight", "mm.0.weight", "cls.weight"];
    let with = parts.iter().fold(Parts::llama(), |all, name| all.with_tensor(name, TensorType::F32, &[3]));
    let file = with.file().unwrap();
    assert_eq!(Model::open(&file, None).unwrap().unused(), ["cls.weight", "mm.0.weight", "v.blk.0.attn_q.weight"]);
}

/// Old files have the frequencies of the rotary embedding in each layer again.
#[test]
fn frequencies_that_are_said_again_have_to_be_the_same() {
    let file = Parts::llama().file().unwrap();
    let header = Header::parse(&file, file.len() as u64).unwrap();
    for name in ["blk.0.attn_rot_embd", "blk.0.attn_rot_embd.weight"] {
        let plain = logits(&file);
        assert_eq!(logits(&with_tensor(&header, &file, name, &[1.0, 0.01])), plain);
        let said = refused_file(&with_tensor(&header, &file, name, &[1.0, 0.02]));
        assert_eq!(said, format!("the tensor '{name}' turns by other angles than the file's rope.freq_base says"));
        let said = refused_file(&with_tensor(&header, &file, name, &[1.0; 4]));
        assert!(said.contains(name) && said.contains("[4]"), "{said}");
    }
}

/// The file with one more tensor, a vector of these numbers.
fn with_tensor(header: &Header<'_>, file: &[u8], name: &str, numbers: &[f32]) -> Vec<u8> {
    let alignment = u64::from(header.alignment());
    let pad = |out: &mut Vec<u8>| out.resize(out.len().next_multiple_of(alignment as usize), 0);
    let (head, data) = (&file[..header.metadata_bytes() as usize], &file[header.data_offset() as usize..]);
    let offset = (data.len() as u64).next_multiple_of(alignment);
    let mut out = head.to_vec();
    out[8..16].copy_from_slice(&(header.tensors().len() as u64 + 1).to_le_bytes());
    out.extend((name.len() as u64).to_le_bytes());
    out.extend(name.as_bytes());
    out.extend(1u32.to_le_bytes());
    out.extend((numbers.len() as u64).to_le_bytes());
    out.extend(TensorType::F32.code().to_le_bytes());
    out.extend(offset.to_le_bytes());
    pad(&mut out);
    out.extend(data);
    pad(&mut out);
    numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
    out
}

/// The logits after some tokens.
fn logits(file: &[u8]) -> Vec<f32> {
    let model = Model::open(file, None).unwrap();
    let machine = Machine { kernels: kernel::reference(), pool: &Single };
    let mut caches = [Cache::new(model.config(), 16)];
    Forward::new().pass(&model, machine, &Batch::prompt(&[1, 2, 3]), &mut caches).unwrap().to_vec()
}

/// The biases of every product are added to its result.
#[test]
fn biases_are_added() {
    for path in files(&folder()) {
        let file = fs::read(&path).unwrap();
        let header = Header::parse(&file, file.len() as u64).unwrap();
        let model = Model::open(&file, None).unwrap();
        if !model.writes() || model.config().experts.is_some() {
            continue;
        }
        let has = |name: &str| header.tensors().iter().any(|tensor| tensor.name() == name);
        for name in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"] {
            let (weight, bias) = (format!("blk.0.{name}.weight"), format!("blk.0.{name}.bias"));
            // In one matrix with others, gates have none.
            if !has(&weight) || has(&bias) || name == "ffn_up" && !has("blk.0.ffn_gate.weight") {
                continue;
            }
            let rows = header.tensors().iter().find(|tensor| tensor.name() == weight).unwrap().dimensions()[1];
            assert_ne!(
                logits(&with_tensor(&header, &file, &bias, &vec![0.5; rows as usize])),
                logits(&file),
                "{} {bias}",
                path.display()
            );
        }
        let rows = model.vocabulary();
        let (found, plain) = (logits(&with_tensor(&header, &file, "output.bias", &vec![0.5; rows])), logits(&file));
        match model.config().logit_cap {
            Some(_) => assert_ne!(found, plain),
            None => assert!(found.iter().zip(plain).all(|(found, plain)| *found == plain + 0.5), "{}", path.display()),
        }
    }
}

#[test]
fn entries_that_change_all_answers_are_not_left_alone() {
    for (key, neutral, other) in [
        ("embedding_scale", 1.0, 12.0),
        ("residual_scale", 1.0, 0.2),
        ("logit_scale", 1.0, 0.1),
        ("attention.scale", 0.5, 0.01),
        ("attention.clamp_kqv", 0.0, 8.0),
        ("attention.temperature_scale", 0.0, 0.1),
        ("attn_logit_softcapping", 0.0, 50.0),
        ("final_logit_softcapping", 0.0, 30.0),
    ] {
        let key = format!("llama.{key}");
        let with = |number| Parts::llama().with(&key, WriterValue::F32(number));
        assert!(Model::open(&with(neutral).file().unwrap(), None).is_ok(), "{key}");
        let said = refused(&with(other));
        assert_eq!(
            said,
            format!("the metadata entry '{key}' is {other}, and 'llama' models are computed without it here")
        );
    }
}

#[test]
fn counts_that_cannot_be_are_refused() {
    let bad = [0, 1 << 30, u32::MAX];
    let keys = ["embedding_length", "block_count", "feed_forward_length", "attention.head_count", "context_length"];
    for key in keys.iter().map(|key| format!("llama.{key}")) {
        for value in bad {
            let said = refused(&Parts::llama().with(&key, WriterValue::U32(value)));
            assert!(said.starts_with(&format!("the metadata entry '{key}' is {value}; 1 to ")), "{said}");
        }
        let said = refused(&Parts::llama().with(&key, WriterValue::Text("8".to_owned())));
        assert_eq!(said, format!("the metadata entry '{key}' is not one whole number from 0 on"));
    }
    let said = refused(&Parts::llama().with("llama.embedding_length", WriterValue::U64(u64::MAX)));
    assert!(said.contains("is 18446744073709551615; 1 to"), "{said}");
    let said = refused(&Parts::llama().with("llama.attention.head_count_kv", WriterValue::U32(0)));
    assert!(said.contains("'llama.attention.head_count_kv' is 0; 1 to"), "{said}");
    let said = refused(&Parts::llama().with("llama.attention.head_count_kv", WriterValue::U32(3)));
    assert!(said.contains("is 3, of which 2 query heads are no multiple"), "{said}");
    let said = refused(&Parts::llama().with("llama.rope.dimension_count", WriterValue::U32(3)));
    assert!(said.contains("is 3, which is not even"), "{said}");
    let said = refused(&Parts::llama().with("llama.rope.dimension_count", WriterValue::U32(6)));
    assert!(said.contains("is 6; 2 to 4 is accepted"), "{said}");
    let said = refused(&Parts::llama().with("llama.expert_count", WriterValue::U32(4)));
    assert!(said.contains("says that there are experts"), "{said}");
}

#[test]
fn numbers_that_are_none_are_refused() {
    let keys =
        ["attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.scaling.factor", "rope.scaling.attn_factor"];
    for key in keys.iter().map(|key| format!("llama.{key}")) {
        for value in [f32::NAN, f32::INFINITY, -1.0] {
            let said = refused(&Parts::llama().with(&key, WriterValue::F32(value)));
            assert!(said.starts_with(&format!("the metadata entry '{key}' is {value}; ")), "{said}");
        }
        let said = refused(&Parts::llama().with(&key, WriterValue::Bool(true)));
        assert_eq!(said, format!("the metadata entry '{key}' is not a number"));
    }
}

#[test]
fn scaling_that_is_not_known_or_lacks_something_is_refused() {
    let kind = |kind: &str| Parts::llama().with("llama.rope.scaling.type", WriterValue::Text(kind.to_owned()));
    let said = refused(&kind("dynamic"));
    assert!(said.contains("is 'dynamic'; known are none, linear, yarn and longrope"), "{said}");
    let said = refused(&kind("yarn"));
    assert!(said.contains("'llama.rope.scaling.original_context_length' is 0 or missing"), "{said}");
}

#[test]
fn architectures_that_are_not_known_are_told_from_those_that_are() {
    let said = refused(&Parts::llama().with("general.architecture", WriterValue::Text("mamba".to_owned())));
    assert!(
        said.starts_with("the architecture 'mamba' is not known here; known are llama, mistral3, qwen2,"),
        "{said}"
    );
    let said = refused(&Parts::llama().with("general.architecture", WriterValue::U32(1)));
    assert_eq!(said, "the metadata entry 'general.architecture' is not a text");
}

#[test]
fn shapes_and_types_that_do_not_fit_are_refused() {
    for (name, _, dimensions) in &Parts::llama().tensors {
        if name == "token_embd.weight" {
            continue;
        }
        let mut wrong = dimensions.clone();
        *wrong.last_mut().unwrap() += 1;
        let said = refused(&Parts::llama().with_tensor(name, TensorType::F32, &wrong));
        assert!(said.contains(&format!("'{name}' is {wrong:?}, where the hyperparameters say")), "{said}");
        let said = refused(&Parts::llama().with_tensor(name, TensorType::I8, dimensions));
        assert!(said.contains("is of the type I8, which the engine does not compute with"), "{said}");
    }
    let said = refused(&Parts::llama().with_tensor("token_embd.weight", TensorType::F32, &[WIDTH]));
    assert!(said.contains("'token_embd.weight' is"), "{said}");
    let said = refused(&Parts::llama().with_tensor("rope_freqs.weight", TensorType::F32, &[2]));
    assert!(said.contains("has a factor that is not a positive number"), "{said}");
}

#[test]
fn numbers_of_all_kinds_in_the_tensors_go_through() {
    let parts = Parts::llama();
    let mut file = parts.file().unwrap();
    let data = Header::parse(&file, file.len() as u64).unwrap().data_offset() as usize;
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN_POSITIVE / 2.0] {
        file[data..].as_chunks_mut::<4>().0.iter_mut().for_each(|bytes| *bytes = value.to_le_bytes());
        try_out(&file).unwrap();
    }
}

#[test]
fn tokens_and_batches_that_cannot_be_leave_the_caches_as_they_were() {
    let file = Parts::llama().file().unwrap();
    let model = Model::open(&file, None).unwrap();
    let machine = Machine { kernels: kernel::reference(), pool: &Single };
    let mut caches = [Cache::new(model.config(), 4)];
    let mut forward = Forward::new();
    let mut said = |batch: &Batch, caches: &mut [Cache]| match forward.pass(&model, machine, batch, caches) {
        Ok(_) => panic!("the batch is not refused"),
        Err(error) => error.to_string(),
    };
    assert_eq!(said(&Batch::new(), &mut caches), "the batch has no tokens");
    let unknown = said(&Batch::prompt(&[1, 10]), &mut caches);
    assert_eq!(unknown, "the token 10 is not in the vocabulary, whose ids end at 9");
    assert_eq!(caches[0].length(), 0);
    let full = said(&Batch::prompt(&[1, 1, 1, 1, 1]), &mut caches);
    assert_eq!(full, "the context is full: it holds 4 tokens; begin a new one or make it longer");
    assert_eq!(caches[0].length(), 0);
    assert_eq!(said(&Batch::prompt(&[1]), &mut []), "the batch has a token of a sequence without a cache");
    let other = Parts::llama().with("llama.attention.head_count_kv", WriterValue::U32(2));
    let other = other.with_tensor("blk.0.attn_k.weight", TensorType::F32, &[WIDTH, WIDTH]);
    let other = other.with_tensor("blk.0.attn_v.weight", TensorType::F32, &[WIDTH, WIDTH]).file().unwrap();
    let mut caches = [Cache::new(Model::open(&other, None).unwrap().config(), 4)];
    assert_eq!(said(&Batch::prompt(&[1]), &mut caches), "the batch has a cache that was made for another model");
}

#[test]
fn whatever_bytes_are_changed_nothing_ends_the_program() {
    let mut random = Random::new(1);
    let (mut run, mut refused) = (0, 0);
    for path in files(&folder()) {
        let original = fs::read(&path).unwrap();
        for _ in 0..150 {
            match try_out(&changed(&original, &mut random)) {
                Ok(()) => run += 1,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    refused += 1;
                }
            }
        }
    }
    // Both happen, or the changes would show nothing.
    assert!(run > 100 && refused > 100, "{run} run, {refused} refused");
}
