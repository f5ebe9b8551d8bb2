//! The tensors of a model, by their part in it, with shapes as the hyperparameters say.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use crate::architecture::Presence;
use crate::config::Config;
use crate::tensor::{Tensor, Tensors};
use crate::{EngineError, limits};

/// A matrix, and what is added to its products.
pub(crate) struct Linear<'a> {
    pub matrix: Tensor<'a>,
    pub bias: Option<Vec<f32>>,
}

/// A feed-forward part.
pub(crate) struct Dense<'a> {
    pub gate: Tensor<'a>,
    pub up: Tensor<'a>,
    pub down: Tensor<'a>,
}

/// What stands behind the attention of a layer.
pub(crate) enum FeedForward<'a> {
    Dense(Dense<'a>),
    Experts { router: Tensor<'a>, experts: Vec<Dense<'a>> },
}

/// Norms of each head's query and key.
pub(crate) struct HeadNorms {
    pub query: Vec<f32>,
    pub key: Vec<f32>,
}

/// Norms behind attention and feed-forward.
pub(crate) struct PostNorms {
    pub attention: Vec<f32>,
    pub feed_forward: Vec<f32>,
}

pub(crate) struct Layer<'a> {
    pub attention_norm: Vec<f32>,
    pub query: Linear<'a>,
    pub key: Linear<'a>,
    pub value: Linear<'a>,
    pub head_norms: Option<HeadNorms>,
    pub output: Linear<'a>,
    pub feed_forward_norm: Vec<f32>,
    pub feed_forward: FeedForward<'a>,
    pub post_norms: Option<PostNorms>,
}

/// All of them.
pub(crate) struct Weights<'a> {
    pub embedding: Tensor<'a>,
    pub layers: Vec<Layer<'a>>,
    pub norm: Vec<f32>,
    pub output: Tensor<'a>,
    /// What divides the angles of the rotary embedding, for the trained context and for a longer one.
    pub rope_factors: RopeFactors,
}

/// See [`Weights::rope_factors`].
#[derive(Default)]
pub(crate) struct RopeFactors {
    pub any: Option<Vec<f32>>,
    pub short: Option<Vec<f32>>,
    pub long: Option<Vec<f32>>,
}

impl<'a> Weights<'a> {
    pub fn of(tensors: &Tensors<'_, 'a>, config: &Config) -> Result<Self, EngineError> {
        let name = "token_embd.weight";
        let rows = tensors.rows(name).ok_or_else(|| missing(name))?;
        let vocabulary = usize::try_from(rows).ok().filter(|rows| *rows <= limits::VOCABULARY);
        let Some(vocabulary) = vocabulary else {
            let why = format!("has {rows} rows; at most {} are accepted", limits::VOCABULARY);
            return Err(EngineError::tensor(name, why));
        };
        let embedding = need(tensors.matrix(name, config.width, vocabulary)?, name)?;
        let output = tensors.matrix("output.weight", config.width, vocabulary)?.unwrap_or(embedding);
        let mut layers = Vec::new();
        for index in 0..config.layers {
            layers.push(LayerNames { tensors, config, prefix: format!("blk.{index}.") }.read()?);
        }
        let pairs = config.rope.dimensions / 2;
        Ok(Self {
            embedding,
            layers,
            norm: need(tensors.vector("output_norm.weight", config.width)?, "output_norm.weight")?,
            output,
            rope_factors: RopeFactors {
                any: factors(tensors, "rope_freqs.weight", pairs)?,
                short: factors(tensors, "rope_factors_short.weight", pairs)?,
                long: factors(tensors, "rope_factors_long.weight", pairs)?,
            },
        })
    }
}

fn missing(name: &str) -> EngineError {
    EngineError::MissingTensor { name: name.to_string() }
}

fn need<T>(found: Option<T>, name: &str) -> Result<T, EngineError> {
    found.ok_or_else(|| missing(name))
}

/// Numbers that angles are divided by; one that is not positive would make them meaningless.
fn factors(tensors: &Tensors<'_, '_>, name: &str, pairs: usize) -> Result<Option<Vec<f32>>, EngineError> {
    let factors = tensors.vector(name, pairs)?;
    match factors.iter().flatten().all(|factor| factor.is_finite() && *factor > 0.0) {
        true => Ok(factors),
        false => Err(EngineError::tensor(name, "has a factor that is not a positive number")),
    }
}

/// The tensors of one layer.
struct LayerNames<'t, 'h, 'a> {
    tensors: &'t Tensors<'h, 'a>,
    config: &'t Config,
    prefix: String,
}

