//! A model file, ready to be run.

use alloc::format;
use alloc::vec::Vec;

use capos_gguf::Header;

use crate::EngineError;
use crate::cache::CacheType;
use crate::config::Config;
use crate::kernel::Kernels;
use crate::rope::Rope;
use crate::tensor::{Tensor, Tensors};
use crate::weights::{Layer, Weights};

/// A model whose weights are in the file's mapping.
pub struct Model<'a> {
    pub(crate) config: Config,
    pub(crate) weights: Weights<'a>,
    pub(crate) rope: Rope,
    pub(crate) window_rope: Rope,
    context: usize,
    unused: Vec<&'a str>,
}

impl<'a> Model<'a> {
    /// Reads a whole file. Sequences are to have at most `context` tokens, or as many as the model was made for.
    ///
    /// # Errors
    /// [`EngineError`] if the file is malformed, or not one that the engine can run.
    pub fn open(file: &'a [u8], context: Option<usize>) -> Result<Self, EngineError> {
        let header = Header::parse(file, file.len() as u64)?;
        Self::new(&header, file, context)
    }

    /// The same of a file whose header was read before.
    ///
    /// # Errors
    /// As [`Model::open`].
    pub fn new(header: &Header<'a>, file: &'a [u8], context: Option<usize>) -> Result<Self, EngineError> {
        let config = Config::of(header)?;
        let tensors = Tensors::new(header, file);
        let weights = Weights::of(&tensors, &config)?;
        let (rows, tokens) = (weights.embedding.rows(), header.facts().vocabulary);
        if usize::try_from(tokens).map_or(true, |tokens| tokens > rows) {
            let why = format!("has {rows} rows, and the vocabulary has {tokens} tokens, each of which needs one");
            return Err(EngineError::tensor("token_embd.weight", why));
        }
        // If positions have rows, there are no others.
        let positions = weights.input.as_ref().and_then(|input| input.positions);
        let most = positions.map_or(crate::limits::CONTEXT, |positions| positions.rows());
        let context = context.unwrap_or(config.context).clamp(1, most);
        let factors = &weights.rope_factors;
        // Without a note of the trained context, the model's full context counts as long.
        let by_length = if context > config.rope.original { &factors.long } else { &factors.short };
        let rope = Rope::new(&config.rope, by_length.as_ref().or(factors.any.as_ref()).map(Vec::as_slice));
        let window_rope = match config.window_rope == config.rope {
            true => rope.clone(),
            false => Rope::new(&config.window_rope, None),
        };
        Ok(Self { config, weights, rope, window_rope, context, unused: tensors.unused().collect() })
    }

    /// Its shape.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The names of tensors in the file that this model does not use: those of additional models that do not affect its
    /// answers.
    pub fn unused(&self) -> &[&'a str] {
        &self.unused
    }

    /// Most tokens of a sequence.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Tokens in the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.weights.embedding.rows()
    }

    /// Checks that the vocabulary has a token.
    pub(crate) fn check(&self, id: u32) -> Result<(), EngineError> {
        let vocabulary = self.vocabulary();
        let known = usize::try_from(id).is_ok_and(|row| row < vocabulary);
        if known { Ok(()) } else { Err(EngineError::Token { id, vocabulary }) }
    }

    /// Whether it can write: it computes how likely each token is after others. One that cannot embeds texts.
    pub fn writes(&self) -> bool {
        self.weights.head.is_some()
    }

    /// How keys and values are kept by default: as the kernels are fastest with. If the layers' weights are floating
    /// point numbers, keys and values are too, since bytes would be far less precise than all else.
    pub fn cache_type(&self, kernels: &dyn Kernels) -> CacheType {
        let is_float = |layer: &Layer<'_>| {
            [&layer.query, &layer.key, &layer.value, &layer.output].iter().all(|linear| linear.matrix.kind().is_float())
        };
        match self.weights.layers.iter().all(is_float) {
            true => CacheType::F16,
            false => kernels.cache(),
        }
    }

    /// Whether embedding and output are one matrix.
    pub fn tied_output(&self) -> bool {
        let head = self.weights.head.as_ref();
        head.is_some_and(|head| core::ptr::eq(self.weights.embedding.bytes(), head.output.matrix.bytes()))
    }

    /// Bytes of weights that are read for each token, when tokens come one at a time.
    pub fn bytes_per_token(&self) -> u64 {
        use crate::weights::FeedForward;
        let bytes = |tensor: &Tensor<'_>| tensor.bytes().len() as u64;
        let mut total = self.weights.head.as_ref().map_or(0, |head| bytes(&head.output.matrix));
        for layer in &self.weights.layers {
            let attention = [&layer.query, &layer.key, &layer.value, &layer.output];
            let attention = attention.iter().fold(0u64, |sum, linear| sum.saturating_add(bytes(&linear.matrix)));
            let feed_forward = match &layer.feed_forward {
                FeedForward::Dense(dense) => dense.bytes(),
                FeedForward::Experts { router, experts } => {
                    let used = self.config.experts.map_or(0, |experts| experts.used);
                    experts.iter().take(used).fold(bytes(router), |sum, dense| sum.saturating_add(dense.bytes()))
                }
            };
            total = total.saturating_add(attention).saturating_add(feed_forward);
        }
        total
    }
}
