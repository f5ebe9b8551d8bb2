//! The sampler, on logits of all kinds.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.

use std::collections::BTreeMap;

use capos_engine::{Mask, Sampler, Sampling, greedy};
use proptest::prelude::*;

fn sample(sampling: Sampling, logits: &[f32], allowed: Option<&Mask>, tokens: &[u32]) -> Option<u32> {
    Sampler::new(sampling).unwrap().choose(logits, allowed, tokens)
}

/// How often each token is chosen of many times.
fn shares(sampling: Sampling, logits: &[f32]) -> BTreeMap<u32, f64> {
    const TIMES: u32 = 20_000;
    let mut sampler = Sampler::new(sampling).unwrap();
    let mut shares = BTreeMap::new();
    for _ in 0..TIMES {
        *shares.entry(sampler.choose(logits, None, &[]).unwrap()).or_insert(0.0) += 1.0 / f64::from(TIMES);
    }
    shares
}

/// Logits of tokens with these probabilities.
fn logits_of<const N: usize>(probabilities: [f32; N]) -> [f32; N] {
    probabilities.map(f32::ln)
}

const RANDOM: Sampling =
    Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, repetition_penalty: 1.0, seed: 7 };

fn assert_shares(sampling: Sampling, logits: &[f32], expected: &[(u32, f64)]) {
    let found = shares(sampling, logits);
    assert!(found.keys().eq(expected.iter().map(|(id, _)| id)), "{found:?}");
    for (id, share) in expected {
        // Some five times what chance makes of it.
        assert!((found[id] - share).abs() < 0.02, "{id}: {} and not {share}", found[id]);
    }
}

#[test]
fn tokens_are_chosen_as_often_as_their_probabilities_say() {
    let logits = logits_of([0.1, 0.5, 0.15, 0.25]);
    assert_shares(RANDOM, &logits, &[(0, 0.1), (1, 0.5), (2, 0.15), (3, 0.25)]);
    // Half the temperature squares the probabilities.
    let sum = 0.01 + 0.25 + 0.0225 + 0.0625;
    let squares = [(0, 0.01 / sum), (1, 0.25 / sum), (2, 0.0225 / sum), (3, 0.0625 / sum)];
    assert_shares(Sampling { temperature: 0.5, ..RANDOM }, &logits, &squares);
}

#[test]
fn each_setting_leaves_out_what_it_says() {
    let logits = logits_of([0.1, 0.5, 0.15, 0.25]);
    assert_shares(Sampling { top_k: 2, ..RANDOM }, &logits, &[(1, 2.0 / 3.0), (3, 1.0 / 3.0)]);
    assert_shares(Sampling { top_p: 0.74, ..RANDOM }, &logits, &[(1, 2.0 / 3.0), (3, 1.0 / 3.0)]);
    let sum = 0.9;
    assert_shares(Sampling { top_p: 0.76, ..RANDOM }, &logits, &[(1, 0.5 / sum), (2, 0.15 / sum), (3, 0.25 / sum)]);
    assert_shares(Sampling { top_p: 0.0, ..RANDOM }, &logits, &[(1, 1.0)]);
    assert_shares(Sampling { min_p: 0.4, ..RANDOM }, &logits, &[(1, 2.0 / 3.0), (3, 1.0 / 3.0)]);
    assert_shares(Sampling { min_p: 1.0, ..RANDOM }, &logits, &[(1, 1.0)]);
    // Top-p counts what top-k has left: of the three, 0.9, the likeliest alone has 0.53.
    assert_shares(Sampling { top_k: 3, top_p: 0.53, ..RANDOM }, &logits, &[(1, 1.0)]);
}

#[test]
fn repeated_tokens_become_less_likely_once() {
    let penalty = Sampling { repetition_penalty: 2.0, ..Sampling::default() };
    let logits = [3.0, 2.0, -1.0, -1.5];
    assert_eq!(sample(penalty, &logits, None, &[]), Some(0));
    assert_eq!(sample(penalty, &logits, None, &[0]), Some(1));
    assert_eq!(sample(penalty, &logits, None, &[1, 0, 0, 1]), Some(0));
    let mut mask = Mask::all(4);
    mask.copy_from(&[0b1100]);
    assert_eq!(sample(penalty, &logits, Some(&mask), &[]), Some(2));
    assert_eq!(sample(penalty, &logits, Some(&mask), &[2, 2, 2]), Some(3));
    // One that occurred long ago, and one that the model does not have.
    let long_ago = [&[0][..], &[9; 64]].concat();
    assert_eq!(sample(penalty, &logits, None, &long_ago), Some(0));
    assert_eq!(sample(penalty, &logits, None, &long_ago[..64]), Some(1));
}

