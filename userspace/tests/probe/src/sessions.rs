//! Two sessions at once, which talk to one model.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_rt::{Env, Error};
use capos_schema::authority::{AuthorityBrokerClient, Profile, UserSessionClient};
use capos_schema::cap::CallError;
use capos_schema::models::{
    ChatMessage, FinishReason, InferenceRequest, LanguageModelClient, ModelInfo, Role, StreamChunk, TokenStreamClient,
};
use capos_schema::system::SystemStatusClient;

use crate::engine::named;
use crate::models::{request, whole};
use crate::workers::{Forge, OWN, PAGE, lost};
use crate::{Report, ensure};

/// Tokens of each answer.
const TOKENS: u32 = 12;
/// Tokens of one that is far from its end when another one has come to its own.
const LONG: u32 = 2048;
/// Somebody who logs in, and what they say, turn by turn.
struct Person {
    name: &'static str,
    first: &'static str,
    then: &'static str,
}

impl Person {
    fn says(&self) -> [&'static str; 2] {
        [self.first, self.then]
    }
}

const ADA: Person = Person { name: "ada", first: "Say a sentence.", then: "What did I say?" };
const GRACE: Person = Person { name: "grace", first: "Name three animals, please.", then: "And one that swims?" };

/// A session, the model that it was given, and its conversation so far.
struct Talk {
    session: UserSessionClient,
    model: LanguageModelClient,
    messages: Vec<ChatMessage>,
}

impl Talk {
    /// Logs a person in, whose session opens the model.
    async fn begin(broker: &AuthorityBrokerClient, person: &Person, model: &ModelInfo) -> Result<Self, Error> {
        let session = broker.login(Profile::Guest, person.name, "").await?;
        let opened = session.model(&model.id).await?;
        ensure(opened.info == *model, "the session was given another model than it asked for")?;
        Ok(Self { session, model: opened.model, messages: Vec::new() })
    }

    /// Says something more, and is answered piece by piece.
    async fn say(&mut self, text: &str) -> Result<TokenStreamClient, Error> {
        self.messages.extend(request(text).messages);
        self.answer(TOKENS).await
    }

    /// An answer of so many tokens at most to what was said so far.
    async fn answer(&self, max_tokens: u32) -> Result<TokenStreamClient, Error> {
        let messages = self.messages.clone();
        let asked = InferenceRequest { messages, max_tokens, ..InferenceRequest::default() };
        Ok(self.model.stream(&asked).await?)
    }

    fn was_answered(&mut self, content: &str) {
        let content = content.to_string();
        self.messages.push(ChatMessage { role: Role::Assistant, content, ..ChatMessage::default() });
    }

    /// Says something more, and reads the whole answer.
    async fn ask(&mut self, text: &str) -> Result<String, Error> {
        let answer = whole(&self.say(text).await?).await?.text;
        self.was_answered(&answer);
        Ok(answer)
    }
}

/// An answer as it comes.
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

/// One person's turns, with nobody else: the answers.
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
    // What was said before makes a difference.
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

/// A04: what a second session takes of a model that is large beside it, and in which frames the weights lie then.
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

/// B16: each session has its tokens and no others. When they are used up it is told, what it was given to ask the model by is
/// gone, and it gets no other; a session beside it goes on.
async fn quotas_are_enforced(broker: &AuthorityBrokerClient, model: &ModelInfo) -> Result<(), Error> {
    let mut one = Talk::begin(broker, &ADA, model).await?;
    let mut two = Talk::begin(broker, &GRACE, model).await?;
    let quota = one.session.info().await?.limits.max_tokens;
    ensure(one.session.charge(0).await? == quota, format!("of {quota} tokens some were used before any was"))?;
    let left = one.session.charge(quota.saturating_sub(1)).await?;
    ensure(left == 1, format!("{left} tokens are left where 1 should be"))?;
    one.ask(ADA.first).await?;
    let spent = why(one.session.charge(u64::from(TOKENS)).await);
    ensure(spent.contains(&format!("this session has used its {quota} tokens")), format!("it says {spent:?}"))?;
    ensure(one.model.complete(&request("Hi")).await.is_err(), "the model answers whose tokens are used up")?;
    let again = why(one.session.model(&model.id).await);
    ensure(again.contains("this session has used its"), format!("a model is asked for again: {again:?}"))?;
    let left = two.session.charge(0).await?;
    ensure(left == quota && !two.ask(GRACE.first).await?.is_empty(), format!("another session has {left} tokens"))?;
    one.session.end().await?;
    Ok(two.session.end().await?)
}

/// Why a call did not go well.
fn why<T>(result: Result<T, CallError>) -> String {
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
    }
    for numbers in named(env, &["numbers"]).await? {
        weights_are_shared(env, &broker, &numbers, report).await?;
        report.line("two sessions share the weights");
    }
    Ok(())
}
