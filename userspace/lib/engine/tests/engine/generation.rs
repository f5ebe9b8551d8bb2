//! Requests that are run together, on the models in `tests/infer/models`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.

use std::cell::RefCell;
use std::rc::Rc;

use crate::support::{exact_kernels, kernels, read};
use capos_engine::generation::Options;
use capos_engine::kernel;
use capos_engine::{
    Batch, Cache, CacheType, Constraint, EngineError, Event, Finish, Forward, Generation, Machine, Mask, Model,
    Request, RequestId, Sampling, Single, Usage, greedy,
};

fn scalar() -> Machine<'static> {
    Machine { kernels: kernel::reference(), pool: &Single }
}

fn request(prompt: &[u32], limit: usize) -> Request {
    Request { prompt: prompt.to_vec(), limit, ..Request::default() }
}

/// The result of a request.
#[derive(Clone, Debug, Default, PartialEq)]
struct Outcome {
    tokens: Vec<u32>,
    progress: Vec<(usize, usize)>,
    finish: Option<(Finish, Usage)>,
    /// Steps until it ended.
    steps: usize,
}

impl Outcome {
    fn note(&mut self, event: Event) {
        assert_eq!(self.finish, None, "{event:?} behind the end");
        match event {
            Event::Progress { done, total } => self.progress.push((done, total)),
            Event::Token(token) => self.tokens.push(token),
            Event::Finish { reason, usage } => self.finish = Some((reason, usage)),
        }
    }

    fn usage(&self) -> Usage {
        self.finish.clone().unwrap().1
    }

    fn reason(&self) -> Finish {
        self.finish.clone().unwrap().0
    }
}

/// Runs all to their end.
fn finish(generation: &mut Generation<'_>, ids: &[RequestId]) -> Vec<Outcome> {
    let mut outcomes = vec![Outcome::default(); ids.len()];
    while !generation.idle() {
        for outcome in outcomes.iter_mut().filter(|outcome| outcome.finish.is_none()) {
            outcome.steps += 1;
        }
        for (id, event) in generation.step() {
            outcomes[ids.iter().position(|other| *other == id).unwrap()].note(event);
        }
    }
    assert!(generation.step().is_empty());
    outcomes
}

fn run(generation: &mut Generation<'_>, requests: &[Request]) -> Vec<Outcome> {
    let ids: Vec<_> = requests.iter().map(|request| generation.submit(request.clone(), None).unwrap()).collect();
    finish(generation, &ids)
}

fn run_one(generation: &mut Generation<'_>, request: Request, constraint: Option<Box<dyn Constraint>>) -> Outcome {
    let id = generation.submit(request, constraint).unwrap();
    finish(generation, &[id]).remove(0)
}

/// The likeliest tokens after a prompt, without any of the tested code.
fn likeliest(model: &Model<'_>, machine: Machine<'_>, prompt: &[u32], count: usize) -> Vec<u32> {
    let cache = Cache::of_type(model.cache_type(machine.kernels), model.config(), model.context());
    let (mut forward, mut caches) = (Forward::new(), [cache]);
    let mut tokens = Vec::new();
    let mut batch = Batch::prompt(prompt);
    for _ in 0..count {
        let next = greedy(forward.pass(model, machine, &batch, &mut caches).unwrap());
        tokens.push(next);
        batch = Batch::prompt(&[next]);
    }
    tokens
}

/// Prompts with common beginnings, and more or less different ends.
fn prompts(expected: &[u32]) -> Vec<Vec<u32>> {
    let mut other = expected.to_vec();
    other[12] ^= 1;
    vec![
        expected.to_vec(),
        other,
        expected[..9].to_vec(),
        vec![5],
        [expected, &[7, 7, 1][..]].concat(),
        expected.iter().rev().copied().collect(),
    ]
}

