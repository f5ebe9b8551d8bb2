//! Prompt caches of an image's models: what conversations in sessions of each profile begin with.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use capos_chat::{CallForm, Tool};
use capos_engine::{Machine, Single, kernel};
use capos_gguf::Header;
use capos_host::files::write_whole;
use capos_inference::{LanguageModel, prompt_cache};
use capos_model::{MAX_PROMPTS, PROMPTS};
use capos_verity::{FileDigest, SigningKey};

use crate::sign::sign_file;

/// Makes and signs the prompt cache of the model file at `path`, if that is one to which sessions send tools and no
/// instructions, as the built-in model is. For others it is not known when the image is built what they read first.
///
/// # Errors
/// The file cannot be read or run, or the cache not be written.
pub fn make(path: &Path, digest: FileDigest, tools: &[Vec<Tool>], key: &SigningKey) -> Result<()> {
    let file = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    // What cannot be run is reported where it is opened.
    let Ok(model) = LanguageModel::open(&file, None) else { return Ok(()) };
    let header = Header::parse(&file, file.len() as u64)?;
    if model.form() != Some(CallForm::Lines) {
        return Ok(());
    }
    // The reference is slower than other kernels, and gives the same bytes on each machine.
    let machine = Machine { kernels: kernel::reference(), pool: &Single };
    let id = capos_model::id(&digest.to_string(), &header);
    let reading = || format!("reading prompts with {}", path.display());
    let cache = prompt_cache(&model, &id, tools, machine).with_context(reading)?;
    ensure!(
        cache.len() as u64 <= MAX_PROMPTS,
        "the prompt cache of {} has {} bytes, and {MAX_PROMPTS} are kept",
        path.display(),
        cache.len()
    );
    let place = path.with_added_extension(PROMPTS);
    write_whole(&place, |file| Ok(file.write_all(&cache)?))?;
    sign_file::sign(&place, key)?;
    Ok(())
}
