//! A session holder's possible requests to the broker, and a worker's possible obstructions. Neither ends the broker,
//! nor affects other sessions.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use capos_rt::{Env, Error};
use capos_schema::audit::{AuditReaderClient, Query};
use capos_schema::authority::{AuthorityBrokerClient, Profile, ToolQuestion, UserSessionClient};
use capos_schema::cap::{AsCap, CallError, Cap, ExceptionKind, IncomingMessage, Message};
use capos_schema::models::{
    BackendPolicy, FinishReason, InferenceRequest, LanguageModelClient, ModelAdminClient, ModelInfo, StreamChunk,
};
use capos_schema::system::SystemStatusClient;

use crate::engine::named;
use crate::models::{self, whole};
use crate::sessions::{ADA, GRACE, Talk, why};
use crate::{Report, ensure};

/// Numbers of methods that take lists: `UserSession.permissions`, `LanguageModel.complete` and `LanguageModel.stream`.
const PERMISSIONS: u16 = 2;
const COMPLETE: u16 = 1;
const STREAM: u16 = 2;
/// Words of messages that are nearly as long as the broker's two endpoints take them.
const OF_QUESTIONS: usize = 16_000;
const OF_REQUESTS: usize = 130_000;
/// Bytes of a question's arguments.
const ARGUMENTS: usize = 64 << 10;
/// Bytes of a conversation that is nearly as long as a request can be, and of one that another session can still send
/// at the same time.
const LONGEST: usize = 1000 << 10;
const LONG: usize = 160 << 10;
/// Bytes in memory of one message of a conversation.
const CHAT_MESSAGE: usize = 104;
/// Answers of one session that can be in flight at once.
const ANSWERS: usize = 4;
/// Answers that one session can hold, ended and cancelled ones too.
const HELD: usize = 16;
/// Models that one session can hold, and sessions that can be open at once.
const MODELS: usize = 4;
const SESSIONS: usize = 16;
/// KiB that the broker takes with one session and nothing in flight, at most: less than its estimate besides calls (`REST` of
/// its memory budget), since there may be sixteen.
const AT_REST: u64 = 4608;
/// Tokens of each of those in flight.
const TOKENS: u32 = 24;

/// A request whose answer takes little of the session's tokens.
fn request(text: &str) -> InferenceRequest {
    InferenceRequest { max_tokens: TOKENS, ..models::request(text) }
}

/// Parameters whose first field is a list, or a struct whose first field is one, with `elements` elements of no size.
fn of_nothing(words: usize, in_struct: bool, size: u64, elements: usize) -> Message {
    let pointer: u64 = 1 << 48;
    let mut head = Vec::from([pointer]);
    if in_struct {
        head.push(pointer);
    }
    head.push(1 | size << 32 | if size == 7 { 0 } else { (elements as u64) << 35 });
    if size == 7 {
        // How many structs of no size there are.
        head.push((elements as u64) << 2);
    }
    head.resize(words, 0);
    let bytes: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
    Message { words: IncomingMessage::from_bytes(&bytes, Vec::new()).words, caps: Vec::new() }
}

/// Sends such a message several times at once: each is refused, and the refusal names the field.
async fn refused(cap: &Cap, (interface, method): (u64, u16), message: &Message, field: &str) -> Result<(), Error> {
    let calls = (0..ANSWERS).map(|_| cap.call(interface, method, message.clone()));
    for answer in capos_rt::join_all(calls).await {
        let good = matches!(
            &answer,
            Err(CallError::Exception(refused)) if refused.kind == ExceptionKind::InvalidArgument
                && refused.to_string().contains(field) && refused.to_string().contains("more memory")
        );
        ensure(good, format!("a list of nothing for {field}: {:?}", why(answer)))?;
    }
    Ok(())
}

