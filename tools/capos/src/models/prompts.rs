//! Prompt caches of an image's models: what conversations in sessions of each profile begin with.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use capos_chat::{CallForm, Tool};
use capos_engine::{Machine, Single, kernel};
use capos_gguf::Header;
use capos_host::files::write_whole;
use capos_host::program::this_program;
use capos_inference::{LanguageModel, beginning, prompt_cache};
use capos_model::{MAX_PROMPTS, PROMPTS};
use capos_verity::{FileDigest, SigningKey};
use sha2::{Digest, Sha256};

use crate::sign::sign_file;

/// Makes prompt caches, and keeps them: to compute one takes as long as many answers.
pub struct PromptCaches {
    /// The tools of sessions of each profile.
    tools: Vec<Vec<Tool>>,
    kept: PathBuf,
}

impl PromptCaches {
    /// Those of sessions that have one of these sets of tools. They are kept in the folder `kept`.
    pub fn new(tools: Vec<Vec<Tool>>, kept: PathBuf) -> Self {
        Self { tools, kept }
    }

    /// Makes and signs the prompt cache of the model file at `path`, if that is one to which sessions send tools and no
    /// instructions, as the built-in model is. For others it is not known when the image is built what they read first.
    ///
    /// # Errors
    /// The file cannot be read or run, or the cache not be written.
    pub fn make(&self, path: &Path, digest: FileDigest, key: &SigningKey) -> Result<()> {
        let file = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        // What cannot be run is reported where it is opened.
        let Ok(model) = LanguageModel::open(&file, None) else { return Ok(()) };
        let header = Header::parse(&file, file.len() as u64)?;
        if model.form() != Some(CallForm::Lines) {
            return Ok(());
        }
        let id = capos_model::id(&digest.to_string(), &header);
        let cache = self.cache(path, &model, &id)?;
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

    /// The kept cache of a model, or one that is computed now.
    fn cache(&self, path: &Path, model: &LanguageModel<'_>, id: &str) -> Result<Vec<u8>> {
        let of_program = self.of_program()?;
        let kept = of_program.join(name(model, id, &self.tools)?);
        if let Ok(cache) = std::fs::read(&kept) {
            return Ok(cache);
        }
        println!("Computing what sessions of {} begin with.", path.display());
        // The reference is slower than other kernels, and gives the same bytes on each machine.
        let machine = Machine { kernels: kernel::reference(), pool: &Single };
        let reading = || format!("reading prompts with {}", path.display());
        let cache = prompt_cache(model, id, &self.tools, machine).with_context(reading)?;
        write_whole(&kept, |file| Ok(file.write_all(&cache)?))?;
        Ok(cache)
    }

    /// The folder of what this program has computed; what another version of it computed is removed.
    fn of_program(&self) -> Result<PathBuf> {
        let program = this_program()?;
        let bytes = std::fs::read(&program).with_context(|| format!("reading {}", program.display()))?;
        let folder = self.kept.join(digits(Sha256::new_with_prefix(bytes)));
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        for entry in std::fs::read_dir(&self.kept).with_context(|| format!("listing {}", self.kept.display()))? {
            let other = entry?.path();
            if other != folder {
                // Another thread that makes an image may have removed it already.
                let _ = std::fs::remove_dir_all(other);
            }
        }
        Ok(folder)
    }
}

/// The name under which a program keeps the cache of a model with this id and these tools.
fn name(model: &LanguageModel<'_>, id: &str, tools: &[Vec<Tool>]) -> Result<String> {
    let mut hash = Sha256::new_with_prefix(id);
    for tools in tools {
        let tokens = beginning(model, tools)?;
        hash.update((tokens.len() as u64).to_le_bytes());
        tokens.iter().for_each(|token| hash.update(token.to_le_bytes()));
    }
    Ok(digits(hash))
}

fn digits(hash: Sha256) -> String {
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_verity::PURPOSE_MODEL_WEIGHTS;

    #[test]
    fn a_cache_is_computed_once_by_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let (model, kept) = (folder.path().join("assistant.gguf"), folder.path().join("kept"));
        std::fs::copy("../../iso_root/boot/models/assistant.gguf", &model).unwrap();
        std::fs::create_dir_all(kept.join("of-another-program")).unwrap();
        let key = SigningKey::from_seed(PURPOSE_MODEL_WEIGHTS, [1; 32]).unwrap();
        let digest = sign_file::declare(&model, &key, false).unwrap();
        let make = |tools: Vec<Vec<Tool>>| {
            PromptCaches::new(tools, kept.clone()).make(&model, digest, &key).unwrap();
            std::fs::read(model.with_added_extension(PROMPTS)).unwrap()
        };
        let files = || {
            let folders: Vec<_> = std::fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert_eq!(folders.len(), 1, "{folders:?}");
            let mut files: Vec<_> =
                std::fs::read_dir(&folders[0]).unwrap().map(|entry| entry.unwrap().path()).collect();
            files.sort();
            files
        };
        let computed = make(vec![Vec::new()]);
        let [file] = &files()[..] else { panic!("{:?}", files()) };
        assert_eq!(std::fs::read(file).unwrap(), computed);
        // The kept file is what the image gets.
        std::fs::write(file, b"kept").unwrap();
        assert_eq!(make(vec![Vec::new()]), b"kept");
        // Other tools have another cache.
        assert_eq!(make(vec![Vec::new(), Vec::new()]).get(..8), computed.get(..8));
        assert_eq!(files().len(), 2);
    }
}
