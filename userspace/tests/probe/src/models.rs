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
use capos_schema::storage::{DirectoryClient, ReadOnlyFileClient};

use crate::{Report, ensure};

/// A request with one message of a person.
pub fn request(text: &str) -> InferenceRequest {
    let message = ChatMessage { role: Role::User, content: text.to_string(), ..ChatMessage::default() };
    InferenceRequest { messages: Vec::from([message]), ..InferenceRequest::default() }
}

/// A stream joined again.
#[derive(Default)]
pub struct Whole {
    /// The text.
    pub text: String,
    calls: Vec<(String, String, String)>,
    /// How it ended.
    pub end: Option<StreamChunkFinish>,
}

/// Reads a stream to its end.
///
/// # Errors
/// The stream's.
pub async fn whole(stream: &TokenStreamClient) -> Result<Whole, CallError> {
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
            StreamChunk::Progress(_) | StreamChunk::Loose(_) | StreamChunk::Removed(_) => {}
        }
        if piece.done {
            return Ok(whole);
        }
    }
}

/// A request that offers tools of these names.
fn with_tools(text: &str, names: &[&str]) -> InferenceRequest {
    let tool = |name: &&str| ToolDescriptor {
        name: name.to_string(),
        handle: format!("/object/{name}"),
        ..ToolDescriptor::default()
    };
    InferenceRequest { tools: names.iter().map(tool).collect(), ..request(text) }
}

