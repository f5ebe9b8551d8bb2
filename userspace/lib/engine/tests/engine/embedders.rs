//! Vectors of texts against a reference in 64 bits (`tests/infer/make_embedders.py`).

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.

use crate::support;
use std::cell::Cell;
use std::fs;
use std::path::PathBuf;

use crate::support::{distance, exact_kernels, files, folder, kernels, numbers, tokens};
use capos_engine::kernel::{self, Kernels};
use capos_engine::{
    Batch, Cache, CacheType, Encoder, EngineError, Forward, Generation, Machine, Model, Pool, Request, Single,
};
use capos_engine_threads::Threads;
use serde_json::Value;

/// How much further from the reference vectors may be if keys and values are kept as bytes.
const OF_BYTES: f64 = 1.5e-2;

/// The same if they decide through which experts a token passes.
const OF_EXPERTS: f64 = 1e-1;

/// Most tokens of a piece.
const PIECE: usize = 512;

fn embedders() -> PathBuf {
    folder().join("../embedders")
}

fn json(path: PathBuf) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn lists<T>(value: &Value, of: impl Fn(&Value) -> T) -> Vec<T> {
    value.as_array().unwrap().iter().map(of).collect()
}

/// Lists of tokens and the reference's results for them.
fn cases(value: &Value) -> (Vec<Vec<u32>>, Vec<Vec<f64>>) {
    (lists(&value["ids"], tokens), lists(&value["vectors"], numbers))
}

fn embedder(name: &str) -> (Vec<u8>, Vec<Vec<u32>>, Vec<Vec<f64>>) {
    let path = embedders().join(name);
    let (ids, vectors) = cases(&json(path.with_extension("json")));
    (fs::read(path.with_extension("gguf")).unwrap(), ids, vectors)
}

/// The vectors of texts that go through the model together.
fn vectors(encoder: &mut Encoder<'_>, texts: &[Vec<u32>]) -> Result<Vec<Vec<f32>>, EngineError> {
    encoder.begin(texts)?;
    loop {
        if let Some(vectors) = encoder.step()? {
            return Ok(vectors);
        }
    }
}

fn compare(what: &str, file: &[u8], (ids, expected): (&[Vec<u32>], &[Vec<f64>]), tolerance: f64) {
    let model = Model::open(file, None).unwrap();
    let of_bytes = if model.config().experts.is_some() { OF_EXPERTS } else { OF_BYTES };
    for kernels in support::kernels() {
        for (cache, tolerance) in [(CacheType::F16, tolerance), (CacheType::Q8_0, tolerance + of_bytes)] {
            let mut encoder =
                Encoder::new(&model, Machine { kernels, pool: &Single }, PIECE, Some(cache), None).unwrap();
            let together = vectors(&mut encoder, ids).unwrap();
            let alone = ids.iter().flat_map(|ids| vectors(&mut encoder, std::slice::from_ref(ids)).unwrap()).collect();
            for found in [together, alone] {
                let found: Vec<Vec<f32>> = found;
                assert_eq!(found.len(), expected.len());
                for (found, expected) in found.iter().zip(expected) {
                    let apart = distance(found, expected);
                    assert!(apart < tolerance, "{what} with {}, {cache:?}: {apart} from the reference", kernels.name());
                }
            }
        }
    }
}

#[test]
fn vectors_do_not_depend_on_the_number_of_threads() {
    let threads = Threads::new(3).unwrap();
    for path in files(&embedders()) {
        let file = fs::read(&path).unwrap();
        let model = Model::open(&file, None).unwrap();
        // Pieces begin in the middle of a text, and each thread has several tokens of one.
        let texts: Vec<Vec<u32>> =
            [60, 33].map(|count| (0..count).map(|token| token * 7 % model.vocabulary() as u32).collect()).to_vec();
        for kernels in kernels() {
            let vectors = |pool: &dyn Pool| {
                let mut encoder = Encoder::new(&model, Machine { kernels, pool }, 13, None, None).unwrap();
                let found = vectors(&mut encoder, &texts).unwrap();
                found.concat().iter().map(|value| value.to_bits()).collect::<Vec<_>>()
            };
            assert!(vectors(&Single) == vectors(&threads), "{} with {}", path.display(), kernels.name());
        }
    }
}

macro_rules! embedders {
    ($($test:ident: $name:literal within $tolerance:literal;)*) => {
        $(#[test]
        fn $test() {
            let (file, ids, expected) = embedder($name);
            compare($name, &file, (&ids, &expected), $tolerance);
        })*

        #[test]
        fn every_embedder_of_the_folder_is_checked() {
            let checked = [$($name,)* "qwen3-last"];
            for path in files(&embedders()) {
                let name = support::name(&path);
                assert!(checked.contains(&name), "no test checks {name}");
            }
        }
    };
}

