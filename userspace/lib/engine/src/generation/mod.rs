//! Requests in progress in one model.
//!
//! Each [`Generation::step`] is one pass: a token of every sequence that is being written, and after these a piece of
//! the prompts that are being read. A pass is bounded work, so a cancellation between two of them waits for one only. A
//! prompt that begins like another sequence takes over that one's keys and values ([`Options::kept`]).
//!
//! With the kernels `scalar`, `swar` and `sse41`, a request's result does not depend on other requests or on the
//! pieces, to the last bit. `avx2`, `avx512` and `amx` add in another order when a pass has two or more tokens. Two
//! tokens that are almost equally likely may then change places.

mod prefixes;
mod request;
mod sequence;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

pub use request::{Constraint, Event, Finish, Request, RequestId, Usage};

use crate::EngineError;
use crate::batch::Batch;
use crate::cache::{Cache, CacheType};
use crate::forward::Forward;
use crate::model::Model;
use crate::pace::Pace;
use crate::product::Machine;
use prefixes::{LEAST_SHARED, Prefixes, common};
use sequence::{Events, Sequence};

/// How requests are run.
#[derive(Clone, Copy)]
pub struct Options<'m> {
    /// Most requests that are run together; others wait.
    pub sequences: usize,
    /// Most tokens of a pass.
    pub prefill: usize,
    /// Most bytes of keys and values that are kept of sequences that have ended.
    pub kept: usize,
    /// How keys and values are kept; as [`Model::cache_type`] if not set.
    pub cache: Option<CacheType>,
    /// Nanoseconds since a time that stays the same. If it is set, a pass has only as many of [`Options::prefill`]
    /// tokens as take some 40 ms, but at least six.
    pub clock: Option<&'m dyn Fn() -> u64>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { sequences: 4, prefill: 512, kept: 64 << 20, cache: None, clock: None }
    }
}

/// Requests to one model, and the kept sequences of ended ones.
pub struct Generation<'m> {
    model: &'m Model<'m>,
    machine: Machine<'m>,
    sequences: usize,
    cache: CacheType,
    pace: Pace<'m>,
    prefixes: Prefixes,
    forward: Forward,
    /// Requests that no sequence is free for, in their order.
    waiting: VecDeque<Sequence>,
    /// Requests that are run, in their order, and a cache for each.
    running: Vec<Sequence>,
    caches: Vec<Cache>,
    requests: u64,
}

impl<'m> Generation<'m> {
    /// Without requests.
    pub fn new(model: &'m Model<'m>, machine: Machine<'m>, options: Options<'m>) -> Self {
        Self {
            model,
            machine,
            sequences: options.sequences.max(1),
            cache: options.cache.unwrap_or_else(|| model.cache_type(machine.kernels)),
            pace: Pace::new(options.clock, options.prefill),
            prefixes: Prefixes::new(options.kept),
            forward: Forward::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            caches: Vec::new(),
            requests: 0,
        }
    }

    /// Takes a request, whose new tokens have to be as `constraint` says, if there is one.
    ///
    /// # Errors
    /// [`EngineError`] if it cannot be run: the model generates no text, the prompt is empty or too long, or
    /// has unknown tokens, or a sampler setting is out of range.
    pub fn submit(
        &mut self,
        request: Request,
        constraint: Option<Box<dyn Constraint>>,
    ) -> Result<RequestId, EngineError> {
        let (vocabulary, context) = (self.model.vocabulary(), self.model.context());
        if !self.model.writes() {
            return Err(EngineError::WritesNothing);
        }
        if request.prompt.is_empty() {
            return Err(EngineError::Batch { why: "has no tokens; a prompt needs at least one" });
        }
        if request.prompt.len() > context {
            return Err(EngineError::Prompt { tokens: request.prompt.len(), positions: context });
        }
        self.check(&request.prompt)?;
        let id = RequestId(self.requests);
        self.waiting.push_back(Sequence::new(id, request, constraint, vocabulary, context)?);
        self.requests = self.requests.wrapping_add(1);
        Ok(id)
    }

