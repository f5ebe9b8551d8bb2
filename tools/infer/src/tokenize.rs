//! `capos-infer tokenize`.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use capos_tokenizer::Marks;
use serde_json::json;

use crate::file::ModelFile;

#[derive(clap::Args)]
pub struct Args {
    /// The model file.
    model: PathBuf,
    /// The text; `-` for standard input. Each byte that is no UTF-8 counts as U+FFFD.
    #[arg(long)]
    text_file: PathBuf,
    /// Turn marks such as `<|im_end|>` in the text into their tokens.
    #[arg(long)]
    special: bool,
    /// Add the tokens that text begins and ends with, where the file says that it does.
    #[arg(long)]
    bos: bool,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let tokenizer = ModelFile::open(&args.model)?.tokenizer()?;
    let text = utf8(&read(&args.text_file)?);
    let marks = if args.special { Marks::All } else { Marks::Text };
    let mut ids = Vec::new();
    ids.extend(tokenizer.begin().filter(|_| args.bos));
    ids.extend(tokenizer.encode(&text, marks));
    ids.extend(tokenizer.end().filter(|_| args.bos));
    if json {
        println!("{}", json!({ "ids": ids }));
    } else {
        for id in ids {
            println!("{id}\t{:?}", tokenizer.vocabulary().text(id).unwrap_or(""));
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().read_to_end(&mut bytes).context("standard input cannot be read")?;
        return Ok(bytes);
    }
    std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))
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
