//! A vocabulary like that of a family of models: byte pairs and special tokens as the family has them, in the same
//! numbers. Its merges are learned from a few texts; when those are used up, the rest are made up.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use anyhow::{Context, Result, ensure};
use capos_gguf::{Numbers, Writer, WriterValue};
use regex_lite::Regex;

/// The marks of Qwen 2.5, in their order, and whether each is a control token. The others are found in text, too.
const MARKS: [(&str, bool); 22] = [
    ("<|endoftext|>", true),
    ("<|im_start|>", true),
    ("<|im_end|>", true),
    ("<|object_ref_start|>", true),
    ("<|object_ref_end|>", true),
    ("<|box_start|>", true),
    ("<|box_end|>", true),
    ("<|quad_start|>", true),
    ("<|quad_end|>", true),
    ("<|vision_start|>", true),
    ("<|vision_end|>", true),
    ("<|vision_pad|>", true),
    ("<|image_pad|>", true),
    ("<|video_pad|>", true),
    ("<tool_call>", false),
    ("</tool_call>", false),
    ("<|fim_prefix|>", false),
    ("<|fim_middle|>", false),
    ("<|fim_suffix|>", false),
    ("<|fim_pad|>", false),
    ("<|repo_name|>", false),
    ("<|file_sep|>", false),
];
/// Words as the family's tokenizer splits texts, for the letters of English.
const WORDS: &str = r"[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]+[\r\n]*|\s*[\r\n]+|\s+";
/// Bytes of the longest token that is made up.
const LONGEST: usize = 16;
/// The character for the byte of a space.
const SPACE: char = 'Ġ';

/// Tokens and how they are made of each other.
pub struct Vocabulary {
    tokens: Vec<String>,
    ids: BTreeMap<String, usize>,
    merges: Vec<(usize, usize)>,
    /// Where the marks begin.
    marks: usize,
}

impl Vocabulary {
    /// `normal` tokens before the marks, and unused ones after them until there are `all`.
    ///
    /// # Errors
    /// There are fewer than bytes and marks are.
    pub fn new(texts: &[String], normal: usize, all: usize, numbers: &mut Numbers) -> Result<Self> {
        let mut vocabulary = Self { tokens: Vec::new(), ids: BTreeMap::new(), merges: Vec::new(), marks: normal };
        for character in alphabet() {
            vocabulary.number(character.to_string());
        }
        ensure!(normal >= vocabulary.tokens.len() && all >= normal + MARKS.len(), "{all} tokens are too few");
        vocabulary.learn(texts, normal)?;
        vocabulary.make_up(normal, numbers);
        for (mark, _) in MARKS {
            vocabulary.number(mark.to_owned());
        }
        for id in vocabulary.tokens.len()..all {
            vocabulary.number(format!("[PAD{id}]"));
        }
        ensure!(vocabulary.tokens.len() == all, "a mark is a token of the texts, too");
        Ok(vocabulary)
    }

    /// Merges the most frequent pair of neighbours, again and again, until none occurs twice.
    fn learn(&mut self, texts: &[String], most: usize) -> Result<()> {
        let pattern = Regex::new(WORDS)?;
        let mut counts = BTreeMap::new();
        for word in texts.iter().flat_map(|text| pattern.find_iter(text)) {
            *counts.entry(word.as_str().as_bytes()).or_insert(0u64) += 1;
        }
        let mut words: Vec<(Vec<usize>, u64)> =
            counts.into_iter().map(|(word, count)| (word.iter().copied().map(usize::from).collect(), count)).collect();
        // How often each pair is there, and in which words it may be.
        let mut pairs: BTreeMap<(usize, usize), (u64, BTreeSet<usize>)> = BTreeMap::new();
        for (at, (word, count)) in words.iter().enumerate() {
            for pair in neighbours(word) {
                let (sum, places) = pairs.entry(pair).or_default();
                *sum += count;
                places.insert(at);
            }
        }
        let mut next: BinaryHeap<(u64, (usize, usize))> = pairs.iter().map(|(pair, (sum, _))| (*sum, *pair)).collect();
        while let Some((sum, pair)) = next.pop() {
            if self.tokens.len() >= most || sum < 2 {
                break;
            }
            let Some((_, places)) = pairs.get(&pair).filter(|(now, _)| *now == sum).cloned() else { continue };
            let merged = self.merge(pair).context("a token is missing")?;
            let mut changed = BTreeSet::new();
            for at in places {
                let (word, count) = words.get_mut(at).context("a word is missing")?;
                for pair in neighbours(word) {
                    if let Some((sum, _)) = pairs.get_mut(&pair) {
                        *sum -= *count;
                        changed.insert(pair);
                    }
                }
                *word = with_merged(word, pair, merged);
                for pair in neighbours(word) {
                    let (sum, places) = pairs.entry(pair).or_default();
                    *sum += *count;
                    places.insert(at);
                    changed.insert(pair);
                }
            }
            next.extend(changed.iter().filter_map(|pair| Some((pairs.get(pair)?.0, *pair))));
        }
        Ok(())
    }

