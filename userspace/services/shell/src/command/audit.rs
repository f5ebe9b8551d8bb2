//! `/audit` and `/approvals`: what was done, and what the person was asked.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::world::Host as _;
use capos_audit::{Deed, Head, KEY_KINDS, key_uses};
use capos_plural::count;
use capos_rt::{Either, log, select};
use capos_schema::audit::{AuditReaderClient, AuditReaderVerifyResults, Query};
use capos_schema::authority::{ApprovalClientClient, BackupsClient, LogFile, Profile};
use capos_schema::terminal::Style;
use capos_terminal::{count_spaces, escape_json};

use serde_json::json;

use super::background;
use super::own::attend;
use super::{Done, rows};
use crate::copying::{CHECKED, watch};
use crate::escape::{first_line, one_line, plain};
use crate::history::read_all;
use crate::readable::offset;
use crate::session::Session;

const USAGE: &str = "usage: /audit [all] [since TIME], /audit verify [RECORD:HASH], /audit export VOLUME[:FILE] or /audit archive \
                     VOLUME[:FILE]";
/// Letters of a file's name.
const MOST: usize = 200;

/// Writes the log to a transfer volume; an archive is removed from the log then.
async fn outside(session: &Session, command: &str, to: &str) -> Done {
    let client = session.runner.grants.find::<BackupsClient>("write the audit log of a data disk to a volume")?;
    let (volume, file) = to.split_once(':').unwrap_or((to, ""));
    let arguments = json!({ "volume": volume, "file": file });
    let written = if command == "archive" {
        let after = "/audit verify tells what the log has; an archive ends whole or not at all";
        attend(session, ("archive_log", &arguments), client.archive_log(volume, file), after).await?
    } else {
        let after = "the file is not whole, and the next command overwrites it";
        attend(session, ("export_log", &arguments), client.export_log(volume, file), after).await?
    };
    if let Some(LogFile { name, records, bytes, head, .. }) = written {
        let (done, name) = (if command == "archive" { "archived" } else { "exported" }, first_line(&name, MOST));
        let text = format!("{done} {} to {name}, {} KiB; head {head}", count(records, "record"), bytes.div_ceil(1024));
        session.runner.screen.line(Style::Success, &text).await;
    }
    Ok(())
}

pub async fn audit(session: &Session, rest: &[&str]) -> Done {
    if let [command @ ("export" | "archive"), to @ ..] = rest {
        return match to {
            [to] => outside(session, command, to).await,
            _ => Err(USAGE.to_string()),
        };
    }
    let reader = session.runner.grants.find::<AuditReaderClient>("read the audit log")?;
    let reader = capos_rt::with_results(&reader, 1 << 20);
    let screen = &session.runner.screen;
    if let ["verify", noted @ ..] = rest {
        let noted = match noted {
            [] => None,
            [head] => Some(head.parse::<Head>()?),
            _ => return Err(USAGE.to_string()),
        };
        return verify(session, &reader, noted).await;
    }
    tell_damage(session).await;
    let (of, from) = match rest {
        ["all", from @ ..] => (String::new(), from),
        from => (session.runner.info.id.clone(), from),
    };
    let since_nanoseconds = match from {
        [] => 0,
        ["since", moment @ ..] if !moment.is_empty() => {
            let now = session.runner.clock.wall_clock().map_err(|why| format!("the clock cannot be read: {why}"))?;
            capos_audit::since(&moment.join(" "), now.saturating_mul(1_000_000), offset())?
        }
        _ => {
            return Err(USAGE.to_string());
        }
    };
    if of.is_empty() && session.profile() == Profile::Operator {
        tell_keys(session, &reader, since_nanoseconds).await?;
    }
    let query = Query { session: of, kind: "tool".into(), since_nanoseconds, ..Query::default() };
    let lines = read_all(&session.runner, &reader, query).await?;
    let mut deeds = capos_audit::story(lines.iter().map(String::as_str));
    if deeds.is_empty() {
        screen.line(Style::Plain, "no tool calls recorded").await;
    }
    let mut said = String::new();
    for deed in &mut deeds {
        (deed.error, deed.offset) = (plain(&deed.error), offset());
        deed.read_by(&session.runner.info.principal);
        // The name of a guest is what they typed.
        let heading = count_spaces(&one_line(&deed.heading()));
        if heading != said {
            screen.wrapped(&[(Style::Dim, &heading)]).await;
            said = heading;
        }
        let style = if deed.ran { Style::Plain } else { Style::Dim };
        screen.wrapped(&[(style, &format!("  {}", row(deed)))]).await;
    }
    if deeds.is_empty() {
        return Ok(());
    }
    let mut proposers: Vec<String> = deeds.iter().map(|deed| one_line(&deed.proposer())).collect();
    proposers.sort_unstable();
    proposers.dedup();
    let text = format!("{}; proposed by {}", capos_audit::Tally::of(&deeds), proposers.join(", "));
    screen.wrapped(&[(Style::Dim, &text)]).await;
    Ok(())
}

