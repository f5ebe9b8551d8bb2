//! Hyperparameters, from the metadata, each of them within bounds.

use alloc::format;
use alloc::string::{String, ToString};
use core::ops::RangeInclusive;

use capos_gguf::{Header, Value};

use crate::architecture::{Architecture, AttentionScale, NormPlace, RopeLayout, WindowPattern};
use crate::rope::{RopeConfig, Scaling, Yarn};
use crate::{EngineError, limits};

/// Experts in place of a feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experts {
    /// How many there are in a layer.
    pub count: usize,
    /// How many of them each token passes through.
    pub used: usize,
}

/// Layers that see only the latest tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Tokens that are seen, the current one with them.
    pub tokens: usize,
    /// Which layers.
    pub pattern: WindowPattern,
}

/// Which vectors of a text's tokens the text's own is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The mean of all.
    Mean,
    /// That of the first token.
    First,
    /// That of the last token.
    Last,
}

/// By how much queries grow with their position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Temperature {
    /// How strongly.
    pub scale: f32,
    /// Number of tokens after which they grow.
    pub length: usize,
}

impl Temperature {
    /// The factor of a query at a position.
    pub fn at(&self, position: usize) -> f32 {
        let lengths = position.checked_div(self.length).unwrap_or(0);
        (1.0 + f64::from(self.scale) * libm::log(1.0 + lengths as f64)) as f32
    }
}

/// The shape of a model.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its architecture.
    pub architecture: Architecture,
    /// Tokens that it was made for.
    pub context: usize,
    /// Width of the state between layers.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Values in a head of queries and keys.
    pub key_size: usize,
    /// Values in a head of values.
    pub value_size: usize,
    /// Width inside the feed-forward part, or inside an expert.
    pub feed_forward: usize,
    /// Experts, if there are any.
    pub experts: Option<Experts>,
    /// Added under the square root of a norm.
    pub norm_epsilon: f32,
    /// The rotary embedding.
    pub rope: RopeConfig,
    /// The rotary embedding of layers with a window.
    pub window_rope: RopeConfig,
    /// Layers with a window, if there are any.
    pub window: Option<Window>,
    /// The factor of scores.
    pub attention_scale: f32,
    /// By how much queries grow with their position, if they do.
    pub attention_temperature: Option<Temperature>,
    /// Bound of the soft cap of scores.
    pub attention_cap: Option<f32>,
    /// Bound of the soft cap of logits.
    pub logit_cap: Option<f32>,
    /// The factor of embeddings.
    pub embedding_scale: f32,
    /// How a text's vector is made; none if the model is to rank texts and not to embed them.
    pub pooling: Option<Pooling>,
    /// Types of tokens, if the file says how many there are.
    pub token_types: Option<usize>,
}

