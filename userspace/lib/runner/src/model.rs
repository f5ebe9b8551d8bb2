//! The model of a session: opening one, and asking it.

use alloc::format;
use alloc::string::{String, ToString};
use core::cell::RefCell;
use core::pin::pin;

use capos_agent::world::{Broken, Host, Model, ModelStream, Unasked};
use capos_agent::{Either, race};
use capos_rt::log;
use capos_schema::authority::UserSessionModelResults;
use capos_schema::cap::{CallError, ExceptionKind, Status};
use capos_schema::models::{InferenceRequest, LanguageModelClient, ModelInfo, StreamChunk, TokenStreamClient};
use capos_schema::terminal::Style;
use capos_terminal::quote;

use crate::escape::in_quotes;
use crate::runner::Runner;
use crate::surface::Surface;

/// How long a person waits for a model before they are told that they do, and how long at most, in nanoseconds.
const UNTOLD: u64 = 2_000_000_000;
const LOADING: u64 = 300_000_000_000;

/// The place of a session's model.
#[derive(Default)]
pub struct ModelSlot {
    open: RefCell<Option<(LanguageModelClient, ModelInfo)>>,
    /// Why none is open, where one was to be opened.
    why_none: RefCell<String>,
}

impl ModelSlot {
    /// What the open model is, if one is open.
    pub fn info(&self) -> Option<ModelInfo> {
        self.open.borrow().as_ref().map(|(_, info)| info.clone())
    }

    /// Why none is open; may be nothing.
    pub fn why_none(&self) -> String {
        self.why_none.borrow().clone()
    }

    fn client(&self) -> Option<LanguageModelClient> {
        self.open.borrow().as_ref().map(|(model, _)| model.clone())
    }

    fn keep(&self, opened: Result<UserSessionModelResults, String>) {
        match opened {
            Ok(opened) => *self.open.borrow_mut() = Some((opened.model, opened.info)),
            Err(why) => {
                log::warning!("no model: {why}");
                *self.why_none.borrow_mut() = why;
            }
        }
    }
}

impl<S: Surface> Runner<S> {
    /// Opens the profile's own model where the session has none yet and may have one; the prompt does not wait long for it.
    pub async fn begin_with_model(&self) {
        self.model.keep(self.within(self.user.model("")).await.map_err(|error| error.to_string()));
    }

    /// The same for a person who waits for an answer.
    pub async fn need_model(&self) {
        if self.model.info().is_none() && self.info.model_allowed {
            let opened = self.wait_for_model("").await;
            self.model.keep(opened);
        }
    }

    /// Opens this model for a run in parallel with the session's own: what it is asked counts in the run's part.
    ///
    /// # Errors
    /// Why it was not opened.
    pub(crate) async fn open_in_part(&self, id: &str) -> Result<(), String> {
        let Some((_, part)) = &self.part else { return Ok(()) };
        let opened = match race(part.model(id), race(self.interrupt(), self.clock.sleep(LOADING))).await {
            Either::Left(opened) => self.of_broker(opened).map_err(|error| error.to_string())?,
            Either::Right(_) => return Err("the model did not open in time".to_string()),
        };
        self.model.keep(Ok(UserSessionModelResults { model: opened.model, info: opened.info }));
        Ok(())
    }

    /// Opens another model for this session.
    ///
    /// # Errors
    /// Why it was not opened.
    pub async fn change_model(&self, id: &str) -> Result<(), String> {
        self.model.keep(Ok(self.wait_for_model(id).await?));
        Ok(())
    }

    /// Waits for a model. A slow machine takes a minute to read the header of one with a large vocabulary, so the person is
    /// told, and can give up.
    async fn wait_for_model(&self, id: &str) -> Result<UserSessionModelResults, String> {
        let mut call = pin!(self.user.model(id));
        let opened = match race(&mut call, self.clock.sleep(UNTOLD)).await {
            Either::Left(opened) => opened,
            Either::Right(()) => {
                self.tell(Style::Dim, "opening the model; Ctrl-C cancels").await;
                match race(call, race(self.interrupt(), self.clock.sleep(LOADING))).await {
                    Either::Left(opened) => opened,
                    Either::Right(Either::Left(())) => return Err("interrupted".to_string()),
                    Either::Right(Either::Right(())) => Err(CallError::failed("no answer within 300 s")),
                }
            }
        };
        self.of_broker(opened).map_err(|error| error.to_string())
    }

    /// Tells what the model in use says of itself, as its own words: what it cannot do counts too.
    pub async fn tell_of_model(&self) {
        let of_itself = self.model.info().and_then(|ModelInfo { display_name, description, .. }| {
            let said =
                || format!("{} describes itself: {}", quote(display_name.trim()), in_quotes(&description, usize::MAX));
            (!description.is_empty()).then(said)
        });
        if let Some(text) = of_itself {
            self.tell(Style::Dim, &text).await;
        }
    }
}

/// A response that is being made.
pub struct Stream {
    stream: TokenStreamClient,
}

impl<S: Surface> Model for Runner<S> {
    type Stream = Stream;

    fn info(&self) -> ModelInfo {
        self.model.info().unwrap_or_default()
    }

    async fn stream(&self, request: &InferenceRequest) -> Result<Stream, Unasked> {
        let Some(model) = self.model.client() else {
            return Err(Unasked::Failed("this session has no model; /model lists the models".to_string()));
        };
        let opened = match model.stream(request).await {
            // The broker says so of a worker. Of the broker the kernel does, and then the session is lost.
            Err(CallError::Exception(exception)) if exception.kind == ExceptionKind::Disconnected => {
                return Err(Unasked::Away(exception.reason.to_string()));
            }
            opened => self.of_broker(opened),
        };
        opened.map(|stream| Stream { stream }).map_err(|error| unasked(&error))
    }
}

/// Why a model could not be asked. All that was said goes with each question, so a conversation that is too long stays
/// so.
fn unasked(error: &CallError) -> Unasked {
    match error {
        CallError::Transport(Status::TooLarge) => Unasked::Failed(
            "this conversation is too long to send to a model; /stop ends it, and the next line begins a new one"
                .to_string(),
        ),
        CallError::Exception(exception) if exception.kind == ExceptionKind::Overloaded => {
            Unasked::Limit(exception.reason.to_string())
        }
        CallError::Exception(exception) if exception.kind == ExceptionKind::InvalidArgument => {
            Unasked::Rejected(exception.reason.to_string())
        }
        other => Unasked::Failed(other.to_string()),
    }
}

impl ModelStream for Stream {
    async fn next(&mut self) -> Result<(StreamChunk, bool), Broken> {
        match self.stream.next().await {
            Ok(piece) => Ok((piece.chunk, piece.done)),
            Err(CallError::Exception(exception)) if exception.kind == ExceptionKind::Disconnected => {
                Err(Broken::Off(exception.reason.to_string()))
            }
            Err(error) => Err(Broken::Failed(error.to_string())),
        }
    }

    fn cancel(self) {
        capos_rt::spawn(async move {
            let _ = self.stream.cancel().await;
        });
    }
}
