//! A model of the shape of one that people have, with its tokenizer's kind and random weights.
//!
//! Random weights are meaningless, and would never begin a call among all other tokens. So a few rows of the embedding,
//! which is also the output matrix, are not random. After the end of a line a call is likeliest, then the end of the
//! call wherever the grammar allows it, then the end of the answer. The arguments of a call are what the random numbers
//! choose among the tokens that the grammar allows.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use capos_gguf::{CHAT_TEMPLATE, Numbers, TensorType, Writer, WriterValue};
use serde::Deserialize;

use crate::models::vocabulary::Vocabulary;
use capos_host::files::write_whole;

/// A model of random numbers, as `[runner.model.random]` asks for it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Random {
    /// Which model's shape and types it has.
    pub shape: Named,
    /// Its chat template, by its path from the scenario's folder.
    pub template: PathBuf,
    /// Texts from which its tokens are learned, by their paths from there; of a folder those that end in `.md`.
    pub words: Vec<PathBuf>,
}

/// The models whose shapes are known.
#[derive(Debug, Clone, Copy, Deserialize)]
pub enum Named {
    /// Qwen 2.5 with 1.5 billion parameters, quantised to `Q4_K_M`.
    #[serde(rename = "qwen2.5-1.5b-q4_k_m")]
    Qwen25,
    /// The same with few, narrow layers below the whole vocabulary, so that a test is fast enough.
    #[serde(rename = "qwen2.5-narrow-q4_k_m")]
    Narrow,
}

/// The numbers that make a model. Widths are multiples of 256, as blocks are.
#[derive(Debug, Clone, Copy)]
struct Shape {
    width: u64,
    layers: u64,
    heads: u64,
    kv_heads: u64,
    inside: u64,
    /// Tokens before the marks, and all.
    normal: usize,
    vocabulary: usize,
}

const QWEN25: Shape =
    Shape { width: 1536, layers: 28, heads: 12, kv_heads: 2, inside: 8960, normal: 151_643, vocabulary: 151_936 };
const NARROW: Shape = Shape { width: 256, layers: 2, heads: 4, kv_heads: 2, inside: 512, ..QWEN25 };
/// Tokens of the longest conversation, as these files state it.
const CONTEXT: u32 = 32_768;
/// `general.file_type` of the mixture `Q4_K_M`.
const Q4_K_M: u32 = 15;
/// The codes of the types that matrices have in it, and the bytes of a block.
const Q4_K: (u32, usize) = (12, 144);
const Q6_K: (u32, usize) = (14, 210);
/// Numbers of a block of either.
const BLOCK: u64 = 256;

/// Writes the file of a model of this title. Paths begin in `folder`.
///
/// # Errors
/// A text or the template cannot be read.
pub fn create(path: &Path, random: &Random, title: &str, seed: u64, folder: &Path) -> Result<()> {
    let shape = match random.shape {
        Named::Qwen25 => QWEN25,
        Named::Narrow => NARROW,
    };
    let template = text(&folder.join(&random.template))?;
    let mut texts = Vec::new();
    for path in &random.words {
        let path = folder.join(path);
        let files = if path.is_dir() { pages(&path)? } else { vec![path] };
        texts.extend(files.iter().map(|file| text(file)).collect::<Result<Vec<_>>>()?);
    }
    let model = Model::new(shape, title, &template, &texts, seed)?;
    write_whole(path, |file| {
        let mut out = BufWriter::with_capacity(4 << 20, file);
        model.write(&mut out).and_then(|()| Ok(out.flush()?)).with_context(|| format!("writing {}", path.display()))
    })
}

fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// The pages of a folder, in the order of their names.
fn pages(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.retain(|path| path.extension().is_some_and(|end| end == "md"));
    files.sort();
    Ok(files)
}

/// A file that can be written.
struct Model {
    shape: Shape,
    writer: Writer,
    /// The content of each tensor, in the order of the file.
    fills: Vec<Fill>,
    /// Rows of the embedding that are more than random.
    rows: Vec<(usize, Steer)>,
    seed: u64,
}

/// The content of a tensor.
#[derive(Clone, Copy)]
enum Fill {
    /// Numbers around this one, no further away than a tenth.
    Around(f32),
    /// A matrix of `columns` columns, in blocks of `block` bytes.
    Matrix { columns: u64, block: usize, what: What },
}

/// The purpose of a matrix.
#[derive(Clone, Copy, PartialEq)]
enum What {
    Embedding,
    /// It makes something that only its layer sees.
    Inner,
    /// Its product is added to the state that all layers see. It is small, so that the last token is not drowned.
    Added,
}

impl What {
    /// The factor of its numbers.
    fn part(self) -> f32 {
        if self == Self::Added { 1.0 / 64.0 } else { 1.0 }
    }
}

