//! A small model, to be changed.

use capos_gguf::{GgufError, TensorType, Writer, WriterValue};

/// Width of the state between layers.
pub const WIDTH: u64 = 8;
/// Width inside the feed-forward part.
pub const INSIDE: u64 = 12;
/// Tokens of a model without a tokenizer.
pub const VOCABULARY: u64 = 10;
/// Tokens of a model that talks: three marks and one for each byte.
pub const BYTES: u64 = 3 + 256;

/// The entry with the chat template.
pub const TEMPLATE: &str = "tokenizer.chat_template";
/// The entry with the texts of tokens.
pub const TOKENS: &str = "tokenizer.ggml.tokens";

/// A llama of one layer, as small as can be: its entries and its tensors.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Keys and values.
    pub entries: Vec<(String, WriterValue)>,
    /// Names, types and dimensions.
    pub tensors: Vec<(String, TensorType, Vec<u64>)>,
    /// The value of each four-byte number in the tensors.
    pub number: f32,
}

impl Parts {
    /// A model without a tokenizer.
    #[must_use]
    pub fn llama() -> Self {
        let entry = |key: &str, value| (format!("llama.{key}"), WriterValue::U32(value));
        let entries = vec![
            ("general.architecture".to_owned(), WriterValue::Text("llama".to_owned())),
            entry("context_length", 32),
            entry("embedding_length", 8),
            entry("block_count", 1),
            entry("feed_forward_length", 12),
            entry("attention.head_count", 2),
            entry("attention.head_count_kv", 1),
            ("llama.attention.layer_norm_rms_epsilon".to_owned(), WriterValue::F32(1e-5)),
        ];
        let tensor = |name: &str, dimensions: &[u64]| (name.to_owned(), TensorType::F32, dimensions.to_vec());
        let tensors = vec![
            tensor("token_embd.weight", &[WIDTH, VOCABULARY]),
            tensor("output_norm.weight", &[WIDTH]),
            tensor("blk.0.attn_norm.weight", &[WIDTH]),
            tensor("blk.0.attn_q.weight", &[WIDTH, WIDTH]),
            tensor("blk.0.attn_k.weight", &[WIDTH, WIDTH / 2]),
            tensor("blk.0.attn_v.weight", &[WIDTH, WIDTH / 2]),
            tensor("blk.0.attn_output.weight", &[WIDTH, WIDTH]),
            tensor("blk.0.ffn_norm.weight", &[WIDTH]),
            tensor("blk.0.ffn_gate.weight", &[WIDTH, INSIDE]),
            tensor("blk.0.ffn_up.weight", &[WIDTH, INSIDE]),
            tensor("blk.0.ffn_down.weight", &[INSIDE, WIDTH]),
        ];
        Self { entries, tensors, number: 0.0 }
    }

    /// A model with a token for each byte, whose template has tools, and which calls them.
    #[must_use]
    pub fn talking() -> Self {
        let marks = ["<unk>", "<s>", "</s>"].map(str::to_owned);
        let bytes = (0..=255u8).map(|byte| format!("<0x{byte:02X}>"));
        let kinds = [2, 3, 3].into_iter().chain(std::iter::repeat_n(6, 256)).collect();
        Self::llama()
            .with("llama.context_length", WriterValue::U32(1024))
            .with_text("tokenizer.ggml.model", "llama")
            .with(TOKENS, WriterValue::Texts(marks.into_iter().chain(bytes).collect()))
            .with("tokenizer.ggml.scores", WriterValue::F32s(vec![0.0; 259]))
            .with("tokenizer.ggml.token_type", WriterValue::I32s(kinds))
            .with("tokenizer.ggml.bos_token_id", WriterValue::U32(1))
            .with("tokenizer.ggml.eos_token_id", WriterValue::U32(2))
            .with("tokenizer.ggml.unknown_token_id", WriterValue::U32(0))
            .with_tensor("token_embd.weight", TensorType::F32, &[WIDTH, BYTES])
            .with_text(TEMPLATE, "{{ messages[-1].content }}{% if tools %}<tool_call>{% endif %}")
    }

