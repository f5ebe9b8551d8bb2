//! The commands on saved conversations: list, continue, fork, compare, search, rename, delete.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::world::{Host, Keeper};
use capos_agent::{Conversation, Either, Entry, race};
use capos_budget::Dimension;
use capos_plural::{count, with_commas};
use capos_run_state::RunState;
use capos_runner::cut_off::{self, Found};
use capos_schema::conversations::{ConversationInfo, ConversationStoreClient};
use capos_schema::models::{ChatMessage, Role};
use capos_schema::terminal::{LineEnd, Style};

use super::cut_off::{end_consents, tell_unsaved};
use super::{Done, refreshed, rows};
use crate::escape::{escape, first_line, in_quotes, name};
use crate::history::{self, Evidence, Messages, PAGE};
use crate::keeper::PURPOSE;
use crate::readable::date_of;
use crate::session::Session;
use capos_runner::Kept;

/// Rows of a list that is not asked for whole.
const ROWS: usize = 20;
/// Letters of an id that are shown, and the most digits of a number in a list.
const ID: usize = 8;
const NUMBER: usize = 3;
/// Conversations among which the last one is that is not at work: the one at the prompt, and those of background runs.
const LATEST: u32 = 2 + crate::background::AT_ONCE as u32;
/// Letters of a title and of a message.
const TITLE: usize = 50;
pub const MESSAGE: usize = 100;

/// What is said of a conversation whose last turn was cut off.
const UNANSWERED: &str = "the last request was not answered to its end; /continue goes on with it";

async fn store(session: &mut Session) -> Result<ConversationStoreClient, String> {
    refreshed(session).await?;
    session.runner.grants.find(PURPOSE)
}

/// Saves what is not saved of the conversation at the prompt. Returns its id.
async fn saved(session: &Session) -> Result<String, String> {
    let conversation = session.agent.conversation();
    if conversation.entries().is_empty() {
        return Err("the conversation at the prompt has no messages yet".to_string());
    }
    session.runner.save(conversation, None).await;
    if session.runner.saving.saved() < conversation.entries().len() {
        return Err("the conversation at the prompt is not saved".to_string());
    }
    Ok(session.runner.saving.id())
}

/// The conversation that the person names: by its number in the last list, or by the beginning of its id.
async fn named(session: &Session, store: &ConversationStoreClient, word: &str) -> Result<ConversationInfo, String> {
    let number = word.parse().ok().filter(|_| word.len() <= NUMBER);
    let id = match number {
        Some(number) => {
            let at = usize::checked_sub(number, 1);
            let found = at.and_then(|at| session.listed.get(at));
            found.ok_or_else(|| format!("the last list has no number {number}; /conversations shows one"))?
        }
        None => word,
    };
    session.runner.audited(store.info(id)).await
}

fn short(id: &str) -> &str {
    id.get(..ID).unwrap_or(id)
}

pub fn title(title: &str) -> String {
    if title.is_empty() { "untitled".to_string() } else { in_quotes(title, TITLE) }
}

/// What is told of a conversation in a list.
fn facts(info: &ConversationInfo, current: &str) -> String {
    let time = |milliseconds: u64| date_of(milliseconds.saturating_mul(1_000_000));
    let mut parts = Vec::from([title(&info.title), count(info.messages, "message").to_string(), time(info.changed)]);
    if !info.parent.is_empty() {
        parts.push(format!("fork of {}", short(&info.parent)));
    }
    if info.expires > 0 {
        parts.push(format!("deleted on {}", time(info.expires)));
    }
    if info.id == current {
        parts.push("at the prompt".to_string());
    }
    parts.join(", ")
}

async fn show(session: &mut Session, found: &[ConversationInfo]) {
    session.listed = found.iter().map(|info| info.id.clone()).collect();
    let current = session.agent.conversation().id.clone();
    let text: Vec<(String, String)> = (1_usize..)
        .zip(found)
        .map(|(number, info)| {
            let beside = session.runner.backgrounds.in_conversation(&info.id);
            let beside = beside.map(|(run, _)| format!(", background run {run} is at work in it")).unwrap_or_default();
            (format!("{number}  {}", short(&info.id)), format!("{}{beside}", facts(info, &current)))
        })
        .collect();
    rows(session, &text).await;
}