/// The first three columns of a row of the embedding, in steps of [`STEP`].
type Steer = [u8; 3];
const STEP: u8 = 7;
/// A token like all others. The first column is the same in each, so that a row that has more there is likelier anywhere.
const ANY: Steer = [1, 0, 0];
/// Rows of tokens that are more than random. The second column is what the end of a line has, the third what the end of a
/// call has.
const STEERED: [(&str, Steer); 4] =
    [("Ċ", [1, 1, 0]), ("<tool_call>", [1, 4, 0]), ("</tool_call>", [2, 0, 1]), ("<|im_end|>", [3, 0, 4])];

impl Model {
    fn new(shape: Shape, title: &str, template: &str, texts: &[String], seed: u64) -> Result<Self> {
        let vocabulary = Vocabulary::new(texts, shape.normal, shape.vocabulary, &mut Numbers::new(seed, u64::MAX))?;
        let mut writer = Writer::new();
        let mut fills = Vec::new();
        let mut parameters = 0u64;
        for (name, kind, dimensions, fill) in tensors(&shape)? {
            writer.tensor(&name, kind, &dimensions)?;
            fills.push(fill);
            parameters += dimensions.iter().product::<u64>();
        }
        writer.text("general.architecture", "qwen2");
        writer.text("general.name", title);
        writer.text("general.description", &format!("{parameters} random numbers without meaning, from seed {seed}"));
        writer.text("general.license", "MIT OR Apache-2.0");
        writer.entry("general.file_type", WriterValue::U32(Q4_K_M));
        writer.entry("general.quantization_version", WriterValue::U32(2));
        for (key, value) in [
            ("context_length", CONTEXT.into()),
            ("embedding_length", shape.width),
            ("block_count", shape.layers),
            ("feed_forward_length", shape.inside),
            ("attention.head_count", shape.heads),
            ("attention.head_count_kv", shape.kv_heads),
        ] {
            writer.entry(&format!("qwen2.{key}"), WriterValue::U32(u32::try_from(value)?));
        }
        writer.entry("qwen2.attention.layer_norm_rms_epsilon", WriterValue::F32(1e-6));
        writer.entry("qwen2.rope.freq_base", WriterValue::F32(1_000_000.0));
        vocabulary.write(&mut writer)?;
        writer.text(CHAT_TEMPLATE, template);
        let row = |(text, steer)| Ok((vocabulary.find(text).context("a token is missing")?, steer));
        let rows = STEERED.into_iter().map(row).collect::<Result<_>>()?;
        Ok(Self { shape, writer, fills, rows, seed })
    }

    fn write(&self, out: &mut impl Write) -> Result<()> {
        out.write_all(&self.writer.header())?;
        let mut at = 0u64;
        let mut row = Vec::new();
        for (index, ((start, bytes, _), fill)) in self.writer.places().zip(&self.fills).enumerate() {
            out.write_all(&vec![0; usize::try_from(start - at)?])?;
            let mut numbers = Numbers::new(self.seed, index as u64);
            match *fill {
                Fill::Around(middle) => {
                    for _ in 0..bytes / 4 {
                        let number = middle + 0.1 * numbers.signed();
                        out.write_all(&number.to_le_bytes())?;
                    }
                }
                Fill::Matrix { columns, block, what } => {
                    let blocks = Blocks::new(block, columns, what);
                    row.resize(usize::try_from(columns / BLOCK)? * block, 0);
                    for id in 0..usize::try_from(bytes)? / row.len() {
                        blocks.draw(&mut row, &mut numbers);
                        if what == What::Embedding {
                            let found = self.rows.iter().find(|(steered, _)| *steered == id);
                            steer(&mut row, found.map_or(ANY, |(_, steer)| *steer), self.shape.width)?;
                        }
                        out.write_all(&row)?;
                    }
                }
            }
            at = start + bytes;
        }
        Ok(())
    }
}

/// A tensor of a file: its name, its type, its dimensions, and its content.
type Tensor = (String, TensorType, Vec<u64>, Fill);

