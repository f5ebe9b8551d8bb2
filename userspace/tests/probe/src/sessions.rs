//! Two sessions at once, which talk to one model.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_rt::{Env, Error};
use capos_schema::authority::{AuthorityBrokerClient, Profile, UserSessionClient};
use capos_schema::cap::CallError;
use capos_schema::models::{
    ChatMessage, FinishReason, InferenceRequest, InferenceResponse, LanguageModelClient, ModelInfo, Role, StreamChunk,
    StreamChunkFinish, TokenStreamClient,
};
use capos_schema::system::SystemStatusClient;

use crate::engine::named;
use crate::models::{request, whole};
use crate::workers::{Forge, OWN, PAGE, lost};
use crate::{Report, ensure};

/// Tokens of each answer.
const TOKENS: u32 = 12;
/// Tokens of one that is far from its end when another one has ended.
const LONG: u32 = 2048;
/// A person who logs in, and what they say, turn by turn.
pub struct Person {
    name: &'static str,
    pub first: &'static str,
    then: &'static str,
}

impl Person {
    fn says(&self) -> [&'static str; 2] {
        [self.first, self.then]
    }
}

pub const ADA: Person = Person { name: "ada", first: "Say a sentence.", then: "What did I say?" };
pub const GRACE: Person = Person { name: "grace", first: "Name three animals, please.", then: "And one that swims?" };

/// A session, the model that it was given, and its conversation so far.
pub struct Talk {
    pub session: UserSessionClient,
    pub model: LanguageModelClient,
    messages: Vec<ChatMessage>,
}

impl Talk {
    /// Logs a person in, whose session opens the model.
    pub async fn begin(broker: &AuthorityBrokerClient, person: &Person, model: &ModelInfo) -> Result<Self, Error> {
        let session = broker.login(Profile::Guest, person.name, "").await?;
        let opened = session.model(&model.id).await?;
        ensure(opened.info == *model, "the session was given another model than it asked for")?;
        Ok(Self { session, model: opened.model, messages: Vec::new() })
    }

    /// Sends one more message, and is answered piece by piece.
    async fn say(&mut self, text: &str) -> Result<TokenStreamClient, Error> {
        self.messages.extend(request(text).messages);
        self.answer(TOKENS).await
    }

    /// An answer of at most `max_tokens` tokens to the conversation so far.
    async fn answer(&self, max_tokens: u32) -> Result<TokenStreamClient, Error> {
        let messages = self.messages.clone();
        let asked = InferenceRequest { messages, max_tokens, ..InferenceRequest::default() };
        Ok(self.model.stream(&asked).await?)
    }

    fn was_answered(&mut self, content: &str) {
        let content = content.to_string();
        self.messages.push(ChatMessage { role: Role::Assistant, content, ..ChatMessage::default() });
    }

    /// Sends one more message, and reads the whole answer.
    pub async fn ask(&mut self, text: &str) -> Result<String, Error> {
        let answer = whole(&self.say(text).await?).await?.text;
        self.was_answered(&answer);
        Ok(answer)
    }
}

/// An answer, piece by piece.
#[derive(Default)]
struct Answer {
    text: String,
    ended: bool,
}

impl Answer {
    async fn take(&mut self, stream: &TokenStreamClient) -> Result<(), Error> {
        if self.ended {
            return Ok(());
        }
        let piece = stream.next().await?;
        if let StreamChunk::TextDelta(text) = &piece.chunk {
            self.text.push_str(text);
        }
        self.ended = piece.done;
        Ok(())
    }
}

/// Reads both answers in turns.
async fn in_turns(one: &TokenStreamClient, two: &TokenStreamClient) -> Result<[String; 2], Error> {
    let (mut first, mut second) = (Answer::default(), Answer::default());
    while !(first.ended && second.ended) {
        first.take(one).await?;
        second.take(two).await?;
    }
    Ok([first.text, second.text])
}

/// Both people's turns at once: the answers of each.
async fn together(one: &mut Talk, two: &mut Talk) -> Result<(Vec<String>, Vec<String>), Error> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for (to_one, to_two) in ADA.says().into_iter().zip(GRACE.says()) {
        let streams = (one.say(to_one).await?, two.say(to_two).await?);
        let [of_one, of_two] = in_turns(&streams.0, &streams.1).await?;
        one.was_answered(&of_one);
        two.was_answered(&of_two);
        first.push(of_one);
        second.push(of_two);
    }
    Ok((first, second))
}

/// While one answer is written another is read, written and ended.
async fn neither_waits(one: &mut Talk, two: &mut Talk) -> Result<(), Error> {
    one.messages = request(ADA.first).messages;
    let (stream, mut long) = (one.answer(LONG).await?, Answer::default());
    while long.text.is_empty() {
        long.take(&stream).await?;
    }
    two.messages.clear();
    let short = two.ask(GRACE.first).await?;
    let (rest, cancelled) = capos_rt::join(whole(&stream), stream.cancel()).await;
    cancelled?;
    let end = rest?.end;
    // It wrote a token or two for each of the other's, and not all of its own before these.
    let good = !short.is_empty()
        && end.as_ref().is_some_and(|end| {
            end.reason == FinishReason::Cancelled && (TOKENS / 2..LONG / 4).contains(&end.usage.completion_tokens)
        });
    ensure(good, format!("beside a long answer, which ended as {end:?}, it said {short:?}"))
}