/// `/conversations`.
pub async fn list(session: &mut Session, rest: &[&str]) -> Done {
    let all = match rest {
        [] => false,
        ["all"] => true,
        _ => return Err("usage: /conversations or /conversations all".to_string()),
    };
    let store = store(session).await?;
    let (mut found, mut next) = (Vec::new(), String::new());
    loop {
        let most = if all { PAGE } else { ROWS as u32 };
        let page = session.runner.audited(store.list(&next, most)).await?;
        found.extend(page.conversations);
        next = page.next;
        if next.is_empty() || !all {
            break;
        }
    }
    if found.is_empty() {
        session.runner.screen.line(Style::Plain, "no conversation is saved yet").await;
        return Ok(());
    }
    show(session, &found).await;
    let more = if next.is_empty() { "" } else { "; /conversations all lists the others" };
    let text = format!("/resume N continues one{more}");
    session.runner.screen.line(Style::Dim, &text).await;
    Ok(())
}

/// Renews a policy that has expired; a run that waited for that continues.
async fn renew(session: &mut Session) -> Done {
    let waits = session.course.run_state() == RunState::PausedForEvent;
    let changes = session.renew().await?;
    let screen = session.runner.screen.clone();
    let what = if changes.is_empty() { "it permits the same as before" } else { "these are its differences" };
    screen.wrapped(&[(Style::Success, &format!("the policy is renewed: {what}"))]).await;
    for change in changes {
        screen.wrapped(&[(Style::Plain, &format!("  {}", first_line(&change, MESSAGE)))]).await;
    }
    if waits {
        session.go_on().await;
    }
    Ok(())
}

/// `/resume`.
pub async fn resume(session: &mut Session, rest: &[&str]) -> Done {
    if session.has_expired() {
        renew(session).await?;
        if rest.is_empty() {
            return Ok(());
        }
    }
    let store = store(session).await?;
    let current = session.agent.conversation().id.clone();
    let info = match rest {
        [] => {
            let backgrounds = &session.runner.backgrounds;
            let page = session.runner.audited(store.list("", LATEST)).await?;
            let is_other = |info: &ConversationInfo| info.id != current && backgrounds.check(&info.id).is_ok();
            let other = page.conversations.into_iter().find(is_other);
            other.ok_or("no other conversation is saved")?
        }
        [word] => named(session, &store, word).await?,
        _ => return Err("usage: /resume, or /resume with a number of the list or the beginning of an id".to_string()),
    };
    if info.id == current {
        return Err("this conversation is at the prompt already".to_string());
    }
    session.runner.backgrounds.check(&info.id)?;
    let conversation = history::load(&session.runner, store.clone(), &info.id).await?;
    let found = cut_off::find(&session.runner, &store, &conversation).await?;
    let running = session.agent.background();
    let evidence = Evidence::of(&session.runner, &conversation, &info, &found).await?;
    let open = session
        .resume(cut_off::kept(conversation, &found), |call| evidence.fate(call))
        .await
        .map_err(|why| format!("the conversation cannot be continued: {why}"))?;
    let screen = session.runner.screen.clone();
    let text = format!("continues {}, {}", title(&info.title), count(info.messages, "message"));
    screen.wrapped(&[(Style::Success, &text)]).await;
    for entry in last_words(session.agent.conversation()) {
        screen.wrapped(&[(Style::Dim, &format!("  {}", said(&entry.message)))]).await;
    }
    for (call, fate) in open {
        let text = format!("  {} {}: {}", name(&call.name), first_line(&call.arguments, MESSAGE), fate.text());
        screen.wrapped(&[(Style::Warning, &text)]).await;
    }
    tell_unsaved(session, &evidence).await;
    end_consents(session).await;
    tell_run(session, &found).await;
    if !session.agent.conversation().is_answered() {
        screen.line(Style::Warning, UNANSWERED).await;
    }
    if let Some(model) = session.runner.model.info().filter(|model| model.id != info.model && !info.model.is_empty()) {
        let text = format!("it was held with {}; the model is {} now", name(&info.model), name(&model.id));
        screen.wrapped(&[(Style::Dim, &text)]).await;
    }
    if running > 0 {
        screen.line(Style::Dim, &super::unfinished(running)).await;
    }
    Ok(())
}

