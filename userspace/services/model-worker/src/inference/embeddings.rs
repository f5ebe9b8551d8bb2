//! Texts that are embedded.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use capos_inference::{Embedder, EmbeddingId, InferenceError};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::models::{ModelInfo, TextEmbedderServer, Vector};

use super::cannot_be_run;
use super::ready::Ready;
use super::requests::refused;
use crate::MESSAGE_BYTES;

/// Most texts of a call, however short their vectors are.
const TEXTS: usize = 256;
/// Bytes of an answer besides its vectors', and of each vector besides its numbers.
const AROUND: usize = 4096;
const AROUND_VECTOR: usize = 24;

/// The results of requests that have ended.
type Ended = BTreeMap<EmbeddingId, Result<Vec<Vec<f32>>, InferenceError>>;

/// The model that texts are embedded with.
///
/// As with answers, the engine makes a step only while a caller waits for vectors.
pub struct Embeddings {
    info: ModelInfo,
    /// Most texts of a call: their vectors go into one answer.
    most: usize,
    /// Why there is none, if the file cannot be run.
    embedder: RefCell<Result<Embedder<'static>, String>>,
    ended: RefCell<Ended>,
}

/// A request; dropping it ends the work on it.
struct Underway<'e> {
    embeddings: &'e Embeddings,
    id: EmbeddingId,
}

impl Embeddings {
    /// For a prepared file, or the reason why it could not be prepared.
    pub fn new(ready: &Result<Ready, String>, info: ModelInfo) -> Rc<Self> {
        let embedder = ready.as_ref().map_err(String::clone).and_then(Ready::embedder);
        let width = embedder.as_ref().map_or(0, Embedder::width);
        let bytes = width.saturating_mul(size_of::<f32>()).saturating_add(AROUND_VECTOR);
        let message = usize::try_from(MESSAGE_BYTES).unwrap_or(usize::MAX);
        let most = message.saturating_sub(AROUND).checked_div(bytes).unwrap_or(0).clamp(1, TEXTS);
        Rc::new(Self { info, most, embedder: RefCell::new(embedder), ended: RefCell::default() })
    }

    fn submit(&self, texts: Vec<String>) -> Result<Underway<'_>, CallError> {
        if texts.len() > self.most {
            return Err(CallError::invalid_argument(format!(
                "{} texts are too many: this model takes {} in one call",
                texts.len(),
                self.most
            )));
        }
        let mut embedder = self.embedder.borrow_mut();
        let embedder = embedder.as_mut().map_err(|why| cannot_be_run(why))?;
        let id = embedder.request(texts).map_err(|error| refused(&error))?;
        Ok(Underway { embeddings: self, id })
    }

    /// Does a bounded piece of the work on one of the requests.
    fn step(&self) {
        if let Ok(embedder) = &mut *self.embedder.borrow_mut()
            && let Some((id, vectors)) = embedder.step()
        {
            self.ended.borrow_mut().insert(id, vectors);
        }
    }
}

impl Underway<'_> {
    /// The vectors, once they are there. The engine works while this waits.
    async fn vectors(&self) -> Result<Vec<Vec<f32>>, CallError> {
        loop {
            let ended = self.embeddings.ended.borrow_mut().remove(&self.id);
            if let Some(vectors) = ended {
                return vectors.map_err(|error| refused(&error));
            }
            self.embeddings.step();
            // Others are served, and cancellations are heard.
            capos_rt::yield_now().await;
        }
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        if let Ok(embedder) = &mut *self.embeddings.embedder.borrow_mut() {
            embedder.cancel(self.id);
        }
        self.embeddings.ended.borrow_mut().remove(&self.id);
    }
}

impl TextEmbedderServer for Embeddings {
    async fn info(&self, _cx: &CallContext) -> Result<ModelInfo, CallError> {
        Ok(self.info.clone())
    }

    async fn embed(&self, _cx: &CallContext, texts: Vec<String>) -> Result<Vec<Vector>, CallError> {
        // Cancelling the call drops the request and ends the work on it.
        let vectors = self.submit(texts)?.vectors().await?;
        Ok(vectors.into_iter().map(|values| Vector { values }).collect())
    }
}
