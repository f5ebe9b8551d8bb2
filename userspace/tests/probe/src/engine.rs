//! Models that the engine runs.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_measure::count;
use capos_rt::{Context, Env, Error, log};
use capos_schema::models::{
    FinishReason, InferenceRequest, InferenceResponse, LanguageModelClient, ModelCatalogClient, ModelInfo, StreamChunk,
    ToolDescriptor,
};
use capos_schema::system::SystemStatusClient;

use crate::models::{request, whole};
use crate::workers::{Forge, OWN, PAGE, lost};
use crate::{Report, ensure};

/// Tokens of the answers that are compared.
const TOKENS: u32 = 24;

/// The question to the model, on the host too (`userspace/lib/inference/tests/guest.rs`).
fn question() -> InferenceRequest {
    InferenceRequest { max_tokens: TOKENS, ..request("Say a sentence.") }
}

/// B04: the catalog's description of a model is that of its file.
fn is_described(info: &ModelInfo) -> Result<(), Error> {
    let expected = ModelInfo {
        id: info.id.clone(),
        display_name: "talking".to_string(),
        arch: "llama".to_string(),
        context_tokens: 4096,
        output_tokens: 4096,
        backend: "local-engine".to_string(),
        quantisation: "Q8_0".to_string(),
        supports_tools: true,
        bytes: info.bytes,
        license: "CC0-1.0".to_string(),
        description: String::new(),
        summarises: false,
    };
    ensure(*info == expected && info.id.ends_with("-llama"), format!("the catalog says {info:?}"))
}

async fn answer(model: &LanguageModelClient) -> Result<InferenceResponse, Error> {
    Ok(model.complete(&question()).await?)
}

/// The same answer with any number of threads, and twice.
async fn threads_change_nothing(env: &Env, model: &ModelInfo, report: &Report) -> Result<String, Error> {
    let forge = Forge::of(env, &model.id).await?;
    let mut said = Vec::new();
    for threads in [1, 2] {
        let worker = forge.worker(threads).await?;
        said.push(answer(&worker.model).await?);
        said.push(answer(&worker.model).await?);
        worker.process.kill("it was listened to").await?;
    }
    let Some(first) = said.first() else { return Err(Error::new("nothing was said")) };
    let cut = first.finish_reason == FinishReason::Length && first.usage.completion_tokens == TOKENS;
    ensure(cut, format!("it ended as {:?}", first.usage))?;
    // For a request that was answered before, the model has less to read, and the usage is the same.
    ensure(said.iter().all(|other| other == first), format!("the answers differ: {said:?}"))?;
    report.line("one thread and two say the same");
    Ok(first.message.content.clone())
}