/// The tensors of a model with their types, as llama.cpp's quantiser chooses them for `Q4_K_M`. The output is the embedding.
fn tensors(shape: &Shape) -> Result<Vec<Tensor>> {
    let &Shape { width, layers, heads, kv_heads, inside, vocabulary, .. } = shape;
    let keys = width / heads * kv_heads;
    let mut list = Vec::new();
    let mut matrix = |name: String, (code, block), columns, rows, what| {
        let kind = TensorType::from_code(code).context("a type is not known")?;
        list.push((format!("{name}.weight"), kind, vec![columns, rows], Fill::Matrix { columns, block, what }));
        anyhow::Ok(())
    };
    matrix("token_embd".into(), Q6_K, width, vocabulary as u64, What::Embedding)?;
    for layer in 0..layers {
        let eighth = layers / 8;
        let more = layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
        let finer = if more { Q6_K } else { Q4_K };
        for (name, kind, columns, rows, what) in [
            ("attn_q", Q4_K, width, width, What::Inner),
            ("attn_k", Q4_K, width, keys, What::Inner),
            ("attn_v", finer, width, keys, What::Inner),
            ("attn_output", Q4_K, width, width, What::Added),
            ("ffn_gate", Q4_K, width, inside, What::Inner),
            ("ffn_up", Q4_K, width, inside, What::Inner),
            ("ffn_down", finer, inside, width, What::Added),
        ] {
            matrix(format!("blk.{layer}.{name}"), kind, columns, rows, what)?;
        }
    }
    let mut vector = |name: String, length, middle| {
        list.push((name, TensorType::F32, vec![length], Fill::Around(middle)));
    };
    for layer in 0..layers {
        vector(format!("blk.{layer}.attn_norm.weight"), width, 1.0);
        vector(format!("blk.{layer}.ffn_norm.weight"), width, 1.0);
        for (name, length) in [("attn_q", width), ("attn_k", keys), ("attn_v", keys)] {
            vector(format!("blk.{layer}.{name}.bias"), length, 0.0);
        }
    }
    vector("output_norm.weight".into(), width, 1.0);
    Ok(list)
}

/// How blocks of a matrix are drawn.
enum Blocks {
    /// Scale of the scales, scale of the minimums; sixteen bits each.
    Q4K([u8; 2], [u8; 2]),
    /// Scale of the scales.
    Q6K([u8; 2]),
}

impl Blocks {
    /// Numbers around zero whose spread is the inverse root of the columns.
    fn new(block: usize, columns: u64, what: What) -> Self {
        // The means of quants, scales and minima, if all bits are random.
        const SPREAD_Q4_K: f32 = 255.0;
        const MEAN_Q4_K: f32 = 7.5;
        const SPREAD_Q6_K: f32 = 42.5;
        let spread = what.part() / (columns as f32).sqrt();
        if block == Q4_K.1 {
            let scale = spread / SPREAD_Q4_K;
            Self::Q4K(half(scale), half(scale * MEAN_Q4_K))
        } else {
            Self::Q6K(half(spread / SPREAD_Q6_K))
        }
    }

    fn draw(&self, row: &mut [u8], numbers: &mut Numbers) {
        numbers.bytes(row);
        match self {
            Self::Q4K(scale, least) => {
                for block in row.as_chunks_mut::<{ Q4_K.1 }>().0 {
                    let [first, second, third, fourth, ..] = block;
                    [*first, *second] = *scale;
                    [*third, *fourth] = *least;
                }
            }
            Self::Q6K(scale) => {
                for block in row.as_chunks_mut::<{ Q6_K.1 }>().0 {
                    let (_, scales) = block.split_at_mut(LOW + HIGH);
                    let (scales, last) = scales.split_at_mut(16);
                    // From -4 to 3.
                    scales.iter_mut().for_each(|scale| *scale = (*scale & 7).wrapping_sub(4));
                    last.copy_from_slice(scale);
                }
            }
        }
    }
}

/// Bytes of a block of Q6_K with the low and the high bits of its numbers. After them are the scales of sixteen groups,
/// and the scale of these.
const LOW: usize = 128;
const HIGH: usize = 64;

/// Puts numbers into the first columns of a row of the embedding. The thirteen after them, which share their scale, are
/// zero, and the rest of the block stays random.
fn steer(row: &mut [u8], steer: Steer, width: u64) -> Result<()> {
    const MOST: u8 = 127;
    let block = row.as_chunks_mut::<{ Q6_K.1 }>().0.first_mut().context("a row is too short")?;
    // A step is one, whatever the width.
    let scale = half(1.0 / f32::from(STEP) / f32::from(MOST));
    let (low, rest) = block.split_at_mut(LOW);
    let (high, rest) = rest.split_at_mut(HIGH);
    let (scales, last) = rest.split_at_mut(16);
    for (at, (low, high)) in low.iter_mut().zip(high).take(16).enumerate() {
        let quant = 32 + steer.get(at).copied().unwrap_or(0) * STEP;
        ensure!(quant < 64, "a row is steered too far");
        *low = (*low & 0xf0) | (quant & 0x0f);
        *high = (*high & 0xfc) | (quant >> 4);
    }
    let mut scales = scales.iter_mut();
    if let Some(first) = scales.next() {
        *first = MOST;
    }
    // The others are as spread as in other blocks.
    let usual = (1.0 / (width as f32).sqrt() / 18.5 * f32::from(STEP) * f32::from(MOST)).round().max(1.0) as u8;
    scales.for_each(|scale| *scale = if *scale & 1 == 0 { usual } else { usual.wrapping_neg() });
    last.copy_from_slice(&scale);
    Ok(())
}

