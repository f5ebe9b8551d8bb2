//! Requests in plain forms, and what they ask for.

use super::*;

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(String::from).collect()
}

/// What is told, supposed, or the text of a reminder is no request. Other words of the same text are one.
#[test]
fn what_is_told_or_supposed_is_not_asked_for() {
    let listed = words("stop delete deleted off down power close not-run");
    for text in [
        "I have deleted my thesis by mistake",
        "she has deleted it",
        "yesterday I almost deleted everything!",
        "the power went off at 2:50 in the whole wing",
        "going down to look",
        "If I turn off the power, what is lost?",
        "what happens if somebody turns it off",
        "remind me in three hours to close the shutters",
        "remind me to close the windows and turn the radio off",
    ] {
        assert_eq!(asks(&clauses(text), &listed), None, "{text}");
    }
    for text in [
        "I have to delete it",
        "I have two of them, delete one",
        "if you could turn it off",
        "if it is idle, turn it off",
        "if I am late then stop it",
        "remind me to eat, and stop the radio",
        "she went home, so power off",
        "see if I have notes.txt and delete it",
        "remind me at 6 and stop ahci",
        "the disk is gone stop ahci",
        "those I no longer have delete them",
        "turn it off and go home",
        "the machine can go off now",
    ] {
        assert_eq!(asks(&clauses(text), &listed), Some(true), "{text}");
    }
    for (text, asked) in [
        ("rm tmp/a.lo... no wait leave it", false),
        ("rm tmp/a.lo... no, wait, leave it", false),
        ("stop it. wait, no", false),
        ("delete it. never mind", false),
        ("delete it, never mind the cost", true),
        ("delete a.txt... no wait, b.txt", true),
        ("delete b.txt and put 'never mind' into a.txt", true),
        ("stop ahci - nvm", false),
        ("delete a, no wait, delete b", true),
        ("scratch that, stop it", true),
    ] {
        assert_eq!(asks(&clauses(text), &words("rm delete stop")), Some(asked), "{text}");
    }
    // Other words are no mistyped ones.
    let listed = words("lose end ending block power kill");
    for text in ["close it", "is it pending?", "lock the door", "powder for 3 cakes", "a rare skill"] {
        assert_eq!(asks(&clauses(text), &listed), None, "{text}");
    }
    assert_eq!(asks(&clauses("pwoer it down, kil it"), &listed), Some(true));
    let listed = words("stop delete deleted off down power close not-run");
    assert_eq!(asks(&clauses("I have never deleted it, don't delete it"), &listed), Some(false));
}

#[test]
fn words_are_recognised_as_people_type_them() {
    let listed = words("stop delete rm");
    for text in [
        "Delete it",
        "now: STOP.",
        "e-stop it",
        "please sotp it",
        "dleete a.txt",
        "delet x",
        "deleete x",
        "sttop",
        "rm a",
    ] {
        assert_eq!(asks(&clauses(text), &listed), Some(true), "{text}");
    }
    for text in [
        "display a.txt",
        "top",
        "stopping",
        "spot it",
        "post it",
        "deadline",
        "mr",
        "form",
        "deletable",
        "read delete.txt",
        "restart the delet-door service",
        "",
    ] {
        assert_eq!(asks(&clauses(text), &listed), None, "{text}");
    }
}

#[test]
fn negations_ask_for_nothing() {
    let listed = words("off delete stop not-need not-anymore");
    for text in [
        "Please don't turn the machine off yet",
        "do not delete a.txt",
        "don\u{2019}t stop it",
        "never delete a.txt!",
        "nobody should stop ahci",
        "I need you to read a.txt",
        "wait, dont delete it",
        "don\u{b4}t delete it",
        "do not edit, move or delete a.txt",
        "no need to delete a.txt",
        "tell me why it is slow and don't stop it",
        "go on without stop",
        "hands off ahci tonight",
    ] {
        assert_eq!(asks(&clauses(text), &listed), Some(false), "{text}");
    }
    for text in [
        "I don't need a.txt anymore",
        "a.txt isn't needed, delete it",
        "no, delete it",
        "my hands are wet, turn it off",
        "not b.txt, delete a.txt",
        "why don't you delete a.txt",
        "can't you stop it?",
        "do not read it. delete it",
        "nobody needs it\ndelete it",
        "don't delete a.txt but delete b.txt",
        "don't forget to delete a.txt",
        "not only delete a.txt but also b.txt",
        "I don't use a.txt so delete it",
        "if you don't mind delete a.txt",
        "don't stop ahci - stop net",
    ] {
        assert_eq!(asks(&clauses(text), &listed), Some(true), "{text}");
    }
}

fn tool(name: &str, required: &[&str]) -> Tool {
    Tool {
        name: name.into(),
        description: String::new(),
        parameters: serde_json::json!({
            "properties": required.iter().map(|name| (*name, serde_json::json!({}))).collect::<std::collections::BTreeMap<_, _>>(),
            "required": required,
        }),
        handle: String::new(),
        forbidden: false,
    }
}

fn may_delete(said: &[&str], results: bool) -> bool {
    let asked_with = AskedWith {
        tools: vec![("delete_file".into(), words("delete kill out not-need"))],
        not_names: words("file stupid here"),
        function_words: words("a it just the please i do dont that of"),
    };
    let said: Vec<String> = said.iter().map(|text| (*text).into()).collect();
    asked_with.callable(&[tool("delete_file", &["path"])], &said, results).len() == 1
}

#[test]
fn the_latest_text_about_a_tool_decides() {
    assert!(may_delete(&["delete a.txt", "yes, do it"], false));
    assert!(!may_delete(&["delete a.txt", "no, don't delete it"], false));
    assert!(may_delete(&["don't delete a.txt", "delete b.txt"], false));
    for text in ["no, leave it", "don't do it", "keep it please"] {
        assert!(!may_delete(&["delete a.txt", text], false), "{text}");
    }
}

#[test]
fn what_goes_was_named() {
    for said in ["delete it", "Just kill it!", "please delete that stupid file", "I don't need it", "delete"] {
        assert!(!may_delete(&[said], false), "{said}");
        assert!(may_delete(&[said], true), "{said}");
        assert!(may_delete(&["show me a.txt", said], false), "{said}");
    }
    for said in
        ["delete a.out", "delete the file notes", "delete it: ./file", "delete 'file'", "delete the file out", "kill 7"]
    {
        assert!(may_delete(&[said], false), "{said}");
    }
    let restarts = |said: &str| {
        AskedWith::default().callable(&[tool("restart_service", &["name"])], &[said.into()], false).len() == 1
    };
    assert!(restarts("don't restart ahci but the exporter") && restarts("don't restart all, only web"));
    assert!(!restarts("do NOT restart the web service, i am in the middle of something"));
    for said in
        ["do not stop web, restart it", "is web not up?", "I did not restart web", "don't forget to restart web"]
    {
        assert!(restarts(said), "{said}");
    }
    let asked_with = AskedWith {
        tools: vec![("power_off".into(), words("off shut power down"))],
        not_names: words("turn it machine"),
        ..AskedWith::default()
    };
    let may_end = |said: &str| asked_with.callable(&[tool("power_off", &[])], &[said.into()], false).len() == 1;
    for said in [
        "turn it off",
        "power-off now",
        "stop the web service and shut down",
        "stop oil-pump, then power off",
        "shut down the lab-machine",
    ] {
        assert!(may_end(said), "{said}");
    }
    for said in
        ["switch the fax service off", "Shut oil-pump off.", "turn off a.txt", "shut the oil-pump down and wait"]
    {
        assert!(!may_end(said), "{said}");
    }
}
