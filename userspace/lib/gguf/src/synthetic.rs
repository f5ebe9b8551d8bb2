//! Whole files of any size, well formed, with repeatable contents and no meaning.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::{DEFAULT_ALIGNMENT, GgufError, Header, Numbers, TensorType, Value, ValueType, Writer, WriterValue};

/// Bytes that are made at a time.
const PIECE: usize = 64 * 1024;

/// Tokens of the vocabulary: three marks and one token per byte.
const VOCABULARY: u64 = 3 + 256;

const TEMPLATE: &str = "tokenizer.chat_template";

/// A size for which no file is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntheticError {
    /// Too small for the metadata and one layer of the smallest model.
    TooSmall {
        /// The smallest size in bytes.
        least: u64,
    },
    /// Not a multiple of the alignment of tensor data.
    Unaligned,
    /// Past the largest size, 1 TiB.
    TooLarge,
}

impl fmt::Display for SyntheticError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { least } => write!(f, "the smallest file has {least} bytes"),
            Self::Unaligned => write!(f, "the size must be a multiple of {DEFAULT_ALIGNMENT} bytes"),
            Self::TooLarge => f.write_str("the largest file has 1 TiB"),
        }
    }
}

impl core::error::Error for SyntheticError {}

/// A model file of the architecture `llama`, or `qwen3moe` if it has experts. It has all tensors of one, at sizes that
/// fit the file's, filled with small numbers that depend on a seed only. One tensor more, which engines do not know,
/// fills the file to the exact size. The model is meaningless.
pub struct Synthetic {
    header: Vec<u8>,
    /// Start, length and type of each tensor, in bytes from the start of the tensor data.
    places: Vec<(u64, u64, TensorType)>,
    size: u64,
    seed: u64,
}

/// The numbers that make a model.
struct Shape {
    embedding: u64,
    /// Width inside the feed-forward part, or inside an expert.
    feed_forward: u64,
    layers: u64,
    /// Experts of a layer; none if the layer is dense.
    experts: u64,
    /// Values of all heads' keys of a token, and as many values.
    keys: u64,
    /// Values of a head.
    head: u64,
}

/// Values of a head of usual models.
const HEAD: u64 = 64;

/// Experts of a layer that a token is given to.
const EXPERTS_USED: u64 = 8;

impl Shape {
    /// Few large layers, as real models of the size have; a filler takes the rest of the file.
    fn for_size(size: u64) -> Self {
        // Bytes of a layer: attention 4 e², feed forward 3 e f with f = 3 e, at 34/32 bytes each.
        let embedding = match size {
            0..=0x7f_ffff => 64,
            0x80_0000..=0x3ff_ffff => 256,
            0x400_0000..=0x3fff_ffff => 512,
            0x4000_0000..=0x3_ffff_ffff => 2048,
            _ => 4096,
        };
        let feed_forward = 3u64.saturating_mul(embedding);
        let per_layer = embedding.saturating_mul(embedding).saturating_mul(14);
        let layers = (size / 10).saturating_mul(9).checked_div(per_layer).unwrap_or(1);
        Self { embedding, feed_forward, layers: layers.clamp(1, 128), experts: 0, keys: embedding, head: HEAD }
    }

    /// Layers of 128 small experts; a token reads a few.
    fn of_experts(size: u64) -> Self {
        let (embedding, feed_forward, experts) = (512u64, 512u64, 128u64);
        // Three matrices of each expert, at 34/32 bytes a number.
        let expert = embedding.saturating_mul(feed_forward).saturating_mul(3);
        let per_layer = (expert / 32).saturating_mul(34).saturating_mul(experts);
        let layers = size.checked_div(per_layer).unwrap_or(1);
        Self { embedding, feed_forward, layers: layers.clamp(1, 128), experts, keys: embedding, head: HEAD }
    }

    /// Heads so wide that keys and values of a few hundred tokens take more memory than the file.
    fn of_wide_heads(size: u64) -> Self {
        let (embedding, head, keys) = (64u64, 512u64, 16_384u64);
        // Four matrices of attention, at 34/32 bytes a number.
        let per_layer = (embedding.saturating_mul(keys) / 32).saturating_mul(34).saturating_mul(4);
        let layers = size.checked_div(per_layer).unwrap_or(1);
        Self { embedding, feed_forward: 64, layers: layers.clamp(1, 128), experts: 0, keys, head }
    }