/// A number with sixteen bits.
fn half(number: f32) -> [u8; 2] {
    half::f16::from_f32(number).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    use capos_chat::{Delta, Message, Role, Tool};
    use capos_engine::generation::Options;
    use capos_engine::{Machine, Single, kernel};
    use capos_gguf::Header;
    use capos_inference::{Assistant, Event, Finish, LanguageModel, Reason, Request};
    use capos_model::Backend;
    use serde_json::json;

    /// Of the same kind, and small.
    const SMALL: Shape = Shape { layers: 8, normal: 3000, vocabulary: 3100, ..NARROW };

    fn template() -> String {
        text(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/infer/templates/hermes.jinja")).unwrap()
    }

    /// A page is enough for tokens that are words.
    fn words() -> Vec<String> {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let page = docs.join("introduction.md");
        assert!(pages(&docs).unwrap().contains(&page));
        vec![text(&page).unwrap()]
    }

    /// A07: as large as the model whose shape it has, with the same description.
    #[test]
    fn a07_the_header_says_one_and_a_half_thousand_million_parameters() {
        let model = Model::new(QWEN25, "numbers", &template(), &words(), 7).unwrap();
        let bytes = model.writer.header();
        let size = bytes.len() as u64 + model.writer.data_bytes();
        let header = Header::parse(&bytes, size).unwrap();
        let facts = header.facts();
        assert_eq!((facts.parameters, facts.vocabulary), (1_543_714_304, 151_936));
        assert!(facts.description.unwrap().starts_with("1543714304 random numbers "));
        let info = capos_model::describe(&header, "sha256:1-qwen2", size, &Backend::of(&header).unwrap());
        assert_eq!((info.arch.as_str(), info.quantisation.as_str(), info.supports_tools), ("qwen2", "Q4_K_M", true));
        assert_eq!((info.context_tokens, info.backend.as_str()), (32_768, "local-engine"));
        // The tokens of the marks have the numbers that they have there.
        let tokens = header.get("tokenizer.ggml.tokens").unwrap();
        let tokens: Vec<_> = tokens.as_array().unwrap().iter().collect();
        assert_eq!(tokens[151_645].as_text(), Some("<|im_end|>"));
        assert_eq!(tokens[151_657].as_text(), Some("<tool_call>"));
    }

    #[test]
    fn what_is_random_calls_a_tool_where_it_is_held_to_it() {
        let mut file = Vec::new();
        Model::new(SMALL, "numbers", &template(), &words(), 7).unwrap().write(&mut file).unwrap();
        let model = LanguageModel::open(&file, None).unwrap();
        let answer = |grammar| {
            let mut assistant =
                Assistant::new(&model, Machine { kernels: kernel::reference(), pool: &Single }, Options::default());
            let tool = |name: &str| Tool {
                name: name.into(),
                description: "Tells how it is.".into(),
                parameters: json!({ "type": "object", "properties": {}, "additionalProperties": false }),
                handle: format!("/object/{name}"),
                forbidden: false,
            };
            let messages = vec![Message::new(Role::User, "How is the machine?")];
            let tools = vec![tool("system_status"), tool("list_services")];
            let request = Request { messages, tools, grammar, limit: Some(60), ..Request::default() };
            assistant.request(request).unwrap();
            let (mut calls, mut end) = (Vec::new(), None);
            while end.is_none() {
                for (_, event) in assistant.step() {
                    match event {
                        Event::Delta(Delta::Call { name, arguments, .. }) => calls.push(format!("{name}{arguments}")),
                        Event::Finish(Finish { reason, .. }) => end = Some(reason),
                        _ => {}
                    }
                }
            }
            (calls.concat(), end.unwrap())
        };
        let (called, end) = answer(capos_inference::Grammar::Schemas);
        assert!(["system_status{}", "list_services{}"].contains(&called.as_str()), "{called}");
        assert_eq!(end, Reason::ToolCalls);
        // Alone it never generates a call.
        let (called, _) = answer(capos_inference::Grammar::Free);
        assert!(called.is_empty(), "{called}");
    }

    #[test]
    fn halves_are_the_nearest() {
        for (number, bits) in [(1.0 / 1024.0, 0x1400u16), (0.5, 0x3800), (1.5 / 4.0, 0x3600), (5.960_464_5e-8, 1)] {
            assert_eq!(half(number), bits.to_le_bytes(), "{number}");
        }
        assert_eq!(half(0.001_125), 0x149cu16.to_le_bytes());
    }
}
