//! Texts of skills: the author that the model is told, and their labels.

use capos_agent::Lesson;
use capos_schema::authority::{Label, Provenance, SessionLimits};
use capos_schema::models::Role;

use crate::world::*;

fn lesson(name: &str, provenance: Provenance, class: &str) -> Lesson {
    let label = Label { classes: vec![class.into()] };
    Lesson { name: name.into(), text: format!("Text of {name}."), provenance, label }
}

/// Requirement M27: only a text of the system stands in the system prompt, and what the model says of a text has its label.
#[test]
fn m27_a_text_of_others_is_never_in_the_system_prompt() {
    let world = World::new(vec![vec![call("a", "read", r#"{"n":1}"#)], vec![], vec![]]);
    let mut agent = agent(&world, SessionLimits::default());
    let lessons = [lesson("own", Provenance::Trusted, "logs"), lesson("foreign", Provenance::Untrusted, "pii.notes")];
    agent.teach(lessons.to_vec());
    world.run(agent.turn("go", &snapshot()));
    agent.teach(Vec::new());
    world.run(agent.turn("and now", &snapshot()));
    let requests = world.0.requests.borrow();
    for request in &requests[..2] {
        assert_eq!(request.messages[0].content, "You are careful.\n\nSkill own: Text of own.");
        let (runner, text) = (&request.messages[1], &request.messages[2]);
        assert!(runner.content.contains("the skill foreign") && !runner.content.contains("Text of"));
        assert_eq!((runner.role, runner.provenance), (Role::User, Provenance::Trusted));
        assert_eq!((text.role, text.provenance), (Role::Assistant, Provenance::Untrusted));
        assert_eq!(
            (text.content.as_str(), &text.label.classes[..]),
            ("Text of foreign.", &["pii.notes".to_string()][..])
        );
        assert_eq!(request.messages[3].content, "go");
        assert_eq!(request.goal, 3);
    }
    // They are no messages: without them nothing of them is sent, and what the model said keeps their labels.
    let last = &requests[2];
    assert_eq!(last.messages[0].content, "You are careful.");
    assert!(last.messages.iter().all(|message| !message.content.contains("Text of")));
    let entries = agent.conversation().entries();
    assert!(entries.iter().all(|entry| !entry.message.content.contains("Text of")));
    assert_eq!(entries[1].message.label.classes, ["logs", "pii.notes"]);
    assert_eq!(world.0.events.borrow()[0].label.classes, ["logs", "pii.notes"]);
}
