//! The differences between architectures, as data.

use alloc::string::String;

use crate::EngineError;

/// Which values of a head are turned together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeLayout {
    /// Each with its neighbour.
    Neighbours,
    /// Each of the first half with the one in the same place of the second.
    Halves,
    /// None: the file has a vector for each position, which is added to the token's.
    None,
}

/// The activation function of the gate of a feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x · sigmoid(x)`
    Silu,
    /// The approximation of GELU with tanh.
    Gelu,
}

/// Whether something is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It must be.
    Required,
    /// It is used if it is there.
    Optional,
    /// It is not looked for.
    Absent,
}

/// Where norms are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormPlace {
    /// Before attention and feed-forward.
    Before,
    /// Before and after them.
    Around,
    /// Norms of the state after the addition of their results: layer norms, with biases.
    OfSums,
}

/// Which layers see only the latest tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowPattern {
    /// None, whatever the file says.
    Never,
    /// All, if the file names a window.
    Every,
    /// All but the last of every N.
    AllButLastOf(usize),
}

/// The scale of attention is one over the square root of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionScale {
    /// The size of a head.
    HeadSize,
    /// The size of a head, except in the model with this many layers, if it is the width by the number of heads.
    HeadSizeUnlessLayers(usize),
}

/// An architecture.
#[derive(Clone, Copy, Debug)]
pub struct Architecture {
    /// The value of `general.architecture`.
    pub name: &'static str,
    /// Layout of the rotary embedding.
    pub rope: RopeLayout,
    /// Biases of the query, key and value products.
    pub attention_biases: Presence,
    /// Biases of the products with the attention's result.
    pub output_biases: Presence,
    /// Biases of the feed-forward products.
    pub feed_forward_biases: Presence,
    /// Norms of each head's query and key.
    pub head_norms: bool,
    /// Norms of the state between layers.
    pub norms: NormPlace,
    /// Query, key and value in one matrix.
    pub fused_attention: Presence,
    /// Gate and up in one matrix.
    pub fused_gate: bool,
    /// The input of the feed-forward part passes through a gate.
    pub gated: bool,
    /// Experts in place of the feed-forward part.
    pub experts: bool,
    /// Activation of the gate.
    pub activation: Activation,
    /// Embeddings are multiplied by the square root of their width.
    pub scaled_embedding: bool,
    /// Soft caps of attention scores and logits.
    pub soft_caps: bool,
    /// Layers with a window.
    pub window: WindowPattern,
    /// Base of the rotary embedding in layers with a window, if it is another.
    pub window_rope_base: Option<f32>,
    /// Scale of attention.
    pub attention_scale: AttentionScale,
    /// Queries far past the trained context are made larger, if the file says by how much.
    pub attention_temperature: bool,
    /// Tokens attend to later ones as well. Such a model embeds texts and writes none: it has no output matrix.
    pub encoder: bool,
}

const LLAMA: Architecture = Architecture {
    name: "llama",
    rope: RopeLayout::Neighbours,
    attention_biases: Presence::Optional,
    output_biases: Presence::Optional,
    feed_forward_biases: Presence::Optional,
    head_norms: false,
    norms: NormPlace::Before,
    fused_attention: Presence::Absent,
    fused_gate: false,
    gated: true,
    experts: false,
    activation: Activation::Silu,
    scaled_embedding: false,
    soft_caps: false,
    window: WindowPattern::Never,
    window_rope_base: None,
    attention_scale: AttentionScale::HeadSize,
    attention_temperature: false,
    encoder: false,
};

const QWEN3: Architecture = Architecture { name: "qwen3", rope: RopeLayout::Halves, head_norms: true, ..LLAMA };

const GEMMA2: Architecture = Architecture {
    name: "gemma2",
    rope: RopeLayout::Halves,
    norms: NormPlace::Around,
    activation: Activation::Gelu,
    scaled_embedding: true,
    soft_caps: true,
    window: WindowPattern::AllButLastOf(2),
    attention_scale: AttentionScale::HeadSizeUnlessLayers(46),
    ..LLAMA
};

/// The value in embedders such as bge and all-MiniLM.
const BERT: Architecture = Architecture {
    name: "bert",
    rope: RopeLayout::None,
    attention_biases: Presence::Required,
    output_biases: Presence::Required,
    feed_forward_biases: Presence::Required,
    norms: NormPlace::OfSums,
    fused_attention: Presence::Optional,
    gated: false,
    activation: Activation::Gelu,
    encoder: true,
    ..LLAMA
};

/// All that the engine knows. Files of Mistral models say `llama`, those of Ministral 3 `mistral3`.
const KNOWN: [Architecture; 10] = [
    LLAMA,
    Architecture { name: "mistral3", attention_temperature: true, ..LLAMA },
    Architecture { name: "qwen2", rope: RopeLayout::Halves, attention_biases: Presence::Required, ..LLAMA },
    QWEN3,
    Architecture { name: "qwen3moe", experts: true, ..QWEN3 },
    Architecture {
        name: "phi3",
        rope: RopeLayout::Halves,
        fused_attention: Presence::Required,
        fused_gate: true,
        window: WindowPattern::Every,
        ..LLAMA
    },
    GEMMA2,
    Architecture {
        name: "gemma3",
        head_norms: true,
        soft_caps: false,
        window: WindowPattern::AllButLastOf(6),
        window_rope_base: Some(10_000.0),
        attention_scale: AttentionScale::HeadSizeUnlessLayers(62),
        ..GEMMA2
    },
    BERT,
    Architecture {
        name: "nomic-bert",
        rope: RopeLayout::Halves,
        attention_biases: Presence::Optional,
        output_biases: Presence::Optional,
        feed_forward_biases: Presence::Optional,
        gated: true,
        activation: Activation::Silu,
        ..BERT
    },
];

impl Architecture {
    /// The architecture of this name.
    ///
    /// # Errors
    /// [`EngineError::Architecture`] if the engine knows none, with the names of all that it knows.
    pub fn of(name: &str) -> Result<Self, EngineError> {
        let found = KNOWN.iter().find(|known| known.name == name);
        found.copied().ok_or_else(|| EngineError::Architecture { found: name.into() })
    }
}

/// The names of all, for people.
pub(crate) fn known() -> String {
    let mut names = String::new();
    for (index, known) in KNOWN.iter().enumerate() {
        if index > 0 {
            names.push_str(", ");
        }
        names.push_str(known.name);
    }
    names
}