/// Messages made by hand, with lists that are much larger once they are read, end only their call.
async fn lists_of_nothing_end_nobody(broker: &AuthorityBrokerClient, model: &ModelInfo) -> Result<(), Error> {
    let mut one = Talk::begin(broker, &ADA, model).await?;
    let mut two = Talk::begin(broker, &GRACE, model).await?;
    let tools = of_nothing(OF_QUESTIONS, false, 7, OF_QUESTIONS.saturating_mul(4));
    let permissions = (UserSessionClient::INTERFACE_ID, PERMISSIONS);
    refused(one.session.as_cap(), permissions, &tools, "UserSessionPermissionsParams.tools").await?;
    let messages = of_nothing(OF_REQUESTS, true, 7, OF_REQUESTS.saturating_mul(4));
    for method in [COMPLETE, STREAM] {
        let asked = (LanguageModelClient::INTERFACE_ID, method);
        refused(one.model.as_cap(), asked, &messages, "InferenceRequest.messages").await?;
    }
    // As many as are permitted, which together exceed the longest message to the worker.
    let most = OF_REQUESTS.saturating_mul(8 * 4) / CHAT_MESSAGE;
    let messages = of_nothing(OF_REQUESTS, true, 6, most);
    let calls = (0..6).map(|_| one.model.as_cap().call(LanguageModelClient::INTERFACE_ID, STREAM, messages.clone()));
    let refused: Vec<String> = capos_rt::join_all(calls).await.into_iter().map(why).collect();
    ensure(
        refused.iter().all(|why| why.contains("larger than the limit") || why.contains("no room"))
            && refused.iter().any(|why| why.contains("larger than the limit")),
        format!("{most} messages of nothing: {refused:?}"),
    )?;
    // Only the wanted members of arguments are kept, however many values they have.
    for arguments in ["{},", "[", "{\"a\":"].map(|value| format!("[{}", value.repeat(ARGUMENTS / value.len()))) {
        let question = ToolQuestion { tool: "write_file".into(), arguments, ..ToolQuestion::default() };
        one.session.review(&question).await?;
    }
    let answers = [two.ask(GRACE.first).await?, one.ask(ADA.first).await?];
    ensure(answers.iter().all(|answer| !answer.is_empty()), "nothing is answered afterwards")?;
    one.session.end().await?;
    Ok(two.session.end().await?)
}

/// A call that is made, and looked at again later.
type Asked<'a, T> = Pin<Box<dyn Future<Output = Result<T, CallError>> + 'a>>;

/// Makes a call; none if it has ended, which it should not have.
fn begin<'a, T>(call: impl Future<Output = Result<T, CallError>> + 'a) -> Option<Asked<'a, T>> {
    let mut call: Asked<'a, T> = Box::pin(call);
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Pending => Some(call),
        Poll::Ready(_) => None,
    }
}

