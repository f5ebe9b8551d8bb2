//! `/skills` and `/skill`: what a person lets the model learn and use together.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::Brought;
use capos_plural::count;
use capos_runner::skills::{Plan, Source};
use capos_schema::authority::{Label, Provenance};
use capos_schema::storage::DirectoryClient;
use capos_schema::terminal::{LineEnd, Style};
use capos_skills::{Bound, ENDING, MAX_FILE, Skill, name_of_file};
use serde_json::{Value, json};

use super::own;
use super::{Done, rows};
use crate::escape::{escape, in_quotes};
use crate::more::margined;
use crate::session::Session;

/// The skills that are a part of the system: name and file.
const BUILT_IN: [(&str, &str); 1] = [("log-reader", include_str!("../../skills/log-reader.skill.yaml"))];
/// Characters of a description that are shown.
const MOST: usize = 120;
/// Skills of the home directory that are listed at most.
const LISTED: usize = 32;
const USAGE: &str = "usage: /skill use NAME SETTING=VALUE…, or /skill drop NAME; /skills lists them";

/// `/skills`.
pub async fn skills(session: &mut Session) -> Done {
    let mut names: Vec<(String, Result<Skill, String>)> = Vec::new();
    for (name, text) in BUILT_IN {
        names.push((name.to_owned(), Skill::parse(name, text.as_bytes()).map_err(|bad| bad.to_string())));
    }
    let mut in_home = in_home(session).await?;
    in_home.retain(|name| BUILT_IN.iter().all(|(known, _)| known != name));
    let others = in_home.len().saturating_sub(LISTED);
    for name in in_home.into_iter().take(LISTED) {
        let found = find(session, &name).await.map(|(skill, _)| skill);
        names.push((name, found));
    }
    let text: Vec<(String, String)> =
        names.iter().map(|(name, found)| (name.clone(), row(session, name, found))).collect();
    rows(session, &text).await;
    if others > 0 {
        let text = format!("  {} of the home directory: /skill use NAME uses one", count(others, "further skill"));
        session.runner.screen.line(Style::Dim, &text).await;
    }
    Ok(())
}

fn row(session: &Session, name: &str, found: &Result<Skill, String>) -> String {
    let skill = match found {
        Ok(skill) => skill,
        Err(why) => return format!("cannot be used: {}", escape(why)),
    };
    let used = if session.skills.iter().any(|used| used.bound.skill.name == *name) { "in use, " } else { "" };
    let settings: Vec<String> = skill
        .settings
        .iter()
        .map(|setting| format!(" {}={}", setting.name, setting.kind.name().to_uppercase()))
        .collect();
    let text = format!("{}, {}", in_quotes(&skill.description, MOST), skill.tools.join(", "));
    format!("{used}{text}{}", if settings.is_empty() { String::new() } else { format!("; takes{}", settings.concat()) })
}

/// The names of the skills in the home directory; none if the session has no home.
async fn in_home(session: &Session) -> Result<Vec<String>, String> {
    if session.runner.grants.find::<DirectoryClient>("").is_err() {
        return Ok(Vec::new());
    }
    let Some(brought) = own::result(session, "list_directory", &json!({ "path": "." }), &Label::default()).await?
    else {
        return Ok(Vec::new());
    };
    let listed: Value =
        serde_json::from_str(&brought.text).map_err(|bad| format!("the home directory cannot be listed: {bad}"))?;
    let entries = listed.get("entries").and_then(Value::as_array).into_iter().flatten();
    let names = entries.filter_map(|entry| name_of_file(entry.get("name")?.as_str()?));
    Ok(names.map(ToOwned::to_owned).collect())
}

/// The skill of this name, and where it is from. The system's own come first, so no file of the home takes the place of one.
async fn find(session: &Session, name: &str) -> Result<(Skill, Source), String> {
    if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
        let skill = Skill::parse(name, text.as_bytes()).map_err(|bad| bad.to_string())?;
        let (provenance, label) = (Provenance::Trusted, Label::default());
        return Ok((skill, Source { place: "the system".to_owned(), provenance, label }));
    }
    let file = format!("{name}{ENDING}");
    if name_of_file(&file).is_none() {
        return Err(format!("{:?} is no name of a skill", escape(name)));
    }
    let brought = own::result(session, "read_file", &json!({ "path": file }), &Label::default()).await?;
    let Brought { text, of, label, .. } = brought.ok_or_else(|| format!("{file} was not read"))?;
    let bytes = of.map_or(text.len(), |(_, bytes)| usize::try_from(bytes).unwrap_or(usize::MAX));
    if bytes > MAX_FILE {
        return Err(format!("{file}: it has {bytes} bytes; a skill has at most {MAX_FILE}"));
    }
    let skill = Skill::parse(name, text.as_bytes()).map_err(|bad| format!("{file}: {bad}"))?;
    Ok((skill, Source { place: file, provenance: Provenance::Untrusted, label }))
}

