//! Prompt caches: keys and values of the tokens with which conversations begin, computed once and kept in a file.
//!
//! Conversations about the same tools begin with the same tokens, and reading these is most of the work before a first
//! answer. A prompt cache names the model that it was computed with. A conversation that begins otherwise uses the part that
//! is the same, or none.
//!
//! The file has numbers of 32 bits, little-endian. It begins with [`MAGIC`], [`VERSION`], the length of the model's id, the
//! id, and the number of beginnings. Each has the number of its tokens, these, and what [`Cache::to_bytes`] gives for them.

use capos_chat::{Conversation, Message, Role, Tool};
use capos_engine::{Batch, Cache, CacheType, EngineError, Forward, Machine};

use crate::{Assistant, InferenceError, LanguageModel};

/// The first bytes of a prompt cache.
const MAGIC: [u8; 8] = *b"CAPOSPRC";
/// The form of the rest.
const VERSION: u32 = 1;
/// Tokens that pass through the model at once.
const PASS: usize = 128;
/// Most beginnings of a file.
const BEGINNINGS: u32 = 64;

/// A prompt cache for the model with this id, of conversations with these beginnings.
///
/// With the kernels `scalar` it is the same on each machine. `progress` is told the tokens that were read, of all of them.
///
/// # Errors
/// [`InferenceError`] if the model cannot be run.
pub fn prompt_cache(
    model: &LanguageModel<'_>,
    id: &str,
    beginnings: &[Vec<u32>],
    machine: Machine<'_>,
    mut progress: impl FnMut(usize, usize),
) -> Result<Vec<u8>, InferenceError> {
    let all = beginnings.iter().map(Vec::len).fold(0, usize::saturating_add);
    let mut done = 0_usize;
    let mut file = MAGIC.to_vec();
    number(&mut file, VERSION as usize);
    number(&mut file, id.len());
    file.extend_from_slice(id.as_bytes());
    number(&mut file, beginnings.len());
    for tokens in beginnings {
        let config = model.model().config();
        let mut caches = [Cache::of_type(CacheType::F16, config, model.model().context())];
        let mut forward = Forward::new();
        for piece in tokens.chunks(PASS) {
            forward.pass(model.model(), machine, &Batch::prompt(piece), &mut caches)?;
            done = done.saturating_add(piece.len());
            progress(done, all);
        }
        number(&mut file, tokens.len());
        tokens.iter().for_each(|token| file.extend_from_slice(&token.to_le_bytes()));
        file.extend(caches.iter().filter_map(|cache| cache.to_bytes(tokens.len())).flatten());
    }
    Ok(file)
}

/// Bytes of a prompt cache for each of its tokens.
#[must_use]
pub fn token_bytes(model: &LanguageModel<'_>) -> usize {
    Cache::new(model.model().config(), 1).token_bytes()
}

/// The tokens with which all conversations about these tools begin whose first message is `system`, at whatever time. None if
/// that is less than half of a prompt: then the template has the time in front.
///
/// # Errors
/// [`InferenceError`] if the template rejects them.
pub fn beginning(model: &LanguageModel<'_>, system: &str, tools: &[Tool]) -> Result<Vec<u32>, InferenceError> {
    let ids = |text: &str, now: i64| -> Result<Vec<u32>, InferenceError> {
        let messages = Vec::from([Message::new(Role::System, system), Message::new(Role::User, text)]);
        let conversation = Conversation { messages: &messages, tools, answer: true, now: Some(now) };
        Ok(model.prompts().prompt(&conversation, false, true)?.encode(model.tokenizer()))
    };
    // Two times that differ in each part of them.
    let (one, other) = (ids("a", 0)?, ids("?", 954_460_799)?);
    let same: Vec<u32> =
        one.iter().zip(&other).take_while(|(one, other)| one == other).map(|(token, _)| *token).collect();
    Ok(if same.len() < one.len() / 2 { Vec::new() } else { same })
}

fn number(file: &mut Vec<u8>, number: usize) {
    file.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

impl Assistant<'_> {
    /// Takes over the prompt cache of the model with this id; says how many tokens were taken. Beginnings that are longer
    /// than the context are left out. Of a file with an error, what comes before it is used.
    ///
    /// # Errors
    /// [`EngineError::Stored`] if the file is none, or of another model; others of the engine if what it holds does not
    /// fit.
    pub fn preload(&mut self, id: &str, file: &[u8]) -> Result<usize, InferenceError> {
        let mut rest = Rest(file);
        if rest.take(MAGIC.len())? != MAGIC || rest.number()? != VERSION {
            return Err(stored("this is no prompt cache of a known version"));
        }
        let length = rest.length()?;
        if rest.take(length)? != id.as_bytes() {
            return Err(stored("they are of another model"));
        }
        let mut tokens = 0_usize;
        for _ in 0..rest.number()?.min(BEGINNINGS) {
            let count = rest.length()?;
            let ids = rest.take(count.saturating_mul(size_of::<u32>()))?.as_chunks().0;
            let ids: Vec<u32> = ids.iter().map(|id| u32::from_le_bytes(*id)).collect();
            let bytes = rest.take(count.saturating_mul(token_bytes(self.model())))?;
            match self.preload_one(ids, bytes) {
                Ok(()) => tokens = tokens.saturating_add(count),
                // A shorter one may fit.
                Err(InferenceError::Engine(EngineError::Full { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(tokens)
    }
}

/// What was not read of a file yet.
struct Rest<'f>(&'f [u8]);

impl<'f> Rest<'f> {
    fn take(&mut self, bytes: usize) -> Result<&'f [u8], InferenceError> {
        let (taken, rest) =
            self.0.split_at_checked(bytes).ok_or_else(|| stored("the file ends in the middle of them"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, InferenceError> {
        let bytes = self.take(size_of::<u32>())?;
        Ok(bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)))
    }

    fn length(&mut self) -> Result<usize, InferenceError> {
        Ok(usize::try_from(self.number()?).unwrap_or(usize::MAX))
    }
}

fn stored(why: &'static str) -> InferenceError {
    EngineError::Stored { why }.into()
}