    fn architecture(&self) -> &'static str {
        if self.experts == 0 { "llama" } else { "qwen3moe" }
    }

    /// Writes the numbers in a file's form.
    fn describe(&self, writer: &mut Writer) {
        let number = |value: u64| WriterValue::U32(u32::try_from(value).unwrap_or(u32::MAX));
        let mut entry = |key: &str, value| writer.entry(&format!("{}.{key}", self.architecture()), value);
        entry("embedding_length", number(self.embedding));
        entry("block_count", number(self.layers));
        if self.experts == 0 {
            entry("feed_forward_length", number(self.feed_forward));
        } else {
            entry("expert_feed_forward_length", number(self.feed_forward));
            entry("expert_count", number(self.experts));
            entry("expert_used_count", number(EXPERTS_USED));
        }
        let heads = self.keys.checked_div(self.head).unwrap_or(1);
        entry("attention.head_count", number(heads));
        entry("attention.head_count_kv", number(heads));
        if self.keys != self.embedding {
            entry("attention.key_length", number(self.head));
            entry("attention.value_length", number(self.head));
        }
        entry("attention.layer_norm_rms_epsilon", WriterValue::F32(1e-5));
        entry("rope.dimension_count", number(self.head));
        entry("rope.freq_base", WriterValue::F32(10_000.0));
    }
}

impl Synthetic {
    /// Plans a file of exactly `size` bytes.
    ///
    /// # Errors
    /// [`SyntheticError`] if there is no such file.
    pub fn new(size: u64, seed: u64) -> Result<Self, SyntheticError> {
        Self::with_entries(size, seed, &[])
    }

    /// The same with further metadata entries, texts.
    ///
    /// # Errors
    /// As [`Synthetic::new`].
    pub fn with_entries(size: u64, seed: u64, entries: &[(&str, &str)]) -> Result<Self, SyntheticError> {
        Self::planned(Shape::for_size(size), size, seed, entries)
    }

    /// A model of experts: it has the architecture `qwen3moe`, and each of its tokens reads a part of it only.
    ///
    /// # Errors
    /// As [`Synthetic::new`].
    pub fn of_experts(size: u64, seed: u64) -> Result<Self, SyntheticError> {
        Self::planned(Shape::of_experts(size), size, seed, &[])
    }

    /// A model whose conversations take much memory: keys and values of each token are large compared with its weights.
    ///
    /// # Errors
    /// As [`Synthetic::new`].
    pub fn of_wide_heads(size: u64, seed: u64) -> Result<Self, SyntheticError> {
        Self::planned(Shape::of_wide_heads(size), size, seed, &[])
    }

    fn planned(mut shape: Shape, size: u64, seed: u64, entries: &[(&str, &str)]) -> Result<Self, SyntheticError> {
        if size > 1 << 40 {
            return Err(SyntheticError::TooLarge);
        }
        if !size.is_multiple_of(DEFAULT_ALIGNMENT.into()) {
            return Err(SyntheticError::Unaligned);
        }
        loop {
            match plan(&shape, size, seed, entries) {
                Ok(plan) => return Ok(plan),
                Err(least) if shape.layers == 1 => return Err(SyntheticError::TooSmall { least }),
                Err(_) => shape.layers = shape.layers.saturating_sub(1),
            }
        }
    }

    /// The file's size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Gives the file to `sink`, piece by piece in order, in little memory.
    ///
    /// # Errors
    /// The sink's own; nothing more is given to it then.
    pub fn write<E>(&self, mut sink: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        sink(&self.header)?;
        let mut piece = vec![0u8; PIECE];
        let mut at = 0u64;
        for (index, &(start, bytes, kind)) in self.places.iter().enumerate() {
            // Less than the alignment.
            let padding = usize::try_from(start.saturating_sub(at)).unwrap_or(0);
            sink(vec![0u8; padding].as_slice())?;
            let mut numbers = Numbers::new(self.seed, index as u64);
            // Whole blocks of every type used here.
            let room = match kind {
                TensorType::Q8_0 => PIECE.saturating_sub(PIECE % 34),
                _ => PIECE,
            };
            let mut left = bytes;
            while left > 0 {
                let now = usize::try_from(left).unwrap_or(room).min(room);
                let place = piece.get_mut(..now).unwrap_or_default();
                fill(place, kind, &mut numbers);
                sink(place)?;
                left = left.saturating_sub(now as u64);
            }
            at = start.saturating_add(bytes);
        }
        Ok(())
    }

    /// The whole file in memory.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let done: Result<(), core::convert::Infallible> = self.write(|piece| {
            file.extend_from_slice(piece);
            Ok(())
        });
        match done {
            Ok(()) => file,
            Err(never) => match never {},
        }
    }
}

