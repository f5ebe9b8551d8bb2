//! Prompt caches of an image's models: what conversations in sessions of each profile begin with.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use capos_chat::{CallForm, Tool};
use capos_engine::{Machine, Single, kernel};
use capos_engine_threads::{Threads, permit_tiles};
use capos_gguf::Header;
use capos_host::files::{remove_if_there, write_if_changed, write_whole};
use capos_host::program::this_program;
use capos_inference::{LanguageModel, beginning, prompt_cache, token_bytes};
use capos_model::{PROMPTS, most_prompt_bytes};
use capos_verity::{FileDigest, SigningKey};
use sha2::{Digest, Sha256};

use crate::sign::{sign_file, signature_path, tree_path};

/// Seconds between two reports of progress.
const REPORTS: u64 = 10;

/// What conversations in sessions begin with.
#[derive(Default)]
pub struct Sessions {
    /// What a session tells its model first. The built-in model's template leaves it out.
    pub system: String,
    /// The tools of sessions of each profile.
    pub tools: Vec<Vec<Tool>>,
}

/// Makes prompt caches, and keeps them: to compute one takes as long as many answers.
pub struct PromptCaches {
    sessions: Sessions,
    kept: PathBuf,
}

impl PromptCaches {
    /// Those of these sessions. They are kept in the folder `kept`.
    pub fn new(sessions: Sessions, kept: PathBuf) -> Self {
        Self { sessions, kept }
    }

    /// Makes and signs the prompt cache of the model file at `path`, if that calls tools. One that is there is removed first. Says
    /// whether it has one now.
    ///
    /// # Errors
    /// The file cannot be read or run, or the cache not be written.
    pub fn make(&self, path: &Path, digest: FileDigest, key: &SigningKey) -> Result<bool> {
        let place = path.with_added_extension(PROMPTS);
        for old in [place.clone(), tree_path(&place), signature_path(&place)] {
            remove_if_there(&old)?;
        }
        let file = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        // What cannot be run is reported where it is opened.
        let Ok(model) = LanguageModel::open(&file, None) else { return Ok(false) };
        if model.form().is_none() {
            return Ok(false);
        }
        let header = Header::parse(&file, file.len() as u64)?;
        let id = capos_model::id(&digest.to_string(), &header);
        let Some(cache) = self.cache(path, &model, &id, most_prompt_bytes(file.len() as u64))? else {
            return Ok(false);
        };
        write_whole(&place, |file| Ok(file.write_all(&cache)?))?;
        sign_file::sign(&place, key)?;
        Ok(true)
    }

