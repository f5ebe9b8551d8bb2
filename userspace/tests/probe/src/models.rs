//! The model service, as its contract has it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_rt::{Env, Error};
use capos_schema::cap::CallError;
use capos_schema::models::{
    BackendPolicy, ChatMessage, FinishReason, InferenceRequest, LanguageModelClient, ModelAdminClient,
    ModelCatalogClient, ModelInfo, Role, StreamChunk, StreamChunkFinish, TokenStreamClient, ToolDescriptor,
};

use crate::{Report, ensure};

fn request(text: &str) -> InferenceRequest {
    let message = ChatMessage { role: Role::User, content: text.to_string(), ..ChatMessage::default() };
    InferenceRequest { messages: Vec::from([message]), ..InferenceRequest::default() }
}

/// A stream put together again.
#[derive(Default)]
struct Whole {
    text: String,
    calls: Vec<(String, String, String)>,
    end: Option<StreamChunkFinish>,
}

async fn whole(stream: &TokenStreamClient) -> Result<Whole, CallError> {
    let mut whole = Whole::default();
    loop {
        let piece = stream.next().await?;
        match piece.chunk {
            StreamChunk::TextDelta(text) => whole.text.push_str(&text),
            StreamChunk::ToolCallDelta(delta) => {
                let at = delta.index as usize;
                while whole.calls.len() <= at {
                    whole.calls.push(Default::default());
                }
                if let Some((id, name, arguments)) = whole.calls.get_mut(at) {
                    id.push_str(&delta.id);
                    name.push_str(&delta.name);
                    arguments.push_str(&delta.arguments);
                }
            }
            StreamChunk::Finish(finish) => whole.end = Some(finish),
            StreamChunk::Progress(_) => {}
        }
        if piece.done {
            return Ok(whole);
        }
    }
}

/// B01, B08, B09, B15: what is streamed adds up to the response, and the same request gives the same again.
async fn streams_add_up(model: &LanguageModelClient) -> Result<(), Error> {
    let cases = [("Say a sentence.", FinishReason::Stop), ("Call two tools.", FinishReason::ToolCalls)];
    for (text, reason) in cases {
        let request = request(text);
        let response = model.complete(&request).await?;
        let again = model.complete(&request).await?;
        ensure(response == again, format!("{text}: a second answer differs"))?;
        let streamed = whole(&model.stream(&request).await?).await?;
        ensure(streamed.text == response.message.content, format!("{text}: the text differs: {}", streamed.text))?;
        let calls: Vec<_> = response
            .message
            .tool_calls
            .iter()
            .map(|call| (call.id.clone(), call.name.clone(), call.arguments.clone()))
            .collect();
        ensure(streamed.calls == calls, format!("{text}: the calls differ: {:?}", streamed.calls))?;
        let end = StreamChunkFinish { usage: response.usage, reason: response.finish_reason };
        ensure(streamed.end == Some(end), format!("{text}: the ends differ"))?;
        ensure(response.finish_reason == reason, format!("{text}: ended as {}", response.finish_reason.name()))?;
    }
    Ok(())
}

/// B07, B08: messages, tools, the most tokens and stop sequences are heeded.
async fn requests_are_heeded(model: &LanguageModelClient) -> Result<(), Error> {
    let full = model.complete(&request("Say a sentence.")).await?;
    let cut = model.complete(&InferenceRequest { max_tokens: 3, ..request("Say a sentence.") }).await?;
    ensure(
        cut.finish_reason == FinishReason::Length && cut.usage.completion_tokens == 3,
        "three tokens were too many",
    )?;
    let begins = full.message.content.starts_with(&cut.message.content);
    ensure(begins && cut.message.content.len() < full.message.content.len(), "the cut answer is another one")?;
    let stop = Vec::from(["fourth".to_string()]);
    let stopped = model.complete(&InferenceRequest { stop_sequences: stop, ..request("Say a sentence.") }).await?;
    ensure(stopped.finish_reason == FinishReason::Stop, "a stop sequence ends as a stop")?;
    ensure(stopped.message.content == "One second third ", format!("stopped at {:?}", stopped.message.content))?;
    let tool =
        ToolDescriptor { name: "lamp".to_string(), handle: "/object/x".to_string(), ..ToolDescriptor::default() };
    let with = model.complete(&InferenceRequest { tools: Vec::from([tool]), ..request("Is there a lamp?") }).await?;
    let without = model.complete(&request("Is there a lamp?")).await?;
    ensure(with.message.content == "Yes." && without.message.content == "No.", "the tools made no difference")
}

