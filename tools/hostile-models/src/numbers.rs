//! Hyperparameters, shapes and weights that are impossible or excessive.

use capos_gguf::{TensorType, WriterValue};

use crate::End::{self, Answers, Fails, Refused};
use crate::parts::{INSIDE, Parts, WIDTH};

/// The error if the weights compute nothing.
const DAMAGED: &str = "its weights may be damaged";

/// Names and models.
pub fn all() -> Vec<(&'static str, End, Parts)> {
    let set = |key: &str, value: u32| Parts::talking().with(&format!("llama.{key}"), WriterValue::U32(value));
    let float = |key: &str, value: f32| Parts::talking().with(&format!("llama.{key}"), WriterValue::F32(value));
    let shaped =
        |name: &str, kind: TensorType, dimensions: &[u64]| Parts::talking().with_tensor(name, kind, dimensions);
    let entry = |key: &str, value: WriterValue| Parts::talking().with(key, value);
    let alignment = |value: u32| entry("general.alignment", WriterValue::U32(value));
    let query = "blk.0.attn_q.weight";
    let mut lacking = Parts::talking();
    lacking.tensors.retain(|(name, ..)| name != "blk.0.ffn_down.weight");
    let nobody = Parts { entries: Vec::new(), tensors: Vec::new(), number: 0.0 };
    let mamba = Parts::talking().with_text("general.architecture", "mamba");
    vec![
        ("sound", Answers, Parts::talking()),
        ("nothing-in-it", Refused("'general.architecture' is missing"), nobody),
        ("no-heads", Refused("'llama.attention.head_count' is 0"), set("attention.head_count", 0)),
        ("no-key-heads", Refused("'llama.attention.head_count_kv' is 0"), set("attention.head_count_kv", 0)),
        ("no-layers", Refused("'llama.block_count' is 0"), set("block_count", 0)),
        ("many-layers", Refused("'llama.block_count' is 4294967295"), set("block_count", u32::MAX)),
        ("layers-not-there", Refused("'blk.1.attn_q.weight' is missing"), set("block_count", 1024)),
        ("no-width", Refused("'llama.embedding_length' is 0"), set("embedding_length", 0)),
        ("huge-context", Refused("'llama.context_length' is 4294967295"), set("context_length", u32::MAX)),
        ("long-context", Answers, set("context_length", 1 << 24)),
        ("short-context", Fails("takes 1 with its answer"), set("context_length", 1)),
        ("huge-window", Answers, set("attention.sliding_window", u32::MAX)),
        ("odd-rotation", Refused("which is not even"), set("rope.dimension_count", 3)),
        ("rotation-base", Refused("'llama.rope.freq_base' is NaN"), float("rope.freq_base", f32::NAN)),
        ("epsilon", Refused("rms_epsilon' is NaN"), float("attention.layer_norm_rms_epsilon", f32::NAN)),
        ("other-architecture", Refused("'mamba' is not known"), mamba),
        ("alignment-zero", Refused("'general.alignment' is not a power of two"), alignment(0)),
        ("alignment-odd", Refused("'general.alignment' is not a power of two"), alignment(3)),
        ("alignment-huge", Refused("'general.alignment' is not a power of two"), alignment(1 << 31)),
        (
            "alignment-text",
            Refused("'general.alignment'"),
            entry("general.alignment", WriterValue::Text("32".to_owned())),
        ),
        ("one-of-parts", Refused("'split.count'"), entry("split.count", WriterValue::U32(3))),
        ("tensor-missing", Refused("'blk.0.ffn_down.weight' is missing"), lacking),
        ("wrong-shape", Refused("where the hyperparameters say"), shaped(query, TensorType::F32, &[WIDTH, INSIDE])),
        ("wrong-type", Refused("of the type I8"), shaped(query, TensorType::I8, &[WIDTH, WIDTH])),
        ("weights-nan", Fails(DAMAGED), Parts::talking().filled(f32::NAN)),
        ("weights-infinite", Fails(DAMAGED), Parts::talking().filled(f32::INFINITY)),
        ("weights-largest", Fails(DAMAGED), Parts::talking().filled(f32::MAX)),
        ("weights-smallest", Answers, Parts::talking().filled(f32::MIN_POSITIVE / 2.0)),
        (
            "rotation-factors",
            Refused("a factor that is not a positive number"),
            shaped("rope_freqs.weight", TensorType::F32, &[2]),
        ),
    ]
}