#[test]
fn requests_come_to_the_same_together_as_alone_whatever_the_pieces() {
    for name in ["llama-f32", "llama-q8_0", "gemma3", "qwen3moe", "phi3"] {
        let (file, expected) = read(name);
        let model = Model::open(&file, None).unwrap();
        for kernels in exact_kernels() {
            let machine = Machine { kernels, pool: &Single };
            let mut requests = Vec::new();
            let mut alone = Vec::new();
            for (index, prompt) in prompts(&expected.ids).into_iter().enumerate() {
                alone.push(likeliest(&model, machine, &prompt, 5 + index));
                requests.push(request(&prompt, 5 + index));
            }
            for (sequences, prefill) in [(1, 64), (2, 7), (4, 1), (6, 3), (6, 128)] {
                let options = Options { sequences, prefill, ..Options::default() };
                let mut generation = Generation::new(&model, machine, options);
                // The second time there is something kept of all.
                for _ in 0..2 {
                    for (found, alone) in run(&mut generation, &requests).iter().zip(&alone) {
                        assert_eq!(found.tokens, *alone, "{name} with {} {sequences} {prefill}", kernels.name());
                        assert_eq!(found.reason(), Finish::Limit);
                        assert_eq!(found.usage().new, alone.len());
                    }
                }
            }
        }
    }
}

#[test]
fn the_likeliest_tokens_are_the_expected_ones_with_all_kernels() {
    let (file, expected) = read("llama-f32");
    let model = Model::open(&file, None).unwrap();
    for kernels in kernels() {
        for prefill in [1, 4, 64] {
            let options = Options { prefill, ..Options::default() };
            let mut generation = Generation::new(&model, Machine { kernels, pool: &Single }, options);
            for found in run(&mut generation, &vec![request(&expected.ids, expected.greedy.len()); 4]) {
                assert_eq!(found.tokens, expected.greedy, "{} {prefill}", kernels.name());
            }
        }
    }
}

#[test]
fn random_tokens_depend_on_the_seed_alone() {
    let (file, expected) = read("llama-f32");
    let model = Model::open(&file, None).unwrap();
    let with = |seed| {
        let sampling =
            Sampling { temperature: 1.5, top_k: 20, top_p: 0.95, min_p: 0.01, repetition_penalty: 1.1, seed };
        Request { sampling, ..request(&expected.ids, 30) }
    };
    let options = Options { prefill: 5, ..Options::default() };
    let alone: Vec<_> = (0..4)
        .map(|seed| run(&mut Generation::new(&model, scalar(), options), &[with(seed)]).remove(0).tokens)
        .collect();
    let together = run(&mut Generation::new(&model, scalar(), options), &[with(0), with(1), with(2), with(3)]);
    for (together, alone) in together.iter().zip(&alone) {
        assert_eq!(together.tokens, *alone);
    }
    assert_ne!(alone[0], alone[1]);
}

#[test]
fn sequences_that_are_written_go_on_while_a_prompt_is_read() {
    let (file, expected) = read("llama-f32");
    let model = Model::open(&file, None).unwrap();
    let mut generation = Generation::new(&model, scalar(), Options { prefill: 3, ..Options::default() });
    let first = generation.submit(request(&[5], 100), None).unwrap();
    generation.step();
    let second = generation.submit(request(&expected.ids, 1), None).unwrap();
    // Two of three tokens of each pass are the prompt's.
    for done in [2, 4, 6, 8] {
        let events = generation.step();
        assert!(events.contains(&(second, Event::Progress { done, total: expected.ids.len() })), "{events:?}");
        assert!(events.iter().any(|(id, event)| *id == first && matches!(event, Event::Token(_))), "{events:?}");
    }
}

#[test]
fn a_prompt_is_read_even_where_all_of_a_pass_is_taken() {
    let (file, expected) = read("llama-f32");
    let model = Model::open(&file, None).unwrap();
    let mut generation = Generation::new(&model, scalar(), Options { prefill: 1, ..Options::default() });
    let requests = [request(&[5], 100), request(&[6], 100), request(&expected.ids, 3)];
    let found = run(&mut generation, &requests);
    assert_eq!(found[2].tokens, expected.greedy[..3]);
    assert_eq!(found[2].steps, 2 + expected.ids.len() + 2);
}