    /// Ends a request. The next step reports that; a request that has ended already is unchanged.
    pub fn cancel(&mut self, id: RequestId) {
        let all = self.waiting.iter_mut().chain(&mut self.running);
        if let Some(sequence) = all.into_iter().find(|sequence| sequence.id == id) {
            sequence.finish = Some(Finish::Cancelled);
        }
    }

    /// Whether there is nothing to do: every request has ended, and that has been reported.
    pub fn idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Requests that have not ended.
    pub fn requests(&self) -> usize {
        self.waiting.len().saturating_add(self.running.len())
    }

    /// Forgets the kept sequences of ended requests, and frees their memory.
    pub fn forget(&mut self) {
        self.prefixes.clear();
    }

    /// Whether the vocabulary has all of these tokens.
    fn check(&self, tokens: &[u32]) -> Result<(), EngineError> {
        let vocabulary = self.model.vocabulary();
        let unknown = |id: &&u32| usize::try_from(**id).map_or(true, |id| id >= vocabulary);
        tokens.iter().find(unknown).map_or(Ok(()), |id| Err(EngineError::Token { id: *id, vocabulary }))
    }

    /// Keeps what [`Cache::to_bytes`] gave for these tokens, as if a request with them had ended.
    ///
    /// # Errors
    /// [`EngineError::Stored`] if the bytes are not of these tokens and a model like this, [`EngineError::Token`] if it
    /// has not these tokens, [`EngineError::Full`] if they are more than its context, [`EngineError::Memory`] if there is
    /// no memory for them.
    pub fn preload(&mut self, tokens: Vec<u32>, bytes: &[u8]) -> Result<(), EngineError> {
        self.check(&tokens)?;
        let lengths = (tokens.len(), self.model.context());
        let cache = Cache::from_bytes(self.cache, self.model.config(), self.machine.kernels, lengths, bytes)?;
        self.prefixes.keep(tokens, cache);
        Ok(())
    }

    /// Makes one pass, if there is something to do, and returns what happened.
    pub fn step(&mut self) -> Vec<(RequestId, Event)> {
        let mut events = Events::new();
        // Those that were cancelled leave room for others.
        self.retire(&mut events);
        while self.running.len() < self.sequences
            && let Some(sequence) = self.waiting.pop_front()
        {
            self.running.push(sequence);
            self.caches.push(Cache::of_type(self.cache, self.model.config(), self.model.context()));
        }
        let shares = self.share(&mut events);
        self.pass(shares, &mut events);
        self.retire(&mut events);
        events
    }

    /// Reports requests that have ended, and keeps their sequences.
    fn retire(&mut self, events: &mut Events) {
        let ended = |sequence: &Sequence| sequence.finish.is_some();
        while let Some(mut sequence) = self.waiting.iter().position(ended).and_then(|at| self.waiting.remove(at)) {
            sequence.tell_end(events);
        }
        while let Some(at) = self.running.iter().position(ended) {
            let (mut sequence, cache) = (self.running.remove(at), self.caches.remove(at));
            sequence.tell_end(events);
            self.prefixes.keep(sequence.tokens, cache);
        }
    }

    /// Says which tokens go through the model in the next pass.
    fn share(&mut self, events: &mut Events) -> Vec<Share> {
        let mut left = self.pace.tokens();
        let mut shares = Vec::new();
        let place =
            |(index, (sequence, cache)): (usize, (&Sequence, &Cache))| (index, cache.length() < sequence.usage.prompt);
        let all = self.running.iter().zip(&self.caches).enumerate().map(place);
        let (read, written): (Vec<_>, Vec<_>) = all.partition(|(_, reading)| *reading);
        // One token of each sequence that is being written is in every pass, and one of a prompt.
        for (index, _) in written {
            left = left.saturating_sub(self.share_of(index, left.max(1), &mut shares));
        }
        left = left.max(1);
        for (index, _) in read {
            if left == 0 {
                break;
            }
            self.adopt(index);
            self.force(index, left, events);
            left = left.saturating_sub(self.share_of(index, left, &mut shares));
        }
        shares
    }