/// Tells of the run that continues, or why it does not.
async fn tell_run(session: &Session, found: &Found) {
    let screen = &session.runner.screen;
    let checkpoint = match found {
        Found::Nothing => return,
        Found::Aside(why) => return screen.wrapped(&[(Style::Warning, why)]).await,
        Found::Run(checkpoint) => checkpoint,
    };
    let progress = &checkpoint.progress;
    let steps = progress.used.get(Dimension::Steps);
    let text = format!(
        "its run goes on after step {} of at most {}, with {} and {} tokens used of its budget",
        progress.step,
        progress.most,
        count(steps, "tool call"),
        with_commas(progress.used.get(Dimension::Tokens))
    );
    screen.wrapped(&[(Style::Dim, &text)]).await;
    for declared in &checkpoint.conditions {
        let text = format!("  it is done when `{}` holds", escape(&declared.condition));
        screen.wrapped(&[(Style::Dim, &text)]).await;
    }
    if progress.missing > 0 {
        let text = format!("{} of this run could not be saved and are not here", count(progress.missing, "message"));
        screen.wrapped(&[(Style::Warning, &text)]).await;
    }
    if checkpoint.policy != session.agent.policy() {
        let text = "what a session holds or permits has changed since this run began (a disk that was attached counts too); \
                    each call is decided by what holds now";
        screen.wrapped(&[(Style::Warning, text)]).await;
    }
}

/// The person's last message and the model's last words.
fn last_words(conversation: &Conversation) -> Vec<&Entry> {
    let entries = conversation.entries();
    let said =
        |entry: &Entry, role| entry.message.role == role && !entry.message.content.is_empty() && entry.replaces == 0;
    // In a turn the first message of this role is the person's, and what follows is the runner's.
    let turn = entries.iter().rfind(|entry| said(entry, Role::User)).map(|entry| entry.turn);
    let request = entries.iter().position(|entry| said(entry, Role::User) && Some(entry.turn) == turn);
    let answer = entries.iter().rposition(|entry| said(entry, Role::Assistant));
    let mut found: Vec<usize> = [request, answer].into_iter().flatten().collect();
    found.sort_unstable();
    found.into_iter().filter_map(|at| entries.get(at)).collect()
}

/// Who said what, on one line.
fn said(message: &ChatMessage) -> String {
    let calls: Vec<&str> = message.tool_calls.iter().map(|call| call.name.as_str()).collect();
    let calls = if calls.is_empty() { String::new() } else { format!(" (calls {})", name(&calls.join(", "))) };
    format!("{}: {}{calls}", message.role.name(), in_quotes(&first_line(&message.content, MESSAGE), MESSAGE))
}

/// `/fork`.
pub async fn fork(session: &mut Session, rest: &[&str]) -> Done {
    let last = session.agent.conversation().last_turn();
    let turns =
        match rest {
            [] => last,
            [turns] => turns.parse().ok().filter(|turns| (1..=last).contains(turns)).ok_or_else(|| {
                format!("the conversation has {}: /fork N keeps its first N turns", count(last, "turn"))
            })?,
            _ => return Err("usage: /fork, or /fork N to keep the first N turns".to_string()),
        };
    let store = store(session).await?;
    let id = saved(session).await?;
    let conversation = session.agent.conversation();
    let messages = conversation.messages_until(turns);
    let number = u32::try_from(messages).map_err(|_| "the conversation is too long".to_string())?;
    let new = hex::encode(session.runner.random());
    let kept = Kept { conversation: conversation.fork(new.clone(), messages), saved: messages, run: None };
    session.runner.audited(store.fork(&id, number, &new, "")).await?;
    session.continue_with(kept);
    session.record("conversation.forked", &new).await;
    let text =
        format!("continues a fork with {}; /resume {} goes back to the other", count(number, "message"), short(&id));
    session.runner.screen.line(Style::Success, &text).await;
    Ok(())
}

/// Whether two messages say the same: handles are of sessions, and times are of boots.
fn same(one: &ChatMessage, other: &ChatMessage) -> bool {
    let calls = |message: &ChatMessage| -> Vec<(String, String)> {
        message.tool_calls.iter().map(|call| (call.name.clone(), call.arguments.clone())).collect()
    };
    one.role == other.role && one.content == other.content && calls(one) == calls(other)
}

/// Where a conversation leaves another: its first message that differs, and its last.
#[derive(Default)]
struct Branch {
    first: Option<ChatMessage>,
    last: Option<ChatMessage>,
    messages: usize,
}

impl Branch {
    fn add(&mut self, message: ChatMessage) {
        self.messages = self.messages.saturating_add(1);
        match self.first {
            None => self.first = Some(message),
            Some(_) => self.last = Some(message),
        }
    }

