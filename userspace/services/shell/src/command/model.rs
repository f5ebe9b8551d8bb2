//! `/model`: the models that the session may use, and the choice of one.

use alloc::format;
use alloc::string::{String, ToString};

use capos_plural::count;
use capos_schema::models::ModelInfo;
use capos_schema::terminal::Style;

use super::{Done, rows};
use crate::escape::{in_quotes, name};
use crate::session::Session;

/// Letters of what a model says of itself that the list of models has.
const SAID: usize = 90;

pub async fn model(session: &mut Session, rest: &[&str]) -> Done {
    // Titles may have spaces.
    let wanted = rest.join(" ");
    if !wanted.is_empty() {
        session.runner.change_model(&wanted).await.map_err(|why| format!("the model was not changed: {why}"))?;
        // Another model may take what the one before did not.
        session.agent.tell_plainly(false);
    }
    let current = session.runner.model.info();
    let known = session.runner.within(session.runner.user.models()).await.map_err(|why| why.to_string())?;
    if known.is_empty() {
        return Err("this session has no permission to use models".to_string());
    }
    // Titles are files' words, and Tab types them.
    let plain = |title: &&str| title.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    session.models =
        known.iter().map(|info| info.display_name.as_str()).filter(plain).map(ToString::to_string).collect();
    let width = known.iter().map(|info| info.id.chars().count()).max().unwrap_or(0);
    for info in &known {
        let in_use = current.as_ref().is_some_and(|current| current.id == info.id);
        rows(session, &[(format!("{:width$}", name(&info.id)), facts(info, in_use))]).await;
        if let Some(said) = of_itself(info) {
            session.runner.screen.wrapped(&[(Style::Dim, &said)]).await;
        }
    }
    if !wanted.is_empty() {
        session.runner.tell_of_model().await;
    }
    Ok(())
}

/// What is known of a model.
fn facts(info: &ModelInfo, in_use: bool) -> String {
    let now = if in_use { "in use, " } else { "" };
    let tools = if info.supports_tools { "calls tools" } else { "calls no tools" };
    let able = if info.summarises { ", summarises" } else { "" };
    let size = match info.bytes >> 20 {
        0 => format!("{} KiB", info.bytes.div_ceil(1 << 10)),
        mebibytes => format!("{mebibytes} MiB"),
    };
    let license = match info.license.as_str() {
        "" => String::new(),
        license => format!(", licence {}", name(license)),
    };
    format!(
        "{now}{}, {}, {}, {}, context {}, answers of at most {}, {tools}{able}, {size}{license}",
        name(&info.display_name),
        name(&info.arch),
        name(&info.quantisation),
        name(&info.backend),
        count(info.context_tokens, "token"),
        count(info.output_tokens, "token"),
    )
}

/// The beginning of what a model's file says of it, if it says something, on a line of its own: they are the file's words.
fn of_itself(info: &ModelInfo) -> Option<String> {
    (!info.description.is_empty()).then(|| format!("    {}", in_quotes(&info.description, SAID)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B04: the list has the beginning of a model's own words on one line, quoted, and nothing where there are none.
    #[test]
    fn b04_models_are_listed_with_their_own_words() {
        let of = |description: &str| of_itself(&ModelInfo { description: description.into(), ..ModelInfo::default() });
        assert_eq!(of(""), None);
        assert_eq!(of("Knows \"ferns\"."), Some("    \"Knows \\\"ferns\\\".\"".into()));
        let long = of(&"üa".repeat(80)).unwrap_or_default();
        assert_eq!(long.chars().count(), 4 + 2 + SAID + 1, "{long}");
        assert!(long.ends_with("\"…"), "{long}");
    }

    #[test]
    fn facts_are_told_as_the_file_has_them() {
        let info = ModelInfo {
            display_name: "fern".into(),
            arch: "qwen3".into(),
            quantisation: "Q8_0".into(),
            backend: "local-engine".into(),
            context_tokens: 2048,
            output_tokens: 1,
            supports_tools: true,
            bytes: 3 << 20,
            license: "MIT".into(),
            ..ModelInfo::default()
        };
        let told =
            "fern, qwen3, Q8_0, local-engine, context 2048 tokens, answers of at most 1 token, calls tools, 3 MiB";
        assert_eq!(facts(&info, true), format!("in use, {told}, licence MIT"));
        let forged = "x\n  a row of the shell's";
        let all = ModelInfo {
            display_name: forged.into(),
            arch: forged.into(),
            quantisation: forged.into(),
            backend: forged.into(),
            license: forged.into(),
            ..info.clone()
        };
        assert!(!facts(&all, true).contains(char::is_control));
        assert!(
            facts(&ModelInfo { summarises: true, ..info.clone() }, false).contains(", calls tools, summarises, 3 MiB")
        );
        let small = ModelInfo { bytes: 1025, license: String::new(), supports_tools: false, ..info };
        let told = told.replace("calls tools, 3 MiB", "calls no tools, 2 KiB");
        assert_eq!(facts(&small, false), told);
    }
}
