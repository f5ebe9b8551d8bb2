//! A request on its way to a model's worker: written once and kept, so that it can be sent to another one where that is gone.

use alloc::rc::Rc;
use core::future::Future;

use capos_schema::cap::{AsCap, CallError, CallResult, Client, Message, RESULTS};
use capos_schema::models::{InferenceRequest, InferenceResponse, LanguageModelClient, TokenStreamClient};
use capos_schema::wire::{self, Wire};

use crate::memory_budget::{Reservation, Share};

/// Bytes of the results of `stream`, which are a capability.
const ONE_CAPABILITY: u32 = 1 << 10;
/// Words of a short request.
const SHORT: usize = 64;

/// A request, as both methods take it.
#[derive(Debug)]
pub struct Request {
    message: Message,
    _room: Reservation,
}

impl Request {
    /// Writes a request. Until it is dropped, it takes room of this share: for itself, for its copy in transit, and for
    /// an answer of `answer` bytes.
    ///
    /// # Errors
    /// It is longer than a message can be, or there is no room.
    pub fn of(request: InferenceRequest, answer: usize, share: &Rc<Share>) -> Result<Self, CallError> {
        let mut message = wire::compose(SHORT, (0, 1), |builder, place| {
            let inner = builder.structure(place.pointer(0), InferenceRequest::DATA, InferenceRequest::POINTERS)?;
            request.write(builder, inner)
        })?;
        drop(request);
        message.words.shrink_to_fit();
        let bytes = message.words.len().saturating_mul(8);
        let taken = bytes.saturating_mul(2).saturating_add(answer);
        let room = share.take(taken, format_args!("a request of {bytes} bytes"))?;
        Ok(Self { message, _room: room })
    }

    fn send(&self, model: &LanguageModelClient, method: u16, results: u32) -> impl Future<Output = CallResult> + use<> {
        model.as_cap().call_sized(LanguageModelClient::INTERFACE_ID, method, self.message.clone(), results)
    }

    /// Has a model answer it at once.
    ///
    /// # Errors
    /// As those of [`LanguageModelClient::complete`].
    pub async fn complete(&self, model: &LanguageModelClient) -> Result<InferenceResponse, CallError> {
        let reply = self.send(model, LanguageModelClient::COMPLETE_METHOD, RESULTS).await?;
        Ok(wire::read(&reply, |reader| {
            InferenceResponse::read(reader.pointer(0).structure("LanguageModelCompleteResults.resp")?)
        })?)
    }

    /// Has a model answer it in pieces.
    ///
    /// # Errors
    /// As those of [`LanguageModelClient::stream`].
    pub async fn stream(&self, model: &LanguageModelClient) -> Result<TokenStreamClient, CallError> {
        let reply = self.send(model, LanguageModelClient::STREAM_METHOD, ONE_CAPABILITY).await?;
        Ok(wire::read(&reply, |reader| {
            Ok(TokenStreamClient::from_cap(reader.pointer(0).cap("LanguageModelStreamResults.stream")?))
        })?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_budget::{Exporter, REQUESTS};
    use alloc::string::ToString;
    use alloc::vec::Vec;
    use capos_schema::cap::CallContext;
    use capos_schema::local::{Local, run};
    use capos_schema::models::{ChatMessage, LanguageModelServer, ModelInfo, ToolDescriptor};
    use core::cell::RefCell;

    /// Keeps what it is asked, by the name of the method.
    #[derive(Default)]
    struct Listener(RefCell<Vec<(&'static str, InferenceRequest)>>);

    impl LanguageModelServer for Listener {
        async fn info(&self, _cx: &CallContext) -> Result<ModelInfo, CallError> {
            Ok(ModelInfo::default())
        }

        async fn complete(&self, _cx: &CallContext, req: InferenceRequest) -> Result<InferenceResponse, CallError> {
            self.0.borrow_mut().push(("complete", req));
            let message = ChatMessage { content: "as told".to_string(), ..ChatMessage::default() };
            Ok(InferenceResponse { message, ..InferenceResponse::default() })
        }

        async fn stream(&self, _cx: &CallContext, req: InferenceRequest) -> Result<TokenStreamClient, CallError> {
            self.0.borrow_mut().push(("stream", req));
            Err(CallError::failed("nothing comes in pieces"))
        }
    }

    fn asked(bytes: usize) -> InferenceRequest {
        let message = ChatMessage { content: "x".repeat(bytes), ..ChatMessage::default() };
        let tool = ToolDescriptor { name: "read".to_string(), ..ToolDescriptor::default() };
        InferenceRequest {
            messages: Vec::from([message]),
            tools: Vec::from([tool]),
            max_tokens: 7,
            ..InferenceRequest::default()
        }
    }

    #[test]
    fn it_arrives_as_the_generated_client_sends_it_and_as_often_as_it_is_asked() {
        let listener = Rc::new(Listener::default());
        let model = LanguageModelClient::serve(&Local::default(), listener.clone()).unwrap();
        let share = Exporter::new(Local::default(), REQUESTS).share();
        let request = Request::of(asked(1000), 0, &share).unwrap();
        for _ in 0..2 {
            assert_eq!(run(request.complete(&model)).unwrap().unwrap().message.content, "as told");
            let refused = run(request.stream(&model)).unwrap().unwrap_err();
            assert!(refused.to_string().contains("nothing comes in pieces"), "{refused}");
        }
        run(model.complete(&asked(1000))).unwrap().unwrap();
        let heard = listener.0.borrow();
        assert_eq!(
            heard.iter().map(|(method, _)| *method).collect::<Vec<_>>().join(" "),
            "complete stream complete stream complete"
        );
        assert!(heard.iter().all(|(_, heard)| *heard == asked(1000)));
    }

    #[test]
    fn it_takes_room_until_it_is_dropped() {
        let exporter = Exporter::new(Local::default(), REQUESTS);
        let share = exporter.share();
        let long = Request::of(asked(900 << 10), 0, &share).unwrap();
        let refused = Request::of(asked(900 << 10), 0, &share).unwrap_err().to_string();
        assert!(refused.contains("in progress of this session leave no memory"), "{refused}");
        drop(long);
        assert!(Request::of(asked(900 << 10), 0, &share).is_ok());
        let too_long = Request::of(asked(1 << 20), 0, &share).unwrap_err().to_string();
        assert!(too_long.contains("limit") || too_long.contains("longer"), "{too_long}");
    }
}
