//! Calls of tools, as an editor shows them.

use agent_client_protocol_schema::v1::{
    Diff, PermissionOption, PermissionOptionKind, ToolCallContent, ToolCallLocation, ToolCallStatus,
    ToolCallUpdateFields, ToolKind,
};
use capos_client_protocol::event::{ApprovalRequest, Risk};
use capos_client_protocol::request::Reach;
use capos_client_protocol::result::PatchPreview;
use capos_terminal::{escape_for_prompt, escape_json};
use serde_json::Value;

use crate::content::fence;

/// Characters of a title.
const TITLE: usize = 100;
/// The name of the option that rejects.
pub const REJECT: &str = "reject";

/// What a tool does, in the editor's terms: by the category that the machine's schema gives it.
pub fn kind(tool: &str, category: &str) -> ToolKind {
    match category {
        _ if tool == "run_program" => ToolKind::Execute,
        "readOnly" | "read_only" => ToolKind::Read,
        "mutating" => ToolKind::Edit,
        "destructive" => ToolKind::Delete,
        _ => ToolKind::Other,
    }
}

/// The arguments as a value; as a text, if they are no JSON.
pub fn input(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|_| Value::String(arguments.to_owned()))
}

fn path(arguments: &Value) -> Option<&str> {
    arguments.get("path")?.as_str()
}

/// The tool and the file or program that it is called for.
pub fn title(tool: &str, arguments: &Value) -> String {
    let subject = path(arguments).or_else(|| arguments.get("program")?.as_str());
    let title = match subject {
        Some(subject) => format!("{} {}", escape_for_prompt(tool), escape_for_prompt(subject)),
        None => escape_for_prompt(tool),
    };
    match title.char_indices().nth(TITLE) {
        Some((end, _)) => format!("{}…", title.get(..end).unwrap_or_default()),
        None => title,
    }
}

/// The file that a call is about: a path of the machine, below the user's home.
pub fn locations(arguments: &Value) -> Vec<ToolCallLocation> {
    path(arguments).map(|path| ToolCallLocation::new(absolute(path))).into_iter().collect()
}

/// The protocol wants absolute paths; the root is the user's home on the machine.
fn absolute(path: &str) -> String {
    format!("/{}", path.trim_start_matches('/'))
}

/// A text in a block that shows it as it is.
pub fn block(text: &str) -> ToolCallContent {
    let fence = fence(text);
    ToolCallContent::from(format!("{fence}\n{text}\n{fence}"))
}

/// The status of a call that ended so.
pub fn status(outcome: &str) -> ToolCallStatus {
    if outcome == "ok" { ToolCallStatus::Completed } else { ToolCallStatus::Failed }
}

/// What a person is shown who decides: what will happen, what it may do, every argument, and what else they have to
/// know.
pub fn question(request: &ApprovalRequest, preview: &PatchPreview) -> ToolCallUpdateFields {
    let mut fields = ToolCallUpdateFields::new().status(ToolCallStatus::Pending);
    let risk = match request.risk_level {
        Risk::Low => "low",
        Risk::Medium => "medium",
        Risk::High => "high",
    };
    let summary = format!("{} Risk: {risk}.", escape_for_prompt(&request.action_summary));
    let mut content = vec![ToolCallContent::from(summary)];
    let Some(details) = &request.details else {
        return fields.title(escape_for_prompt(&request.title)).kind(ToolKind::Other).content(content);
    };
    for note in &details.notes {
        content.push(ToolCallContent::from(format!("**Note:** {}", escape_for_prompt(note))));
    }
    let mut arguments = input(&details.arguments);
    fields = fields
        .title(title(&details.tool_name, &arguments))
        .kind(kind(&details.tool_name, &details.category))
        .name(details.tool_name.clone())
        .locations(locations(&arguments))
        .raw_input(arguments.clone());
    for change in &preview.changes {
        let diff = Diff::new(absolute(&change.path), change.new_text.clone()).old_text(change.old_text.clone());
        content.push(ToolCallContent::Diff(diff));
        if let Some(why) = &change.omitted {
            let text = format!("**Note:** the present content is not shown: {}", escape_for_prompt(why));
            content.push(ToolCallContent::from(text));
        }
        hide(&mut arguments, &change.new_text);
    }
    content.push(ToolCallContent::from("All arguments:".to_owned()));
    let shown = if preview.changes.is_empty() { details.arguments.clone() } else { arguments.to_string() };
    content.push(block(&escape_json(&shown)));
    fields.content(content)
}

