//! A model whose output is known beforehand, and that the engine computes like any other. After each token of a chain,
//! its likeliest token is the next of the chain, whatever preceded it.
//!
//! Embeddings are the axes of a space, all layers add nothing, and the output matrix has a one where a token follows another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use capos_gguf::{CHAT_TEMPLATE, TOOL_TEMPLATE, TensorType, Writer, WriterValue};
use serde::Deserialize;

/// The output of a model, as `[runner.model.chain]` states it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// Its chat template, by its path from the scenario's folder.
    pub template: PathBuf,
    /// Its template for conversations with tools, if it has one for these.
    pub tool_template: Option<PathBuf>,
    /// Its control tokens.
    #[serde(default)]
    pub marks: Vec<String>,
    /// Lists of tokens; each token is followed by the next one; `</s>` ends an answer.
    pub says: Vec<Vec<String>>,
}

/// Tokens that are always there, and after them one for each byte.
const FIRST: [&str; 3] = ["<unk>", "<s>", "</s>"];
/// Values in a head, and inside the feed-forward part.
const SMALL: u64 = 32;
/// One, in 16 bits.
const ONE: [u8; 2] = [0x00, 0x3c];
/// Tokens of a conversation: each byte of the tools' descriptions is one.
const CONTEXT: u32 = 65_536;

/// The vocabulary: texts and their kinds, in the order of files.
fn vocabulary(chain: &Chain) -> BTreeMap<String, usize> {
    let first = FIRST.map(str::to_owned).into_iter().chain((0..=255u8).map(|byte| format!("<0x{byte:02X}>")));
    let mut ids = BTreeMap::new();
    for text in first.chain(chain.marks.iter().cloned()).chain(chain.says.iter().flatten().cloned()) {
        let next = ids.len();
        ids.entry(text).or_insert(next);
    }
    ids
}