#[test]
fn a_conversation_that_goes_on_does_not_read_its_beginning_again() {
    let (file, expected) = read("llama-f32");
    let model = Model::open(&file, None).unwrap();
    let mut generation = Generation::new(&model, scalar(), Options { prefill: 4, ..Options::default() });
    let first = run_one(&mut generation, request(&expected.ids, 6), None);
    assert_eq!(first.usage(), Usage { prompt: 21, reused: 0, new: 6 });
    assert_eq!(first.progress, [4, 8, 12, 16, 20, 21].map(|done| (done, 21)));

    let prompt = [&expected.ids[..], &first.tokens, &[9, 8, 7]].concat();
    let second = run_one(&mut generation, request(&prompt, 4), None);
    // All but the last of the new tokens had passed through the model.
    assert_eq!(second.usage(), Usage { prompt: 30, reused: 26, new: 4 });
    assert_eq!(second.progress, [(30, 30)]);
    assert_eq!(second.steps, 4);
    assert_eq!(second.tokens, likeliest(&model, scalar(), &prompt, 4));

    // Nothing is left of it once it is forgotten.
    generation.forget();
    assert_eq!(run_one(&mut generation, request(&prompt, 4), None).usage().reused, 0);
}

#[test]
fn keys_and_values_of_bytes_are_taken_over_as_they_are() {
    let (file, expected) = read("gemma3");
    let model = Model::open(&file, None).unwrap();
    let options = Options { cache: Some(CacheType::Q8_0), prefill: 4, ..Options::default() };
    let alone: Vec<_> = prompts(&expected.ids)
        .iter()
        .map(|prompt| run_one(&mut Generation::new(&model, scalar(), options), request(prompt, 6), None).tokens)
        .collect();
    let mut generation = Generation::new(&model, scalar(), options);
    let requests: Vec<_> = prompts(&expected.ids).iter().map(|prompt| request(prompt, 6)).collect();
    for _ in 0..2 {
        let found = run(&mut generation, &requests);
        assert!(found.iter().any(|found| found.usage().reused > 0));
        assert!(found.iter().map(|found| &found.tokens).eq(&alone));
    }
    let cache = |kind| {
        let mut cache = Cache::of_type(kind, model.config(), 16);
        cache.reserve(16).unwrap();
        (cache.token_bytes(), cache.bytes())
    };
    // Seven layers of two heads: 6 numbers of 16 bits for keys and as many for values, or a block of 34 bytes each.
    assert_eq!(cache(CacheType::F16).0, 7 * 2 * 2 * 6 * 2);
    assert_eq!(cache(CacheType::Q8_0).0, 7 * 2 * 2 * 34);
    assert_eq!(cache(CacheType::Q8_0).1, 16 * 7 * 2 * 2 * 34);
}

/// A conversation takes the memory of its tokens, an eighth and 256 tokens besides at most, and at its longest nothing
/// besides.
#[test]
fn keys_and_values_take_little_more_memory_than_their_tokens() {
    let (file, _) = read("llama-f32");
    let model = Model::open(&file, None).unwrap();
    for kind in [CacheType::F16, CacheType::Q8_0] {
        let positions = 8000;
        let mut cache = Cache::of_type(kind, model.config(), positions);
        let (token, mut grown, mut before) = (cache.token_bytes(), 0, 0);
        for length in 1..=positions {
            // As a generation does it: token by token.
            cache.reserve(length).unwrap();
            let tokens = cache.bytes() / token;
            assert!(tokens >= length && tokens <= length + length / 8 + 256, "{length}: {tokens}");
            grown += usize::from(tokens > before);
            before = tokens;
        }
        assert_eq!(cache.bytes(), positions * token);
        assert!(grown < 30, "what it holds was copied {grown} times");
    }
}