/// A small llama model of one layer, for tests: with the vocabulary of another file, this chat template or else that
/// file's, and small numbers that depend on a seed only. It is meaningless.
///
/// # Errors
/// [`GgufError::Tensor`] if the vocabulary has more tokens than a tensor can have rows.
pub fn small_model(other: &Header<'_>, template: Option<&str>, seed: u64) -> Result<Vec<u8>, GgufError> {
    let vocabulary = other.facts().vocabulary;
    let shape = Shape { embedding: 64, feed_forward: 128, layers: 1, experts: 0, keys: 64, head: HEAD };
    let mut writer = Writer::new();
    writer.text("general.architecture", "llama");
    writer.entry("llama.context_length", WriterValue::U32(other.facts().context_length.max(256)));
    shape.describe(&mut writer);
    if let Some(template) = template {
        writer.text(TEMPLATE, template);
    }
    let kept = |key: &str| key.starts_with("tokenizer.") && (key != TEMPLATE || template.is_none());
    for (key, value) in other.entries().filter(|(key, _)| kept(key)) {
        if let Some(value) = copied(&value) {
            writer.entry(key, value);
        }
    }
    for (name, kind, dimensions) in tensors(&shape, vocabulary) {
        writer.tensor(&name, kind, &dimensions)?;
    }
    let header = writer.header();
    let size = writer.data_bytes().saturating_add(header.len() as u64);
    Ok(Synthetic { header, places: writer.places().collect(), size, seed }.to_vec())
}

/// The value for the copy; none for kinds that no entry about tokens has.
fn copied(value: &Value<'_>) -> Option<WriterValue> {
    match value {
        Value::Text(text) => Some(WriterValue::Text(text.to_string())),
        Value::Bool(flag) => Some(WriterValue::Bool(*flag)),
        Value::F32(number) => Some(WriterValue::F32(*number)),
        Value::Array(list) if list.kind() == ValueType::Text => {
            Some(WriterValue::Texts(list.iter().filter_map(|text| text.as_text().map(String::from)).collect()))
        }
        Value::Array(list) => {
            let whole = list.iter().map(|value| match value {
                Value::I32(number) => Some(number),
                value => value.as_u64().and_then(|number| i32::try_from(number).ok()),
            });
            let float = || list.iter().map(|value| if let Value::F32(number) = value { Some(number) } else { None });
            let floats = || float().collect::<Option<Vec<f32>>>().map(WriterValue::F32s);
            whole.collect::<Option<Vec<i32>>>().map(WriterValue::I32s).or_else(floats)
        }
        value => value.as_u64().and_then(|number| u32::try_from(number).ok()).map(WriterValue::U32),
    }
}

/// A plan for the size, or the smallest size for this shape.
fn plan(shape: &Shape, size: u64, seed: u64, entries: &[(&str, &str)]) -> Result<Synthetic, u64> {
    let mut writer = Writer::new();
    metadata(&mut writer, shape, seed, entries);
    let impossible = |_| u64::MAX;
    for (name, kind, dimensions) in tensors(shape, VOCABULARY) {
        writer.tensor(&name, kind, &dimensions).map_err(impossible)?;
    }
    // The filler's length does not change the header's, so a first try finds the room.
    const FILLER: &str = "capos.filler";
    let least = 32u64;
    let mut trial = writer;
    let (filler_at, _) = trial.tensor(FILLER, TensorType::I8, &[least]).map_err(impossible)?;
    let header = trial.header().len() as u64;
    let before = header.saturating_add(filler_at);
    let room = size.checked_sub(before).filter(|room| *room >= least);
    let room = room.ok_or_else(|| before.saturating_add(least))?;
    let mut writer = Writer::new();
    metadata(&mut writer, shape, seed, entries);
    for (name, kind, dimensions) in tensors(shape, VOCABULARY) {
        writer.tensor(&name, kind, &dimensions).map_err(impossible)?;
    }
    writer.tensor(FILLER, TensorType::I8, &[room]).map_err(impossible)?;
    Ok(Synthetic { header: writer.header(), places: writer.places().collect(), size, seed })
}