/// One person's turns, without other sessions: the answers.
async fn alone(talk: &mut Talk, person: &Person) -> Result<Vec<String>, Error> {
    talk.messages.clear();
    let mut answers = Vec::new();
    for text in person.says() {
        answers.push(talk.ask(text).await?);
    }
    talk.messages.clear();
    Ok(answers)
}

/// B22: each of two sessions at once has the conversation that it has alone.
async fn conversations_are_their_own(broker: &AuthorityBrokerClient, model: &ModelInfo) -> Result<(), Error> {
    let mut one = Talk::begin(broker, &ADA, model).await?;
    let mut two = Talk::begin(broker, &GRACE, model).await?;
    let (first, second) = together(&mut one, &mut two).await?;
    neither_waits(&mut one, &mut two).await?;
    one.session.end().await?;
    let of_grace = alone(&mut two, &GRACE).await?;
    // Earlier messages make a difference.
    let forgotten = two.ask(GRACE.then).await?;
    two.session.end().await?;
    let mut one = Talk::begin(broker, &ADA, model).await?;
    let of_ada = alone(&mut one, &ADA).await?;
    one.session.end().await?;
    for (person, alone, beside) in [(&ADA, &of_ada, &first), (&GRACE, &of_grace, &second)] {
        ensure(
            alone == beside,
            format!("alone {} is answered {alone:?}, beside somebody else {beside:?}", person.name),
        )?;
    }
    ensure(first.iter().zip(&second).all(|(one, two)| one != two), format!("both hear the same: {first:?}"))?;
    ensure(second.last() != Some(&forgotten), format!("whatever was said before it says {forgotten:?}"))
}

/// A04: what a second session costs next to a large model, and in which frames the weights are then.
async fn weights_are_shared(
    env: &Env,
    broker: &AuthorityBrokerClient,
    model: &ModelInfo,
    report: &Report,
) -> Result<(), Error> {
    let status = env.cap::<SystemStatusClient>("status")?;
    let forge = Forge::of(env, &model.id).await?;
    let pages = forge.bytes.div_ceil(PAGE);
    let mut one = Talk::begin(broker, &ADA, model).await?;
    let of_one = one.ask("Hi").await?;
    let (before, frames) = (status.statistics().await?, forge.frames().await?);
    let mut two = Talk::begin(broker, &GRACE, model).await?;
    ensure(two.ask("Hi").await? == of_one, "the second session is answered differently")?;
    let after = status.statistics().await?;
    let more = lost(&before, &after);
    ensure(more <= OWN && more < pages, format!("the second session took {more} frames more"))?;
    ensure(forge.frames().await? == frames, "the weights lie in other frames now")?;
    let processes = after.processes.saturating_sub(before.processes);
    ensure(processes == 0, format!("the second session took {processes} processes more"))?;
    one.session.end().await?;
    two.session.end().await?;
    report.line(&format!("of {pages} pages of weights a second session took {more} frames, and no process"));
    Ok(())
}

/// Tokens of an answer, as its worker reports them.
fn took(end: Option<&StreamChunkFinish>) -> u64 {
    end.map_or(0, |end| u64::from(end.usage.prompt_tokens).saturating_add(u64::from(end.usage.completion_tokens)))
}

/// B16: each session has its own tokens, and a holder of its model cannot change how many were used. When they are used
/// up, no answer begins, the session gets no other model, and it gets an error that says so. Another session continues.
async fn quotas_are_enforced(broker: &AuthorityBrokerClient, model: &ModelInfo) -> Result<(), Error> {
    let one = Talk::begin(broker, &ADA, model).await?;
    let mut two = Talk::begin(broker, &GRACE, model).await?;
    let quota = one.session.info().await?.limits.max_tokens;
    ensure(one.session.remaining().await? == quota, format!("of {quota} tokens some were used before any was"))?;
    // An answer that is streamed and one that comes at once, in turns.
    let (mut used, mut answers) = (0_u64, 0_u32);
    let asked = InferenceRequest { max_tokens: LONG, ..request(ADA.first) };
    let spent = loop {
        let before = used;
        let prompt = if answers.is_multiple_of(2) {
            match one.model.stream(&asked).await {
                Ok(stream) => whole(&stream).await?.end,
                Err(error) => break error.to_string(),
            }
        } else {
            match one.model.complete(&asked).await {
                Ok(InferenceResponse { usage, finish_reason: reason, .. }) => Some(StreamChunkFinish { usage, reason }),
                Err(error) => break error.to_string(),
            }
        };
        used = used.saturating_add(took(prompt.as_ref()));
        answers = answers.saturating_add(1);
        // An answer is cut to the remaining tokens. The prompt that was read for it may go beyond.
        let beyond = used.saturating_sub(quota);
        let of_prompt = prompt.map_or(0, |end| u64::from(end.usage.prompt_tokens));
        ensure(
            beyond <= of_prompt,
            format!("with {} tokens left {used} of {quota} were used", quota.saturating_sub(before)),
        )?;
        let left = one.session.remaining().await.unwrap_or(0);
        ensure(
            left == quota.saturating_sub(used),
            format!("{left} of {quota} tokens are left where {used} were used"),
        )?;
    };
    ensure(
        used >= quota && answers > 2,
        format!("after {answers} answers with {used} of {quota} tokens it says {spent:?}"),
    )?;
    let words = format!("this session has used its {quota} tokens");
    let again = [
        why(one.model.complete(&asked).await),
        why(one.session.remaining().await),
        why(one.session.model(&model.id).await),
    ];
    ensure(
        spent.contains(&words) && again.iter().all(|why| why.contains(&words)),
        format!("{spent:?}, then {again:?}"),
    )?;
    let left = two.session.remaining().await?;
    ensure(left == quota && !two.ask(GRACE.first).await?.is_empty(), format!("another session has {left} tokens"))?;
    one.session.end().await?;
    Ok(two.session.end().await?)
}