#[test]
fn several_sequences_go_on_from_the_same_beginning_each_its_own_way() {
    let (file, expected) = read("llama-q8_0");
    let model = Model::open(&file, None).unwrap();
    let mut generation = Generation::new(&model, scalar(), Options { prefill: 8, ..Options::default() });
    run_one(&mut generation, request(&expected.ids, 1), None);
    let prompts: Vec<Vec<u32>> = (0..4u32).map(|own| [&expected.ids[..15], &[own, own + 1, 3]].concat()).collect();
    for _ in 0..2 {
        let requests: Vec<_> = prompts.iter().map(|prompt| request(prompt, 10)).collect();
        for (prompt, found) in prompts.iter().zip(run(&mut generation, &requests)) {
            assert_eq!(found.tokens, likeliest(&model, scalar(), prompt, 10));
            assert!(found.usage().reused >= 15);
        }
    }
    // And the one that they came from is still what it was.
    let again = run_one(&mut generation, request(&expected.ids, 5), None);
    assert_eq!(again.usage().reused, 20);
    assert_eq!(again.tokens, likeliest(&model, scalar(), &expected.ids, 5));
}

#[test]
fn a_prompt_that_is_being_read_is_not_read_twice() {
    let (file, expected) = read("llama-f32");
    let model = Model::open(&file, None).unwrap();
    let mut generation = Generation::new(&model, scalar(), Options { prefill: 7, kept: 0, ..Options::default() });
    let found = run(&mut generation, &[request(&expected.ids, 8), request(&expected.ids, 8)]);
    assert_eq!(found[0].usage().reused, 0);
    assert_eq!(found[1].usage().reused, 20);
    assert_eq!(found[0].tokens, expected.greedy);
    assert_eq!(found[1].tokens, expected.greedy);
}

#[test]
fn what_is_kept_stays_within_its_memory() {
    let (file, expected) = read("llama-f32");
    let model = Model::open(&file, None).unwrap();
    // Two layers, 16 numbers of 16 bits for keys and as many for values: 128 bytes a token.
    for (kept, reused) in [(0, 0), (128 * 7, 0), (128 * 12, 12), (128 * 20, 20), (1 << 20, 20)] {
        let mut generation = Generation::new(&model, scalar(), Options { kept, ..Options::default() });
        run_one(&mut generation, request(&expected.ids, 1), None);
        let again = run_one(&mut generation, request(&expected.ids, 8), None);
        assert_eq!(again.usage().reused, reused, "{kept}");
        assert_eq!(again.tokens, expected.greedy);
    }
    // If two do not both fit, the one that was used last stays.
    let [one, other, third] = [&expected.ids[..], &expected.ids[1..], &expected.ids[2..]];
    let mut generation = Generation::new(&model, scalar(), Options { kept: 128 * 45, ..Options::default() });
    for (prompt, reused) in [(one, 0), (other, 0), (one, 20), (third, 0), (one, 20), (third, 18), (other, 0)] {
        let found = run_one(&mut generation, request(prompt, 1), None);
        assert_eq!(found.usage().reused, reused);
    }
}

#[test]
fn a_request_is_cancelled_between_two_pieces_of_its_prompt() {
    let (file, expected) = read("llama-f32");
    let model = Model::open(&file, None).unwrap();
    let mut generation = Generation::new(&model, scalar(), Options { prefill: 6, ..Options::default() });
    let id = generation.submit(request(&expected.ids, 8), None).unwrap();
    generation.step();
    let events = generation.step();
    assert_eq!(events, [(id, Event::Progress { done: 12, total: 21 })]);
    generation.cancel(id);
    assert!(!generation.idle());
    let usage = Usage { prompt: 21, reused: 0, new: 0 };
    assert_eq!(generation.step(), [(id, Event::Finish { reason: Finish::Cancelled, usage })]);
    assert!(generation.idle());
    // The tokens that had been read are useful for the next request.
    let again = run_one(&mut generation, request(&expected.ids, 8), None);
    assert_eq!(again.usage().reused, 12);
    assert_eq!(again.tokens, expected.greedy);
}

