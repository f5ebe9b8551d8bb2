//! A model's file, made ready for the life of the process, which is that of its model.

use std::time::Instant;

use capos_engine::generation::Options;
use capos_engine::{Machine, Model, kernel};
use capos_engine_threads::Threads;
use capos_inference::{Assistant, Embedder, EmbeddingModel, LanguageModel};
use capos_model::Backend;
use capos_model::memory::{PASS, TOGETHER, kept};
use capos_tokenizer::Tokenizer;

use crate::weights::Weights;

/// A model, and its engine.
pub struct Ready {
    model: ModelOf,
    machine: Machine<'static>,
    options: Options<'static>,
}

/// The use for which a file is opened.
enum ModelOf {
    Language(&'static LanguageModel<'static>),
    Texts(&'static EmbeddingModel<'static>),
}

impl Ready {
    /// Opens a file of a backend that the engine runs, for conversations of at most `context` tokens if that is set.
    /// The process may use `own` bytes, and keeps the tokens of conversations in a part of them.
    ///
    /// # Errors
    /// Why it cannot be run.
    pub fn open(
        weights: Weights,
        backend: &Backend,
        threads: usize,
        context: Option<u32>,
        own: u64,
    ) -> Result<Self, String> {
        let context = context.and_then(|tokens| usize::try_from(tokens).ok());
        let weights: &'static Weights = Box::leak(Box::new(weights));
        let file = weights.bytes();
        let model = match backend {
            Backend::Embedder => {
                EmbeddingModel::open(file, context).map(|model| ModelOf::Texts(Box::leak(Box::new(model))))
            }
            _ => LanguageModel::open(file, context).map(|model| ModelOf::Language(Box::leak(Box::new(model)))),
        };
        let model = model.map_err(|error| error.to_string())?;
        let began = Instant::now();
        let now = move || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let now: &'static dyn Fn() -> u64 = Box::leak(Box::new(now));
        let kernels = kernel::fastest(now);
        let pool = Threads::new(threads).map_err(|error| format!("a thread cannot be started: {error}"))?;
        let kept_bytes = usize::try_from(kept(own)).unwrap_or(usize::MAX);
        let options =
            Options { sequences: TOGETHER, prefill: PASS, kept: kept_bytes, clock: Some(now), ..Options::default() };
        Ok(Self { model, machine: Machine { kernels, pool: Box::leak(Box::new(pool)) }, options })
    }

    /// The engine for conversations; none if the model writes nothing.
    pub fn assistant(&self) -> Option<Assistant<'static>> {
        match self.model {
            ModelOf::Language(model) => Some(Assistant::new(model, self.machine, self.options)),
            ModelOf::Texts(_) => None,
        }
    }

    /// The engine for texts' embeddings.
    ///
    /// # Errors
    /// Why the model is not for that.
    pub fn embedder(&self) -> Result<Embedder<'static>, String> {
        let (model, tokenizer): (&Model<'_>, &Tokenizer) = match self.model {
            ModelOf::Language(model) => (model.model(), model.tokenizer()),
            ModelOf::Texts(model) => (model.model(), model.tokenizer()),
        };
        Embedder::new(model, tokenizer, self.machine, self.options).map_err(|error| error.to_string())
    }
}