    fn lines(&self, whose: &str) -> Vec<String> {
        let Some(first) = &self.first else { return Vec::from([format!("{whose} ends there")]) };
        let mut lines = Vec::from([format!("{whose} continues with {}:", count(self.messages, "message"))]);
        lines.push(format!("  {}", said(first)));
        if let Some(last) = &self.last {
            lines.push(format!("  … {}", said(last)));
        }
        lines
    }
}

/// `/compare`.
pub async fn compare(session: &mut Session, rest: &[&str]) -> Done {
    let [word] = rest else {
        return Err("usage: /compare ID: a number of the list, or the beginning of an id".to_string());
    };
    let store = store(session).await?;
    let info = named(session, &store, word).await?;
    if info.id == session.agent.conversation().id {
        return Err("this is the conversation that you are in; /conversations lists the others".to_string());
    }
    let mut messages = Messages::of(store, &info.id);
    // Only what is shown of the other is kept.
    let mut other = Conversation::default();
    let (mut this, mut that, mut equal) = (Branch::default(), Branch::default(), 0_usize);
    let mut entries = session.agent.conversation().entries().iter();
    while let Some(text) = messages.next(&session.runner).await? {
        other = Conversation::new(String::new());
        other.load_message(&text).map_err(|why| why.to_string())?;
        let Some(read) = other.entries().first().map(|entry| entry.message.clone()) else { continue };
        match entries.clone().next() {
            Some(own) if that.first.is_none() && same(&own.message, &read) => {
                entries.next();
                equal = equal.saturating_add(1);
            }
            _ => that.add(read),
        }
    }
    drop(other);
    for entry in entries {
        this.add(entry.message.clone());
    }
    let screen = &session.runner.screen;
    if this.messages == 0 && that.messages == 0 {
        let text = format!("{} has the same {}", title(&info.title), count(equal, "message"));
        screen.wrapped(&[(Style::Plain, &text)]).await;
        return Ok(());
    }
    let text = format!("the same so far: {}", count(equal, "message"));
    screen.line(Style::Dim, &text).await;
    for line in this.lines("this conversation").into_iter().chain(that.lines(&title(&info.title))) {
        screen.wrapped(&[(Style::Plain, &line)]).await;
    }
    Ok(())
}

/// `/search`.
pub async fn search(session: &mut Session, text: &str) -> Done {
    if text.is_empty() {
        return Err("usage: /search TEXT".to_string());
    }
    let store = store(session).await?;
    let runner = session.runner.clone();
    let mut interrupt = runner.interrupt();
    let (mut found, mut next, mut stopped) = (Vec::new(), String::new(), false);
    loop {
        let most = u32::try_from(ROWS.saturating_sub(found.len())).unwrap_or(1);
        let page = match race(interrupt.as_mut(), runner.audited(store.search(text, &next, most))).await {
            Either::Left(()) => {
                stopped = true;
                break;
            }
            Either::Right(page) => page?,
        };
        found.extend(page.found);
        next = page.next;
        if next.is_empty() || found.len() >= ROWS {
            break;
        }
    }
    session.listed = found.iter().map(|found| found.id.clone()).collect();
    let text: Vec<(String, String)> = (1_usize..)
        .zip(&found)
        .map(|(number, found)| {
            let at = found.index.saturating_add(1);
            let place = in_quotes(&found.text, MESSAGE);
            let what = format!("{}, message {at}: {place}", title(&found.title));
            (format!("{number}  {}", short(&found.id)), what)
        })
        .collect();
    rows(session, &text).await;
    let end = match (found.is_empty(), next.is_empty()) {
        _ if stopped => "interrupted",
        (true, _) => "no saved message contains it",
        (false, true) => "/resume N continues one",
        (false, false) => "/resume N continues one; there are more, give more of the text",
    };
    session.runner.screen.line(Style::Dim, end).await;
    Ok(())
}

/// `/rename`.
pub async fn rename(session: &mut Session, title: &str) -> Done {
    if title.is_empty() {
        return Err("usage: /rename TITLE".to_string());
    }
    let store = store(session).await?;
    let id = saved(session).await?;
    session.runner.audited(store.rename(&id, title)).await?;
    session.runner.screen.line(Style::Success, "renamed").await;
    Ok(())
}