#[test]
fn a_request_is_cancelled_between_two_tokens_and_others_are_not() {
    let (file, expected) = read("llama-f32");
    let model = Model::open(&file, None).unwrap();
    let mut generation = Generation::new(&model, scalar(), Options { sequences: 2, ..Options::default() });
    let [stays, ends, waits] =
        [8, 100, 100].map(|limit| generation.submit(request(&expected.ids, limit), None).unwrap());
    let mut outcomes = [Outcome::default(), Outcome::default(), Outcome::default()];
    let mut steps = 0;
    while !generation.idle() {
        if outcomes[1].tokens.len() == 3 {
            generation.cancel(ends);
            generation.cancel(waits);
        }
        for (id, event) in generation.step() {
            outcomes[[stays, ends, waits].iter().position(|other| *other == id).unwrap()].note(event);
        }
        steps += 1;
    }
    assert_eq!(outcomes[0].tokens, expected.greedy);
    assert_eq!(outcomes[1].tokens, expected.greedy[..3]);
    assert_eq!(outcomes[1].reason(), Finish::Cancelled);
    assert_eq!(outcomes[1].usage().new, 3);
    assert_eq!(outcomes[2].finish, Some((Finish::Cancelled, Usage { prompt: 21, reused: 0, new: 0 })));
    assert_eq!(outcomes[2].progress, []);
    assert!(steps < 12, "{steps}");
    // It has ended already.
    generation.cancel(ends);
    assert!(generation.idle());
}

#[test]
fn each_cause_of_an_end_is_told_with_what_it_took() {
    let (file, expected) = read("llama-f32");
    let model = Model::open(&file, Some(24)).unwrap();
    let mut generation = Generation::new(&model, scalar(), Options::default());
    let mut end_of = |request: Request| {
        generation.forget();
        let found = run_one(&mut generation, request, None);
        assert_eq!(found.tokens, expected.greedy[..found.tokens.len()]);
        let (reason, usage) = found.finish.unwrap();
        assert_eq!(usage, Usage { prompt: 21, reused: 0, new: found.tokens.len() });
        (reason, usage.new)
    };
    assert_eq!(end_of(request(&expected.ids, 0)), (Finish::Limit, 0));
    assert_eq!(end_of(request(&expected.ids, 2)), (Finish::Limit, 2));
    // 24 tokens pass through the model, and one more follows the last.
    assert_eq!(end_of(request(&expected.ids, 100)), (Finish::Full, 4));
    assert_eq!(end_of(request(&expected.ids, 4)), (Finish::Limit, 4));
    let end = expected.greedy[2];
    let first = expected.greedy.iter().position(|token| *token == end).unwrap();
    assert_eq!(end_of(Request { ends: vec![99, end], ..request(&expected.ids, 100) }), (Finish::End(end), first));

    let full = [&expected.ids[..], &[1, 2, 3]].concat();
    let found = run_one(&mut generation, request(&full, 100), None);
    assert_eq!((found.reason(), found.tokens.len()), (Finish::Full, 1));
}

#[test]
fn what_cannot_be_run_is_refused_in_words() {
    let (file, _) = read("llama-f32");
    let model = Model::open(&file, Some(24)).unwrap();
    let mut generation = Generation::new(&model, scalar(), Options::default());
    let mut refused = |request: Request| generation.submit(request, None).unwrap_err().to_string();
    assert_eq!(refused(request(&[], 1)), "the batch has no tokens; a prompt needs at least one");
    assert_eq!(
        refused(request(&[1; 25], 1)),
        "the prompt has 25 tokens, and the context holds 24; shorten it or make the context longer"
    );
    assert_eq!(refused(request(&[1, 48], 1)), "the token 48 is not in the vocabulary, whose ids end at 47");
    let sampling = Sampling { top_p: f32::NAN, ..Sampling::default() };
    assert_eq!(refused(Request { sampling, ..request(&[1], 1) }), "the top-p is NaN; 0 to 1 is accepted");
    assert!(generation.idle());
}

/// The tokens that a constraint has received.
type Accepted = Rc<RefCell<Vec<u32>>>;

/// Sets of tokens, one after another, and after them all.
struct Script {
    sets: Vec<Vec<u32>>,
    accepted: Accepted,
    bias: Option<(u32, f32)>,
}

