//! The tensors of a model, by their part in it, with shapes as the hyperparameters say.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use crate::architecture::{NormPlace, Presence, RopeLayout};
use crate::config::Config;
use crate::tensor::{Tensor, Tensors};
use crate::{EngineError, limits};

/// A matrix, and the addition to its products.
pub(crate) struct Linear<'a> {
    pub matrix: Tensor<'a>,
    pub bias: Option<Vec<f32>>,
}

impl<'a> Linear<'a> {
    fn plain(matrix: Tensor<'a>) -> Self {
        Self { matrix, bias: None }
    }

    /// Adds the bias to rows of products.
    pub fn add_bias(&self, rows: &mut [f32]) {
        if let Some(bias) = &self.bias {
            for row in rows.chunks_exact_mut(bias.len().max(1)) {
                add(row, bias);
            }
        }
    }
}

/// Adds numbers to others.
pub(crate) fn add(values: &mut [f32], added: &[f32]) {
    for (value, added) in values.iter_mut().zip(added) {
        *value += added;
    }
}

/// A feed-forward part.
pub(crate) struct Dense<'a> {
    pub gate: Option<Linear<'a>>,
    pub up: Linear<'a>,
    pub down: Linear<'a>,
}

impl Dense<'_> {
    /// Bytes of its matrices.
    pub fn bytes(&self) -> u64 {
        let all = self.gate.iter().chain([&self.up, &self.down]);
        all.fold(0, |sum, linear| sum.saturating_add(linear.matrix.bytes().len() as u64))
    }
}

/// The parts of a layer after the attention.
pub(crate) enum FeedForward<'a> {
    Dense(Dense<'a>),
    Experts { router: Tensor<'a>, experts: Vec<Dense<'a>> },
}

/// Norms of each head's query and key.
pub(crate) struct HeadNorms {
    pub query: Vec<f32>,
    pub key: Vec<f32>,
}

/// A norm that subtracts the mean, with biases.
pub(crate) struct LayerNorm {
    pub weights: Vec<f32>,
    pub biases: Vec<f32>,
}

/// Norms of a part of a layer.
#[derive(Default)]
pub(crate) struct PartNorms {
    /// For the state, before the part.
    pub input: Option<Vec<f32>>,
    /// For the result, before it is added to the state.
    pub result: Option<Vec<f32>>,
    /// For the state, after that is added.
    pub sum: Option<LayerNorm>,
}

pub(crate) struct Layer<'a> {
    pub attention_norms: PartNorms,
    pub query: Linear<'a>,
    pub key: Linear<'a>,
    pub value: Linear<'a>,
    pub head_norms: Option<HeadNorms>,
    pub output: Linear<'a>,
    pub feed_forward_norms: PartNorms,
    pub feed_forward: FeedForward<'a>,
}

/// An encoder's additions to the embedding of a token.
pub(crate) struct Input<'a> {
    /// For the one type of tokens that texts are made of.
    pub kind: Option<Vec<f32>>,
    /// A row for each position.
    pub positions: Option<Tensor<'a>>,
    /// For the sum.
    pub norm: LayerNorm,
}

/// Computes logits from the state after the last layer.
pub(crate) struct Head<'a> {
    pub norm: Vec<f32>,
    pub output: Linear<'a>,
}

/// All of them.
pub(crate) struct Weights<'a> {
    pub embedding: Tensor<'a>,
    /// The additions to it, in an encoder.
    pub input: Option<Input<'a>>,
    pub layers: Vec<Layer<'a>>,
    /// None in an encoder.
    pub head: Option<Head<'a>>,
    /// Divisors of the rotary embedding's angles, for the trained context and for a longer one.
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
        let (input, head) = match config.architecture.encoder {
            true => (Some(input(tensors, config)?), None),
            false => {
                let matrix = tensors.matrix("output.weight", config.width, vocabulary)?.unwrap_or(embedding);
                let output = Linear { matrix, bias: tensors.vector("output.bias", vocabulary)? };
                let norm = need(tensors.vector("output_norm.weight", config.width)?, "output_norm.weight")?;
                (None, Some(Head { norm, output }))
            }
        };
        let mut layers = Vec::new();
        for index in 0..config.layers {
            layers.push(LayerNames { tensors, config, prefix: format!("blk.{index}.") }.read()?);
        }
        let pairs = config.rope.dimensions / 2;
        let weights = Self {
            embedding,
            input,
            layers,
            head,
            rope_factors: RopeFactors {
                any: factors(tensors, "rope_freqs.weight", pairs)?,
                short: factors(tensors, "rope_factors_short.weight", pairs)?,
                long: factors(tensors, "rope_factors_long.weight", pairs)?,
            },
        };
        for name in tensors.unused().filter(|name| is_of_the_text(name)) {
            match name.ends_with(".attn_rot_embd") || name.ends_with(".attn_rot_embd.weight") {
                true => check_frequencies(tensors, config, name)?,
                false => return Err(left_alone(name, config)),
            }
        }
        Ok(weights)
    }
}

