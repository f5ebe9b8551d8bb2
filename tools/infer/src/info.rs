//! `info`: prints a model file's facts, and whether the engine can run it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use capos_chat::CallForm;
use capos_engine::{Model, Pooling};
use capos_verity::FileSignature;
use serde_json::json;

use crate::file::ModelFile;

#[derive(clap::Args)]
pub struct Args {
    /// The model file.
    model: PathBuf,
}

/// Whether the signature next to the model says that it can summarise a conversation; none if it is not signed. The signature is not
/// verified here.
fn summarises(model: &Path) -> Result<Option<bool>> {
    let mut path = OsString::from(model);
    path.push(".sig");
    let Ok(text) = std::fs::read(&path) else { return Ok(None) };
    let signature = FileSignature::parse(&text).with_context(|| path.display().to_string())?;
    Ok(Some(signature.summarises()))
}

pub fn run(args: &Args, as_json: bool) -> Result<()> {
    let file = ModelFile::open(&args.model)?;
    let header = file.header()?;
    let facts = header.facts();
    let model = Model::new(&header, file.bytes(), None).with_context(|| file.name().to_owned())?;
    let config = model.config();
    let mut types: BTreeMap<&str, u64> = BTreeMap::new();
    for tensor in header.tensors() {
        let bytes = types.entry(tensor.kind().name()).or_default();
        *bytes = bytes.saturating_add(tensor.bytes());
    }
    let facts = json!({
        "name": facts.name,
        "architecture": facts.architecture,
        "quantisation": facts.quantisation,
        "parameters": facts.parameters,
        "fileBytes": file.bytes().len(),
        "tensorBytes": types,
        "vocabulary": model.vocabulary(),
        "context": config.context,
        "width": config.width,
        "layers": config.layers,
        "heads": config.heads,
        "kvHeads": config.kv_heads,
        "keySize": config.key_size,
        "valueSize": config.value_size,
        "feedForward": config.feed_forward,
        "experts": config.experts.map(|experts| json!({"count": experts.count, "used": experts.used})),
        "window": config.window.map(|window| window.tokens),
        "tiedOutput": model.tied_output(),
        "unusedTensors": Some(model.unused()).filter(|unused| !unused.is_empty()),
        "bytesPerToken": model.bytes_per_token(),
        "licence": facts.license,
        "chatTemplate": facts.template_without_tools().is_some(),
        "callsTools": CallForm::first(facts.templates_with_tools()).is_some(),
        "writes": model.writes(),
        "summarises": summarises(&args.model)?,
        "pooling": config.pooling.map(|pooling| match pooling {
            Pooling::Mean => "mean",
            Pooling::First => "first",
            Pooling::Last => "last",
        }),
    });
    if as_json {
        println!("{facts}");
        return Ok(());
    }
    for (name, value) in facts.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        match value.as_str() {
            Some(text) => println!("{name}: {text}"),
            None => println!("{name}: {value}"),
        }
    }
    Ok(())
}
