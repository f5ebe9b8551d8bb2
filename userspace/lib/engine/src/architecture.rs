//! What each architecture differs in, as data.

use alloc::string::String;

use crate::EngineError;

/// Which values of a head are turned together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeLayout {
    /// Each with its neighbour.
    Neighbours,
    /// Each of the first half with the one in the same place of the second.
    Halves,
}

/// What the gate of a feed-forward part goes through.
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
    /// It is used where it is there.
    Optional,
    /// It is not looked for.
    Absent,
}

/// Which layers see only the latest tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowPattern {
    /// None, whatever the file says.
    Never,
    /// All, where the file names a window.
    Every,
    /// All but the last of every so many.
    AllButLastOf(usize),
}

/// What the scale of attention is one over the square root of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionScale {
    /// The size of a head.
    HeadSize,
    /// The size of a head, except in the model with this many layers, where it is the width by the number of heads.
    HeadSizeUnlessLayers(usize),
}

/// An architecture.
#[derive(Clone, Copy, Debug)]
pub struct Architecture {
    /// What `general.architecture` says.
    pub name: &'static str,
    /// Layout of the rotary embedding.
    pub rope: RopeLayout,
    /// Biases of the query, key and value products.
    pub attention_biases: Presence,
    /// Norms of each head's query and key.
    pub head_norms: bool,
    /// Norms behind attention and feed-forward, besides those before.
    pub post_norms: bool,
    /// Query, key and value in one matrix, gate and up in another.
    pub fused: bool,
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
    /// Base of the rotary embedding in layers with a window, where it is another.
    pub window_rope_base: Option<f32>,
    /// Scale of attention.
    pub attention_scale: AttentionScale,
    /// Queries far behind the trained context are made larger, where the file says by how much.
    pub attention_temperature: bool,
}

const LLAMA: Architecture = Architecture {
    name: "llama",
    rope: RopeLayout::Neighbours,
    attention_biases: Presence::Optional,
    head_norms: false,
    post_norms: false,
    fused: false,
    experts: false,
    activation: Activation::Silu,
    scaled_embedding: false,
    soft_caps: false,
    window: WindowPattern::Never,
    window_rope_base: None,
    attention_scale: AttentionScale::HeadSize,
    attention_temperature: false,
};

const QWEN3: Architecture = Architecture {
    name: "qwen3",
    rope: RopeLayout::Halves,
    attention_biases: Presence::Absent,
    head_norms: true,
    ..LLAMA
};

const GEMMA2: Architecture = Architecture {
    name: "gemma2",
    rope: RopeLayout::Halves,
    attention_biases: Presence::Absent,
    post_norms: true,
    activation: Activation::Gelu,
    scaled_embedding: true,
    soft_caps: true,
    window: WindowPattern::AllButLastOf(2),
    attention_scale: AttentionScale::HeadSizeUnlessLayers(46),
    ..LLAMA
};

/// All that the engine knows. Files of Mistral models say `llama`, those of Ministral 3 `mistral3`.
const KNOWN: [Architecture; 8] = [
    LLAMA,
    Architecture { name: "mistral3", attention_temperature: true, ..LLAMA },
    Architecture { name: "qwen2", rope: RopeLayout::Halves, attention_biases: Presence::Required, ..LLAMA },
    QWEN3,
    Architecture { name: "qwen3moe", experts: true, ..QWEN3 },
    Architecture {
        name: "phi3",
        rope: RopeLayout::Halves,
        attention_biases: Presence::Absent,
        fused: true,
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
];

impl Architecture {
    /// The architecture of this name.
    ///
    /// # Errors
    /// [`EngineError::Architecture`] where the engine knows none, with the names of all that it knows.
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