/// Answers of one session that can be in flight at once.
const ANSWERS: usize = 4;

/// B16: an answer that is not read to its end is counted, and the number in flight is limited. Requests of the greatest
/// length are rejected before they exhaust the broker.
async fn nothing_is_had_by_giving_up(broker: &AuthorityBrokerClient, model: &ModelInfo) -> Result<(), Error> {
    let one = Talk::begin(broker, &ADA, model).await?;
    let quota = one.session.remaining().await?;
    let text = "Say a sentence. ".repeat(16);
    // Tokens for answers in flight are reserved until these end, so a session cannot use them twice.
    let greedy = InferenceRequest { max_tokens: LONG, ..request("Hi") };
    let mut all = Vec::new();
    let refused = loop {
        match one.model.stream(&greedy).await {
            Ok(stream) => all.push(stream),
            Err(error) => break error.to_string(),
        }
    };
    ensure(refused.contains("have reserved all remaining tokens"), format!("{} at once: {refused:?}", all.len()))?;
    drop(all);
    let asked = InferenceRequest { max_tokens: LONG / 8, ..request(&text) };
    let begin = async || {
        let stream = one.model.stream(&asked).await?;
        while !matches!(stream.next().await?.chunk, StreamChunk::TextDelta(_)) {}
        Ok::<_, CallError>(stream)
    };
    let mut held = Vec::new();
    for _ in 0..ANSWERS {
        held.push(begin().await?);
    }
    let more = why(begin().await);
    ensure(more.contains("4 answers of this session are in progress"), format!("a fifth answer: {more:?}"))?;
    drop(held);
    // The next request finds that the others have no holder.
    let mut unread = Vec::from([one.model.stream(&asked).await?]);
    let before = one.session.remaining().await?;
    let least = (text.len() as u64 / 16).saturating_mul(ANSWERS as u64);
    let used = quota.saturating_sub(before);
    ensure(used >= least, format!("answers that were given up in the midst took {used} tokens"))?;
    while unread.len() < ANSWERS {
        unread.push(one.model.stream(&asked).await?);
    }
    drop(unread);
    let next = one.model.stream(&asked).await?;
    let used = before.saturating_sub(one.session.remaining().await?);
    ensure(used >= least, format!("answers of which nothing was read took {used} tokens"))?;
    next.cancel().await?;
    drop(next);
    let long = request(&"x".repeat(700 << 10));
    let asked = capos_rt::join_all((0..6).map(|_| one.model.stream(&long))).await;
    let refused: Vec<String> = asked.into_iter().map(why).collect();
    ensure(
        refused.iter().all(|why| !why.is_empty())
            && refused.iter().any(|why| why.contains("have reserved all remaining tokens")),
        format!("requests that are too long: {refused:?}"),
    )?;
    ensure(one.session.remaining().await? > 0, "nothing is left")?;
    one.session.end().await?;
    let ended = why(one.model.complete(&request("Hi")).await);
    ensure(!ended.is_empty(), "the model answers a session that has ended")
}

/// Why a call did not go well.
pub fn why<T>(result: Result<T, CallError>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}

/// All of it.
///
/// # Errors
/// What does not hold.
pub async fn run(env: &Env, report: &Report) -> Result<(), Error> {
    let broker = env.cap::<AuthorityBrokerClient>("broker")?;
    for talking in named(env, &["talking"]).await? {
        conversations_are_their_own(&broker, &talking).await?;
        report.line("two sessions at once are answered as each alone");
        quotas_are_enforced(&broker, &talking).await?;
        report.line("quotas are enforced");
        nothing_is_had_by_giving_up(&broker, &talking).await?;
        report.line("what is given up is counted");
    }
    for numbers in named(env, &["numbers"]).await? {
        weights_are_shared(env, &broker, &numbers, report).await?;
        report.line("two sessions share the weights");
    }
    Ok(())
}