    /// The kept cache of a model, or one that is computed now; none if it would have more than `most` bytes.
    fn cache(&self, path: &Path, model: &LanguageModel<'_>, id: &str, most: u64) -> Result<Option<Vec<u8>>> {
        let begin = |tools: &Vec<Tool>| beginning(model, &self.sessions.system, tools);
        let mut beginnings = match self.sessions.tools.iter().map(begin).collect::<Result<Vec<_>, _>>() {
            Ok(beginnings) => beginnings,
            // The model may still be of use, for other conversations.
            Err(error) => {
                println!("{}: its template rejects what sessions begin with: {error}", path.display());
                return Ok(None);
            }
        };
        // In a shorter context such a session does not fit.
        beginnings.retain(|tokens| !tokens.is_empty() && tokens.len() < model.model().context());
        if beginnings.is_empty() && !self.sessions.tools.is_empty() {
            println!(
                "{}: sessions with it have no common beginning, or none that fits into its context",
                path.display()
            );
            return Ok(None);
        }
        // A worker without room for all of them keeps those that it read last.
        beginnings.sort_by_key(Vec::len);
        let kept = self.of_program()?.join(name(id, &beginnings));
        if let Ok(cache) = std::fs::read(&kept) {
            return Ok(Some(cache));
        }
        let tokens = beginnings.iter().map(Vec::len).fold(0, usize::saturating_add);
        let bytes = tokens.saturating_mul(token_bytes(model)) as u64;
        if bytes > most {
            let [mib, most] = [bytes, most].map(|bytes| bytes >> 20);
            println!(
                "{}: what sessions begin with would take {mib} MiB on the image, and {most} MiB are kept; the model reads it in \
                 each session",
                path.display()
            );
            return Ok(None);
        }
        println!("Computing what sessions of {} begin with: {tokens} tokens.", path.display());
        let reading = || format!("reading prompts with {}", path.display());
        let (began, mut told) = (Instant::now(), 0);
        let progress = |done: usize, all: usize| {
            let seconds = began.elapsed().as_secs();
            if seconds >= told + REPORTS {
                told = seconds;
                let left = seconds.saturating_mul(all.saturating_sub(done) as u64) / (done as u64).max(1);
                println!("  {done} of {all} tokens, {} tokens/s, {left} s left", done as u64 / seconds.max(1));
            }
        };
        let cache = if model.form() == Some(CallForm::Lines) {
            // The reference is slower than other kernels, and gives the same bytes on each machine, so that images with the
            // built-in model are the same.
            let machine = Machine { kernels: kernel::reference(), pool: &Single };
            prompt_cache(model, id, &beginnings, machine, progress)
        } else {
            let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
            let threads = Threads::new(processors).context("starting threads")?;
            permit_tiles();
            let now = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let machine = Machine { kernels: kernel::fastest(&now), pool: &threads };
            prompt_cache(model, id, &beginnings, machine, progress)
        };
        let cache = cache.with_context(reading)?;
        // Another build of this program may have removed the folder meanwhile. This makes it again.
        if let Err(error) = write_if_changed(&kept, &cache) {
            println!("What was computed is not kept: {error:#}");
        }
        Ok(Some(cache).filter(|cache| cache.len() as u64 <= most))
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

/// The name under which a program keeps the cache of a model with this id.
fn name(id: &str, beginnings: &[Vec<u32>]) -> String {
    let mut hash = Sha256::new_with_prefix(id);
    for tokens in beginnings {
        hash.update((tokens.len() as u64).to_le_bytes());
        tokens.iter().for_each(|token| hash.update(token.to_le_bytes()));
    }
    digits(hash)
}

fn digits(hash: Sha256) -> String {
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_chat::{Message, Role};
    use capos_engine::generation::Options;
    use capos_inference::{Assistant, Event, Request};
    use capos_verity::PURPOSE_MODEL_WEIGHTS;

    fn fixture(name: &str) -> Vec<u8> {
        std::fs::read(Path::new("../../tests/infer").join(name)).unwrap()
    }

    fn fixture_tools() -> Vec<Tool> {
        Tool::list(&serde_json::from_slice(&fixture("tools.json")).unwrap()).unwrap()
    }

    #[test]
    fn a_cache_is_computed_once_by_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let (model, kept) = (folder.path().join("assistant.gguf"), folder.path().join("kept"));
        std::fs::copy("../../iso_root/boot/models/assistant.gguf", &model).unwrap();
        std::fs::create_dir_all(kept.join("of-another-program")).unwrap();
        let key = SigningKey::from_seed(PURPOSE_MODEL_WEIGHTS, [1; 32]).unwrap();
        let digest = sign_file::declare(&model, &key, false).unwrap();
        let make = |tools: Vec<Vec<Tool>>| {
            let sessions = Sessions { tools, ..Sessions::default() };
            PromptCaches::new(sessions, kept.clone()).make(&model, digest, &key).unwrap();
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
        let tools = fixture_tools();
        let computed = make(vec![tools.clone()]);
        let [file] = &files()[..] else { panic!("{:?}", files()) };
        assert_eq!(std::fs::read(file).unwrap(), computed);
        // The kept file is what the image gets.
        std::fs::write(file, b"kept").unwrap();
        assert_eq!(make(vec![tools.clone()]), b"kept");
        // Other tools have another cache.
        assert_eq!(make(vec![tools.clone(), tools[..1].to_vec()]).get(..8), computed.get(..8));
        assert_eq!(files().len(), 2);
    }

    #[test]
    fn a_model_with_instructions_of_its_own_has_one_unless_that_would_be_large() {
        let folder = tempfile::tempdir().unwrap();
        let (path, kept) = (folder.path().join("brought.gguf"), folder.path().join("kept"));
        let vocabulary = fixture("tokenizers/byte_pair.gguf");
        let header = Header::parse(&vocabulary, vocabulary.len() as u64).unwrap();
        let template = String::from_utf8(fixture("templates/hermes.jinja")).unwrap();
        let bytes = capos_gguf::small_model(&header, Some(&template), 1).unwrap();
        std::fs::write(&path, &bytes).unwrap();
        let tools = vec![fixture_tools()];
        let caches = PromptCaches::new(Sessions { system: "You help.".into(), tools: tools.clone() }, kept);
        let model = LanguageModel::open(&bytes, Some(1000)).unwrap();
        assert_eq!(caches.cache(&path, &model, "id", 1000).unwrap(), None);
        // Nor if no beginning fits.
        let short = LanguageModel::open(&bytes, Some(64)).unwrap();
        assert_eq!(caches.cache(&path, &short, "id", 8 << 20).unwrap(), None);
        let cache = caches.cache(&path, &model, "id", 8 << 20).unwrap().unwrap();
        let beginning = beginning(&model, "You help.", &tools[0]).unwrap();
        assert!(
            cache.len() > beginning.len() * token_bytes(&model),
            "{} tokens, {} bytes",
            beginning.len(),
            cache.len()
        );
        // A session with the model reads only the rest, at whatever time it begins.
        let machine = Machine { kernels: kernel::reference(), pool: &Single };
        let mut assistant = Assistant::new(&model, machine, Options::default());
        assistant.preload("id", &cache).unwrap();
        let messages = vec![Message::new(Role::System, "You help."), Message::new(Role::User, "List it.")];
        let tools_of_session = tools[0].clone();
        let now = Some(1_700_000_000);
        assistant
            .request(Request { messages, tools: tools_of_session, limit: Some(1), now, ..Request::default() })
            .unwrap();
        let mut used = None;
        while !assistant.idle() {
            used = assistant.step().into_iter().find_map(|(_, event)| match event {
                Event::Finish(finish) => Some(finish.usage),
                _ => None,
            });
        }
        let used = used.unwrap();
        assert!(used.reused >= beginning.len() && used.prompt > used.reused, "{used:?}, {}", beginning.len());
        // Other instructions have another cache.
        let other = Sessions { system: "You watch.".into(), tools };
        let other = PromptCaches::new(other, folder.path().join("kept")).cache(&path, &model, "id", 8 << 20).unwrap();
        assert_ne!(other, Some(cache));
    }
}
