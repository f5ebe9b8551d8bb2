//! The models in `tests/infer/models` against a reference in 64 bits (`tests/infer/make_models.py`).

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.

use crate::support::{distance, files, folder, kernels, name, read};
use capos_engine::kernel::Kernels;
use capos_engine::{Batch, Cache, CacheType, Forward, Machine, Model, Pool, Single, greedy};
use capos_engine_threads::Threads;

/// How much further from the reference logits may be if keys and values are kept as bytes.
const OF_BYTES: f64 = 1.5e-2;

/// Checks logits after the prompt, given at once and token by token, and the tokens that follow.
fn check(name: &str, tolerance: f64) {
    for kernels in kernels() {
        check_with(kernels, name, CacheType::F16, tolerance);
        check_with(kernels, name, CacheType::Q8_0, tolerance + OF_BYTES);
    }
}

fn check_with(kernels: &dyn Kernels, name: &str, cache: CacheType, tolerance: f64) {
    let (file, expected) = read(name);
    let model = Model::open(&file, None).unwrap();
    let machine = Machine { kernels, pool: &Single };
    let mut forward = Forward::new();
    let mut at_once = [Cache::of_type(cache, model.config(), 64)];
    let found = forward.pass(&model, machine, &Batch::prompt(&expected.ids), &mut at_once).unwrap();
    let apart = distance(found, &expected.logits);
    assert!(apart < tolerance, "{name} with {}: {apart} from the reference", kernels.name());

    let mut one_by_one = [Cache::of_type(cache, model.config(), 64)];
    let mut next = 0;
    for id in &expected.ids {
        let found = forward.pass(&model, machine, &Batch::prompt(&[*id]), &mut one_by_one).unwrap();
        next = greedy(found);
        if one_by_one[0].length() == expected.ids.len() {
            let apart = distance(found, &expected.logits);
            assert!(apart < tolerance, "{name} with {} one by one: {apart} from the reference", kernels.name());
        }
    }
    for (id, ahead) in expected.greedy.iter().zip(&expected.ahead) {
        // Rounding may decide between tokens that are nearly as likely.
        if *ahead < 100.0 * tolerance {
            break;
        }
        assert_eq!(next, *id, "{name} with {}", kernels.name());
        next = greedy(forward.pass(&model, machine, &Batch::prompt(&[next]), &mut one_by_one).unwrap());
    }
}

#[test]
fn logits_do_not_depend_on_the_number_of_threads() {
    let threads = Threads::new(3).unwrap();
    for path in files(&folder()) {
        let name = name(&path);
        let (file, expected) = read(name);
        let model = Model::open(&file, None).unwrap();
        // Long enough that each thread gets several tokens.
        let prompt = expected.ids.repeat(3);
        for kernels in kernels() {
            let logits = |pool: &dyn Pool| {
                let mut forward = Forward::new();
                let mut caches = [Cache::new(model.config(), 128)];
                let found = forward.pass(&model, Machine { kernels, pool }, &Batch::prompt(&prompt), &mut caches);
                found.unwrap().iter().map(|logit| logit.to_bits()).collect::<Vec<_>>()
            };
            assert!(logits(&Single) == logits(&threads), "{name} with {}", kernels.name());
        }
    }
}

macro_rules! models {
    ($($test:ident: $name:literal within $tolerance:literal;)*) => {
        $(#[test]
        fn $test() {
            check($name, $tolerance);
        })*

        #[test]
        fn every_model_of_the_folder_is_checked() {
            let checked = [$($name),*];
            for path in files(&folder()) {
                let name = name(&path);
                assert!(checked.contains(&name), "no test checks {name}");
            }
        }
    };
}

// Keys and values are kept with 16 bits, which alone is a few ten-thousandths.
models! {
    llama_f32: "llama-f32" within 1e-3;
    llama_f16: "llama-f16" within 1e-3;
    llama_bf16: "llama-bf16" within 1e-3;
    llama_with_one_matrix_for_embedding_and_output: "llama-tied" within 1e-3;
    llama_with_rope_factors: "llama-factors" within 1e-3;
    llama_with_linear_scaling: "llama-linear" within 1e-3;
    llama_with_yarn_scaling: "llama-yarn" within 1e-3;
    llama_q8_0: "llama-q8_0" within 2e-2;
    llama_with_a_vocabulary: "talking" within 2e-2;
    llama_of_several_types: "llama-mixed" within 2e-2;
    llama_q4_0: "llama-q4_0" within 3e-2;
    llama_q4_1: "llama-q4_1" within 4e-2;
    llama_q5_0: "llama-q5_0" within 3e-2;
    llama_q5_1: "llama-q5_1" within 3e-2;
    llama_iq4_nl: "llama-iq4_nl" within 3e-2;
    llama_q2_k: "llama-q2_k" within 2e-2;
    llama_q3_k: "llama-q3_k" within 2e-2;
    llama_q4_k: "llama-q4_k" within 2e-2;
    // Keys kept as bytes change much after this prompt; with llama.cpp, too.
    llama_q5_k: "llama-q5_k" within 7e-2;
    llama_q6_k: "llama-q6_k" within 2e-2;
    llama_iq4_xs: "llama-iq4_xs" within 2e-2;
    mistral3: "mistral3" within 1e-3;
    qwen2: "qwen2" within 1e-3;
    qwen3: "qwen3" within 1e-3;
    qwen3moe: "qwen3moe" within 1e-3;
    phi3: "phi3" within 1e-3;
    phi3_with_a_sliding_window: "phi3-window" within 1e-3;
    gemma2: "gemma2" within 1e-3;
    gemma3: "gemma3" within 1e-3;
}
