//! Models that a person names for an image: checked, signed, and before all others of the image.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use capos_gguf::Header;
use capos_inference::{EmbeddingModel, LanguageModel};
use capos_model::Backend;
use capos_verity::SigningKey;

use crate::models::prompts::PromptCaches;
use crate::sign::name_of;
use crate::sign::sign_file::declare;
use capos_host::files::{self, write_whole};

/// Where models are on the image.
const FOLDER: &str = "boot/models";
/// Where the image says in which order models are offered: their files' names, one a line.
const ORDER: &str = "etc/models";

/// Model files that a backend of the system could serve when they were checked, each under its own name. They are
/// checked before anything is built, since a build takes much longer. A file that changes afterwards is packed with its
/// new content.
#[derive(Debug)]
pub struct PackedModels {
    files: Vec<PathBuf>,
    /// Names of those that can summarise a conversation.
    able: BTreeSet<String>,
}

impl PackedModels {
    /// Looks at the files.
    ///
    /// # Errors
    /// One cannot be read or served, or is called as another is; says which and why.
    pub fn check(models: Vec<PathBuf>) -> Result<Self> {
        let mut names = BTreeSet::new();
        for model in &models {
            let name = name_of(model)?;
            ensure!(name.ends_with(".gguf"), "{}: the name of a model must end in .gguf", model.display());
            ensure!(names.insert(name), "{}: another of the models is called {name} too", model.display());
            let unused = servable(model).with_context(|| format!("{} cannot be packed", model.display()))?;
            if !unused.is_empty() {
                eprintln!("{}: no backend of capOS computes with {}", model.display(), unused.join(", "));
            }
        }
        Ok(Self { files: models, able: BTreeSet::new() })
    }

    /// The same, with the names of those that can summarise a conversation, which their signatures then say.
    ///
    /// # Errors
    /// None of the models has one of the names.
    pub fn summarise(self, names: &[String]) -> Result<Self> {
        for name in names {
            let is_name = |file: &PathBuf| name_of(file).is_ok_and(|found| found == name);
            ensure!(self.files.iter().any(is_name), "none of the models is called {name}, which is to summarise");
        }
        Ok(Self { able: names.iter().cloned().collect(), ..self })
    }

    /// Whether no model is named.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// MiB of all files together, rounded up.
    ///
    /// # Errors
    /// A file is gone.
    pub fn mebibytes(&self) -> Result<u32> {
        let length = |model: &PathBuf| std::fs::metadata(model).with_context(|| format!("reading {}", model.display()));
        let bytes =
            self.files.iter().try_fold(0_u64, |sum, model| anyhow::Ok(sum.saturating_add(length(model)?.len())))?;
        Ok(u32::try_from(bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX))
    }

    /// Makes the folder `tree`, which puts the model files on an image, signed with `key`, with their prompt caches.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn pack(&self, key: &SigningKey, prompts: &PromptCaches, tree: &Path) -> Result<()> {
        // Files of an earlier call may be of other models.
        if tree.exists() {
            std::fs::remove_dir_all(tree).with_context(|| format!("removing {}", tree.display()))?;
        }
        let mut order = String::new();
        for model in &self.files {
            let name = name_of(model)?;
            let placed = tree.join(FOLDER).join(name);
            files::copy_if_newer(model, &placed)?;
            let digest = declare(&placed, key, self.able.contains(name))?;
            prompts.make(&placed, digest, key)?;
            order.push_str(name);
            order.push('\n');
        }
        let order_file = tree.join(ORDER);
        std::fs::create_dir_all(tree.join("etc"))?;
        write_whole(&order_file, |file| Ok(file.write_all(order.as_bytes())?))
    }
}

/// Most tensors that are named of those which nothing computes with.
const UNUSED_NAMED: usize = 4;