/// Whether a tensor takes part in the computation of a model of texts, by its name. Others belong to models of pictures
/// and sounds in the same file, and to ranking of texts, which is never computed.
fn is_of_the_text(name: &str) -> bool {
    ["blk.", "output", "token_embd", "token_types", "position_embd", "rope"].iter().any(|part| name.starts_with(part))
}

/// Old files have the rotary embedding's factors again in each layer. It has to be what it is computed with.
fn check_frequencies(tensors: &Tensors<'_, '_>, config: &Config, name: &str) -> Result<(), EngineError> {
    let dimensions = config.rope.dimensions;
    let found = tensors.vector(name, dimensions / 2)?.unwrap_or_default();
    let expected = (0..dimensions).step_by(2).map(|at| libm::powf(config.rope.base, -(at as f32) / dimensions as f32));
    let same = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() <= 1e-2 * expected);
    if same {
        Ok(())
    } else {
        Err(EngineError::tensor(name, "turns by other angles than the file's rope.freq_base says"))
    }
}

/// Why a file with a tensor is refused that the model is not computed with.
fn left_alone(name: &str, config: &Config) -> EngineError {
    let (architecture, layers) = (config.architecture.name, config.layers);
    let layer =
        name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')).and_then(|(index, _)| index.parse().ok());
    let why = match layer {
        Some(layer) if layers <= layer => {
            format!("is of layer {layer}, and '{architecture}.block_count' says that there are {layers}")
        }
        Some(layer) => {
            format!("changes what layer {layer} computes, and '{architecture}' models are computed without it here")
        }
        None => format!("changes all answers, and '{architecture}' models are computed without it here"),
    };
    EngineError::tensor(name, format!("{why}; take a file that was converted without it"))
}

fn missing(name: &str) -> EngineError {
    EngineError::MissingTensor { name: name.to_string() }
}

fn need<T>(found: Option<T>, name: &str) -> Result<T, EngineError> {
    found.ok_or_else(|| missing(name))
}

/// The layer norm of this name.
fn layer_norm(tensors: &Tensors<'_, '_>, name: &str, width: usize) -> Result<LayerNorm, EngineError> {
    let vector = |what: &str| {
        let name = format!("{name}.{what}");
        need(tensors.vector(&name, width)?, &name)
    };
    Ok(LayerNorm { weights: vector("weight")?, biases: vector("bias")? })
}