/// The tensors of a model, matrices in Q8_0, the output in F16, norms in F32.
fn tensors(shape: &Shape, vocabulary: u64) -> Vec<(String, TensorType, Vec<u64>)> {
    let &Shape { embedding: e, feed_forward: f, layers, experts, keys, .. } = shape;
    let mut list = vec![("token_embd.weight".to_string(), TensorType::Q8_0, vec![e, vocabulary])];
    for layer in 0..layers {
        let mut add = |name: &str, kind, dimensions| {
            list.push((format!("blk.{layer}.{name}.weight"), kind, dimensions));
        };
        add("attn_norm", TensorType::F32, vec![e]);
        for name in ["attn_q", "attn_k", "attn_v"] {
            add(name, TensorType::Q8_0, vec![e, keys]);
        }
        add("attn_output", TensorType::Q8_0, vec![keys, e]);
        add("ffn_norm", TensorType::F32, vec![e]);
        if experts == 0 {
            add("ffn_gate", TensorType::Q8_0, vec![e, f]);
            add("ffn_up", TensorType::Q8_0, vec![e, f]);
            add("ffn_down", TensorType::Q8_0, vec![f, e]);
        } else {
            add("attn_q_norm", TensorType::F32, vec![64]);
            add("attn_k_norm", TensorType::F32, vec![64]);
            add("ffn_gate_inp", TensorType::Q8_0, vec![e, experts]);
            add("ffn_gate_exps", TensorType::Q8_0, vec![e, f, experts]);
            add("ffn_up_exps", TensorType::Q8_0, vec![e, f, experts]);
            add("ffn_down_exps", TensorType::Q8_0, vec![f, e, experts]);
        }
    }
    list.push(("output_norm.weight".to_string(), TensorType::F32, vec![e]));
    list.push(("output.weight".to_string(), TensorType::F16, vec![e, vocabulary]));
    list
}

fn metadata(writer: &mut Writer, shape: &Shape, seed: u64, entries: &[(&str, &str)]) {
    writer.text("general.architecture", shape.architecture());
    writer.text("general.name", "capOS synthetic");
    let description = format!("Well-formed filler without meaning, made by the capOS tools from seed {seed}");
    writer.text("general.description", &description);
    writer.text("general.license", "MIT OR Apache-2.0");
    writer.entry("general.file_type", WriterValue::U32(7));
    writer.entry("general.quantization_version", WriterValue::U32(2));
    writer.entry("general.alignment", WriterValue::U32(DEFAULT_ALIGNMENT));
    writer.entry(&format!("{}.context_length", shape.architecture()), WriterValue::U32(8192));
    shape.describe(writer);
    writer.entry(&format!("{}.vocab_size", shape.architecture()), WriterValue::U32(259));
    writer.text("tokenizer.ggml.model", "llama");
    let marks = ["<unk>", "<s>", "</s>"].map(str::to_string);
    let bytes = (0..=255u8).map(|byte| format!("<0x{byte:02X}>"));
    writer.entry("tokenizer.ggml.tokens", WriterValue::Texts(marks.into_iter().chain(bytes).collect()));
    // All alike, in this order: no merges, so that bytes stay bytes.
    writer.entry("tokenizer.ggml.scores", WriterValue::F32s(vec![0.0; 259]));
    // 2: unknown, 3: control, 6: a byte.
    let kinds = [2, 3, 3].into_iter().chain(core::iter::repeat_n(6, 256)).collect();
    writer.entry("tokenizer.ggml.token_type", WriterValue::I32s(kinds));
    writer.entry("tokenizer.ggml.bos_token_id", WriterValue::U32(1));
    writer.entry("tokenizer.ggml.eos_token_id", WriterValue::U32(2));
    writer.entry("tokenizer.ggml.unknown_token_id", WriterValue::U32(0));
    writer.entry("tokenizer.ggml.add_bos_token", WriterValue::Bool(true));
    let template = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
    writer.text(TEMPLATE, template);
    for (key, value) in entries {
        writer.text(key, value);
    }
}

/// Fills whole blocks with small finite numbers.
fn fill(piece: &mut [u8], kind: TensorType, numbers: &mut Numbers) {
    match kind {
        TensorType::F32 => piece.as_chunks_mut::<4>().0.fill(1f32.to_le_bytes()),
        TensorType::F16 => {
            for value in piece.as_chunks_mut::<2>().0 {
                // A sign, an exponent of 2^-8, and ten random bits.
                let random = numbers.word() as u16;
                *value = (0x1c00 | (random & 0x83ff)).to_le_bytes();
            }
        }
        TensorType::Q8_0 => {
            for block in piece.as_chunks_mut::<34>().0 {
                let (scale, values) = block.split_at_mut(2);
                // 2^-12 or so.
                scale.copy_from_slice(&(0x0c00u16 | (numbers.word() as u16 & 0x3ff)).to_le_bytes());
                numbers.bytes(values);
            }
        }
        _ => numbers.bytes(piece),
    }
}