    /// An embedder of one layer with learned positions, and a token for each small letter at the beginning of a word and
    /// within one.
    #[must_use]
    pub fn bert() -> Self {
        let entry = |key: &str, value| (format!("bert.{key}"), WriterValue::U32(value));
        let marks = ["[UNK]", "[CLS]", "[SEP]"].map(str::to_owned);
        let letters = || 'a'..='z';
        let tokens = marks.into_iter().chain(letters().map(|letter| format!("\u{2581}{letter}")));
        let tokens: Vec<String> = tokens.chain(letters().map(String::from)).collect();
        let mut kinds = vec![1; tokens.len()];
        kinds.iter_mut().take(3).for_each(|kind| *kind = 3);
        let rows = tokens.len() as u64;
        let entries = vec![
            ("general.architecture".to_owned(), WriterValue::Text("bert".to_owned())),
            entry("context_length", 64),
            entry("embedding_length", 8),
            entry("block_count", 1),
            entry("feed_forward_length", 12),
            entry("attention.head_count", 2),
            ("bert.attention.layer_norm_epsilon".to_owned(), WriterValue::F32(1e-12)),
            ("bert.attention.causal".to_owned(), WriterValue::Bool(false)),
            entry("pooling_type", 1),
            ("tokenizer.ggml.model".to_owned(), WriterValue::Text("bert".to_owned())),
            (TOKENS.to_owned(), WriterValue::Texts(tokens)),
            ("tokenizer.ggml.token_type".to_owned(), WriterValue::I32s(kinds)),
            ("tokenizer.ggml.token_type_count".to_owned(), WriterValue::U32(2)),
            ("tokenizer.ggml.unknown_token_id".to_owned(), WriterValue::U32(0)),
            ("tokenizer.ggml.bos_token_id".to_owned(), WriterValue::U32(1)),
            ("tokenizer.ggml.seperator_token_id".to_owned(), WriterValue::U32(2)),
        ];
        let tensor = |name: &str, dimensions: &[u64]| (name.to_owned(), TensorType::F32, dimensions.to_vec());
        let mut tensors = vec![
            tensor("token_embd.weight", &[WIDTH, rows]),
            tensor("token_types.weight", &[WIDTH, 2]),
            tensor("position_embd.weight", &[WIDTH, 64]),
            tensor("blk.0.ffn_up.weight", &[WIDTH, INSIDE]),
            tensor("blk.0.ffn_up.bias", &[INSIDE]),
            tensor("blk.0.ffn_down.weight", &[INSIDE, WIDTH]),
            tensor("blk.0.ffn_down.bias", &[WIDTH]),
        ];
        for name in ["attn_q", "attn_k", "attn_v", "attn_output"] {
            tensors.push(tensor(&format!("blk.0.{name}.weight"), &[WIDTH, WIDTH]));
            tensors.push(tensor(&format!("blk.0.{name}.bias"), &[WIDTH]));
        }
        for name in ["token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm"] {
            tensors.push(tensor(&format!("{name}.weight"), &[WIDTH]));
            tensors.push(tensor(&format!("{name}.bias"), &[WIDTH]));
        }
        Self { entries, tensors, number: 0.0 }
    }

    /// The same with another value of an entry, or with one more.
    #[must_use]
    pub fn with(mut self, key: &str, value: WriterValue) -> Self {
        self = self.without(key);
        self.entries.push((key.to_owned(), value));
        self
    }

    /// The same with a text.
    #[must_use]
    pub fn with_text(self, key: &str, text: &str) -> Self {
        self.with(key, WriterValue::Text(text.to_owned()))
    }

    /// The same without an entry.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        self.entries.retain(|(known, _)| known != key);
        self
    }

    /// The same with a tensor of another type or shape, or with one more.
    #[must_use]
    pub fn with_tensor(mut self, name: &str, kind: TensorType, dimensions: &[u64]) -> Self {
        self.tensors.retain(|(known, ..)| known != name);
        self.tensors.push((name.to_owned(), kind, dimensions.to_vec()));
        self
    }

    /// The same with all numbers this one.
    #[must_use]
    pub fn filled(mut self, number: f32) -> Self {
        self.number = number;
        self
    }

    /// The file.
    ///
    /// # Errors
    /// [`GgufError`] for shapes that no tensor can have.
    pub fn file(&self) -> Result<Vec<u8>, GgufError> {
        let mut writer = Writer::new();
        self.entries.iter().for_each(|(key, value)| writer.entry(key, value.clone()));
        for (name, kind, dimensions) in &self.tensors {
            writer.tensor(name, *kind, dimensions)?;
        }
        let mut file = writer.header();
        let numbers = writer.data_bytes().div_ceil(4);
        (0..numbers).for_each(|_| file.extend_from_slice(&self.number.to_le_bytes()));
        Ok(file)
    }
}
