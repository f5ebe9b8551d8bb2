//! `capos-infer tokenize`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use capos_tokenizer::Marks;
use serde_json::json;

use crate::file::{ModelFile, read};

#[derive(clap::Args)]
pub struct Args {
    /// The model file.
    model: PathBuf,
    /// Text file; `-` for standard input. Each byte that is not UTF-8 becomes U+FFFD.
    #[arg(long, required_unless_present = "texts")]
    text_file: Option<PathBuf>,
    /// Several texts instead of one, as a JSON array of strings; the output is then a list for each.
    #[arg(long, conflicts_with = "text_file")]
    texts: Option<PathBuf>,
    /// Convert special tokens such as `<|im_end|>` in the text to their ids.
    #[arg(long)]
    special: bool,
    /// Add the begin and end tokens, if the model file requires them.
    #[arg(long)]
    bos: bool,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let tokenizer = ModelFile::open(&args.model)?.tokenizer()?;
    let marks = if args.special { Marks::All } else { Marks::Text };
    let encode = |text: &str| {
        let mut ids = Vec::new();
        ids.extend(tokenizer.begin().filter(|_| args.bos));
        ids.extend(tokenizer.encode(text, marks));
        ids.extend(tokenizer.end().filter(|_| args.bos));
        ids
    };
    let show = |ids: &[u32]| {
        ids.iter().for_each(|id| println!("{id}\t{:?}", tokenizer.vocabulary().text(*id).unwrap_or("")));
    };
    if let Some(path) = &args.texts {
        let texts: Vec<String> = serde_json::from_slice(&read(path)?)
            .with_context(|| format!("{} is not a JSON array of strings", path.display()))?;
        let ids: Vec<Vec<u32>> = texts.iter().map(|text| encode(text)).collect();
        if json {
            println!("{}", json!({ "ids": ids }));
        } else {
            ids.iter().for_each(|ids| show(ids));
        }
        return Ok(());
    }
    let text = utf8(&read(args.text_file.as_deref().context("there is no text; name a file with --text-file")?)?);
    let ids = encode(&text);
    if json {
        println!("{}", json!({ "ids": ids }));
    } else {
        show(&ids);
    }
    Ok(())
}

fn utf8(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '\u{fffd}'));
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_byte_that_is_no_text_is_replaced() {
        assert_eq!(super::utf8(b"a\xffb\xe4\xbdc\xc3\xbc"), "a\u{fffd}b\u{fffd}\u{fffd}cü");
    }
}
