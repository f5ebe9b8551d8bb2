//! Models that a scenario has on its image besides the built-in one: good ones, and ones that must be rejected.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use capos_gguf::Synthetic;
use capos_model::SCRIPTED;
use capos_retrieval::Title;
use capos_verity::{PURPOSE_MODEL_WEIGHTS, SigningKey, TrustStore};
use serde::Deserialize;

use crate::models::chain::{self, Chain};
use crate::models::handbook;
use crate::models::prompts::PromptCaches;
use crate::models::random::{self, Random};
use crate::sign::sign_file::declare;
use crate::sign::{parse_size, read_key, read_trust, signature_path, tree_path};
use capos_host::files::write_whole;

/// Where models are on the image.
const FOLDER: &str = "boot/models";
/// Where the first files of home directories are.
const HOME: &str = "scenario/home";
/// Where the trust store is on the image.
const TRUST: &str = "etc/trust";
/// The metadata by which a model says that it can call tools.
const TEMPLATE: &[u8] = b"tokenizer.chat_template";
/// The name that a made model gives itself.
const TITLE: &[u8] = b"capOS synthetic";

/// A model, as `[[runner.model]]` asks for it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraModel {
    /// Its file's name in `/boot/models`.
    pub name: String,
    /// Its name for itself; at most 15 bytes, except in a handbook.
    pub title: Option<String>,
    /// Its size.
    #[serde(default = "default_size")]
    pub size: String,
    /// The seed of its content.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// The text of the handbook from which it answers; size, seed and tools are the handbook's then.
    pub handbook: Option<String>,
    /// A model file, by its path from the scenario's folder; title, size, seed and tools are the file's then.
    pub file: Option<PathBuf>,
    /// One of the files of `tools/hostile-models`, by its name, in place of title, size, seed and tools.
    pub hostile: Option<String>,
    /// Its output, token by token, instead of size, seed and tools; the engine runs it.
    pub chain: Option<Chain>,
    /// Has the shape of a common model, with random weights, instead of size and tools; the engine runs it.
    pub random: Option<Random>,
    /// Whether its answers come from a script; otherwise the engine computes them.
    #[serde(default = "default_scripted")]
    pub scripted: bool,
    /// Whether its layers have many experts, a few of which each token reads; the engine runs it then.
    #[serde(default)]
    pub experts: bool,
    /// Whether keys and values of each of its tokens are large compared with its weights; the engine then runs it.
    #[serde(default)]
    pub wide_heads: bool,
    /// Whether it says that it can call tools.
    #[serde(default = "default_tools")]
    pub tools: bool,
    /// Whether its signature says that it can summarise a conversation.
    #[serde(default)]
    pub summarises: bool,
    /// Whose signature it has.
    #[serde(default)]
    pub key: Signer,
    /// A byte that is inverted after signing.
    pub flip: Option<Flip>,
    /// Whether it is with the first files of home directories instead of the image's models.
    #[serde(default)]
    pub in_home: bool,
}

fn default_size() -> String {
    "1MiB".to_owned()
}

fn default_seed() -> u64 {
    7
}

fn default_tools() -> bool {
    true
}

fn default_scripted() -> bool {
    true
}

/// The signer of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signer {
    /// The key that the image trusts for weights.
    #[default]
    Trusted,
    /// A key that the image trusts for programs.
    OtherPurpose,
    /// A key for weights that the image does not know.
    Unknown,
    /// There is no signature.
    Nobody,
}

/// Which byte is inverted.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flip {
    /// Of which file.
    pub part: Part,
    /// Its place there; from the end if negative.
    pub at: i64,
}

/// The files of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The model itself.
    Weights,
    /// Its Merkle tree.
    Tree,
    /// Its signature.
    Signature,
    /// Its prompt cache.
    Prompts,
}