impl Config {
    /// Reads the metadata of a file.
    ///
    /// # Errors
    /// [`EngineError`] if a key is missing or its value is impossible.
    pub fn of(header: &Header<'_>) -> Result<Self, EngineError> {
        let key = "general.architecture";
        let name = match header.get(key) {
            None => return Err(EngineError::MissingEntry { key: key.to_string() }),
            Some(Value::Text(name)) => name,
            Some(_) => return Err(EngineError::entry(key, "is not a text")),
        };
        let architecture = Architecture::of(name)?;
        let entries = Entries { header, architecture: architecture.name };
        let width = entries.need_count("embedding_length", 1..=limits::WIDTH)?;
        let layers = entries.need_count("block_count", 1..=limits::LAYERS)?;
        let heads = entries.need_count("attention.head_count", 1..=limits::HEADS)?;
        let kv_heads = entries.count("attention.head_count_kv", 1..=limits::HEADS)?.unwrap_or(heads);
        if !heads.is_multiple_of(kv_heads) {
            let why = format!("is {kv_heads}, of which {heads} query heads are no multiple");
            return Err(EngineError::entry(&entries.key("attention.head_count_kv"), why));
        }
        let per_head = width.checked_div(heads).filter(|size| size.checked_mul(heads) == Some(width));
        let head_size = |name: &str| -> Result<usize, EngineError> {
            match (entries.count(name, 1..=limits::HEAD_SIZE)?, per_head) {
                (Some(size), _) => Ok(size),
                (None, Some(size)) => Ok(size),
                (None, None) => Err(EngineError::MissingEntry { key: entries.key(name) }),
            }
        };
        let (key_size, value_size) = (head_size("attention.key_length")?, head_size("attention.value_length")?);
        let experts = match architecture.experts {
            false => {
                let key = "expert_count";
                if entries.count(key, 0..=limits::EXPERTS)?.unwrap_or(0) > 0 {
                    let why = "says that there are experts, which this architecture is not computed with here";
                    return Err(EngineError::entry(&entries.key(key), why));
                }
                None
            }
            true => {
                let count = entries.need_count("expert_count", 1..=limits::EXPERTS)?;
                let used = entries.need_count("expert_used_count", 1..=count)?;
                Some(Experts { count, used })
            }
        };
        let inside = if experts.is_some() { "expert_feed_forward_length" } else { "feed_forward_length" };
        let (rope, window_rope) = entries.ropes(&architecture, key_size)?;
        let scaled_by = match architecture.attention_scale {
            AttentionScale::HeadSizeUnlessLayers(known) if known == layers => width as f32 / heads as f32,
            _ => key_size as f32,
        };
        let cap = |name: &str| match architecture.soft_caps {
            true => entries.number(name, 1e-3..=1e6),
            false => Ok(None),
        };
        let epsilon = match architecture.norms {
            NormPlace::OfSums => "attention.layer_norm_epsilon",
            NormPlace::Before | NormPlace::Around => "attention.layer_norm_rms_epsilon",
        };
        entries.check_direction(&architecture)?;
        entries.check_scales(&architecture, scaled_by)?;
        Ok(Self {
            context: entries.need_count("context_length", 1..=limits::CONTEXT)?,
            width,
            layers,
            heads,
            kv_heads,
            key_size,
            value_size,
            feed_forward: entries.need_count(inside, 1..=limits::FEED_FORWARD)?,
            experts,
            norm_epsilon: entries
                .number(epsilon, 0.0..=1.0)?
                .ok_or_else(|| EngineError::MissingEntry { key: entries.key(epsilon) })?,
            rope,
            window_rope,
            window: entries.window(&architecture)?,
            attention_scale: 1.0 / libm::sqrtf(scaled_by),
            attention_temperature: entries.temperature(&architecture)?,
            attention_cap: cap("attn_logit_softcapping")?,
            logit_cap: cap("final_logit_softcapping")?,
            embedding_scale: if architecture.scaled_embedding { libm::sqrtf(width as f32) } else { 1.0 },
            pooling: entries.pooling()?,
            token_types: count_of(header, TOKEN_TYPES, 1..=limits::TOKEN_TYPES)?,
            architecture,
        })
    }

    /// Values of all heads' keys of a token.
    pub fn keys(&self) -> usize {
        self.kv_heads.saturating_mul(self.key_size)
    }

    /// Values of all heads' values of a token.
    pub fn values(&self) -> usize {
        self.kv_heads.saturating_mul(self.value_size)
    }

    /// Values of all heads' queries of a token.
    pub fn queries(&self) -> usize {
        self.heads.saturating_mul(self.key_size)
    }

    /// Values of all heads' results of a token.
    pub fn mixed(&self) -> usize {
        self.heads.saturating_mul(self.value_size)
    }

    /// How many tokens a layer sees, if not all.
    pub fn window_of(&self, layer: usize) -> Option<usize> {
        let window = self.window?;
        let seen = match window.pattern {
            WindowPattern::Never => false,
            WindowPattern::Every => true,
            WindowPattern::AllButLastOf(period) => {
                layer.checked_rem(period).is_some_and(|place| place.saturating_add(1) < period)
            }
        };
        seen.then_some(window.tokens)
    }
}

/// Tokens that the model was trained with before its context was made longer.
const ORIGINAL: &str = "rope.scaling.original_context_length";

/// How many types of tokens there are.
pub(crate) const TOKEN_TYPES: &str = "tokenizer.ggml.token_type_count";

