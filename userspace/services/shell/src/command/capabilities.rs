//! `/cap`: the capabilities of the session, and those of the shell's process.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_plural::count;
use capos_schema::reflection;
use capos_schema::terminal::Style;

use super::{Done, refreshed, rows};
use crate::escape::escape;
use crate::session::Session;

pub async fn cap(session: &mut Session, rest: &[&str]) -> Done {
    match rest {
        [] => {}
        ["all"] => return held(session).await,
        ["drop", name] => {
            if session.runner.grants.dropped.borrow().contains(*name) {
                return Err(format!("{:?} is already dropped", escape(name)));
            }
            if session.runner.grants.is_writer(name) {
                return Err(format!(
                    "{:?} cannot be dropped: no tool runs without it, because every call is recorded",
                    escape(name)
                ));
            }
            if !session.runner.grants.all().iter().any(|grant| grant.name == *name) {
                return Err(format!("this session holds no capability {:?}; /cap lists them", escape(name)));
            }
            session.runner.grants.dropped.borrow_mut().insert((*name).to_string());
        }
        ["take", name] => {
            if !session.runner.grants.dropped.borrow_mut().remove(*name) {
                return Err(format!("{:?} is not dropped; /cap lists the dropped ones", escape(name)));
            }
        }
        ["offer", name] => {
            if !session.runner.grants.offer(name) {
                let grants = &session.runner.grants;
                let held = grants.all().iter().any(|grant| grant.name == *name);
                let why = match (held, grants.dropped.borrow().contains(*name)) {
                    (_, true) => format!("is dropped; /cap take {} restores it", escape(name)),
                    (true, false) => {
                        "has no further tools for the model; /cap lists the capabilities that have".to_string()
                    }
                    (false, false) => "is no capability of this session; /cap lists them".to_string(),
                };
                return Err(format!("{:?} {why}", escape(name)));
            }
        }
        _ => return Err("usage: /cap, /cap all, /cap drop NAME, /cap take NAME or /cap offer NAME".to_string()),
    }
    refreshed(session).await?;
    let text: Vec<(String, String)> = session
        .runner
        .grants
        .all()
        .iter()
        .enumerate()
        .map(|(at, grant)| {
            let interface = reflection::interface(grant.interface).map_or("unknown interface", |found| found.name);
            let offered = session.snapshot.tools().iter().filter(|tool| tool.capability == at as u64).count();
            let form = if grant.read_only { ", read-only" } else { "" };
            let tools = match (offered, session.runner.grants.withheld_of(grant)) {
                (_, 0) => count(offered, "tool").to_string(),
                (0, _) => format!("not offered to the model; /cap offer {}", grant.name),
                (_, more) => {
                    format!(
                        "{}, {more} more not offered to the model; /cap offer {}",
                        count(offered, "tool"),
                        grant.name
                    )
                }
            };
            (grant.name.clone(), format!("{interface}{form}, {tools}"))
        })
        .collect();
    rows(session, &text).await;
    let dropped: Vec<String> = session.runner.grants.dropped.borrow().iter().cloned().collect();
    if !dropped.is_empty() {
        session.runner.screen.line(Style::Dim, &format!("  dropped: {}", dropped.join(", "))).await;
    }
    Ok(())
}

/// The process's own table: there is no other authority in it.
async fn held(session: &Session) -> Done {
    let list =
        session.runner.within(capos_rt::capabilities(&session.runner.table)).await.map_err(|why| why.to_string())?;
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for found in &list {
        let name = reflection::interface(found.interface)
            .map_or_else(|| format!("interface {:#018x}", found.interface), |interface| interface.name.to_string());
        let count = counts.entry((name, found.kind.clone())).or_default();
        *count = count.saturating_add(1);
    }
    let text: Vec<(String, String)> =
        counts.into_iter().map(|((name, kind), number)| (name, format!("{number}, {kind}"))).collect();
    rows(session, &text).await;
    Ok(())
}
