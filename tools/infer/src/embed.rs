//! `embed`: vectors of texts.

use std::path::PathBuf;

use anyhow::{Context, Result};
use capos_inference::{Embedder, EmbeddingModel};
use serde_json::json;

use crate::file::{ModelFile, read};
use crate::run::RunOptions;

#[derive(clap::Args)]
pub struct Args {
    /// The model file.
    model: PathBuf,
    /// Text to embed. Repeatable.
    #[arg(long, required_unless_present = "text_file")]
    text: Vec<String>,
    /// A file whose lines are texts; `-` for standard input.
    #[arg(long, conflicts_with = "text")]
    text_file: Option<PathBuf>,
}

pub fn run(args: &Args, options: &RunOptions, as_json: bool) -> Result<()> {
    let file = ModelFile::open(&args.model)?;
    let texts = match &args.text_file {
        None => args.text.clone(),
        Some(path) => {
            let text = String::from_utf8(read(path)?).with_context(|| format!("{} is not UTF-8", path.display()))?;
            text.lines().map(str::to_owned).collect()
        }
    };
    let model = EmbeddingModel::open(file.bytes(), options.context()).with_context(|| file.name().to_owned())?;
    let computer = options.computer()?;
    let mut embedder = Embedder::new(model.model(), model.tokenizer(), computer.machine(), options.generation())?;
    embedder.request(texts)?;
    let vectors = loop {
        if let Some((_, vectors)) = embedder.step() {
            break vectors?;
        }
    };
    if as_json {
        println!("{}", json!({ "vectors": vectors }));
        return Ok(());
    }
    for vector in vectors {
        println!("{}", vector.iter().map(f32::to_string).collect::<Vec<_>>().join(" "));
    }
    Ok(())
}