/// B01, B08, B09, B15: the streamed pieces add up to the response, and the same request gives the same again.
async fn streams_add_up(model: &LanguageModelClient) -> Result<(), Error> {
    let cases = [
        (request("Say a sentence."), FinishReason::Stop),
        (with_tools("Call two tools.", &["lamp", "fan"]), FinishReason::ToolCalls),
    ];
    for (request, reason) in cases {
        let text = request.messages.first().map(|message| message.content.as_str()).unwrap_or_default();
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
    let with = model.complete(&with_tools("Is there a lamp?", &["lamp"])).await?;
    let without = model.complete(&request("Is there a lamp?")).await?;
    ensure(with.message.content == "Yes." && without.message.content == "No.", "the tools made no difference")
}

/// B07: temperature, response schema and nonce reach the backend as they were sent; a script distinguishes them.
async fn requests_arrive_whole(model: &LanguageModelClient) -> Result<(), Error> {
    let answer = async |request: InferenceRequest| Ok::<_, Error>(model.complete(&request).await?.message);
    for (temperature, expected) in [(0.0, "It is cold."), (0.75, "It is warm."), (0.5, "It is some other way.")] {
        let said = answer(InferenceRequest { temperature, ..request("How warm is it?") }).await?.content;
        ensure(said == expected, format!("at temperature {temperature} it said {said}"))?;
    }
    let schema = r#"{"type":"object","required":["warm"]}"#.to_string();
    let formed =
        answer(InferenceRequest { response_schema: schema.clone(), ..request("Answer in form.") }).await?.content;
    ensure(formed == r#"{"warm":true}"#, format!("with a response schema it said {formed}"))?;
    let free = answer(request("Answer in form.")).await?.content;
    ensure(free == "Warm.", format!("without a response schema it said {free}"))?;
    formless_answers_are_errors(model, schema).await?;
    for (nonce, expected, id) in [
        (&[0xab, 0xcd, 0x01][..], "That one.", "nonce-abcd01"),
        (&[0x00, 0xff][..], "Another one.", "nonce-00ff"),
        (&[][..], "Another one.", "nonce-"),
    ] {
        let said = answer(InferenceRequest { nonce: nonce.to_vec(), ..request("Which nonce is it?") }).await?;
        let told = said.tool_calls.first().map(|call| call.id.clone()).unwrap_or_default();
        ensure(said.content == expected && told == id, format!("of {nonce:?} it said {} and {told}", said.content))?;
    }
    Ok(())
}

/// B18: an answer that violates the response schema is an error with a message, streamed or not.
async fn formless_answers_are_errors(model: &LanguageModelClient, schema: String) -> Result<(), Error> {
    let formless = InferenceRequest { response_schema: schema, ..request("How warm is it?") };
    let complete = model.complete(&formless).await.err();
    let streamed = whole(&model.stream(&formless).await?).await.err();
    for error in [complete, streamed] {
        let why = error.map(|error| error.to_string()).unwrap_or_default();
        let told = why.contains("does not keep to the response schema: it is no JSON");
        ensure(told, format!("of an answer without form it says {why:?}"))?;
    }
    let wrong = InferenceRequest { response_schema: "{".to_string(), ..request("How warm is it?") };
    let why = model.complete(&wrong).await.err().map(|error| error.to_string()).unwrap_or_default();
    ensure(why.contains("the response schema is no JSON"), format!("of a schema that is none it says {why:?}"))
}

/// B02, B13: a stream lives as long as its response, and cancelling ends it.
async fn streams_end(model: &LanguageModelClient) -> Result<(), Error> {
    let stream = model.stream(&request("Say a sentence.")).await?;
    whole(&stream).await?;
    let after = stream.next().await;
    ensure(after.is_err(), "a stream went on after its end")?;
    cancelled_in_the_middle(model, "Count for long.").await
}

/// Cancels an answer after its first piece, while the next one is waited for.
async fn cancelled_in_the_middle(model: &LanguageModelClient, text: &str) -> Result<(), Error> {
    let stream = model.stream(&request(text)).await?;
    let first = stream.next().await?;
    ensure(matches!(first.chunk, StreamChunk::TextDelta(_)) && !first.done, "it said nothing")?;
    let (rest, cancelled) = capos_rt::join(whole(&stream), stream.cancel()).await;
    cancelled?;
    let end = rest?.end.map(|end| end.reason);
    ensure(end == Some(FinishReason::Cancelled), format!("a cancelled stream ended as {end:?}"))?;
    ensure(stream.next().await.is_err(), "a cancelled stream went on")?;
    // Others were not held up.
    whole(&model.stream(&request("Say a sentence.")).await?).await.map(drop)?;
    Ok(())
}

/// A19: a slow reader loses nothing, and nothing piles up: a piece is made when it is asked for.
async fn readers_may_be_slow(model: &LanguageModelClient, words: usize) -> Result<(), Error> {
    let request = InferenceRequest { max_tokens: 4096, ..request("Count for long.") };
    let stream = model.stream(&request).await?;
    for _ in 0..200 {
        capos_rt::yield_now().await;
    }
    let text = whole(&stream).await?.text;
    let found = text.matches("tick").count();
    ensure(found == words, format!("{found} of {words} words came"))?;
    ensure(text == model.complete(&request).await?.message.content, "the words came in another order")
}

/// The contract of every backend; `words` is how long its long answer is.
async fn contract(model: &LanguageModelClient, words: usize) -> Result<(), Error> {
    streams_add_up(model).await?;
    requests_are_heeded(model).await?;
    streams_end(model).await?;
    readers_may_be_slow(model, words).await
}

/// B12: the same questions to two backends get the same answers, the counted tokens included.
async fn backends_are_alike(one: &LanguageModelClient, other: &LanguageModelClient) -> Result<(), Error> {
    let requests = [
        request("Say a sentence."),
        InferenceRequest { max_tokens: 2, ..request("Say a sentence.") },
        InferenceRequest { stop_sequences: Vec::from(["third".to_string()]), ..request("Say a sentence.") },
        with_tools("Call two tools.", &["lamp", "fan"]),
        with_tools("Is there a lamp?", &["lamp"]),
        request("Is there a lamp?"),
    ];
    for request in requests {
        let (first, second) = (one.complete(&request).await?, other.complete(&request).await?);
        ensure(first == second, format!("one says {first:?}, the other {second:?}"))?;
    }
    Ok(())
}

/// Where the second model is.
const SECOND: &str = "boot/models/second.gguf";

/// The parts of a model for loading it.
struct Parts {
    source: ReadOnlyFileClient,
    tree: ReadOnlyFileClient,
    signature: Vec<u8>,
}

impl Parts {
    async fn open(medium: &DirectoryClient, path: &str) -> Result<Self, Error> {
        let signature = medium.open(&format!("{path}.sig")).await?.read(0, 4096).await?;
        let tree = medium.open(&format!("{path}.verity")).await?;
        Ok(Self { source: medium.open(path).await?, tree, signature })
    }

    async fn load(&self, admin: &ModelAdminClient, name: &str, said: &ModelInfo) -> Result<String, CallError> {
        admin.load_weights(&self.source, said, name, &self.signature, &self.tree).await
    }
}

/// B06: models are unloaded and loaded, and a model that differs from its signature or its description is rejected.
async fn models_come_and_go(
    catalog: &ModelCatalogClient,
    admin: &ModelAdminClient,
    medium: &DirectoryClient,
    second: &ModelInfo,
) -> Result<(), Error> {
    let opened = catalog.open_language_model(&second.id).await?;
    ensure(opened.info().await?.id == second.id, "another model was opened")?;
    admin.unload(&second.id).await?;
    ensure(opened.info().await.is_err(), "an unloaded model answers")?;
    ensure(catalog.open_language_model(&second.id).await.is_err(), "an unloaded model was opened")?;
    let listed = async || Ok::<_, Error>(catalog.list().await?.iter().any(|model| model.id == second.id));
    ensure(!listed().await?, "an unloaded model is listed")?;

    let (good, other) = (Parts::open(medium, SECOND).await?, Parts::open(medium, "boot/models/scripted.gguf").await?);
    let nothing = ModelInfo::default();
    let with = |signature: &[u8], tree: &ReadOnlyFileClient| Parts {
        source: good.source.clone(),
        tree: tree.clone(),
        signature: signature.to_vec(),
    };
    let mut changed = good.signature.clone();
    if let Some(digit) = changed.iter_mut().nth_back(1) {
        *digit ^= 1;
    }
    let lie = ModelInfo { arch: "qwen2".to_string(), ..ModelInfo::default() };
    let refused = [
        ("another model's signature", with(&other.signature, &good.tree), "second.gguf", &nothing),
        ("a changed signature", with(&changed, &good.tree), "second.gguf", &nothing),
        ("no signature", with(&[], &good.tree), "second.gguf", &nothing),
        ("another model's tree", with(&good.signature, &other.tree), "second.gguf", &nothing),
        ("another name", with(&good.signature, &good.tree), "scripted.gguf", &nothing),
        ("what is not so", with(&good.signature, &good.tree), "second.gguf", &lie),
    ];
    for (what, parts, name, said) in refused {
        ensure(parts.load(admin, name, said).await.is_err(), format!("it was loaded with {what}"))?;
        ensure(!listed().await?, format!("with {what} it was refused and is listed"))?;
    }
    let loaded = good.load(admin, "second.gguf", second).await?;
    ensure(loaded == second.id && listed().await?, "it came back as another one")?;
    let again = catalog.open_language_model(&second.id).await?;
    ensure(again.info().await? == *second, "it does not answer as itself")
}

/// B06, B16: the backend policy is in force for open models too, and requests beyond it are cut and reported.
async fn policies_are_heeded(
    catalog: &ModelCatalogClient,
    admin: &ModelAdminClient,
    second: &ModelInfo,
) -> Result<(), Error> {
    let standard = BackendPolicy::default();
    ensure(admin.backend_policy().await? == standard, "another policy was in force from the start")?;
    ensure(second.output_tokens == standard.max_tokens_per_call, "an answer may have other tokens than a call")?;
    let open = catalog.open_language_model(&second.id).await?;
    let long = InferenceRequest { max_tokens: 4096, ..request("Say a sentence.") };
    let whole = open.complete(&long).await?;
    ensure(whole.finish_reason == FinishReason::Stop, "a sentence was cut")?;

    let tight = BackendPolicy { max_tokens_per_call: 2, allow_remote: true, ..standard.clone() };
    admin.set_backend_policy(&tight).await?;
    ensure(admin.backend_policy().await? == tight, "the policy is not the one that was set")?;
    for max_tokens in [0, 4096] {
        let cut = open.complete(&InferenceRequest { max_tokens, ..long.clone() }).await?;
        let told = cut.finish_reason == FinishReason::Length && cut.usage.completion_tokens == 2;
        ensure(told, format!("of {max_tokens} tokens {} came", cut.usage.completion_tokens))?;
    }
    ensure(open.info().await?.output_tokens == 2, "the worker says another limit")?;
    let listed = catalog.list().await?.into_iter().find(|model| model.id == second.id);
    ensure(listed.is_some_and(|model| model.output_tokens == 2), "the catalog lists another limit")?;

    let silent = BackendPolicy { max_tokens_per_call: 0, ..standard.clone() };
    ensure(admin.set_backend_policy(&silent).await.is_err(), "a policy under which nothing can be said was taken")?;
    ensure(admin.backend_policy().await? == tight, "a policy that was refused is in force")?;
    admin.set_backend_policy(&BackendPolicy { allow_local: false, ..standard.clone() }).await?;
    ensure(catalog.open_language_model(&second.id).await.is_err(), "a local model was opened against the policy")?;
    ensure(open.info().await.is_err(), "an open model went on against the policy")?;
    admin.set_backend_policy(&standard).await?;
    let open = catalog.open_language_model(&second.id).await?;
    ensure(open.complete(&long).await? == whole, "under the first policy it answers differently")
}

/// B06: a policy that is set while a worker is starting holds for it too, and a model that two open at once has one
/// worker.
async fn starting_workers_heed_too(
    catalog: &ModelCatalogClient,
    admin: &ModelAdminClient,
    medium: &DirectoryClient,
    second: &ModelInfo,
) -> Result<(), Error> {
    let standard = BackendPolicy::default();
    let forbidding = BackendPolicy { allow_local: false, ..standard.clone() };
    let tight = BackendPolicy { max_tokens_per_call: 2, ..standard.clone() };
    // The more calls come before the policy, the further the start has come by then.
    let after = async |calls: usize, policy: &BackendPolicy| {
        for _ in 0..calls {
            catalog.list().await?;
        }
        admin.set_backend_policy(policy).await
    };
    for calls in [0, 1, 2, 4, 8, 16, 32] {
        // Afterwards it has no worker.
        admin.set_backend_policy(&forbidding).await?;
        admin.set_backend_policy(&standard).await?;
        let (open, set) = capos_rt::join(catalog.open_language_model(&second.id), after(calls, &tight)).await;
        set?;
        let said = open?.info().await?.output_tokens;
        ensure(said == 2, format!("{calls} calls after its start a worker was told 2 tokens and says {said}"))?;

        admin.set_backend_policy(&forbidding).await?;
        admin.set_backend_policy(&standard).await?;
        let (open, set) = capos_rt::join(catalog.open_language_model(&second.id), after(calls, &forbidding)).await;
        set?;
        if let Ok(open) = open {
            ensure(
                open.info().await.is_err(),
                format!("{calls} calls after its start a worker was forbidden and answers"),
            )?;
        }
    }
    admin.set_backend_policy(&standard).await?;
    let open = || catalog.open_language_model(&second.id);
    let (one, other) = capos_rt::join(open(), open()).await;
    let (one, other) = (one?, other?);
    ensure(one.info().await? == *second && other.info().await? == *second, "a model opened twice does not answer")?;
    admin.unload(&second.id).await?;
    ensure(one.info().await.is_err() && other.info().await.is_err(), "a worker outlived its model")?;
    let loaded = Parts::open(medium, SECOND).await?.load(admin, "second.gguf", second).await?;
    ensure(loaded == second.id, "it came back as another one")
}

/// B21: opening a model does not end another one that is being opened and has no holder yet.
async fn openings_do_not_meet(
    catalog: &ModelCatalogClient,
    admin: &ModelAdminClient,
    [one, other]: [&ModelInfo; 2],
) -> Result<(), Error> {
    let standard = BackendPolicy::default();
    let forbidding = BackendPolicy { allow_local: false, ..standard.clone() };
    for calls in [0, 1, 2, 4, 8, 16, 32] {
        // Afterwards neither has a worker.
        admin.set_backend_policy(&forbidding).await?;
        admin.set_backend_policy(&standard).await?;
        let later = async {
            for _ in 0..calls {
                catalog.list().await?;
            }
            catalog.open_language_model(&other.id).await
        };
        let (first, second) = capos_rt::join(catalog.open_language_model(&one.id), later).await;
        let (first, second) = (first?, second?);
        for (open, info) in [(first, one), (second, other)] {
            let said = open.info().await;
            ensure(
                said.is_ok_and(|said| said == *info),
                format!("opened {calls} calls apart, {} does not answer", info.display_name),
            )?;
        }
    }
    Ok(())
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
    let (Some(first), Some(second), Some(handbook)) = (find("capOS"), find("second"), find("handbook")) else {
        return Err(Error::new("the three models of the scenario are not registered"));
    };
    let model = catalog.open_language_model(&first.id).await?;
    ensure(model.info().await? == first, "a worker says something else of its model than the catalog")?;
    report.line("info is what the catalog lists");
    contract(&model, 3000).await?;
    report.line("streams add up, requests are heeded, streams end, a slow reader loses nothing");
    requests_arrive_whole(&model).await?;
    report.line("temperature, response schema and nonce reach the backend");
    cancelled_in_the_middle(&model, "Say nothing more.").await?;
    report.line("a silent stream can be cancelled");
    let other = catalog.open_language_model(&handbook.id).await?;
    let backends = [first.backend.as_str(), handbook.backend.as_str()];
    ensure(backends == ["local-scripted", "local-retrieval"], format!("the backends are {backends:?}"))?;
    ensure(other.info().await? == handbook, "a worker says something else of its handbook than the catalog")?;
    contract(&other, 40).await?;
    let schema = InferenceRequest { response_schema: "{}".to_string(), ..request("Say a sentence.") };
    ensure(other.complete(&schema).await.is_err(), "a handbook took a response schema for nothing")?;
    backends_are_alike(&model, &other).await?;
    report.line("two backends keep the same contract and give the same answers");
    let medium = env.cap::<DirectoryClient>("medium")?;
    models_come_and_go(&catalog, &admin, &medium, &second).await?;
    report.line("models come and go");
    policies_are_heeded(&catalog, &admin, &second).await?;
    report.line("the backend policy is heeded");
    starting_workers_heed_too(&catalog, &admin, &medium, &second).await?;
    report.line("starting workers heed it too, and a model has one");
    openings_do_not_meet(&catalog, &admin, [&second, &handbook]).await?;
    report.line("models that are opened beside each other both answer");
    report.line("the model service keeps its contract");
    Ok(())
}