impl Constraint for Script {
    fn mask(&mut self, allowed: &mut Mask) -> Result<(), EngineError> {
        assert_eq!(allowed.count(), allowed.tokens());
        if let Some(set) = self.sets.get(self.accepted.borrow().len()) {
            allowed.forbid_all();
            set.iter().for_each(|id| allowed.allow(*id));
        }
        Ok(())
    }

    fn biases(&self) -> Vec<(u32, f32)> {
        self.bias.into_iter().collect()
    }

    fn accept(&mut self, token: u32) -> Result<(), EngineError> {
        if token == 13 {
            return Err(EngineError::Constraint { why: "does not take 13".to_string() });
        }
        self.accepted.borrow_mut().push(token);
        Ok(())
    }
}

fn script(sets: &[&[u32]]) -> (Option<Box<dyn Constraint>>, Accepted) {
    let accepted = Accepted::default();
    let sets = sets.iter().map(|set| set.to_vec()).collect();
    (Some(Box::new(Script { sets, accepted: accepted.clone(), bias: None })), accepted)
}

#[test]
fn only_tokens_that_a_constraint_allows_are_chosen() {
    let (file, expected) = read("llama-f32");
    let model = Model::open(&file, None).unwrap();
    let mut generation = Generation::new(&model, scalar(), Options::default());
    let random = Sampling { temperature: 100.0, ..Sampling::default() };
    for sampling in [Sampling::default(), random] {
        let (constraint, accepted) = script(&[&[4, 5], &[30, 31, 32], &[1, 2]]);
        let found = run_one(&mut generation, Request { sampling, ..request(&expected.ids, 8) }, constraint);
        assert_eq!(found.tokens.len(), 8);
        assert!([4, 5].contains(&found.tokens[0]), "{:?}", found.tokens);
        assert!([30, 31, 32].contains(&found.tokens[1]), "{:?}", found.tokens);
        assert!([1, 2].contains(&found.tokens[2]), "{:?}", found.tokens);
        assert_eq!(*accepted.borrow(), found.tokens);
    }
}

#[test]
fn a_constraint_makes_a_token_likelier_or_less_likely() {
    let (file, expected) = read("llama-f32");
    let model = Model::open(&file, None).unwrap();
    let mut generation = Generation::new(&model, scalar(), Options::default());
    let mut first = |bias| {
        let constraint = Script { sets: vec![vec![4, 5]], accepted: Accepted::default(), bias };
        run_one(&mut generation, request(&expected.ids, 1), Some(Box::new(constraint))).tokens[0]
    };
    let likelier = first(None);
    let other = if likelier == 4 { 5 } else { 4 };
    assert_eq!((first(Some((likelier, -100.0))), first(Some((other, 100.0)))), (other, other));
    assert_eq!((first(Some((likelier, 100.0))), first(Some((48, 100.0)))), (likelier, likelier));
}

#[test]
fn tokens_without_a_choice_go_through_the_model_in_one_pass() {
    let (file, expected) = read("llama-f32");
    let model = Model::open(&file, None).unwrap();
    let mut generation = Generation::new(&model, scalar(), Options::default());
    let (constraint, _) = script(&[&[1, 2], &[3], &[4], &[5], &[1, 2, 3]]);
    let found = run_one(&mut generation, request(&expected.ids, 6), constraint);
    assert_eq!(found.tokens[1..4], [3, 4, 5]);
    // The prompt and the first; that and those three; each of the last two.
    assert_eq!(found.steps, 3);
    let so_far = [&expected.ids[..], &found.tokens[..4]].concat();
    let fifth = [1, 2, 3].contains(&found.tokens[4]).then_some(found.tokens[4]);
    assert!(fifth.is_some(), "{:?}", found.tokens);
    let before = [&so_far[..], &[found.tokens[4]]].concat();
    assert_eq!(found.tokens[5..], likeliest(&model, scalar(), &before, 1));

    // Those that follow the prompt at once go with it, also if a pass has no room for all.
    for prefill in [512, 23, 22, 21, 4] {
        let mut generation = Generation::new(&model, scalar(), Options { prefill, ..Options::default() });
        let (constraint, _) = script(&[&[3], &[4], &[5]]);
        let found = run_one(&mut generation, request(&expected.ids, 5), constraint);
        let all = [&expected.ids[..], &[3, 4, 5]].concat();
        assert_eq!(found.tokens, [&[3, 4, 5], &likeliest(&model, scalar(), &all, 2)[..]].concat(), "{prefill}");
        assert_eq!(found.steps, 24usize.div_ceil(prefill) + 1, "{prefill}");
        assert_eq!(found.progress.last(), Some(&(21, 21)));
        assert_eq!(found.usage(), Usage { prompt: 21, reused: 0, new: 5 });
    }
}