/// The number that a list has for every layer, if it is the same one.
fn same_in_all(value: &Value<'_>) -> Option<u64> {
    let mut counts = value.as_array()?.iter().map(|value| value.as_u64());
    let first = counts.next()??;
    counts.all(|count| count == Some(first)).then_some(first)
}

/// A count within bounds, if it is there.
fn count_of(header: &Header<'_>, key: &str, range: RangeInclusive<usize>) -> Result<Option<usize>, EngineError> {
    let Some(value) = header.get(key) else { return Ok(None) };
    let Some(count) = value.as_u64().or_else(|| same_in_all(&value)) else {
        return Err(EngineError::entry(key, "is not one whole number from 0 on"));
    };
    match usize::try_from(count).ok().filter(|count| range.contains(count)) {
        Some(count) => Ok(Some(count)),
        None => {
            let why = format!("is {count}; {} to {} is accepted", range.start(), range.end());
            Err(EngineError::entry(key, why))
        }
    }
}

/// The entries of one architecture.
struct Entries<'h, 'a> {
    header: &'h Header<'a>,
    architecture: &'static str,
}

impl Entries<'_, '_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    fn count(&self, name: &str, range: RangeInclusive<usize>) -> Result<Option<usize>, EngineError> {
        count_of(self.header, &self.key(name), range)
    }

    fn need_count(&self, name: &str, range: RangeInclusive<usize>) -> Result<usize, EngineError> {
        self.count(name, range)?.ok_or_else(|| EngineError::MissingEntry { key: self.key(name) })
    }

    fn number(&self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f32>, EngineError> {
        let key = self.key(name);
        let Some(value) = self.header.get(&key) else { return Ok(None) };
        let whole = value.as_u64().map(|whole| whole as f64);
        let Some(number) = value.as_f64().or(whole) else {
            return Err(EngineError::entry(&key, "is not a number"));
        };
        // NaN is in no range.
        if !range.contains(&number) {
            let why = format!("is {number}; {} to {} is accepted", range.start(), range.end());
            return Err(EngineError::entry(&key, why));
        }
        Ok(Some(number as f32))
    }

    fn window(&self, architecture: &Architecture) -> Result<Option<Window>, EngineError> {
        let pattern = architecture.window;
        if pattern == WindowPattern::Never {
            return Ok(None);
        }
        let tokens = self.count("attention.sliding_window", 0..=limits::CONTEXT)?.filter(|tokens| *tokens > 0);
        Ok(tokens.map(|tokens| Window { tokens, pattern }))
    }

    /// How a text's vector is made. A file that says nothing, or that tokens stay separate, gets the mean: the result
    /// is one vector for a text.
    fn pooling(&self) -> Result<Option<Pooling>, EngineError> {
        Ok(match self.count("pooling_type", 0..=4)? {
            Some(2) => Some(Pooling::First),
            Some(3) => Some(Pooling::Last),
            Some(4) => None,
            _ => Some(Pooling::Mean),
        })
    }

    /// Whether tokens attend to later ones is the architecture's; a file that says otherwise is of another one.
    fn check_direction(&self, architecture: &Architecture) -> Result<(), EngineError> {
        let key = self.key("attention.causal");
        match self.header.get(&key) {
            None => Ok(()),
            Some(Value::Bool(causal)) if causal != architecture.encoder => Ok(()),
            Some(Value::Bool(causal)) => {
                let why = format!("is {causal}, which this architecture is not computed with here");
                Err(EngineError::entry(&key, why))
            }
            Some(_) => Err(EngineError::entry(&key, "is no truth value")),
        }
    }

    /// Numbers that change all answers, in architectures that are not computed with them here: each must be what changes
    /// nothing.
    fn check_scales(&self, architecture: &Architecture, scaled_by: f32) -> Result<(), EngineError> {
        let caps = architecture.soft_caps;
        for (name, is_read, neutral) in [
            ("embedding_scale", false, &[1.0][..]),
            ("residual_scale", false, &[1.0]),
            ("logit_scale", false, &[1.0]),
            ("expert_weights_scale", false, &[0.0, 1.0]),
            ("expert_shared_count", false, &[0.0]),
            ("attention.scale", false, &[0.0, 1.0 / libm::sqrtf(scaled_by)]),
            ("attention.clamp_kqv", false, &[0.0]),
            ("attention.max_alibi_bias", false, &[0.0]),
            ("attention.temperature_scale", architecture.attention_temperature, &[0.0]),
            ("attn_logit_softcapping", caps, &[0.0]),
            ("final_logit_softcapping", caps, &[0.0]),
        ] {
            let found = if is_read { None } else { self.number(name, f64::from(f32::MIN)..=f64::from(f32::MAX))? };
            if let Some(number) = found
                && !neutral.iter().any(|neutral| (number - neutral).abs() <= 1e-6)
            {
                let why = format!("is {number}, and '{}' models are computed without it here", architecture.name);
                return Err(EngineError::entry(&self.key(name), why));
            }
        }
        Ok(())
    }

    fn temperature(&self, architecture: &Architecture) -> Result<Option<Temperature>, EngineError> {
        let scale = match architecture.attention_temperature {
            true => self.number("attention.temperature_scale", 0.0..=10.0)?,
            false => None,
        };
        let Some(scale) = scale.filter(|scale| *scale > 0.0) else { return Ok(None) };
        let length = self.need_count(ORIGINAL, 1..=limits::CONTEXT)?;
        Ok(Some(Temperature { scale, length }))
    }

    /// The rotary embedding of layers without and with a window.
    fn ropes(&self, architecture: &Architecture, key_size: usize) -> Result<(RopeConfig, RopeConfig), EngineError> {
        let dimensions = match architecture.rope {
            RopeLayout::None => 0,
            _ => self.count("rope.dimension_count", 2..=key_size)?.unwrap_or(key_size),
        };
        if !dimensions.is_multiple_of(2) {
            let why = format!("is {dimensions}, which is not even");
            return Err(EngineError::entry(&self.key("rope.dimension_count"), why));
        }
        let bases = 2.0..=1e12;
        let base = self.number("rope.freq_base", bases.clone())?.unwrap_or(10_000.0);
        let factors = 1e-3..=1e6;
        let factor = match self.number("rope.scaling.factor", factors.clone())? {
            None => self.number("rope.scale_linear", factors)?,
            some => some,
        };
        let original = self.count(ORIGINAL, 0..=limits::CONTEXT)?.unwrap_or(0);
        let key = self.key("rope.scaling.type");
        let scaling = match (self.header.get(&key), factor) {
            (None, None) => Scaling::None,
            (None, Some(factor)) => Scaling::Linear { factor },
            (Some(Value::Text("none" | "longrope" | "llama3")), _) => Scaling::None,
            (Some(Value::Text("linear")), factor) => Scaling::Linear { factor: factor.unwrap_or(1.0) },
            (Some(Value::Text("yarn")), factor) => {
                if original == 0 {
                    return Err(EngineError::entry(&self.key(ORIGINAL), "is 0 or missing, which YaRN scaling needs"));
                }
                Scaling::Yarn(Yarn {
                    factor: factor.unwrap_or(1.0),
                    original,
                    fast: self.number("rope.scaling.yarn_beta_fast", 1e-3..=1e6)?.unwrap_or(32.0),
                    slow: self.number("rope.scaling.yarn_beta_slow", 1e-3..=1e6)?.unwrap_or(1.0),
                    log_multiplier: self.number("rope.scaling.yarn_log_multiplier", 0.0..=1e3)?.unwrap_or(0.0),
                })
            }
            (Some(Value::Text(other)), _) => {
                let why = format!("is '{other}'; known are none, linear, yarn and longrope");
                return Err(EngineError::entry(&key, why));
            }
            (Some(_), _) => return Err(EngineError::entry(&key, "is not a text")),
        };
        let magnitude = self.number("rope.scaling.attn_factor", 1e-3..=1e3)?.unwrap_or(1.0);
        let rope = RopeConfig { layout: architecture.rope, dimensions, base, scaling, magnitude, original };
        let window_rope = match architecture.window_rope_base {
            Some(base) => {
                let base = self.number("rope.freq_base_swa", bases)?.unwrap_or(base);
                RopeConfig { base, scaling: Scaling::None, ..rope }
            }
            None => rope,
        };
        Ok((rope, window_rope))
    }
}
