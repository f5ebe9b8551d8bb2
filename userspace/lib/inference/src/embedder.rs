//! Texts that one model makes vectors of.

use std::collections::VecDeque;

use capos_engine::generation::Options;
use capos_engine::{Encoder, Machine, Model};
use capos_tokenizer::{Marks, Tokenizer};

use crate::InferenceError;

/// Bytes of a text for each token of the context; a text with more would hardly fit, and is not read.
const BYTES_OF_TOKEN: usize = 16;
/// Bytes of a text that are accepted whatever the context.
const LEAST_BYTES: usize = 1 << 10;
/// Most bytes of a text: a text is turned into tokens in one piece.
const MOST_BYTES: usize = 64 << 10;

/// A request in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EmbeddingId(u64);

/// Vectors of texts, in their order, or why there are none.
type Vectors = Result<Vec<Vec<f32>>, InferenceError>;

/// Makes vectors of texts with one model, for several requests in turns.
pub struct Embedder<'m> {
    tokenizer: &'m Tokenizer,
    encoder: Encoder<'m>,
    context: usize,
    width: usize,
    /// Most tokens of texts that are computed together; a text that has more is computed alone.
    together: usize,
    /// The first is the one that is worked on.
    requests: VecDeque<Request>,
    taken: u64,
}

/// Texts that are to be embedded.
struct Request {
    id: EmbeddingId,
    /// Those that have no tokens yet.
    texts: VecDeque<String>,
    /// The tokens of those that are not done.
    tokens: VecDeque<Vec<u32>>,
    vectors: Vec<Vec<f32>>,
    /// Whether some of its texts are in progress.
    begun: bool,
}

impl<'m> Embedder<'m> {
    /// Without requests. Of the options, the tokens of a pass (its pieces have no more, either), the type of cache and the
    /// clock count.
    ///
    /// # Errors
    /// [`InferenceError::Engine`] if the model is not for this.
    pub fn new(
        model: &'m Model<'m>,
        tokenizer: &'m Tokenizer,
        machine: Machine<'m>,
        options: Options<'m>,
    ) -> Result<Self, InferenceError> {
        Ok(Self {
            tokenizer,
            encoder: Encoder::new(model, machine, options.prefill, options.cache, options.clock)?,
            context: model.context(),
            width: model.config().width,
            together: options.prefill,
            requests: VecDeque::new(),
            taken: 0,
        })
    }

    /// Numbers of a vector.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Most bytes of a text.
    pub fn text_bytes(&self) -> usize {
        self.context.saturating_mul(BYTES_OF_TOKEN).clamp(LEAST_BYTES, MOST_BYTES)
    }

    /// Takes texts. None is cut: a text that does not fit is rejected, here or by a step.
    ///
    /// # Errors
    /// [`InferenceError::TextBytes`] if a text has too many of them.
    pub fn request(&mut self, texts: Vec<String>) -> Result<EmbeddingId, InferenceError> {
        let most = self.text_bytes();
        for (place, text) in (1usize..).zip(&texts) {
            if text.len() > most {
                return Err(InferenceError::TextBytes { place, bytes: text.len(), most });
            }
        }
        let id = EmbeddingId(self.taken);
        self.taken = self.taken.wrapping_add(1);
        let (tokens, vectors) = (VecDeque::new(), Vec::new());
        self.requests.push_back(Request { id, texts: texts.into(), tokens, vectors, begun: false });
        Ok(id)
    }

    /// Forgets a request, if there still is one.
    pub fn cancel(&mut self, id: EmbeddingId) {
        if self.requests.front().is_some_and(|request| request.id == id && request.begun) {
            self.encoder.cancel();
        }
        self.requests.retain(|request| request.id != id);
    }

    /// Whether there is nothing to do.
    pub fn idle(&self) -> bool {
        self.requests.is_empty()
    }

    /// Does a bounded piece of work, if there is something to do, and returns the results of ended requests.
    pub fn step(&mut self) -> Option<(EmbeddingId, Vectors)> {
        let mut request = self.requests.pop_front()?;
        match self.advance(&mut request) {
            Ok(false) if request.begun => self.requests.push_front(request),
            // Others get their turn.
            Ok(false) => self.requests.push_back(request),
            Ok(true) => return Some((request.id, Ok(request.vectors))),
            Err(error) => return Some((request.id, Err(error))),
        }
        None
    }

    /// Takes a request further; says whether it has ended.
    fn advance(&mut self, request: &mut Request) -> Result<bool, InferenceError> {
        if let Some(text) = request.texts.pop_front() {
            request.tokens.push_back(self.encode(&text, request.tokens.len().saturating_add(1))?);
            return Ok(false);
        }
        if !request.begun {
            let mut pass = Vec::new();
            let mut count = 0usize;
            while let Some(tokens) = request.tokens.front() {
                count = count.saturating_add(tokens.len());
                if !pass.is_empty() && count > self.together {
                    break;
                }
                pass.extend(request.tokens.pop_front());
            }
            if pass.is_empty() {
                return Ok(true);
            }
            self.encoder.begin(&pass)?;
            request.begun = true;
        }
        if let Some(vectors) = self.encoder.step()? {
            request.vectors.extend(vectors);
            request.begun = false;
        }
        Ok(!request.begun && request.tokens.is_empty())
    }

    /// The tokens of a text, with those that the model puts around each. Marks in it are text.
    fn encode(&self, text: &str, place: usize) -> Result<Vec<u32>, InferenceError> {
        let mut ids: Vec<u32> = self.tokenizer.begin().into_iter().collect();
        ids.extend(self.tokenizer.encode(text, Marks::Text));
        ids.extend(self.tokenizer.end());
        let (tokens, context) = (ids.len(), self.context);
        match (1..=context).contains(&tokens) {
            true => Ok(ids),
            false => Err(InferenceError::TextTokens { place, tokens, context }),
        }
    }
}