/// `/skill`.
pub async fn skill(session: &mut Session, rest: &[&str]) -> Done {
    match rest {
        ["use", name, values @ ..] => use_skill(session, name, values).await,
        ["drop", name] => {
            session.drop_skill(name).await?;
            let text = format!("{name} is not used any more: neither its text nor the tools that it brought");
            session.runner.screen.line(Style::Success, &text).await;
            Ok(())
        }
        _ => Err(USAGE.to_owned()),
    }
}

async fn use_skill(session: &mut Session, name: &str, values: &[&str]) -> Done {
    let (skill, source) = find(session, name).await?;
    let pairs: Vec<(&str, &str)> =
        values.iter().map(|value| value.split_once('=').ok_or(USAGE)).collect::<Result<_, _>>()?;
    let bound = skill.bind(&pairs).map_err(|why| format!("the skill {name} is not used: {why}"))?;
    let plan = session.plan_skill(&skill).await?;
    let screen = session.runner.screen.clone();
    let columns = screen.size().await.0;
    let (what, taught) = (question(&bound, &source, &plan), margined(&bound.teaching, columns));
    // A long text may have moved what precedes it off the screen.
    let again = match taught.lines().count() > LINES {
        true => what.rsplit_once(TAUGHT).map_or_else(String::new, |(facts, _)| format!("{facts}\n")),
        false => String::new(),
    };
    let spans = [(Style::Plain, what.as_str()), (Style::Dim, taught.as_str()), (Style::Plain, again.as_str())];
    let asked = screen.hold_for_question().await.ask(&spans, "Use it? [y/N] ").await;
    let (answer, end) = asked.map_err(|why| why.to_string())?;
    if end != LineEnd::Entered || !matches!(answer.trim(), "y" | "Y" | "yes") {
        screen.line(Style::Dim, "nothing of the skill is used").await;
        return Ok(());
    }
    session.use_skill(bound, source).await?;
    let text = format!("{name} is used from your next request on; /skill drop {name} ends that");
    screen.line(Style::Success, &text).await;
    Ok(())
}

/// Lines of a teaching text behind which the facts are told once more.
const LINES: usize = 12;
/// Stands between the facts and the text.
const TAUGHT: &str = " The model is taught:";

/// What a skill adds, before the person agrees.
fn question(bound: &Bound, source: &Source, plan: &Plan) -> String {
    let skill = &bound.skill;
    let tools: Vec<String> = plan.tools.iter().map(|(name, mode)| format!("{name} ({})", mode.name())).collect();
    let withheld = match plan.withheld.as_slice() {
        [] => "The model has all of them already.".to_owned(),
        withheld => {
            format!(
                "The model is offered {} that it does not have now: {}.",
                count(withheld.len(), "tool"),
                withheld.join(", ")
            )
        }
    };
    let labels = match skill.labels.as_slice() {
        [] => String::new(),
        labels => format!(" What the model says from then on is labelled {}.", labels.join(", ")),
    };
    let whose = match source.provenance {
        Provenance::Trusted => "a part of the system",
        Provenance::Untrusted => "others may have written it",
    };
    format!(
        "Skill {} from {} ({whose}): {}\nIts tools: {}. {withheld}{labels}\nEach call is decided and asked about as before.{TAUGHT}\n",
        skill.name,
        source.place,
        in_quotes(&skill.description, MOST),
        tools.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_schema::models::PermissionMode;

    #[test]
    fn m27_the_skills_of_the_system_can_be_read() {
        for (name, text) in BUILT_IN {
            let skill = Skill::parse(name, text.as_bytes()).unwrap();
            assert!(skill.settings.is_empty() || !skill.tools.is_empty(), "{name}");
        }
    }

    #[test]
    fn m27_a_question_says_what_a_skill_adds() {
        let text = "name: tidy\ndescription: \"Keeps \\u0430 notes.\"\nteaching: Read.\ntools: [read_file, delegate]\nlabels: [pii.notes]\n";
        let bound = Skill::parse("tidy", text.as_bytes()).unwrap().bind(&[]).unwrap();
        let (provenance, label) = (Provenance::Untrusted, Label::default());
        let source = Source { place: "tidy.skill.yaml".into(), provenance, label };
        let tools = [("read_file", PermissionMode::Auto), ("delegate", PermissionMode::Consent)];
        let tools = tools.map(|(name, mode)| (name.to_string(), mode)).to_vec();
        let plan = Plan { tools, withheld: Vec::from(["delegate".to_string()]) };
        let asked = question(&bound, &source, &plan);
        for part in [
            "Skill tidy from tidy.skill.yaml (others may have written it)",
            "Its tools: read_file (auto), delegate (consent).",
            "The model is offered 1 tool that it does not have now: delegate.",
            "What the model says from then on is labelled pii.notes.",
        ] {
            assert!(asked.contains(part), "{part}: {asked}");
        }
    }
}