/// A worker that stops answering does not block other requests: those that wait for it can be given up or cancelled,
/// and then no longer count. A session with another model meanwhile notices nothing. It leaves a cancel unanswered, so
/// another worker replaces it and answers the waiting requests.
async fn a_deaf_worker_keeps_nobody(
    env: &Env,
    broker: &AuthorityBrokerClient,
    deaf: &ModelInfo,
    (talking, answering): (&ModelInfo, &ModelInfo),
) -> Result<(), Error> {
    let one = Talk::begin(broker, &ADA, deaf).await?;
    let mut two = Talk::begin(broker, &GRACE, talking).await?;
    let other = one.session.model(&talking.id).await?.model;
    // One that has begun, whose next piece never comes; the requests after it are never answered.
    let first = one.model.stream(&request("Go deaf.")).await?;
    ensure(matches!(first.next().await?.chunk, StreamChunk::TextDelta(_)), "it was deaf before it said so")?;
    let hello = request("Hello?");
    let read = begin(first.next()).ok_or_else(|| Error::new("a deaf worker answers"))?;
    let mut asked: Vec<_> = (1..ANSWERS).filter_map(|_| begin(one.model.stream(&hello))).collect();
    let more = why(other.stream(&hello).await);
    ensure(
        asked.len() == ANSWERS - 1 && more.contains("4 answers of this session are in progress"),
        format!("{} wait for a deaf worker, and one more is told {more:?}", asked.len()),
    )?;
    ensure(!two.ask(GRACE.first).await?.is_empty(), "nothing is answered beside a deaf worker")?;
    // A cancelled one, though its holder continues to read it.
    first.cancel().await?;
    ensure(!whole(&other.stream(&request(ADA.first)).await?).await?.text.is_empty(), "a cancelled answer has a place")?;
    asked.extend(begin(one.model.stream(&hello)));
    ensure(!why(other.stream(&hello).await).is_empty(), "five answers are in progress")?;
    // The read that waits for the deaf worker still ends.
    let end = read.await?;
    let cancelled = matches!(&end.chunk, StreamChunk::Finish(finish) if finish.reason == FinishReason::Cancelled);
    ensure(end.done && cancelled, format!("a cancelled answer of a deaf worker ends with {end:?}"))?;
    ensure(why(first.next().await).contains("has ended"), "it goes on behind its end")?;
    // Requests without a waiting caller.
    drop((first, asked));
    let mut held = Vec::new();
    for _ in 0..ANSWERS {
        held.push(other.stream(&request(ADA.first)).await?);
    }
    ensure(!whole(held.first().ok_or_else(|| Error::new("none"))?).await?.text.is_empty(), "it says nothing")?;
    drop(held);
    let said = whole(&one.model.stream(&hello).await?).await?.text;
    ensure(said.contains("I am here"), format!("in the place of a deaf worker one says {said:?}"))?;
    let replaced = records(env, "broker.decision", "replaced: its worker has not answered a cancel for 30 s").await?;
    let ended = records(env, "worker.replaced", &deaf.id).await?;
    ensure((replaced, ended) == (1, 1), format!("{replaced} records of the broker and {ended} of a worker's end"))?;
    // The next one stops answering, too, and its answer is not given up.
    let again = one.model.stream(&request("Go deaf.")).await?;
    ensure(matches!(again.next().await?.chunk, StreamChunk::TextDelta(_)), "it was deaf before it said so again")?;
    let read = begin(again.next()).ok_or_else(|| Error::new("a deaf worker answers"))?;
    // A waiting request may have the greatest length: it leaves room in the broker for others.
    let longest = request(&"Hear me. ".repeat(LONGEST / 9));
    let waits = begin(one.model.stream(&longest)).ok_or_else(|| Error::new("a deaf worker answers"))?;
    let mortal = two.session.model(&answering.id).await?.model;
    let long = request(&"Can you hear me? ".repeat(LONG / 17));
    let said = whole(&mortal.stream(&long).await?).await?.text;
    ensure(said.contains("I am here"), format!("beside the longest request, a long one is answered {said:?}"))?;
    let more = why(one.model.stream(&longest).await);
    ensure(
        more.contains("in progress of this session leave no memory"),
        format!("two of the longest requests: {more:?}"),
    )?;
    drop((waits, mortal));
    // What was sent to the deaf worker counts as used, though it is unknown how much of it was read.
    let prompt = "Are you there? ".repeat(64);
    let least = 2 * prompt.len() as u64 / 16;
    let prompt = request(&prompt);
    // What is reserved for an answer counts as used until it has ended.
    let left = one.session.remaining().await?;
    let given_up = (begin(one.model.complete(&prompt)), begin(one.model.stream(&prompt)));
    // They have been sent when one that came later has its answer.
    whole(&other.stream(&hello).await?).await?;
    drop(given_up);
    let next = other.stream(&hello).await?;
    let used = left.saturating_sub(one.session.remaining().await?);
    ensure(used >= least, format!("two prompts that were given up took {used} tokens of {least}"))?;
    next.cancel().await?;
    ensure(whole(&next).await?.end.is_some_and(|end| end.reason == FinishReason::Cancelled), "it is not cancelled")?;
    drop(read);
    one.session.end().await?;
    Ok(two.session.end().await?)
}

