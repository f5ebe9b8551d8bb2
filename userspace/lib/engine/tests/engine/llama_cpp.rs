//! The models in `tests/infer/models` compared with llama.cpp: logits are no farther from the reference than its own,
//! and greedy tokens are the same until two are nearly as likely. The answers of llama.cpp are in
//! `tests/infer/llama_cpp_models.json`; `make judge-infer` asks it again, with more prompts.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.

use crate::support;
use std::collections::BTreeMap;
use std::fs;

use crate::support::{distance, files, folder, kernels, name, numbers, read_all, tokens};
use capos_engine::kernel::{self, Kernels};
use capos_engine::{Batch, Cache, Forward, Machine, Model, Single, greedy};
use serde_json::Value;

/// A model with which llama.cpp does something else: it leaves out the sliding window.
const UNLIKE: &str = "phi3-window";

/// How many of its standard errors the mean may be above zero.
const STANDARD_ERRORS: f64 = 3.0;

/// How many times as far from the reference as llama.cpp logits may be, whatever the chance.
const MOST: f64 = 1.25;

/// The standard error that comes from having one draw of weights. Types whose activations both programs round alike
/// differ by this much (`make judge-infer` has several draws, over which that cancels out).
const OF_ONE_DRAW: f64 = 0.06;

fn answers() -> BTreeMap<String, Value> {
    let text = fs::read_to_string(folder().join("../llama_cpp_models.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A model that runs in one sequence.
struct Run<'m> {
    model: &'m Model<'m>,
    kernels: &'static dyn Kernels,
    forward: Forward,
    caches: [Cache; 1],
}

impl<'m> Run<'m> {
    fn new(model: &'m Model<'m>, kernels: &'static dyn Kernels) -> Self {
        let cache = Cache::of_type(model.cache_type(kernels), model.config(), 64);
        Self { model, kernels, forward: Forward::new(), caches: [cache] }
    }

    fn feed(&mut self, ids: &[u32]) -> Vec<f32> {
        let machine = Machine { kernels: self.kernels, pool: &Single };
        self.forward.pass(self.model, machine, &Batch::prompt(ids), &mut self.caches).unwrap().to_vec()
    }
}

fn check(kernels: &'static dyn Kernels) {
    for (name, theirs) in answers() {
        let (file, cases) = read_all(&name);
        let model = Model::open(&file, None).unwrap();
        for way in ["at_once", "one_by_one"] {
            let logarithms: Vec<f64> = cases
                .iter()
                .zip(numbers(&theirs[way]))
                .map(|(case, theirs)| {
                    let mut run = Run::new(&model, kernels);
                    let together = if way == "at_once" { case.ids.len() } else { 1 };
                    let logits = case.ids.chunks(together).map(|ids| run.feed(ids)).last().unwrap();
                    (distance(&logits, &case.logits) / theirs).ln()
                })
                .collect();
            let count = logarithms.len() as f64;
            let mean = logarithms.iter().sum::<f64>() / count;
            let variance = logarithms.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
            let error = (variance / count + OF_ONE_DRAW.powi(2)).sqrt();
            // Keys and values as bytes, kept by default, are no farther than this either.
            assert!(mean.exp() <= MOST, "{name} with {}, {way}: {:.3} times", kernels.name(), mean.exp());
            assert!(
                mean <= STANDARD_ERRORS * error,
                "{name} with {}, {way}: {:.3} times as far from the reference as llama.cpp, give or take {:.0} %",
                kernels.name(),
                mean.exp(),
                error * 100.0
            );
        }
        let near = theirs["near"].as_f64().unwrap();
        for (case, theirs) in cases.iter().zip(theirs["greedy"].as_array().unwrap()) {
            let mut run = Run::new(&model, kernels);
            let mut next = greedy(&run.feed(&case.ids));
            for ((their, reference), ahead) in tokens(theirs).into_iter().zip(&case.greedy).zip(&case.ahead) {
                // After a near tie, and where llama.cpp leaves the reference, texts differ.
                if *ahead < near || their != *reference {
                    break;
                }
                assert_eq!(next, their, "{name} with {}, behind {:?}", kernels.name(), case.ids);
                next = greedy(&run.feed(&[next]));
            }
        }
    }
}

macro_rules! kernels {
    ($($test:ident: $name:literal;)*) => {
        $(#[test]
        fn $test() {
            // A processor may lack them; then `kernels` says that.
            if let Some(kernels) = kernels().into_iter().find(|kernels| kernels.name() == $name) {
                check(kernels);
            }
        })*

        #[test]
        fn all_kernels_are_compared() {
            assert_eq!([$($name),*], kernel::NAMES);
        }

        #[test]
        fn kernels_that_do_not_run_are_told() {
            assert_eq!(support::left_out(&kernel::NAMES), [""; 0]);
            let told = support::left_out(&["scalar", "swar", "sse41", "avx2"]);
            let words = "which this processor or its system does not have";
            assert_eq!(told, ["avx512", "amx"].map(|name| format!("not run: kernels {name}, {words}")));
        }
    };
}

kernels! {
    scalar_kernels_do_no_worse: "scalar";
    swar_kernels_do_no_worse: "swar";
    sse41_kernels_do_no_worse: "sse41";
    avx2_kernels_do_no_worse: "avx2";
    avx512_kernels_do_no_worse: "avx512";
    amx_kernels_do_no_worse: "amx";
}

#[test]
fn every_model_of_the_folder_is_compared() {
    let answers = answers();
    for path in files(&folder()) {
        let name = name(&path);
        assert_eq!(answers.contains_key(name), name != UNLIKE, "{name}");
    }
}