/// Leaves out of the arguments what a diff shows whole.
fn hide(arguments: &mut Value, text: &str) {
    for (_, value) in arguments.as_object_mut().into_iter().flatten() {
        if value.as_str() == Some(text) {
            *value = Value::String("(the new text above)".into());
        }
    }
}

/// What the person may answer.
pub fn options(reaches: &[Reach]) -> Vec<PermissionOption> {
    let mut options = vec![PermissionOption::new("once", "Allow once", PermissionOptionKind::AllowOnce)];
    if reaches.contains(&Reach::Turn) {
        let name = "Allow the same call again in this turn";
        options.push(PermissionOption::new("turn", name, PermissionOptionKind::AllowAlways));
    }
    if reaches.contains(&Reach::Session) {
        let name = "Allow the same call again in this session";
        options.push(PermissionOption::new("session", name, PermissionOptionKind::AllowAlways));
    }
    options.push(PermissionOption::new(REJECT, "Reject", PermissionOptionKind::RejectOnce));
    options
}

/// How far an option that was chosen reaches; none: it rejects, or was not offered.
pub fn reach(option: &str, offered: &[Reach]) -> Option<Reach> {
    match option {
        "once" => Some(Reach::Once),
        "turn" => Some(Reach::Turn).filter(|reach| offered.contains(reach)),
        "session" => Some(Reach::Session).filter(|reach| offered.contains(reach)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_client_protocol::event::{Details, Kind};
    use capos_client_protocol::result::Change;

    #[test]
    fn kinds_follow_the_category() {
        assert_eq!(kind("read_file", "readOnly"), ToolKind::Read);
        assert_eq!(kind("write_file", "mutating"), ToolKind::Edit);
        assert_eq!(kind("delete_file", "destructive"), ToolKind::Delete);
        assert_eq!(kind("run_program", "mutating"), ToolKind::Execute);
        assert_eq!(kind("back_up", "outbound"), ToolKind::Other);
        assert_eq!(kind("later", ""), ToolKind::Other);
    }

    #[test]
    fn a_title_is_one_short_line() {
        let arguments = input(r#"{"path":"a\nb\u202e.txt"}"#);
        let title = title("write_file", &arguments);
        assert!(!title.contains('\n') && !title.contains('\u{202e}'), "{title:?}");
        let long = super::title(&"x".repeat(1000), &Value::Null);
        assert_eq!(long.chars().count(), TITLE + 1);
    }

    #[test]
    fn a_question_shows_every_argument() {
        let request = ApprovalRequest {
            approval_id: "a".into(),
            kind: Kind::ToolCall,
            title: "write_file".into(),
            action_summary: "Writes a file.".into(),
            risk_level: Risk::Medium,
            reaches: vec![],
            expires_in_ms: None,
            details: Some(Details {
                call_id: "c".into(),
                tool_name: "write_file".into(),
                capability: "home".into(),
                category: "mutating".into(),
                description: String::new(),
                arguments: r#"{"append":true,"path":"n","text":"new ``` text"}"#.into(),
                notes: vec!["The model has read what others wrote.".into()],
            }),
        };
        let text = |preview: &PatchPreview| serde_json::to_string(&question(&request, preview).content).unwrap();
        let plain = text(&PatchPreview::default());
        for part in ["Risk: medium", "others wrote", r#"\"append\":true"#, "new ``` text", "````"] {
            assert!(plain.contains(part), "{part}: {plain}");
        }
        let change = Change {
            path: "n".into(),
            old_text: None,
            omitted: Some("it is too long".into()),
            new_text: "new ``` text".into(),
            new_sha256: String::new(),
        };
        let with_diff = text(&PatchPreview { changes: vec![change] });
        for part in [r#""type":"diff""#, r#""path":"/n""#, r#"\"append\":true"#, "the new text above", "too long"] {
            assert!(with_diff.contains(part), "{part}: {with_diff}");
        }
    }

    #[test]
    fn only_what_was_offered_is_allowed() {
        let offered = [Reach::Once, Reach::Turn];
        assert_eq!(options(&offered).len(), 3);
        assert_eq!(reach("once", &offered), Some(Reach::Once));
        assert_eq!(reach("turn", &offered), Some(Reach::Turn));
        for option in ["session", REJECT, "", "yes"] {
            assert_eq!(reach(option, &offered), None, "{option}");
        }
    }
}
