//! `capos-infer detokenize`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use capos_tokenizer::Decoder;
use serde_json::json;

use crate::file::ModelFile;

#[derive(clap::Args)]
pub struct Args {
    /// The model file.
    model: PathBuf,
    /// Token ids, separated by commas.
    #[arg(long, value_delimiter = ',', num_args = 0..)]
    ids: Vec<u32>,
    /// Print special tokens such as `<|im_end|>` as text.
    #[arg(long)]
    special: bool,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let tokenizer = ModelFile::open(&args.model)?.tokenizer()?;
    let tokens = tokenizer.vocabulary().len();
    if let Some(id) = args.ids.iter().find(|id| tokenizer.vocabulary().text(**id).is_none()) {
        bail!("there is no token {id}: the file has {tokens}, from 0 on");
    }
    let decoder = Decoder::new(&tokenizer);
    let decoder = if args.special { decoder.with_marks() } else { decoder };
    let bytes = decoder.bytes(args.ids.iter().copied());
    let text = String::from_utf8_lossy(&bytes);
    match (json, std::str::from_utf8(&bytes)) {
        (false, _) => print!("{text}"),
        (true, Ok(_)) => println!("{}", json!({ "text": text })),
        // Text that was cut within a character: the bytes as well.
        (true, Err(_)) => println!("{}", json!({ "text": text, "bytes": bytes })),
    }
    Ok(())
}