#[test]
fn a_limit_and_an_end_hold_for_tokens_without_a_choice() {
    let (file, expected) = read("llama-f32");
    let model = Model::open(&file, None).unwrap();
    let mut generation = Generation::new(&model, scalar(), Options::default());
    let (constraint, _) = script(&[&[3], &[4], &[5]]);
    let found = run_one(&mut generation, request(&expected.ids, 2), constraint);
    assert_eq!((found.reason(), &found.tokens[..]), (Finish::Limit, &[3, 4][..]));
    let (constraint, accepted) = script(&[&[3], &[4], &[5]]);
    let found = run_one(&mut generation, Request { ends: vec![4], ..request(&expected.ids, 9) }, constraint);
    assert_eq!((found.reason(), &found.tokens[..]), (Finish::End(4), &[3][..]));
    assert_eq!(*accepted.borrow(), [3]);
}

#[test]
fn a_constraint_that_cannot_go_on_is_a_failure_in_words() {
    let (file, expected) = read("llama-f32");
    let model = Model::open(&file, None).unwrap();
    let mut generation = Generation::new(&model, scalar(), Options::default());
    let (constraint, _) = script(&[&[1, 2], &[]]);
    let (bystander, _) = script(&[&[1, 2]]);
    let ids = [
        generation.submit(request(&expected.ids, 6), constraint).unwrap(),
        generation.submit(request(&expected.ids, 6), bystander).unwrap(),
    ];
    let found = finish(&mut generation, &ids);
    let Finish::Failed(error) = found[0].reason() else { panic!("{:?}", found[0]) };
    assert_eq!(error.to_string(), "the constraint allows no token at all here");
    assert_eq!(found[0].usage().new, 1);
    assert_eq!(found[1].reason(), Finish::Limit);

    let (constraint, _) = script(&[&[13]]);
    let Finish::Failed(error) = run_one(&mut generation, request(&expected.ids, 6), constraint).reason() else {
        panic!("13 was taken")
    };
    assert_eq!(error.to_string(), "the constraint does not take 13");
}

#[test]
fn pieces_are_as_large_as_the_clock_allows_and_the_tokens_the_same() {
    let (file, expected) = read("llama-f32");
    let model = Model::open(&file, None).unwrap();
    let prompt = [&expected.ids[..], &expected.ids, &expected.ids, &expected.ids].concat();
    let tokens = likeliest(&model, scalar(), &prompt, 4);
    // Clocks that advance by this much at each reading.
    for (tick, first) in [(1, &[16, 32, 36][..]), (100_000_000, &[16, 6, 6, 6, 6])] {
        let time = RefCell::new(0u64);
        let clock = || {
            *time.borrow_mut() += tick;
            *time.borrow()
        };
        let options = Options { prefill: 42, clock: Some(&clock), ..Options::default() };
        let found = run_one(&mut Generation::new(&model, scalar(), options), request(&prompt, 4), None);
        assert_eq!(found.tokens, tokens);
        let mut before = 0;
        let pieces = found.progress.iter().map(|(done, _)| done - std::mem::replace(&mut before, *done));
        assert!(pieces.take(first.len()).eq(first.iter().copied()), "{:?}", found.progress);
    }
}