/// Tells of logins that were rejected and of uses of the disk's keys, which are of no session. They are for operators.
async fn tell_keys(session: &Session, reader: &AuditReaderClient, since_nanoseconds: u64) -> Done {
    let mut uses = Vec::new();
    for kind in KEY_KINDS {
        let query = Query { kind: kind.into(), since_nanoseconds, ..Query::default() };
        let lines = read_all(&session.runner, reader, query).await?;
        uses.extend(key_uses(lines.iter().map(String::as_str)));
    }
    uses.sort_by_key(|it| it.sequence);
    if !uses.is_empty() {
        session.runner.screen.line(Style::Dim, "keys of the data disk, and logins that were rejected").await;
    }
    for mut it in uses {
        it.offset = offset();
        let text = format!("  {}", count_spaces(&one_line(&it.to_string())));
        session.runner.screen.wrapped(&[(Style::Plain, &text)]).await;
    }
    Ok(())
}

/// Tells what the disk has lost of the log, if this session may read it.
pub async fn tell_damage(session: &Session) {
    let Ok(reader) = session.runner.grants.find::<AuditReaderClient>("read the audit log") else { return };
    match session.runner.audited(reader.damage()).await {
        Ok(damages) => {
            for damage in damages {
                session.runner.screen.wrapped(&[(Style::Warning, &plain(&damage))]).await;
            }
        }
        Err(why) => log::warning!("whether the audit log is damaged is not known: {why}"),
    }
}

/// What was done in one row: no part of it that others wrote can pass for another.
fn row(deed: &Deed) -> String {
    count_spaces(&one_line(&deed.to_string()))
}

/// What a check of the chain finds. It takes as long as the log is; Ctrl-C ends it, here and in the service.
async fn checked(session: &Session, reader: &AuditReaderClient) -> Result<AuditReaderVerifyResults, String> {
    let runner = &session.runner;
    let watched = watch(&runner.screen, &runner.clock, CHECKED, reader.verify(), async || {
        let now = reader.verifying().await?;
        Ok((now.done, now.total))
    });
    match select(watched, runner.interrupt()).await {
        Either::First(checked) => checked.map_err(|error| error.to_string()),
        Either::Second(_) => Err("interrupted; the audit log was not checked".to_string()),
    }
}

/// Checks the chain, and that it holds a head that was noted.
async fn verify(session: &Session, reader: &AuditReaderClient, noted: Option<Head>) -> Done {
    tell_damage(session).await;
    let checked = checked(session, reader).await?;
    if !checked.ok {
        return Err(format!("the hash chain of the audit log is broken: {}", checked.reason));
    }
    let text = format!(
        "the hash chain of {} is intact{}; head {}:{}",
        count(checked.records.saturating_sub(checked.archived), "record"),
        if checked.archived > 0 { format!(", after {} in archives", checked.archived) } else { String::new() },
        checked.records,
        hex::encode(&checked.head)
    );
    let Some(noted) = noted else {
        session.runner.screen.line(Style::Success, &text).await;
        return Ok(());
    };
    if noted.sequence <= checked.archived {
        return Err(format!(
            "record {} is in an archive or in a part that was damaged; `capos audit verify ARCHIVE LOG --head {noted}` checks it on another machine",
            noted.sequence
        ));
    }
    let query = Query { from: noted.sequence, max: 1, ..Query::default() };
    let found = session.runner.audited(reader.query(&query)).await?;
    match found.records.first().map(|line| noted.is_of(line)) {
        Some(true) => {}
        Some(false) => return Err(format!("record {} has another hash: this is another chain", noted.sequence)),
        None => {
            let (noted, last) = (noted.sequence, checked.records);
            return Err(format!(
                "the noted head is record {noted}, and the audit log ends at record {last}: its end was cut off, or it was \
                 put back to an older state"
            ));
        }
    }
    session.runner.screen.line(Style::Success, &format!("{text}; the noted head is in it")).await;
    Ok(())
}