/// How many records of a kind have this in them.
async fn records(env: &Env, kind: &str, wanted: &str) -> Result<usize, Error> {
    let reader = env.cap::<AuditReaderClient>("records")?;
    let (mut found, mut query) = (0, Query { kind: kind.into(), ..Query::default() });
    loop {
        let page = reader.query(&query).await?;
        let those = page.records.iter().filter(|record| record.contains(wanted)).count();
        found = those.saturating_add(found);
        if page.next == 0 {
            return Ok(found);
        }
        query.from = page.next;
    }
}

/// A model whose worker has ended still answers the next request, whole or in pieces, and the audit log records it.
async fn a_worker_that_is_gone_is_replaced(
    env: &Env,
    broker: &AuthorityBrokerClient,
    mortal: &ModelInfo,
) -> Result<(), Error> {
    let one = Talk::begin(broker, &ADA, mortal).await?;
    let opened_anew = async || records(env, "broker.decision", "opened again").await;
    let before = opened_anew().await?;
    let admin = env.cap::<ModelAdminClient>("admin")?;
    let policy = admin.backend_policy().await?;
    for whole_answer in [true, false] {
        // Ends all workers permanently.
        admin.set_backend_policy(&BackendPolicy { allow_local: false, ..policy.clone() }).await?;
        admin.set_backend_policy(&policy).await?;
        let hello = request("Hello?");
        let text = if whole_answer {
            one.model.complete(&hello).await?.message.content
        } else {
            whole(&one.model.stream(&hello).await?).await?.text
        };
        ensure(text.contains("I am here"), format!("after its worker ended it says {text:?}"))?;
    }
    let records = opened_anew().await?.saturating_sub(before);
    ensure(records == 2, format!("{records} records of models that were opened again"))?;
    // One that dies from the request itself is asked again, and not for ever.
    let died = why(one.model.complete(&request("Die.")).await);
    ensure(died.contains("the model's worker has ended"), format!("a request that kills its worker: {died:?}"))?;
    let dying = one.model.stream(&request("Die.")).await?;
    let died = why(whole(&dying).await.map(drop));
    ensure(died.contains("the model's worker has ended"), format!("an answer that kills its worker: {died:?}"))?;
    Ok(one.session.end().await?)
}

/// A session that changes to another model reads on the answer of the last one, and asks both.
async fn an_answer_outlasts_a_change_of_models(
    broker: &AuthorityBrokerClient,
    first: &ModelInfo,
    second: &ModelInfo,
) -> Result<(), Error> {
    let one = Talk::begin(broker, &ADA, first).await?;
    let begun = one.model.stream(&request(ADA.first)).await?;
    let now = begun.next().await?;
    ensure(!now.done, "it is whole at once")?;
    let other = one.session.model(&second.id).await?.model;
    let said = whole(&other.stream(&request("Hello?")).await?).await?.text;
    ensure(said.contains("I am here"), format!("the second model says {said:?}"))?;
    let rest = whole(&begun).await?;
    ensure(
        rest.end.is_some() && !rest.text.is_empty(),
        format!("the rest of the first one's answer: {:?}", rest.text),
    )?;
    ensure(one.session.remaining().await? > 0, "nothing is left")?;
    drop(begun);
    // Cancelled answers can be read on, so they are kept as long as they are held: in limited number.
    let mut kept = Vec::new();
    let refused = loop {
        match other.stream(&request("Hello?")).await {
            Ok(stream) => {
                stream.cancel().await?;
                kept.push(stream);
            }
            Err(error) => break error.to_string(),
        }
    };
    ensure(
        kept.len() == HELD && refused.contains("this session holds 16 answers"),
        format!("{} are held: {refused:?}", kept.len()),
    )?;
    drop(kept);
    ensure(!whole(&other.stream(&request("Hello?")).await?).await?.text.is_empty(), "it says nothing")?;
    Ok(one.session.end().await?)
}

