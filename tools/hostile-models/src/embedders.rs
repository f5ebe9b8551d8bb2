//! Models that embed texts, or claim to.

use capos_gguf::{TensorType, WriterValue};

use crate::End::{self, Answers, Fails, Refused, Words};
use crate::parts::{Parts, WIDTH};

/// The error if no vector can be computed.
const DAMAGED: &str = "a vector that is not of numbers";
const POSITIONS: &str = "position_embd.weight";

/// Names and models.
pub fn all() -> Vec<(&'static str, End, Parts)> {
    let set = |key: &str, value: u32| Parts::bert().with(key, WriterValue::U32(value));
    let pooled = |kind: u32| set("bert.pooling_type", kind);
    let lacking = |lacked: &str| {
        let mut parts = Parts::bert();
        parts.tensors.retain(|(name, ..)| name != lacked);
        parts
    };
    let positions = |rows: u64| Parts::bert().with_tensor(POSITIONS, TensorType::F32, &[WIDTH, rows]);
    let ahead = Parts::talking().with("llama.attention.causal", WriterValue::Bool(false));
    let behind = Parts::bert().with("bert.attention.causal", WriterValue::Bool(true));
    let narrow = Parts::bert().with_tensor("token_types.weight", TensorType::F32, &[WIDTH - 1, 2]);
    // A matrix of one row may be written as a vector.
    let one_type = |types: u32| {
        let parts = Parts::bert().with_tensor("token_types.weight", TensorType::F32, &[WIDTH]);
        parts.with("tokenizer.ggml.token_type_count", WriterValue::U32(types))
    };
    vec![
        ("embedder", Answers, Parts::bert()),
        ("pooling-missing", Answers, Parts::bert().without("bert.pooling_type")),
        ("pooling-of-none", Answers, pooled(0)),
        ("pooling-unknown", Refused("'bert.pooling_type' is 77; 0 to 4"), pooled(77)),
        ("pooling-ranks", Refused("ranks texts and does not embed them"), pooled(4)),
        (
            "pooling-in-words",
            Refused("'bert.pooling_type' is not one whole number"),
            Parts::bert().with_text("bert.pooling_type", "mean"),
        ),
        ("embedder-sees-nothing-ahead", Refused("'bert.attention.causal' is true"), behind),
        ("language-model-sees-ahead", Refused("'llama.attention.causal' is false"), ahead),
        ("types-of-tokens", Refused("token_type_count' says 3"), set("tokenizer.ggml.token_type_count", 3)),
        ("many-types-of-tokens", Refused("is 4294967295"), set("tokenizer.ggml.token_type_count", u32::MAX)),
        ("types-not-there", Answers, lacking("token_types.weight")),
        ("one-type-of-tokens", Answers, one_type(1)),
        ("fewer-types-of-tokens", Refused("'token_types.weight' has 1 rows, where"), one_type(2)),
        ("types-narrow", Refused("'token_types.weight' is [7, 2]"), narrow),
        ("many-positions", Refused("where the hyperparameters say [8, 64]"), positions(65)),
        ("few-positions", Refused("where the hyperparameters say [8, 64]"), positions(1)),
        ("positions-not-there", Refused("'position_embd.weight' is missing"), lacking(POSITIONS)),
        ("absurd-positions", Refused("'bert.context_length' is 4294967295"), set("bert.context_length", u32::MAX)),
        ("far-positions", Refused("say [8, 16777216]"), set("bert.context_length", 1 << 24)),
        ("one-position", Fails("the model takes 1; divide it"), {
            positions(1).with("bert.context_length", WriterValue::U32(1))
        }),
        ("norm-without-bias", Refused("attn_output_norm.bias' is missing"), lacking("blk.0.attn_output_norm.bias")),
        ("embedder-nan", Fails(DAMAGED), Parts::bert().filled(f32::NAN)),
        ("embedder-infinite", Fails(DAMAGED), Parts::bert().filled(f32::INFINITY)),
        ("embedder-largest", Words, Parts::bert().filled(f32::MAX)),
        ("embedder-smallest", Answers, Parts::bert().filled(f32::MIN_POSITIVE / 2.0)),
        ("no-unknown-token", Answers, Parts::bert().without("tokenizer.ggml.unknown_token_id")),
    ]
}