/// Whether a backend of the system can serve a file: better an error here than from the worker. Gives the names of
/// tensors that it does so without.
fn servable(path: &Path) -> Result<Vec<String>> {
    let file = std::fs::read(path).context("it cannot be read")?;
    ensure!(!file.is_empty(), "it is empty; fetch it again");
    let damaged = "it is damaged, or not all of it is there; fetch it again";
    let header = Header::parse(&file, file.len() as u64).context(damaged)?;
    Ok(match Backend::of(&header)? {
        Backend::Engine => {
            let model = LanguageModel::open(&file, None)?;
            try_out(path, &model)?;
            named(model.model().unused())
        }
        Backend::Embedder => named(EmbeddingModel::open(&file, None)?.model().unused()),
        Backend::Scripted | Backend::Retrieval(_) => Vec::new(),
    })
}

/// The first of some tensors, and how many others there are.
fn named(tensors: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = tensors.iter().take(UNUSED_NAMED).map(ToString::to_string).collect();
    let others = tensors.len().saturating_sub(names.len());
    names.extend((others > 0).then(|| format!("{others} more")));
    names
}

/// Renders sample conversations with a model's template. Its limits beyond a question are reported; the model can be
/// used without tools.
fn try_out(path: &Path, model: &LanguageModel<'_>) -> Result<()> {
    for rejected in model.format().try_out()? {
        eprintln!("warning: {}: {rejected}", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::models::prompts::Sessions;
    use capos_gguf::Synthetic;
    use capos_verity::{PURPOSE_MODEL_WEIGHTS, TrustStore};

    use crate::sign::verify::verify;

    /// Make by itself keeps the last value of a variable that is given twice.
    #[test]
    fn make_takes_each_model_that_is_named() {
        let named = |models: &[&str]| {
            let shown = "shown:;@echo \"$$MODEL\"";
            let mut make = Command::new("make");
            make.args([
                "-s",
                "-C",
                concat!(env!("CARGO_MANIFEST_DIR"), "/../.."),
                "--no-print-directory",
                "--eval",
                shown,
            ])
            .args(models.iter().map(|model| format!("MODEL={model}")))
            .arg("shown")
            // The settings of a make around this test must not affect it.
            .env_remove("MAKEFLAGS")
            .env_remove("MAKELEVEL")
            .env_remove("MODEL");
            let output = make.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(named(&["a.gguf"]), "a.gguf\n");
        assert_eq!(named(&["a.gguf", "/b/c.gguf"]), "a.gguf /b/c.gguf\n");
        assert_eq!(named(&["a.gguf b.gguf"]), "a.gguf b.gguf\n");
        assert_eq!(named(&["a.gguf b.gguf", "c.gguf"]), "a.gguf b.gguf c.gguf\n");
        // Blanks may belong to a name: `Models` decides which do.
        assert_eq!(named(&["my  model.gguf"]), "my  model.gguf\n");
        assert_eq!(named(&["my  model.gguf", "c.gguf"]), "my  model.gguf c.gguf\n");
        assert_eq!(named(&[]), "\n");
    }

    #[test]
    fn models_are_signed_and_their_order_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (seed, name) in [(1, "z.gguf"), (2, "a.gguf")] {
            std::fs::write(at(name), Synthetic::new(256 << 10, seed).unwrap().to_vec()).unwrap();
        }
        let key = SigningKey::from_seed(PURPOSE_MODEL_WEIGHTS, [1; 32]).unwrap();
        let mut trust = TrustStore::new();
        trust.allow(key.public(), key.purpose()).unwrap();
        let tree = at("tree");
        let models = PackedModels::check(vec![at("z.gguf"), at("a.gguf")]).unwrap();
        let models = models.summarise(&["a.gguf".into()]).unwrap();
        assert_eq!(
            (models.mebibytes().unwrap(), PackedModels::check(Vec::new()).unwrap().mebibytes().unwrap()),
            (1, 0)
        );
        models.pack(&key, &PromptCaches::new(Sessions::default(), at("kept")), &tree).unwrap();
        for name in ["z.gguf", "a.gguf"] {
            let found = verify(&tree.join(FOLDER).join(name), &trust, PURPOSE_MODEL_WEIGHTS).unwrap();
            assert_eq!(found.summarises(), name == "a.gguf");
        }
        let error = models.summarise(&["b.gguf".into()]).unwrap_err().to_string();
        assert_eq!(error, "none of the models is called b.gguf, which is to summarise");
        assert_eq!(std::fs::read_to_string(tree.join(ORDER)).unwrap(), "z.gguf\na.gguf\n");
        PackedModels::check(vec![at("a.gguf")])
            .unwrap()
            .pack(&key, &PromptCaches::new(Sessions::default(), at("kept")), &tree)
            .unwrap();
        assert!(!tree.join(FOLDER).join("z.gguf").exists(), "a model of the call before is still there");
    }

    /// B03: a file that embeds texts has no template, and needs none.
    #[test]
    fn tensors_that_nothing_computes_with_are_named() {
        assert_eq!(named(&["mm.0", "v.1"]), ["mm.0", "v.1"]);
        assert_eq!(named(&["a", "b", "c", "d", "e", "f"]), ["a", "b", "c", "d", "2 more"]);
    }

    #[test]
    fn b03_embedders_are_packed_where_they_embed() {
        let folder = tempfile::tempdir().unwrap();
        let packed = |name: &str| {
            let path = folder.path().join(format!("{name}.gguf"));
            std::fs::write(&path, capos_hostile_models::named(name).unwrap().file).unwrap();
            PackedModels::check(vec![path]).map_err(|error| format!("{error:#}"))
        };
        packed("embedder").unwrap();
        for (name, why) in [
            ("pooling-ranks", "this model ranks texts and does not embed them"),
            ("positions-not-there", "the tensor 'position_embd.weight' is missing"),
        ] {
            let error = packed(name).unwrap_err();
            assert!(error.contains("cannot be packed: ") && error.contains(why), "{name}: {error}");
        }
    }

    #[test]
    fn what_no_backend_can_serve_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let good = Synthetic::new(256 << 10, 1).unwrap().to_vec();
        let replaced = |old: &[u8], new: &[u8]| {
            let mut bytes = good.clone();
            let place = bytes.windows(old.len()).position(|part| part == old).unwrap();
            bytes[place..place + new.len()].copy_from_slice(new);
            bytes
        };
        let error = format!("{:#}", PackedModels::check(vec![at("none.gguf")]).unwrap_err());
        assert!(error.contains("none.gguf cannot be packed: it cannot be read: "), "{error}");
        let cases: [(&str, Vec<u8>, &str); 8] = [
            ("good", good.clone(), "must end in .gguf"),
            ("text.gguf", b"no model".to_vec(), "text.gguf cannot be packed: "),
            ("cut.gguf", good[..good.len() - 4096].to_vec(), "cut.gguf cannot be packed: "),
            (
                "mamba.gguf",
                replaced(b"llama\x0c\0\0\0\0\0\0\0general.name", b"mamba"),
                "the architecture 'mamba' is not known",
            ),
            (
                "tensor.gguf",
                replaced(b"output_norm.weight", b"output_from.weight"),
                "the tensor 'output_norm.weight' is missing",
            ),
            (
                "template.gguf",
                replaced(b"{% endfor %}", b"{% endfar %}"),
                "the model file's chat template cannot be read: ",
            ),
            (
                "rejects.gguf",
                replaced(b"add_generation_prompt %}", b"raise_exception('no') %}"),
                "the model file's chat template does not take this conversation: ",
            ),
            ("tokens.gguf", replaced(b"tokenizer.ggml.tokens", b"tokenizer.ggml.takens"), "tokenizer.ggml.tokens"),
        ];
        for (name, bytes, why) in cases {
            std::fs::write(at(name), bytes).unwrap();
            let error = format!("{:#}", PackedModels::check(vec![at(name)]).unwrap_err());
            assert!(error.contains(why), "{name}: {error}");
        }
        std::fs::create_dir(at("other")).unwrap();
        std::fs::write(at("same.gguf"), &good).unwrap();
        std::fs::write(at("other/same.gguf"), &good).unwrap();
        let error = PackedModels::check(vec![at("same.gguf"), at("other/same.gguf")]).unwrap_err().to_string();
        assert!(error.contains("is called same.gguf too"), "{error}");
    }
}