/// Makes the models of the scenario in `scenario`. They go to `tree`, a folder that is laid over the one in `stage` on
/// the image. `keys` holds the key that the image trusts.
pub fn make(
    models: &[ExtraModel],
    scenario: &Path,
    keys: &Path,
    prompts: &PromptCaches,
    stage: &Path,
    tree: &Path,
) -> Result<()> {
    if tree.exists() {
        std::fs::remove_dir_all(tree).with_context(|| format!("removing {}", tree.display()))?;
    }
    let mut trust = read_trust(&stage.join(TRUST))?;
    for model in models {
        let folder = tree.join(if model.in_home { HOME } else { FOLDER });
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        make_one(model, scenario, (keys, prompts), &mut trust, &folder)
            .with_context(|| format!("the model {}", model.name))?;
    }
    let path = tree.join(TRUST);
    std::fs::create_dir_all(tree.join("etc"))?;
    write_whole(&path, |file| Ok(file.write_all(trust.to_text().as_bytes())?))
}

fn make_one(
    model: &ExtraModel,
    scenario: &Path,
    (keys, prompts): (&Path, &PromptCaches),
    trust: &mut TrustStore,
    folder: &Path,
) -> Result<()> {
    let name = &model.name;
    ensure!(name.ends_with(".gguf") && !name.contains('/'), "the name must end in .gguf and contain no folders");
    let path = folder.join(name);
    match (&model.file, &model.handbook, &model.hostile, &model.chain, &model.random) {
        (Some(file), None, None, None, None) => {
            let file = scenario.join(file);
            std::fs::copy(&file, &path).with_context(|| format!("copying {}", file.display()))?;
        }
        (None, Some(text), None, None, None) => {
            let name = model.title.as_deref().unwrap_or("handbook");
            handbook::create(&path, text, Title { name, license: "" })?;
        }
        (None, None, Some(name), None, None) => {
            let file = capos_hostile_models::named(name)?.file;
            std::fs::write(&path, file).with_context(|| format!("writing {}", path.display()))?;
        }
        (None, None, None, Some(chain), None) => {
            let file = chain::file(chain, model.title.as_deref().unwrap_or("chain"), scenario)?;
            std::fs::write(&path, file).with_context(|| format!("writing {}", path.display()))?;
        }
        (None, None, None, None, Some(random)) => {
            let title = model.title.as_deref().unwrap_or("random");
            random::create(&path, random, title, model.seed, scenario)?;
        }
        (None, None, None, None, None) => {
            std::fs::write(&path, synthetic(model)?).with_context(|| format!("writing {}", path.display()))?;
        }
        _ => bail!("give one of `file`, `handbook`, `hostile`, `chain` and `random` for a model, not several"),
    }
    sign_and_spoil(model, &path, (keys, prompts), trust)
}

/// The file of a meaningless model: one that is neither a file, nor a handbook, nor hostile, nor a chain, nor random.
pub fn synthetic(model: &ExtraModel) -> Result<Vec<u8>> {
    let size = parse_size(&model.size).map_err(anyhow::Error::msg)?;
    let mut bytes = Vec::new();
    let entries: &[_] = if model.scripted { &[SCRIPTED] } else { &[] };
    let made = if model.experts {
        Synthetic::of_experts(size, model.seed)?
    } else if model.wide_heads {
        Synthetic::of_wide_heads(size, model.seed)?
    } else {
        Synthetic::with_entries(size, model.seed, entries)?
    };
    made.write(|piece| {
        bytes.extend_from_slice(piece);
        std::io::Result::Ok(())
    })?;
    // A replacement has the length of the original, so nothing else moves.
    if !model.tools {
        // Under another name the template counts as absent.
        replace(&mut bytes, TEMPLATE, b"tokenizer.chat_templat_")?;
    }
    if let Some(title) = &model.title {
        replace(&mut bytes, TITLE, format!("{title:width$}", width = TITLE.len()).as_bytes())?;
    }
    Ok(bytes)
}