/// The file of a model of this title. Paths begin in `folder`.
///
/// # Errors
/// The template cannot be read, or a token would be followed by two others.
pub fn file(chain: &Chain, title: &str, folder: &Path) -> Result<Vec<u8>> {
    let read = |path: &PathBuf| {
        let path = folder.join(path);
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let mut templates = vec![(CHAT_TEMPLATE, read(&chain.template)?)];
    if let Some(path) = &chain.tool_template {
        templates.push((TOOL_TEMPLATE, read(path)?));
    }
    let ids = vocabulary(chain);
    let mut texts = vec![String::new(); ids.len()];
    let mut kinds = vec![0i32; ids.len()];
    for (text, id) in &ids {
        let kind = match *id {
            0 => 2,
            1 | 2 => 3,
            3..259 => 6,
            _ if chain.marks.contains(text) => 3,
            _ => 1,
        };
        texts.get_mut(*id).context("a token is missing")?.clone_from(text);
        *kinds.get_mut(*id).context("a token is missing")? = kind;
    }
    let mut follows = BTreeMap::new();
    for pair in chain.says.iter().flat_map(|said| said.windows(2)) {
        let [from, to] = pair else { continue };
        let (from_id, to_id) =
            (ids.get(from).context("a token is missing")?, ids.get(to).context("a token is missing")?);
        let other = follows.insert(*from_id, *to_id).filter(|other| other != to_id);
        ensure!(other.is_none(), "the token {from:?} has two successors; a chain permits one");
    }
    write(title, &templates, texts, kinds, &follows)
}

fn write(
    title: &str,
    templates: &[(&str, String)],
    texts: Vec<String>,
    kinds: Vec<i32>,
    follows: &BTreeMap<usize, usize>,
) -> Result<Vec<u8>> {
    let tokens = texts.len() as u64;
    let width = tokens.next_multiple_of(SMALL);
    let narrow = u32::try_from(width)?;
    let mut writer = Writer::new();
    writer.text("general.architecture", "llama");
    writer.text("general.name", title);
    for (key, value) in [
        ("context_length", CONTEXT),
        ("embedding_length", narrow),
        ("block_count", 1),
        ("feed_forward_length", 32),
        ("attention.head_count", 1),
        ("attention.key_length", 32),
        ("attention.value_length", 32),
    ] {
        writer.entry(&format!("llama.{key}"), WriterValue::U32(value));
    }
    writer.entry("llama.attention.layer_norm_rms_epsilon", WriterValue::F32(1e-5));
    templates.iter().for_each(|(key, template)| writer.text(key, template));
    writer.text("tokenizer.ggml.model", "llama");
    writer.entry("tokenizer.ggml.scores", WriterValue::F32s(vec![0.0; texts.len()]));
    writer.entry("tokenizer.ggml.tokens", WriterValue::Texts(texts));
    writer.entry("tokenizer.ggml.token_type", WriterValue::I32s(kinds));
    writer.entry("tokenizer.ggml.add_space_prefix", WriterValue::Bool(false));
    for (role, id) in [("unknown", 0), ("bos", 1), ("eos", 2)] {
        writer.entry(&format!("tokenizer.ggml.{role}_token_id"), WriterValue::U32(id));
    }
    let mut data = Vec::new();
    let mut add = |name: &str, dimensions: &[u64], one: &dyn Fn(u64, u64) -> bool| -> Result<()> {
        let (offset, _) = writer.tensor(name, TensorType::F16, dimensions)?;
        data.resize(usize::try_from(offset)?, 0);
        let columns = dimensions.first().copied().unwrap_or(1);
        for row in 0..dimensions.get(1).copied().unwrap_or(1) {
            (0..columns).for_each(|column| data.extend_from_slice(if one(row, column) { &ONE } else { &[0, 0] }));
        }
        Ok(())
    };
    let next = |from: u64, to: u64| {
        let found = usize::try_from(from).ok().and_then(|from| follows.get(&from));
        found.is_some_and(|found| u64::try_from(*found) == Ok(to))
    };
    add("token_embd.weight", &[width, tokens], &|row, column| row == column)?;
    add("output.weight", &[width, tokens], &|row, column| next(column, row))?;
    for norm in ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"] {
        add(&format!("{norm}.weight"), &[width], &|_, _| true)?;
    }
    for part in ["attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up"] {
        add(&format!("blk.0.{part}.weight"), &[width, SMALL], &|_, _| false)?;
    }
    for part in ["attn_output", "ffn_down"] {
        add(&format!("blk.0.{part}.weight"), &[SMALL, width], &|_, _| false)?;
    }
    let mut file = writer.header();
    file.extend(data);
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    use capos_chat::{Delta, Message, Role, Tool};
    use capos_engine::generation::Options;
    use capos_engine::{Machine, Single, kernel};
    use capos_inference::{Assistant, Event, LanguageModel, Request};
    use serde_json::{Value, json};

    /// The models of the scenario that shows the forms of calls.
    #[derive(Deserialize)]
    struct Config {
        runner: Runner,
    }
    #[derive(Deserialize)]
    struct Runner {
        model: Vec<Named>,
    }
    #[derive(Deserialize)]
    struct Named {
        title: String,
        chain: Chain,
    }

    /// The calls that a model makes, free or constrained to the grammar of its form.
    fn calls(file: &[u8], free: bool) -> Vec<(String, String)> {
        let model = LanguageModel::open(file, None).unwrap();
        let machine = Machine { kernels: kernel::reference(), pool: &Single };
        let mut assistant = Assistant::new(&model, machine, Options::default());
        let tool = |name: &str| Tool {
            name: name.into(),
            description: String::new(),
            parameters: json!({ "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] }),
            handle: format!("/object/{name}"),
            forbidden: false,
        };
        let grammar = if free { capos_inference::Grammar::Free } else { capos_inference::Grammar::default() };
        let messages = vec![Message::new(Role::User, "What is in notes?")];
        let tools = vec![tool("read_file"), tool("list_directory")];
        assistant.request(Request { messages, tools, grammar, limit: Some(40), ..Request::default() }).unwrap();
        let mut calls: Vec<(String, String)> = Vec::new();
        while !assistant.idle() {
            for (_, event) in assistant.step() {
                if let Event::Delta(Delta::Call { index, name, handle, arguments }) = event {
                    match calls.get_mut(index as usize) {
                        Some((_, known)) => known.push_str(&arguments),
                        None => calls.push((format!("{name} {handle}"), arguments)),
                    }
                }
            }
        }
        calls
    }

    #[test]
    fn each_form_of_calls_is_written_by_the_model_itself_and_may_be() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios/call-forms");
        let config: Config = toml::from_str(&std::fs::read_to_string(folder.join("config.toml")).unwrap()).unwrap();
        let calls_a_tool =
            |named: &&Named| named.chain.says.iter().flatten().any(|text| text.contains("list_directory"));
        let calling: Vec<&Named> = config.runner.model.iter().filter(calls_a_tool).collect();
        assert_eq!(calling.len(), 7);
        let expected = [("list_directory /object/list_directory".to_owned(), json!({ "path": "notes" }))];
        for Named { title, chain } in calling {
            let file = file(chain, title, &folder).unwrap();
            for free in [true, false] {
                let calls = calls(&file, free).into_iter();
                let calls: Vec<(String, Value)> =
                    calls.map(|(name, arguments)| (name, serde_json::from_str(&arguments).unwrap())).collect();
                assert_eq!(calls, expected, "{title}, {}", if free { "free" } else { "held" });
            }
        }
    }

    #[test]
    fn a_token_has_one_successor() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/infer/templates");
        let says = [["a", "b"], ["a", "c"]].map(|said| said.map(str::to_owned).to_vec()).to_vec();
        let chain = Chain { template: "hermes.jinja".into(), tool_template: None, marks: Vec::new(), says };
        let error = file(&chain, "two ways", &folder).unwrap_err().to_string();
        assert!(error.contains("has two successors"), "{error}");
    }
}