fn input<'a>(tensors: &Tensors<'_, 'a>, config: &Config) -> Result<Input<'a>, EngineError> {
    let name = "token_types.weight";
    let kind = match tensors.dimensions(name) {
        None => None,
        Some(dimensions) => {
            // A matrix of one row may be written as a vector.
            let rows = dimensions.get(1).copied().unwrap_or(1);
            let types = usize::try_from(rows).ok().filter(|types| config.token_types.is_none_or(|said| said == *types));
            let Some(types) = types else {
                let said = config.token_types.unwrap_or(0);
                let why = format!("has {rows} rows, where '{}' says {said}", crate::config::TOKEN_TYPES);
                return Err(EngineError::tensor(name, why));
            };
            let first = tensors.matrix(name, config.width, types)?;
            first.map(|types| {
                let mut row = alloc::vec![0.0; config.width];
                types.dequantise_row(0, &mut row);
                row
            })
        }
    };
    let name = "position_embd.weight";
    let positions = match config.architecture.rope {
        RopeLayout::None => Some(need(tensors.matrix(name, config.width, config.context)?, name)?),
        _ => None,
    };
    Ok(Input { kind, positions, norm: layer_norm(tensors, "token_embd_norm", config.width)? })
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
        let name = self.name(name, "bias");
        match self.tensors.vector(&name, length)? {
            None if presence == Presence::Required => Err(missing(&name)),
            found => Ok(found),
        }
    }

    fn read(&self) -> Result<Layer<'a>, EngineError> {
        let config = self.config;
        let architecture = &config.architecture;
        let head_norms = match architecture.head_norms {
            false => None,
            true => Some(HeadNorms {
                query: self.vector("attn_q_norm", config.key_size)?,
                key: self.vector("attn_k_norm", config.key_size)?,
            }),
        };
        let [query, key, value] = self.attention()?;
        Ok(Layer {
            attention_norms: self.norms("attn_norm", "post_attention_norm", "attn_output_norm")?,
            query,
            key,
            value,
            head_norms,
            output: self.linear("attn_output", config.mixed(), config.width, architecture.output_biases)?,
            feed_forward_norms: self.norms("ffn_norm", "post_ffw_norm", "layer_output_norm")?,
            feed_forward: self.feed_forward()?,
        })
    }

    /// The norms of a part, each under its name.
    fn norms(&self, input: &str, result: &str, sum: &str) -> Result<PartNorms, EngineError> {
        let width = self.config.width;
        let place = self.config.architecture.norms;
        if place == NormPlace::OfSums {
            let sum = layer_norm(self.tensors, &format!("{}{sum}", self.prefix), width)?;
            return Ok(PartNorms { sum: Some(sum), ..PartNorms::default() });
        }
        let result = match place {
            NormPlace::Around => Some(self.vector(result, width)?),
            _ => None,
        };
        Ok(PartNorms { input: Some(self.vector(input, width)?), result, sum: None })
    }

    fn linear(&self, name: &str, columns: usize, rows: usize, biases: Presence) -> Result<Linear<'a>, EngineError> {
        Ok(Linear { matrix: self.matrix(name, columns, rows)?, bias: self.bias(name, rows, biases)? })
    }

    /// Query, key and value.
    fn attention(&self) -> Result<[Linear<'a>; 3], EngineError> {
        let (config, biases) = (self.config, self.config.architecture.attention_biases);
        let fused = match config.architecture.fused_attention {
            Presence::Required => true,
            Presence::Optional => self.tensors.rows(&self.name("attn_qkv", "weight")).is_some(),
            Presence::Absent => false,
        };
        if fused {
            return self.fused();
        }
        let linear = |name: &str, rows: usize| self.linear(name, config.width, rows, biases);
        Ok([linear("attn_q", config.queries())?, linear("attn_k", config.keys())?, linear("attn_v", config.values())?])
    }

    /// Query, key and value are rows of one matrix, in this order.
    fn fused(&self) -> Result<[Linear<'a>; 3], EngineError> {
        let config = self.config;
        let keys = config.queries().saturating_add(config.keys());
        let all = keys.saturating_add(config.values());
        let both = self.linear("attn_qkv", config.width, all, config.architecture.attention_biases)?;
        let linear = |rows: Range<usize>| Linear {
            matrix: both.matrix.part(rows.clone()),
            bias: both.bias.as_ref().and_then(|bias| bias.get(rows)).map(<[f32]>::to_vec),
        };
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
            let expert = |((gate, up), down)| Dense {
                gate: Some(Linear::plain(gate)),
                up: Linear::plain(up),
                down: Linear::plain(down),
            };
            return Ok(FeedForward::Experts {
                router: self.matrix("ffn_gate_inp", width, experts.count)?,
                experts: gates.into_iter().zip(ups).zip(downs).map(expert).collect(),
            });
        }
        let architecture = &self.config.architecture;
        let linear = |name: &str, columns: usize, rows: usize| {
            self.linear(name, columns, rows, architecture.feed_forward_biases)
        };
        let (gate, up) = match (architecture.gated, architecture.fused_gate) {
            (false, _) => (None, linear("ffn_up", width, inside)?),
            (true, false) => (Some(linear("ffn_gate", width, inside)?), linear("ffn_up", width, inside)?),
            (true, true) => {
                let all = inside.saturating_mul(2);
                let both = self.matrix("ffn_up", width, all)?;
                (Some(Linear::plain(both.part(0..inside))), Linear::plain(both.part(inside..all)))
            }
        };
        Ok(FeedForward::Dense(Dense { gate, up, down: linear("ffn_down", inside, width)? }))
    }
}