/// Signs a model as it asks for, and makes the change to it that it asks for.
fn sign_and_spoil(
    model: &ExtraModel,
    path: &Path,
    (keys, prompts): (&Path, &PromptCaches),
    trust: &mut TrustStore,
) -> Result<()> {
    // Keys of a test are not secret; they differ so that they cannot be confused.
    let key = match model.key {
        Signer::Trusted | Signer::Nobody => read_key(&keys.join(format!("{PURPOSE_MODEL_WEIGHTS}.key")))?,
        Signer::OtherPurpose => SigningKey::from_seed("program", [2; 32])?,
        Signer::Unknown => SigningKey::from_seed(PURPOSE_MODEL_WEIGHTS, [3; 32])?,
    };
    let digest = declare(path, &key, model.summarises)?;
    if model.file.is_some() {
        prompts.make(path, digest, &key)?;
    }
    match model.key {
        Signer::OtherPurpose => trust.allow(key.public(), key.purpose())?,
        Signer::Nobody => std::fs::remove_file(signature_path(path))?,
        Signer::Trusted | Signer::Unknown => {}
    }
    if let Some(flip) = &model.flip {
        let part = match flip.part {
            Part::Weights => path.to_path_buf(),
            Part::Tree => tree_path(path),
            Part::Signature => signature_path(path),
            Part::Prompts => path.with_added_extension(capos_model::PROMPTS),
        };
        let mut bytes = std::fs::read(&part)?;
        let size = i64::try_from(bytes.len())?;
        let at = if flip.at < 0 { size + flip.at } else { flip.at };
        let byte = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at));
        let byte = byte.with_context(|| format!("{} has {size} bytes, none at {}", part.display(), flip.at))?;
        // In a signature, which is text, a digit becomes another digit.
        *byte = if flip.part == Part::Signature { *byte ^ 1 } else { !*byte };
        std::fs::write(&part, bytes)?;
    }
    Ok(())
}

fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) -> Result<()> {
    ensure!(old.len() == new.len(), "{:?} has more than {} bytes", String::from_utf8_lossy(new), old.len());
    let at = bytes.windows(old.len()).position(|part| part == old);
    let place = at.and_then(|at| bytes.get_mut(at..at + old.len())).context("the made model is not as expected")?;
    place.copy_from_slice(new);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::prompts::Sessions;
    use crate::sign::keygen;
    use crate::sign::verify;

    fn made(toml: &str) -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let keygen =
            ["capos", "--out", at("keys").to_str().unwrap(), "--purpose", PURPOSE_MODEL_WEIGHTS].map(String::from);
        keygen::run(&parsed(&keygen)).unwrap();
        std::fs::create_dir_all(at("stage/etc")).unwrap();
        std::fs::copy(at("keys/trust"), at("stage/etc/trust")).unwrap();
        std::fs::write(at("own.gguf"), Synthetic::new(256 << 10, 1).unwrap().to_vec()).unwrap();
        let model: ExtraModel = toml::from_str(&format!("name = \"x.gguf\"\nsize = \"256KiB\"\n{toml}")).unwrap();
        let prompts = PromptCaches::new(Sessions::default(), at("kept"));
        make(&[model], folder.path(), &at("keys"), &prompts, &at("stage"), &at("tree")).unwrap();
        let trust = read_trust(&at("tree/etc/trust")).unwrap();
        verify::verify(&at("tree/boot/models/x.gguf"), &trust, PURPOSE_MODEL_WEIGHTS).map(drop)
    }

    fn parsed(words: &[String]) -> keygen::Args {
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            args: keygen::Args,
        }
        <Cli as clap::Parser>::parse_from(words).args
    }

    #[test]
    fn good_models_verify_and_bad_ones_do_not() {
        made("").unwrap();
        made("tools = false\ntitle = \"no tools\"").unwrap();
        made("handbook = \"? a\\nb\"").unwrap();
        made("file = \"own.gguf\"").unwrap();
        made("hostile = \"weights-nan\"").unwrap();
        for (bad, why) in [
            ("key = \"other-purpose\"", "purpose"),
            ("key = \"unknown\"", "trust"),
            ("key = \"nobody\"", "x.gguf.sig"),
            ("flip = { part = \"weights\", at = 200000 }", "rejected"),
            ("flip = { part = \"tree\", at = 0 }", "x.gguf.verity"),
            ("flip = { part = \"signature\", at = -2 }", "rejected"),
        ] {
            let error = format!("{:#}", made(bad).unwrap_err());
            assert!(error.contains(why), "{bad}: {error}");
        }
    }
}