pub async fn approvals(session: &Session, rest: &[&str]) -> Done {
    let client = session.runner.grants.find::<ApprovalClientClient>("list the questions")?;
    let screen = &session.runner.screen;
    let id = match rest {
        [] => return list_approvals(session, &client).await,
        ["revoke", "all"] => "",
        ["revoke", id] => id,
        [command @ ("show" | "approve" | "deny"), number] => {
            return background::answer(session, command, number).await;
        }
        [number] if number.trim_start_matches('#').parse::<u64>().is_ok() => {
            return show_approval(session, &client, number).await;
        }
        _ => {
            return Err(
                "usage: /approvals, /approvals NUMBER, /approvals show NUMBER, /approvals approve NUMBER, /approvals deny NUMBER, \
                 /approvals revoke NUMBER or /approvals revoke all"
                    .to_string()
            );
        }
    };
    let revoked = session.runner.within(client.revoke(id)).await.map_err(|why| why.to_string())?;
    match (revoked, id) {
        (0, "") => return Err("no consent covers further calls; /approvals lists all".to_string()),
        (0, id) => return Err(format!("no consent {id:?} covers further calls; /approvals lists all")),
        (number, _) => {
            let text = format!("{} ended; such calls ask again", count(number, "consent"));
            screen.line(Style::Success, &text).await;
        }
    }
    Ok(())
}

async fn show_approval(session: &Session, client: &ApprovalClientClient, number: &str) -> Done {
    let list = session.runner.within(client.list()).await.map_err(|why| why.to_string())?;
    let number = format!("#{}", number.trim_start_matches('#'));
    let found = list.into_iter().find(|found| found.id == number);
    let found = found.ok_or_else(|| format!("there is no question {number}; /approvals lists those that are kept"))?;
    let text = [
        ("question", format!("{} ({})", found.id, count_spaces(&one_line(&found.title)))),
        ("tool", one_line(&found.tool)),
        ("arguments", escape_json(&found.arguments)),
        ("risk", found.risk.clone()),
        ("answer", count_spaces(&one_line(&found.state)).to_string()),
        ("covers", if found.stands { "further calls, until it is revoked" } else { "no further call" }.to_string()),
    ];
    rows(session, &text.map(|(name, value)| (name.to_string(), value.to_string()))).await;
    Ok(())
}

async fn list_approvals(session: &Session, client: &ApprovalClientClient) -> Done {
    let list = session.runner.within(client.list()).await.map_err(|why| why.to_string())?;
    let open = background::open(session);
    if list.is_empty() && open.is_empty() {
        session.runner.screen.line(Style::Plain, "no questions in this session yet").await;
    }
    let text: Vec<(String, String)> = list
        .iter()
        .map(|found| {
            let (arguments, state) = (escape_json(&found.arguments), count_spaces(&one_line(&found.state)));
            let revoke = if found.stands { format!("; `/approvals revoke {}`", found.id) } else { String::new() };
            let what = format!("{} {arguments}: {state} ({}){revoke}", found.tool, found.risk);
            (found.id.clone(), what)
        })
        .collect();
    rows(session, &text).await;
    rows(session, &open).await;
    if !open.is_empty() {
        let text =
            "/approvals show N shows an open question; then /approvals approve N or /approvals deny N answers it";
        session.runner.screen.line(Style::Dim, text).await;
    }
    Ok(())
}
