//! A handbook's answer to a request.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use capos_script::{Arguments, Handle, Id, RequestView, Response, Role, Step, Turn};

use crate::handbook::{Entry, Handbook};

/// Questions that are listed if nothing is found.
const TOLD: usize = 8;

impl Handbook {
    /// The answer to a request. The tools' results of this turn are passed on; otherwise the entry nearest to the
    /// person's last message answers.
    #[must_use]
    pub fn respond(&self, request: &RequestView<'_>) -> Response {
        Response::new(Arc::new(Turn::of(self.steps(request))), request)
    }

    fn steps(&self, request: &RequestView<'_>) -> Vec<Step> {
        let mut results: Vec<&str> = request.fresh_results().collect();
        if !results.is_empty() {
            results.reverse();
            return Vec::from([Step::Words(results.join("\n"))]);
        }
        let asked = request.last(Role::User).unwrap_or_default();
        match self.nearest(asked, |tool| request.handle(tool).is_some()) {
            Some(entry) => steps(entry),
            None => Vec::from([Step::Words(self.nothing_found())]),
        }
    }

    fn nothing_found(&self) -> String {
        let known: Vec<&str> =
            self.entries.iter().filter_map(|entry| entry.questions.first()).take(TOLD).map(String::as_str).collect();
        let more = if self.entries.len() > known.len() { " Among others." } else { "" };
        format!("The handbook says nothing about that. It answers:\n{}{more}", known.join("\n"))
    }
}

fn steps(entry: &Entry) -> Vec<Step> {
    let mut steps = Vec::new();
    if !entry.text.is_empty() {
        steps.push(Step::Words(entry.text.clone()));
    }
    for (index, call) in (0_u32..).zip(&entry.calls) {
        steps.push(Step::Call {
            index,
            id: Some(Id::Literal(format!("call-{}", index.saturating_add(1)))),
            name: Some(call.tool.to_string()),
            handle: Some(Handle::Auto),
            arguments: Arguments { text: call.arguments.clone(), times: 1 },
        });
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_script::{Collected, Event, Finish, MessageView, ToolView};

    fn answer(book: &str, messages: &[(Role, &str)], max_tokens: u32) -> Collected {
        let request = RequestView {
            messages: messages.iter().map(|&(role, content)| MessageView { role, content }).collect(),
            tools: vec![ToolView { name: "lamp", handle: "/object/x" }],
            max_tokens,
            ..RequestView::default()
        };
        Handbook::parse(book).unwrap().respond(&request).collect_all()
    }

    fn finish(collected: &Collected) -> Finish {
        let Some(Event::Finish { reason, .. }) = collected.end else { panic!("{collected:?}") };
        reason
    }

    const BOOK: &str = "? Light the lamp\nI will light it.\ncall lamp {\"on\": true}\n? Light the fan\ncall fan {}\n";

    #[test]
    fn answers_call_tools_and_results_are_passed_on() {
        let light = (Role::User, "Please light the lamp.");
        let first = answer(BOOK, &[light], 0);
        assert_eq!((first.text.as_slice(), finish(&first)), ("I will light it.".as_bytes(), Finish::ToolCalls));
        let [call] = first.calls.as_slice() else { panic!("{first:?}") };
        assert_eq!((call.name.as_str(), call.handle.as_str(), call.id.as_str()), ("lamp", "/object/x", "call-1"));
        assert_eq!(call.arguments, "{\"on\":true}");
        let results = [light, (Role::Assistant, ""), (Role::Tool, "one"), (Role::Tool, "two")];
        let second = answer(BOOK, &results, 0);
        assert_eq!((second.text.as_slice(), finish(&second)), ("one\ntwo".as_bytes(), Finish::Stop));
        assert!(second.calls.is_empty());
        let third = answer(BOOK, &[results.as_slice(), &[light]].concat(), 0);
        assert_eq!((third.text, third.calls), (first.text, first.calls), "the person has spoken again");
    }

    #[test]
    fn where_nothing_is_found_it_tells_what_it_knows() {
        let none = answer(BOOK, &[(Role::User, "Bonjour")], 0);
        let text = core::str::from_utf8(&none.text).unwrap();
        assert_eq!(text, "The handbook says nothing about that. It answers:\nLight the lamp\nLight the fan");
        let fan = answer("? fan\ncall fan {}\n", &[(Role::User, "fan")], 0);
        assert!(fan.calls.is_empty(), "the tool is not offered");
    }

    #[test]
    fn limits_are_kept() {
        let cut = answer(BOOK, &[(Role::User, "Please light the lamp.")], 2);
        assert_eq!((cut.text.as_slice(), finish(&cut)), ("I will ".as_bytes(), Finish::Length));
        assert!(cut.calls.is_empty());
    }
}