embedders! {
    b03_bert_pools_the_mean: "bert" within 1e-3;
    b03_bert_pools_the_first_token: "bert-f32" within 1e-3;
    b03_bert_without_a_word_on_pooling: "bert-bf16" within 1e-3;
    b03_bert_of_several_types: "bert-mixed" within 3e-2;
    b03_bert_of_k_quants: "bert-k" within 3e-2;
    b03_nomic_bert: "nomic-bert" within 1e-3;
    b03_nomic_bert_q8_0: "nomic-bert-q8_0" within 2e-2;
}

#[test]
fn b03_language_models_embed_too() {
    for (name, value) in json(embedders().join("language_models.json")).as_object().unwrap() {
        let path = if name == "qwen3-last" { embedders().join("qwen3-last.gguf") } else { support::path(name) };
        let file = fs::read(path).unwrap();
        let (ids, expected) = cases(value);
        let tolerance = if name.ends_with("q8_0") { 2e-2 } else { 1e-3 };
        compare(name, &file, (&ids, &expected), tolerance);
    }
}

/// Kernels that give the same bits whatever is in the batch.
fn exact() -> &'static dyn Kernels {
    kernel::named("scalar").unwrap()
}

#[test]
fn vectors_are_the_same_to_the_last_bit_however_small_the_pieces_are() {
    for (name, kernels) in
        ["bert", "nomic-bert-q8_0"].into_iter().flat_map(|name| exact_kernels().map(move |of| (name, of)))
    {
        let (file, ids, _) = embedder(name);
        let model = Model::open(&file, None).unwrap();
        let machine = Machine { kernels, pool: &Single };
        for cache in [CacheType::F16, CacheType::Q8_0] {
            let mut encoder = Encoder::new(&model, machine, PIECE, Some(cache), None).unwrap();
            let whole = vectors(&mut encoder, &ids).unwrap();
            // By this clock everything takes long, and pieces have the least size.
            let time = Cell::new(0);
            let clock = || {
                time.set(time.get() + 1_000_000_000);
                time.get()
            };
            let mut encoder = Encoder::new(&model, machine, PIECE, Some(cache), Some(&clock)).unwrap();
            encoder.begin(&ids).unwrap();
            let mut steps = 0;
            let found = loop {
                steps += 1;
                if let Some(found) = encoder.step().unwrap() {
                    break found;
                }
            };
            assert_eq!(found, whole, "{name} with {} and {cache:?}", kernels.name());
            let tokens: usize = ids.iter().map(Vec::len).sum();
            let halves = 2 * model.config().layers;
            assert!(steps > tokens / 6 * halves, "{name}: {tokens} tokens in {steps} steps");
        }
    }
}

#[test]
fn texts_that_are_given_up_leave_nothing_behind() {
    let (file, ids, _) = embedder("bert");
    let model = Model::open(&file, None).unwrap();
    let machine = Machine { kernels: exact(), pool: &Single };
    let mut encoder = Encoder::new(&model, machine, PIECE, None, None).unwrap();
    assert_eq!(encoder.step(), Ok(None));
    let expected = vectors(&mut encoder, &ids[..1]).unwrap();
    encoder.begin(&ids[1..]).unwrap();
    encoder.step().unwrap();
    encoder.cancel();
    assert_eq!(encoder.step(), Ok(None));
    encoder.begin(&ids[2..]).unwrap();
    encoder.step().unwrap();
    assert_eq!(vectors(&mut encoder, &ids[..1]).unwrap(), expected);
}

#[test]
fn texts_that_do_not_go_through_the_model_are_refused() {
    let (file, ..) = embedder("bert");
    let model = Model::open(&file, Some(1 << 20)).unwrap();
    assert_eq!(model.context(), 64, "positions without a row in the file cannot be embedded");
    let machine = Machine { kernels: exact(), pool: &Single };
    let mut encoder = Encoder::new(&model, machine, PIECE, None, None).unwrap();
    let mut said = |texts: &[Vec<u32>]| encoder.begin(texts).unwrap_err().to_string();
    assert_eq!(said(&[vec![1], vec![]]), "the batch has a text without tokens");
    assert!(said(&[vec![1; 65]]).starts_with("the prompt has 65 tokens, and the context holds 64;"));
    assert!(said(&[vec![1, 1 << 30]]).starts_with("the token 1073741824 is not in the vocabulary"));
}

#[test]
fn an_embedder_writes_nothing() {
    let (file, ids, _) = embedder("nomic-bert");
    let model = Model::open(&file, None).unwrap();
    assert!(!model.writes());
    let machine = Machine { kernels: exact(), pool: &Single };
    let mut caches = [Cache::new(model.config(), 64)];
    let pass = Forward::new().pass(&model, machine, &Batch::prompt(&ids[0]), &mut caches).unwrap_err();
    assert_eq!(pass, EngineError::WritesNothing);
    let mut generation = Generation::new(&model, machine, Default::default());
    let request = Request { prompt: ids[0].clone(), limit: 1, ..Request::default() };
    assert_eq!(generation.submit(request, None), Err(EngineError::WritesNothing));
}