    /// Fills up with tokens of letters that two others make.
    fn make_up(&mut self, most: usize, numbers: &mut Numbers) {
        while self.tokens.len() < most {
            let mut draw = || numbers.below(self.tokens.len());
            let pair = (draw(), draw());
            let (Some(left), Some(right)) = (self.tokens.get(pair.0), self.tokens.get(pair.1)) else { continue };
            let letters = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphabetic());
            let word = left.len() + right.len() <= LONGEST
                && letters(right)
                && letters(left.strip_prefix(SPACE).unwrap_or(left));
            if word && !self.ids.contains_key(&format!("{left}{right}")) {
                self.merge(pair);
            }
        }
    }

    /// Makes a token of two; two others may have made it before. Gives its number.
    fn merge(&mut self, pair: (usize, usize)) -> Option<usize> {
        let merged = format!("{}{}", self.tokens.get(pair.0)?, self.tokens.get(pair.1)?);
        self.merges.push(pair);
        Some(self.number(merged))
    }

    /// The number of a token that is or becomes one.
    fn number(&mut self, text: String) -> usize {
        let next = self.tokens.len();
        *self.ids.entry(text).or_insert_with_key(|text| {
            self.tokens.push(text.clone());
            next
        })
    }

    /// The number of a token.
    pub fn find(&self, text: &str) -> Option<usize> {
        self.ids.get(text).copied()
    }

    /// Writes it into a file.
    ///
    /// # Errors
    /// It has more tokens than can be counted.
    pub fn write(&self, writer: &mut Writer) -> Result<()> {
        const NORMAL: i32 = 1;
        const CONTROL: i32 = 3;
        const USER_DEFINED: i32 = 4;
        const UNUSED: i32 = 5;
        let mark = |(_, control): (&str, bool)| if control { CONTROL } else { USER_DEFINED };
        let mut kinds = vec![NORMAL; self.marks];
        kinds.extend(MARKS.map(mark));
        kinds.resize(self.tokens.len(), UNUSED);
        let text = |id: usize| self.tokens.get(id).map_or("", String::as_str);
        let merges = self.merges.iter().map(|(left, right)| format!("{} {}", text(*left), text(*right))).collect();
        writer.text("tokenizer.ggml.model", "gpt2");
        writer.text("tokenizer.ggml.pre", "qwen2");
        writer.entry("tokenizer.ggml.tokens", WriterValue::Texts(self.tokens.clone()));
        writer.entry("tokenizer.ggml.token_type", WriterValue::I32s(kinds));
        writer.entry("tokenizer.ggml.merges", WriterValue::Texts(merges));
        for (role, mark) in [("bos", "<|endoftext|>"), ("eos", "<|im_end|>"), ("padding", "<|endoftext|>")] {
            let id = u32::try_from(self.find(mark).context("a mark is missing")?)?;
            writer.entry(&format!("tokenizer.ggml.{role}_token_id"), WriterValue::U32(id));
        }
        writer.entry("tokenizer.ggml.add_bos_token", WriterValue::Bool(false));
        Ok(())
    }
}

/// The character that each byte is written as in byte-level vocabularies: itself if Latin-1 has a visible one, and else
/// the next from U+0100 on.
fn alphabet() -> Vec<char> {
    let mut others = '\u{100}'..;
    let visible = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let character = |byte| if visible(byte) { Some(char::from(byte)) } else { others.next() };
    (0..=255).filter_map(character).collect()
}

fn neighbours(word: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    word.windows(2).filter_map(|pair| if let [left, right] = pair { Some((*left, *right)) } else { None })
}

/// A word in which each such pair is one token.
fn with_merged(word: &[usize], pair: (usize, usize), merged: usize) -> Vec<usize> {
    let mut result = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, behind)) = rest.split_first() {
        let found = *first == pair.0 && behind.first() == Some(&pair.1);
        result.push(if found { merged } else { *first });
        rest = if found { behind.get(1..).unwrap_or(&[]) } else { behind };
    }
    result
}