/// B01, B09: the pieces of streams add up, alone and in parallel; stop sequences and schemas are respected.
async fn requests_are_heeded(model: &LanguageModelClient, said: &str, report: &Report) -> Result<(), Error> {
    let other = InferenceRequest { max_tokens: TOKENS, ..request("Say another.") };
    let alone = model.complete(&other).await?.message.content;
    ensure(alone != said, "it says the same whatever it is asked")?;
    let (one, two) = (model.stream(&question()).await?, model.stream(&other).await?);
    let (one, two) = capos_rt::join(whole(&one), whole(&two)).await;
    let (one, two) = (one?, two?);
    ensure(one.text == said && two.text == alone, format!("beside each other: {:?}, {:?}", one.text, two.text))?;
    ensure(
        one.end.as_ref().is_some_and(|end| end.reason == FinishReason::Length),
        format!("the end is {:?}", one.end),
    )?;

    let word = said.split(' ').nth(5).context("it said too little")?;
    let stop = Vec::from([format!(" {word}")]);
    let stopped = model.complete(&InferenceRequest { stop_sequences: stop.clone(), ..question() }).await?;
    let before = said.split(&format!(" {word}")).next().unwrap_or_default();
    let good = stopped.finish_reason == FinishReason::Stop && stopped.message.content == before;
    ensure(good, format!("stopped at {stop:?}: {stopped:?}"))?;

    let schema = r#"{"enum":["rain","snow"]}"#.to_string();
    let formed = model.complete(&InferenceRequest { response_schema: schema, ..question() }).await?;
    let good = [r#""rain""#, r#""snow""#].contains(&formed.message.content.as_str());
    ensure(good && formed.finish_reason == FinishReason::Stop, format!("held to a schema it said {formed:?}"))?;
    let wrong = InferenceRequest { response_schema: "{".to_string(), ..question() };
    ensure(model.complete(&wrong).await.is_err(), "it took something for a schema that is none")?;
    report.line("streams add up, beside each other too; stop sequences and schemas are heeded");
    Ok(())
}

/// Before the answer, the model reports a tool whose schema cannot be enforced, with the missing part; its neighbour is
/// not reported.
async fn loose_tools_are_told(model: &LanguageModelClient, report: &Report) -> Result<(), Error> {
    let tool = |name: &str, schema: &str| ToolDescriptor {
        name: name.to_string(),
        handle: format!("/object/{name}"),
        param_schema: schema.to_string(),
        ..ToolDescriptor::default()
    };
    let odd = r#"{"type":"object","properties":{"a":{"not":{"type":"string"}}}}"#;
    let tools = Vec::from([tool("plain", r#"{"type":"object"}"#), tool("odd", odd)]);
    let stream = model.stream(&InferenceRequest { tools, ..question() }).await?;
    let mut told = Vec::new();
    loop {
        match stream.next().await?.chunk {
            StreamChunk::Loose(loose) => told.push(loose),
            StreamChunk::Progress(_) => {}
            _ => break,
        }
    }
    stream.cancel().await?;
    let good = matches!(told.as_slice(), [loose] if loose.tool == "odd" && loose.why.contains("not"));
    ensure(good, format!("of tools that are held loosely it told {told:?}"))?;
    report.line("a tool whose schema cannot be held to is told of");
    Ok(())
}

/// C11, B02: an answer that is cancelled while the model reads ends there, and others are served meanwhile.
async fn reading_can_be_cancelled(model: &LanguageModelClient, report: &Report) -> Result<(), Error> {
    let long = "the cat goes home ".repeat(160);
    let stream = model.stream(&request(&long)).await?;
    let StreamChunk::Progress(first) = stream.next().await?.chunk else {
        return Err(Error::new("a long prompt was read without a word"));
    };
    ensure(first.done < first.total, format!("all {} tokens were read at once", first.total))?;
    let (rest, others) = capos_rt::join(whole(&stream), async {
        let info = model.info().await;
        stream.cancel().await.and(info)
    })
    .await;
    others?;
    let end = rest?.end;
    let good =
        end.as_ref().is_some_and(|end| end.reason == FinishReason::Cancelled && end.usage.completion_tokens == 0);
    ensure(good, format!("cancelled after {} of {} tokens it ended as {end:?}", first.done, first.total))?;
    ensure(stream.next().await.is_err(), "a cancelled stream went on")?;
    report.line("an answer can be cancelled while the model reads");
    Ok(())
}

/// Tokens of an answer that is cancelled long before its end.
const LONG: u32 = 2048;

/// C11, B02: an answer that is cancelled while the model writes ends after the text so far. Others are served
/// meanwhile, and a concurrent answer is unaffected.
async fn writing_can_be_cancelled(model: &LanguageModelClient, report: &Report) -> Result<(), Error> {
    let other = InferenceRequest { max_tokens: TOKENS, ..request("Say another.") };
    let alone = model.complete(&other).await?.message.content;
    let stream = model.stream(&InferenceRequest { max_tokens: LONG, ..question() }).await?;
    let beside = model.stream(&other).await?;
    let mut said = String::new();
    while said.split(' ').count() < 4 {
        match stream.next().await?.chunk {
            StreamChunk::TextDelta(text) => said.push_str(&text),
            StreamChunk::Progress(_) => {}
            chunk => return Err(Error::new(format!("behind {said:?} came {chunk:?}"))),
        }
    }
    let ((rest, other), cancelled) =
        capos_rt::join(capos_rt::join(whole(&stream), whole(&beside)), stream.cancel()).await;
    cancelled?;
    let (end, other) = (rest?.end, other?);
    let good = end.as_ref().is_some_and(|end| {
        end.reason == FinishReason::Cancelled && (1..LONG / 2).contains(&end.usage.completion_tokens)
    });
    ensure(good, format!("cancelled behind {said:?} it ended as {end:?}"))?;
    ensure(stream.next().await.is_err(), "a cancelled stream went on")?;
    let whole = other.end.as_ref().is_some_and(|end| end.reason == FinishReason::Length) && other.text == alone;
    ensure(whole, format!("beside an answer that was cancelled it said {:?} in place of {alone:?}", other.text))?;
    report.line("an answer can be cancelled while the model writes");
    Ok(())
}

/// B07: chance follows the request's temperature and nonce, and nothing else.
async fn chance_follows_the_request(model: &LanguageModelClient, said: &str, report: &Report) -> Result<(), Error> {
    let with = |temperature: f32, nonce: &[u8]| InferenceRequest { temperature, nonce: nonce.to_vec(), ..question() };
    let answer = async |request: InferenceRequest| Ok::<_, Error>(model.complete(&request).await?.message.content);
    for nonce in [&[][..], &[7], &[8; 16]] {
        let likeliest = answer(with(0.0, nonce)).await?;
        ensure(likeliest == said, format!("with temperature 0 and {nonce:?} it said {likeliest:?}"))?;
    }
    let drawn = answer(with(1.0, &[7])).await?;
    ensure(drawn != said, "temperature makes no difference")?;
    ensure(answer(with(1.0, &[7])).await? == drawn, "the same nonce makes another answer")?;
    let others = [answer(with(1.0, &[8])).await?, answer(with(1.0, &[8; 16])).await?];
    ensure(!others.contains(&drawn) && others.first() != others.last(), "other nonces make the same answer")?;
    // If it is cold, what is likeliest is nearly certain; if it is hot, everything is as likely.
    let cold = answer(with(0.000_1, &[7])).await?;
    ensure(cold == said, format!("with a temperature of nearly 0 it said {cold:?}"))?;
    ensure(answer(with(50.0, &[7])).await? != drawn, "a higher temperature makes no difference")?;
    let refused = model.complete(&with(-1.0, &[7])).await.err().map(|error| error.to_string()).unwrap_or_default();
    ensure(refused.contains("temperature"), format!("of a temperature of -1 it says {refused:?}"))?;
    report.line("chance follows temperature and nonce");
    Ok(())
}

/// A04: a second worker costs what it computes with, and not the weights.
async fn weights_are_shared(env: &Env, model: &ModelInfo, report: &Report) -> Result<(), Error> {
    let status = env.cap::<SystemStatusClient>("status")?;
    let forge = Forge::of(env, &model.id).await?;
    let pages = forge.bytes.div_ceil(PAGE);
    let short = InferenceRequest { max_tokens: 2, ..request("Hi") };
    let first = forge.worker(1).await?;
    let said = first.model.complete(&short).await?;
    let one = status.statistics().await?;
    let frames = forge.frames().await?;
    let second = forge.worker(1).await?;
    ensure(second.model.complete(&short).await? == said, "the second worker says something else")?;
    let two = status.statistics().await?;
    let (more, misses) = (lost(&one, &two), two.cache_misses.saturating_sub(one.cache_misses));
    // Its text is read from the medium again if it was evicted; its weights are not read.
    ensure(more <= 2 * OWN && more < pages, format!("the second worker took {more} frames more"))?;
    ensure(forge.frames().await? == frames, "the weights lie in other frames now")?;
    let own = second.account.usage().await?.usage.frames;
    report.line(&format!(
        "of {pages} pages of weights a second worker took {more} frames, {own} of them its own, {misses} faults went to the pager"
    ));
    for worker in [first, second] {
        worker.process.kill("it was looked at").await?;
    }
    Ok(())
}

/// The models of the scenario that have these names.
///
/// # Errors
/// There is none by one of them.
pub async fn named(env: &Env, titles: &[&str]) -> Result<Vec<ModelInfo>, Error> {
    let models = env.cap::<ModelCatalogClient>("catalog")?.list().await?;
    let find = |title: &&str| {
        let found = models.iter().find(|model| model.display_name.trim() == *title).cloned();
        found.ok_or_else(|| Error::new(format!("no model {title} is registered")))
    };
    titles.iter().map(find).collect()
}

/// A model's answer, and the description of its file.
///
/// # Errors
/// What does not hold.
pub async fn answers(env: &Env, report: &Report) -> Result<(), Error> {
    let catalog = env.cap::<ModelCatalogClient>("catalog")?;
    for talking in named(env, &["talking"]).await? {
        is_described(&talking)?;
        let said = threads_change_nothing(env, &talking, report).await?;
        let model = catalog.open_language_model(&talking.id).await?;
        ensure(model.info().await? == talking, "the worker says something else of its model than the catalog")?;
        requests_are_heeded(&model, &said, report).await?;
        loose_tools_are_told(&model, report).await?;
        chance_follows_the_request(&model, &said, report).await?;
        report.line(&format!("the engine says: {said}"));
    }
    Ok(())
}

/// The shared part of two workers of a model.
///
/// # Errors
/// What does not hold.
pub async fn weights(env: &Env, report: &Report) -> Result<(), Error> {
    for numbers in named(env, &["numbers"]).await? {
        weights_are_shared(env, &numbers, report).await?;
    }
    Ok(())
}

/// The cost of a token: instructions, on a machine that counts those. `capos bench-token` compares them with the cost
/// of the same answers on Linux (`tools/infer/src/token_cost.rs`).
///
/// # Errors
/// What does not hold.
pub async fn tokens(env: &Env, report: &Report) -> Result<(), Error> {
    const SHORT: u32 = 8;
    const LONG: u32 = 72;
    for numbers in named(env, &["numbers"]).await? {
        let worker = Forge::of(env, &numbers.id).await?.worker(1).await?;
        let mut costs = Vec::new();
        // Both others continue from the first answer: the pages are there, and the prompt has been read.
        for most in [LONG, SHORT, LONG] {
            let request = InferenceRequest { max_tokens: most, ..request("Say a sentence.") };
            let from = count();
            let answer = worker.model.complete(&request).await?;
            costs.push(count().saturating_sub(from));
            let cut = answer.finish_reason == FinishReason::Length && answer.usage.completion_tokens == most;
            ensure(cut, format!("it ended after {} of {most} tokens", answer.usage.completion_tokens))?;
        }
        worker.process.kill("it was listened to").await?;
        let [_, short, long] = costs.as_slice() else { return Err(Error::new("an answer is missing")) };
        let each = long.saturating_sub(*short) / u64::from(LONG - SHORT);
        log::info!("bench token {each} instructions: each token of an answer by the worker, all of the system counted");
    }
    report.line("tokens are counted");
    Ok(())
}

/// Pages that come in with the one that is asked for.
const WINDOW: u64 = 32;

/// A model that is large compared with the machine's memory: it answers, and the same again. If `fits`, the pages that
/// one answer read are still there for the next; otherwise they were evicted meanwhile, and are read and verified
/// again.
///
/// # Errors
/// What does not hold.
pub async fn large(env: &Env, fits: bool, report: &Report) -> Result<(), Error> {
    let status = env.cap::<SystemStatusClient>("status")?;
    for large in named(env, &["large"]).await? {
        // Each request goes to a worker of its own, so that the prompt is processed again.
        let sentence = request("The quick brown fox jumps over the lazy dog; 0123456789.");
        let asked = InferenceRequest { max_tokens: 4, ..sentence };
        let forge = Forge::of(env, &large.id).await?;
        let mut said = Vec::new();
        let mut misses = Vec::new();
        for _ in 0..2 {
            let before = status.statistics().await?;
            let worker = forge.worker(1).await?;
            let answer = worker.model.complete(&asked).await?;
            worker.process.kill("it was listened to").await?;
            let after = status.statistics().await?;
            misses.push(after.cache_misses.saturating_sub(before.cache_misses));
            said.push(answer);
        }
        let ([first, second], [one, two]) = (said.as_slice(), misses.as_slice()) else {
            return Err(Error::new("an answer is missing"));
        };
        let cut = first.finish_reason == FinishReason::Length && first.usage.completion_tokens == 4;
        ensure(cut && first == second, format!("the answers differ: {first:?}, {second:?}"))?;
        let windows = large.bytes.div_ceil(PAGE * WINDOW);
        let told = format!(
            "of {windows} windows of {WINDOW} pages {one} came in for an answer, and {two} for the same answer again"
        );
        ensure(*one > windows / 6, format!("{told}: it read too little of its weights"))?;
        // The worker's own text is read again in either case if memory is short.
        ensure(if fits { *two < one / 50 } else { *two > one / 4 }, told.clone())?;
        report.line(&told);
    }
    report.line(if fits { "its pages stay" } else { "its pages are read again" });
    Ok(())
}

/// The tokens in the file of the model `wide`.
const OF_FILE: u32 = 8192;
/// Bytes that a worker would have by its file's size alone, besides the 64 MiB of every worker: an eighth of it.
const BY_FILE: u64 = 8;

/// A07: a model has as long a conversation as the machine has memory for, the catalog says how long that is, and it has room.
///
/// # Errors
/// What does not hold.
pub async fn whole_context(env: &Env, report: &Report) -> Result<(), Error> {
    let catalog = env.cap::<ModelCatalogClient>("catalog")?;
    let status = env.cap::<SystemStatusClient>("status")?;
    for wide in named(env, &["wide"]).await? {
        let context = wide.context_tokens;
        let good = (1..OF_FILE).contains(&context) && wide.output_tokens <= context;
        ensure(good, format!("the catalog says conversations of {context} tokens"))?;
        let model = catalog.open_language_model(&wide.id).await?;
        ensure(model.info().await? == wide, "the worker says something else of its model than the catalog")?;
        let before = status.statistics().await?;
        // A byte is a token. Three quarters of the context may be read, and the answer has the rest.
        let half = usize::try_from(context / 2).context("the context is too large")?;
        let asked = InferenceRequest { max_tokens: context, ..request(&"x".repeat(half)) };
        let answer = model.complete(&asked).await?;
        let after = status.statistics().await?;
        let used = answer.usage.prompt_tokens.saturating_add(answer.usage.completion_tokens);
        // The last token is written and not read.
        let whole =
            answer.finish_reason == FinishReason::Length && (context..=context.saturating_add(1)).contains(&used);
        ensure(whole, format!("of {context} tokens it ended as {:?} after {:?}", answer.finish_reason, answer.usage))?;
        let cached = after.cached_frames.saturating_sub(before.cached_frames);
        let took = lost(&before, &after).saturating_sub(cached).saturating_mul(PAGE);
        let by_file = (64u64 << 20).saturating_add(wide.bytes / BY_FILE);
        report.line(&format!(
            "{used} of {context} tokens, for which {took} bytes were taken, {by_file} by the file's size"
        ));
    }
    report.line("its whole context is used");
    Ok(())
}

/// Prompts that get no answer.
///
/// # Errors
/// What does not hold.
pub async fn ends(env: &Env, report: &Report) -> Result<(), Error> {
    let catalog = env.cap::<ModelCatalogClient>("catalog")?;
    for numbers in named(env, &["numbers"]).await? {
        reading_can_be_cancelled(&catalog.open_language_model(&numbers.id).await?, report).await?;
    }
    for talking in named(env, &["talking"]).await? {
        writing_can_be_cancelled(&catalog.open_language_model(&talking.id).await?, report).await?;
    }
    for unfit in named(env, &["Tokenizer fixture"]).await? {
        let refused = catalog.open_language_model(&unfit.id).await?.complete(&question()).await;
        let why = refused.err().map(|error| error.to_string()).unwrap_or_default();
        ensure(why.contains("this model cannot be run: "), format!("of a model that cannot be run it says {why:?}"))?;
    }
    report.line("a model that cannot be run says so");
    Ok(())
}