#[test]
fn a_vocabulary_of_which_many_are_probable_is_cut_in_the_right_place() {
    // The largest is the last; the first half is half as likely.
    let logits: Vec<f32> = (0..10_000).map(|id| if id < 5_000 { 0.0 } else { 2f32.ln() }).collect();
    let mut sampler = Sampler::new(Sampling { top_p: 0.5, ..RANDOM }).unwrap();
    for _ in 0..1000 {
        let id = sampler.choose(&logits, None, &[]).unwrap();
        assert!((5_000..8_751).contains(&id), "{id}");
    }
}

#[test]
fn infinite_and_missing_numbers_are_borne() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    for sampling in [Sampling::default(), RANDOM] {
        assert_eq!(sample(sampling, &[nan, -inf, inf, 3.0], None, &[2]), Some(2));
        assert_eq!(sample(sampling, &[nan, -inf], None, &[]), None);
        assert_eq!(sample(sampling, &[], None, &[]), None);
    }
}

#[test]
fn settings_that_cannot_be_meant_are_refused() {
    let refused = |sampling: Sampling| Sampler::new(sampling).unwrap_err().to_string();
    assert_eq!(refused(Sampling { temperature: -1.0, ..RANDOM }), "the temperature is -1; 0 to 100 is accepted");
    assert_eq!(refused(Sampling { min_p: 1.5, ..RANDOM }), "the min-p is 1.5; 0 to 1 is accepted");
    assert!(refused(Sampling { repetition_penalty: 0.0, ..RANDOM }).contains("repetition penalty is 0"));
    assert!(refused(Sampling { temperature: f32::NAN, ..RANDOM }).contains("temperature is NaN"));
}

/// Any number, NaN included.
fn any_logit() -> impl Strategy<Value = f32> {
    prop_oneof![8 => -20.0f32..20.0, 1 => any::<f32>(), 1 => Just(0.5f32)]
}

fn any_sampling() -> impl Strategy<Value = Sampling> {
    let temperature = prop_oneof![Just(0.0f32), 1e-6f32..100.0, Just(1.0f32)];
    (temperature, 0usize..12, 0f32..=1.0, 0f32..=1.0, 0.1f32..10.0, any::<u64>()).prop_map(
        |(temperature, top_k, top_p, min_p, repetition_penalty, seed)| Sampling {
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            seed,
        },
    )
}

proptest! {
    #[test]
    fn only_allowed_tokens_with_numbers_are_chosen(
        logits in prop::collection::vec(any_logit(), 0..700),
        words in prop::collection::vec(any::<u32>(), 0..22),
        tokens in prop::collection::vec(0u32..800, 0..100),
        sampling in any_sampling(),
    ) {
        let mut mask = Mask::all(logits.len());
        mask.copy_from(&words);
        let possible = |id: u32| mask.allows(id) && logits[id as usize] > f32::NEG_INFINITY;
        match sample(sampling, &logits, Some(&mask), &tokens) {
            Some(id) => prop_assert!(possible(id), "{id} of {:?}", mask.ids().collect::<Vec<_>>()),
            None => prop_assert!(!(0..logits.len() as u32).any(possible)),
        }
    }

    #[test]
    fn the_same_settings_make_the_same_choices(
        logits in prop::collection::vec(any_logit(), 1..300),
        sampling in any_sampling(),
    ) {
        let (mut one, mut other) = (Sampler::new(sampling).unwrap(), Sampler::new(sampling).unwrap());
        for _ in 0..5 {
            prop_assert_eq!(one.choose(&logits, None, &[1, 2]), other.choose(&logits, None, &[1, 2]));
        }
    }

    #[test]
    fn what_top_k_and_min_p_leave_out_is_never_chosen(
        logits in prop::collection::vec(-20.0f32..20.0, 1..600),
        top_k in 1usize..8,
        min_p in 0.01f32..1.0,
        seed in any::<u64>(),
    ) {
        let id = sample(Sampling { top_k, min_p, seed, ..RANDOM }, &logits, None, &[]).unwrap();
        let chosen = logits[id as usize];
        let likelier = logits.iter().filter(|logit| **logit > chosen).count();
        prop_assert!(likelier < top_k);
        let best = logits[greedy(&logits) as usize];
        prop_assert!(chosen - best >= min_p.ln() - 1e-3, "{chosen} of {best}");
    }

    #[test]
    fn what_top_p_leaves_out_is_never_chosen(
        logits in prop::collection::vec(-3.0f32..3.0, 1..900),
        top_p in 0.01f32..0.99,
        seed in any::<u64>(),
    ) {
        let id = sample(Sampling { top_p, seed, ..RANDOM }, &logits, None, &[]).unwrap();
        let total: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
        let chosen = logits[id as usize];
        let likelier = logits.iter().filter(|logit| **logit > chosen).map(|logit| f64::from(*logit).exp());
        prop_assert!(likelier.sum::<f64>() / total <= f64::from(top_p) + 1e-5);
    }
}