    /// Adds the next tokens of a sequence, at most `most`, and says how many they are.
    fn share_of(&mut self, index: usize, most: usize, shares: &mut Vec<Share>) -> usize {
        let (Some(sequence), Some(cache)) = (self.running.get_mut(index), self.caches.get_mut(index)) else { return 0 };
        let first = cache.length();
        let left = sequence.tokens.len().saturating_sub(first);
        let count = left.min(most);
        if sequence.finish.is_some() || count == 0 {
            return 0;
        }
        let mut room = cache.reserve(count);
        // Kept sequences have no use until then; running ones do.
        if room.is_err() && self.prefixes.clear() {
            room = cache.reserve(count);
        }
        if let Err(error) = room {
            sequence.fail(error);
            return 0;
        }
        shares.push(Share { index, first, count, last: count == left });
        count
    }

    /// Adds what must follow a prompt that is about to be read to its end, so that both pass through the model
    /// together.
    fn force(&mut self, index: usize, most: usize, events: &mut Events) {
        let (Some(sequence), Some(cache)) = (self.running.get_mut(index), self.caches.get(index)) else { return };
        if sequence.usage.new == 0 && sequence.tokens.len().saturating_sub(cache.length()) <= most {
            sequence.add_forced(events);
        }
    }

    /// Takes over keys and values of another sequence that begins like this one, if that saves some.
    fn adopt(&mut self, index: usize) {
        let (Some(sequence), Some(cache)) = (self.running.get(index), self.caches.get(index)) else { return };
        let least = cache.length().saturating_add(LEAST_SHARED);
        let Some((_, tokens)) = sequence.tokens.split_last().filter(|(_, tokens)| tokens.len() >= least) else {
            return;
        };
        let others = self.running.iter().zip(&self.caches);
        let shared = others.map(|(other, cache)| (common(&other.tokens, tokens).min(cache.length()), cache));
        let running = shared.max_by_key(|(shared, _)| *shared).filter(|(shared, _)| *shared >= least);
        let more_than = running.map_or(least.saturating_sub(1), |(shared, _)| shared);
        let found = match self.prefixes.find(&sequence.tokens, more_than) {
            None => running.and_then(|(shared, cache)| cache.copy(shared).ok()),
            kept => kept,
        };
        let (Some(found), Some(sequence), Some(cache)) =
            (found, self.running.get_mut(index), self.caches.get_mut(index))
        else {
            return;
        };
        let more = found.length().min(sequence.usage.prompt).saturating_sub(cache.length());
        sequence.usage.reused = sequence.usage.reused.saturating_add(more);
        *cache = found;
    }

    /// Takes tokens through the model and chooses those that follow.
    fn pass(&mut self, shares: Vec<Share>, events: &mut Events) {
        let mut batch = Batch::new();
        for Share { index, first, count, last } in &shares {
            let tokens = self.running.get(*index).and_then(|sequence| sequence.tokens.get(*first..));
            for (place, id) in (1..=*count).zip(tokens.unwrap_or(&[])) {
                batch.push(*id, *index, *last && place == *count);
            }
        }
        let count = batch.tokens().len();
        if count == 0 {
            return;
        }
        let began = self.pace.now();
        let (logits, failed) = match self.forward.pass(self.model, self.machine, &batch, &mut self.caches) {
            Ok(logits) => (logits, None),
            Err(error) => (&[][..], Some(error)),
        };
        let mut rows = logits.chunks_exact(self.model.vocabulary().max(1));
        for Share { index, first, count, last } in shares {
            let Some(sequence) = self.running.get_mut(index) else { continue };
            if let Some(error) = &failed {
                sequence.fail(error.clone());
                continue;
            }
            let total = sequence.usage.prompt;
            if first < total {
                let done = first.saturating_add(count).min(total);
                events.push((sequence.id, Event::Progress { done, total }));
            }
            if last {
                sequence.choose(rows.next().unwrap_or(&[]), events);
            }
        }
        self.pace.passed(count, began);
    }
}

/// Tokens of a sequence that are in the next pass.
struct Share {
    /// Which of those that are run.
    index: usize,
    /// The place of the first.
    first: usize,
    count: usize,
    /// Whether the sequence's last token is in it, after which the next is chosen.
    last: bool,
}