/// B02, B13: a stream lives as long as its response, and cancelling ends it.
async fn streams_end(model: &LanguageModelClient) -> Result<(), Error> {
    let stream = model.stream(&request("Say a sentence.")).await?;
    whole(&stream).await?;
    let after = stream.next().await;
    ensure(after.is_err(), "a stream went on after its end")?;
    let silent = model.stream(&request("Say nothing more.")).await?;
    let first = silent.next().await?;
    ensure(matches!(first.chunk, StreamChunk::TextDelta(_)) && !first.done, "it said nothing")?;
    let (rest, cancelled) = capos_rt::join(whole(&silent), silent.cancel()).await;
    cancelled?;
    let end = rest?.end.map(|end| end.reason);
    ensure(end == Some(FinishReason::Cancelled), format!("a cancelled stream ended as {end:?}"))?;
    ensure(silent.next().await.is_err(), "a cancelled stream went on")?;
    // Others were not held up.
    whole(&model.stream(&request("Say a sentence.")).await?).await.map(drop)?;
    Ok(())
}

/// A19: a slow reader loses nothing, and nothing piles up: a piece is made when it is asked for.
async fn readers_may_be_slow(model: &LanguageModelClient) -> Result<(), Error> {
    let stream = model.stream(&InferenceRequest { max_tokens: 4096, ..request("Count for long.") }).await?;
    for _ in 0..200 {
        capos_rt::yield_now().await;
    }
    let text = whole(&stream).await?.text;
    let pieces = text.matches("tick ").count();
    ensure(pieces == 3000 && text.len() == 15_000, format!("{pieces} of 3000 pieces came"))
}

/// B06: models are unloaded, refused, loaded and switched off.
async fn models_come_and_go(
    catalog: &ModelCatalogClient,
    admin: &ModelAdminClient,
    second: &ModelInfo,
) -> Result<(), Error> {
    let opened = catalog.open_language_model(&second.id).await?;
    ensure(opened.info().await?.id == second.id, "another model was opened")?;
    admin.unload(&second.id).await?;
    ensure(opened.info().await.is_err(), "an unloaded model answers")?;
    ensure(catalog.open_language_model(&second.id).await.is_err(), "an unloaded model was opened")?;
    ensure(!catalog.list().await?.iter().any(|model| model.id == second.id), "an unloaded model is listed")?;
    let loaded = admin.load("boot/models/second.gguf").await?;
    ensure(loaded == *second, "it came back as another one")?;
    ensure(catalog.open_language_model(&second.id).await?.info().await?.id == second.id, "it does not answer")?;
    admin.set_backend_policy(&BackendPolicy { allow_local: false, ..BackendPolicy::default() }).await?;
    ensure(catalog.open_language_model(&second.id).await.is_err(), "the backend policy was not heeded")?;
    admin.set_backend_policy(&BackendPolicy::default()).await?;
    Ok(catalog.open_language_model(&second.id).await.map(drop)?)
}

/// Everything.
///
/// # Errors
/// What does not hold.
pub async fn run(env: &Env, report: &Report) -> Result<(), Error> {
    let catalog = env.cap::<ModelCatalogClient>("catalog")?;
    let admin = env.cap::<ModelAdminClient>("admin")?;
    let models = catalog.list().await?;
    let find = |title: &str| models.iter().find(|model| model.display_name.starts_with(title)).cloned();
    let (Some(first), Some(second)) = (find("capOS"), find("second")) else {
        return Err(Error::new("the two models of the scenario are not registered"));
    };
    let model = catalog.open_language_model(&first.id).await?;
    ensure(model.info().await? == first, "a worker says something else of its model than the catalog")?;
    report.line("info is what the catalog lists");
    streams_add_up(&model).await?;
    report.line("streams add up to the response, the same each time");
    requests_are_heeded(&model).await?;
    report.line("messages, tools, limits and stop sequences are heeded");
    streams_end(&model).await?;
    report.line("streams end with their response or when they are cancelled");
    readers_may_be_slow(&model).await?;
    report.line("a slow reader loses nothing");
    models_come_and_go(&catalog, &admin, &second).await?;
    report.line("models come and go");
    report.line("the model service keeps its contract");
    Ok(())
}