/// A time such as 12h in seconds; 0 for never.
fn seconds(text: &str) -> Option<u64> {
    if text == "never" {
        return Some(0);
    }
    let unit = text.chars().next_back()?;
    let number: u64 = text.strip_suffix(unit)?.parse().ok().filter(|number| *number > 0)?;
    let each: u64 = match unit {
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return None,
    };
    number.checked_mul(each)
}

/// `/expire`.
pub async fn expire(session: &mut Session, rest: &[&str]) -> Done {
    let usage = "usage: /expire TIME, or /expire TIME ID; TIME is for example 90m, 12h, 30d, 4w, or never";
    let (time, word) = match rest {
        [time] => (time, None),
        [time, word] => (time, Some(word)),
        _ => return Err(usage.to_string()),
    };
    let after = seconds(time).ok_or(usage)?;
    let store = store(session).await?;
    let id = match word {
        Some(word) => named(session, &store, word).await?.id,
        None => saved(session).await?,
    };
    let info = session.runner.audited(store.expire(&id, after)).await?;
    let text = match info.expires {
        0 => "it stays until you delete it".to_string(),
        at => format!("it is deleted on {}, or later if it changes before that", date_of(at.saturating_mul(1_000_000))),
    };
    session.runner.screen.line(Style::Success, &text).await;
    Ok(())
}

/// `/forget`.
pub async fn forget(session: &mut Session, rest: &[&str]) -> Done {
    let [word] = rest else {
        return Err("usage: /forget ID: a number of the list, or the beginning of an id".to_string());
    };
    let store = store(session).await?;
    let info = named(session, &store, word).await?;
    session.runner.backgrounds.check(&info.id)?;
    let screen = session.runner.screen.clone();
    let what =
        format!("This deletes {}, {}. It cannot be undone.\n", title(&info.title), count(info.messages, "message"));
    let asked = screen.hold_for_question().await.ask(&[(Style::Plain, &what)], "Delete it? [y/N] ").await;
    let (answer, end) = asked.map_err(|why| why.to_string())?;
    if end != LineEnd::Entered || !matches!(answer.trim(), "y" | "Y" | "yes") {
        screen.line(Style::Dim, "nothing was deleted").await;
        return Ok(());
    }
    session.runner.audited(store.remove(&info.id)).await?;
    session.listed.clear();
    session.record("conversation.deleted", &info.id).await;
    let here = info.id == session.agent.conversation().id;
    if here {
        session.forget();
    }
    let text = if here { "deleted; the next line begins a new conversation" } else { "deleted" };
    screen.line(Style::Success, text).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_or_rejected() {
        for (text, wanted) in [
            ("90m", Some(5400)),
            ("12h", Some(43_200)),
            ("30d", Some(2_592_000)),
            ("2w", Some(1_209_600)),
            ("never", Some(0)),
            ("0d", None),
            ("d", None),
            ("", None),
            ("12", None),
            ("-1h", None),
            ("1é", None),
            ("99999999999999999999d", None),
            ("9999999999999999999w", None),
        ] {
            assert_eq!(seconds(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_conversation_is_told_in_one_row() {
        let info = ConversationInfo {
            id: "0123456789abcdef".into(),
            title: "a\nforged row".into(),
            changed: 1_795_251_907_000,
            messages: 1,
            parent: "fedcba9876543210".into(),
            expires: 1_795_338_307_000,
            ..ConversationInfo::default()
        };
        let told = "\"a\\nforged row\", 1 message, 2026-11-21 09:05:07 UTC, fork of fedcba98, \
                    deleted on 2026-11-22 09:05:07 UTC, at the prompt";
        assert_eq!(facts(&info, "0123456789abcdef"), told);
        assert!(facts(&ConversationInfo::default(), "x").starts_with("untitled, 0 messages, "));
    }

    #[test]
    fn f02_branches_are_told_by_their_beginnings_and_ends() {
        let says = |content: &str| ChatMessage { role: Role::User, content: content.into(), ..ChatMessage::default() };
        let mut branch = Branch::default();
        assert_eq!(branch.lines("this"), ["this ends there"]);
        for text in ["one", "two", "three"] {
            branch.add(says(text));
        }
        assert_eq!(branch.lines("this"), ["this continues with 3 messages:", "  user: \"one\"", "  … user: \"three\""]);
        let mut asks = says("one");
        assert!(same(&asks, &says("one")));
        asks.tool_calls.push(capos_schema::models::ToolCall::default());
        assert!(!same(&asks, &says("one")));
    }
}