/// Models of a session and sessions are limited in number; released ones make room for others.
async fn what_is_held_has_a_bound(broker: &AuthorityBrokerClient, model: &ModelInfo) -> Result<(), Error> {
    let mut sessions = Vec::new();
    let refused = loop {
        match broker.login(Profile::Guest, "many", "").await {
            Ok(session) => sessions.push(session),
            Err(error) => break error.to_string(),
        }
    };
    // One is that of the person at the terminal.
    ensure(
        sessions.len() == SESSIONS - 1 && refused.contains("16 sessions are open"),
        format!("{} sessions are open: {refused:?}", sessions.len()),
    )?;
    let one = sessions.pop().ok_or_else(|| Error::new("none"))?;
    // Grants of a session without a holder end with it, once the broker has checked.
    let gone = sessions.pop().ok_or_else(|| Error::new("none"))?;
    let (kept, kept_model) = (gone.bundle(0).await?.grants, gone.model(&model.id).await?.model);
    drop((gone, sessions));
    broker.login(Profile::Guest, "looks", "").await?.end().await?;
    let told = kept_model.info().await;
    ensure(
        told.as_ref().is_err_and(CallError::is_disconnected),
        format!("the model of a session that is gone: {:?}", why(told)),
    )?;
    for grant in kept.iter().filter(|grant| grant.name != "audit_writer") {
        let answer = grant.capability.as_cap().call(grant.interface, 0, Message::default()).await;
        ensure(
            answer.as_ref().is_err_and(CallError::is_disconnected),
            format!("`{}` of a session that is gone: {:?}", grant.name, why(answer)),
        )?;
    }
    let long = why(one.model(&"x".repeat(300)).await);
    ensure(long.contains("has at most 256 bytes"), format!("a long name of a model: {long:?}"))?;
    let other = why(broker.login(Profile::Guest, "operator", "").await);
    ensure(other.contains("log in with another name"), format!("a guest by the operator's name: {other:?}"))?;
    let mut models = Vec::new();
    let refused = loop {
        match one.model(&model.id).await {
            Ok(opened) => models.push(opened.model),
            Err(error) => break error.to_string(),
        }
    };
    ensure(
        models.len() == MODELS && refused.contains("this session holds 4 models"),
        format!("{} models are held: {refused:?}", models.len()),
    )?;
    models.truncate(1);
    models.push(one.model(&model.id).await?.model);
    broker.login(Profile::Guest, "another", "").await?.end().await?;
    Ok(one.end().await?)
}

/// The broker uses no more memory, in KiB, than its estimate (`capos_broker::room`).
async fn at_rest(env: &Env, most: u64) -> Result<(), Error> {
    let services = env.cap::<SystemStatusClient>("status")?.services().await?;
    let broker = services.iter().find(|service| service.name == "broker");
    let taken = broker.ok_or_else(|| Error::new("there is no broker"))?.frames.saturating_mul(4);
    ensure(taken <= most, format!("the broker takes {taken} KiB at rest, not {most}"))
}

/// All of it, with a model that the engine runs and two that play a script.
///
/// # Errors
/// What does not hold.
pub async fn run(env: &Env, report: &Report) -> Result<(), Error> {
    let broker = env.cap::<AuthorityBrokerClient>("broker")?;
    let models = named(env, &["talking", "mortal", "deaf"]).await?;
    let [talking, mortal, deaf] = models.as_slice() else { return Err(Error::new("there are other models")) };
    at_rest(env, AT_REST).await?;
    lists_of_nothing_end_nobody(&broker, talking).await?;
    report.line("lists of nothing end nobody");
    a_worker_that_is_gone_is_replaced(env, &broker, mortal).await?;
    report.line("a worker that is gone is replaced");
    an_answer_outlasts_a_change_of_models(&broker, talking, mortal).await?;
    report.line("an answer outlasts a change of models");
    a_deaf_worker_keeps_nobody(env, &broker, deaf, (talking, mortal)).await?;
    report.line("a deaf worker keeps nobody");
    what_is_held_has_a_bound(&broker, mortal).await?;
    report.line("what is held has a bound");
    Ok(())
}