impl<'a> LayerNames<'_, '_, 'a> {
    fn name(&self, name: &str, what: &str) -> String {
        format!("{}{name}.{what}", self.prefix)
    }

    fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, EngineError> {
        let name = self.name(name, "weight");
        need(self.tensors.vector(&name, length)?, &name)
    }

    fn matrix(&self, name: &str, columns: usize, rows: usize) -> Result<Tensor<'a>, EngineError> {
        let name = self.name(name, "weight");
        need(self.tensors.matrix(&name, columns, rows)?, &name)
    }

    fn bias(&self, name: &str, length: usize, presence: Presence) -> Result<Option<Vec<f32>>, EngineError> {
        if presence == Presence::Absent {
            return Ok(None);
        }
        let name = self.name(name, "bias");
        match self.tensors.vector(&name, length)? {
            None if presence == Presence::Required => Err(missing(&name)),
            found => Ok(found),
        }
    }

    fn read(&self) -> Result<Layer<'a>, EngineError> {
        let config = self.config;
        let architecture = &config.architecture;
        let [query, key, value] = if architecture.fused { self.fused()? } else { self.separate()? };
        let head_norms = match architecture.head_norms {
            false => None,
            true => Some(HeadNorms {
                query: self.vector("attn_q_norm", config.key_size)?,
                key: self.vector("attn_k_norm", config.key_size)?,
            }),
        };
        let post_norms = match architecture.post_norms {
            false => None,
            true => Some(PostNorms {
                attention: self.vector("post_attention_norm", config.width)?,
                feed_forward: self.vector("post_ffw_norm", config.width)?,
            }),
        };
        let optional = match architecture.attention_biases {
            Presence::Optional => Presence::Optional,
            _ => Presence::Absent,
        };
        Ok(Layer {
            attention_norm: self.vector("attn_norm", config.width)?,
            query,
            key,
            value,
            head_norms,
            output: Linear {
                matrix: self.matrix("attn_output", config.mixed(), config.width)?,
                bias: self.bias("attn_output", config.width, optional)?,
            },
            feed_forward_norm: self.vector("ffn_norm", config.width)?,
            feed_forward: self.feed_forward()?,
            post_norms,
        })
    }

    fn separate(&self) -> Result<[Linear<'a>; 3], EngineError> {
        let config = self.config;
        let linear = |name: &str, rows: usize| -> Result<Linear<'a>, EngineError> {
            let matrix = self.matrix(name, config.width, rows)?;
            Ok(Linear { matrix, bias: self.bias(name, rows, config.architecture.attention_biases)? })
        };
        Ok([linear("attn_q", config.queries())?, linear("attn_k", config.keys())?, linear("attn_v", config.values())?])
    }

    /// Query, key and value are rows of one matrix, in this order.
    fn fused(&self) -> Result<[Linear<'a>; 3], EngineError> {
        let config = self.config;
        let keys = config.queries().saturating_add(config.keys());
        let all = keys.saturating_add(config.values());
        let matrix = self.matrix("attn_qkv", config.width, all)?;
        let linear = |rows: Range<usize>| Linear { matrix: matrix.part(rows), bias: None };
        Ok([linear(0..config.queries()), linear(config.queries()..keys), linear(keys..all)])
    }

    fn feed_forward(&self) -> Result<FeedForward<'a>, EngineError> {
        let (width, inside) = (self.config.width, self.config.feed_forward);
        if let Some(experts) = self.config.experts {
            let stack = |name: &str, columns: usize, rows: usize| {
                let name = self.name(name, "weight");
                need(self.tensors.stack(&name, columns, rows, experts.count)?, &name)
            };
            let gates = stack("ffn_gate_exps", width, inside)?;
            let ups = stack("ffn_up_exps", width, inside)?;
            let downs = stack("ffn_down_exps", inside, width)?;
            let parts = gates.into_iter().zip(ups).zip(downs);
            return Ok(FeedForward::Experts {
                router: self.matrix("ffn_gate_inp", width, experts.count)?,
                experts: parts.map(|((gate, up), down)| Dense { gate, up, down }).collect(),
            });
        }
        let (gate, up) = match self.config.architecture.fused {
            true => {
                let all = inside.saturating_mul(2);
                let both = self.matrix("ffn_up", width, all)?;
                (both.part(0..inside), both.part(inside..all))
            }
            false => (self.matrix("ffn_gate", width, inside)?, self.matrix("ffn_up", width, inside)?),
        };
        Ok(FeedForward::Dense(Dense { gate, up, down: self.matrix("ffn_down", inside, width)? }))
    }
}
