//! Which of a file's templates is for which conversations, and how its calls are written.

use capos_chat::{CallForm, ChatError, ChatFormat, Conversation, Message, Role, Tool};
use capos_gguf::{CHAT_TEMPLATE, Header, TOOL_TEMPLATE, Writer, WriterValue};
use capos_tokenizer::Tokenizer;

use crate::fixture::{text, tools};

const PLAIN: &str = "plain {% for message in messages %}{{ message.content }}{% endfor %}";
const WITH_TOOLS: &str =
    "<tool_call> {{ (tools or []) | length }}{% for message in messages %}{{ message.content }}{% endfor %}";
/// The id of `<tool_call>`, which the vocabulary counts as text.
const CALL: u32 = 259;

/// A file with a vocabulary of bytes, whose templates lie under these keys.
fn file(templates: &[(&str, &str)]) -> Vec<u8> {
    file_of_type(4, templates)
}

/// The same, where the mark is of this type.
fn file_of_type(kind: i32, templates: &[(&str, &str)]) -> Vec<u8> {
    let first = ["<unk>", "<s>", "</s>"].map(String::from).into_iter();
    let tokens: Vec<String> =
        first.chain((0..=255u8).map(|byte| format!("<0x{byte:02X}>"))).chain(["<tool_call>".into()]).collect();
    let kinds = [2, 3, 3].into_iter().chain([6; 256]).chain([kind]).collect();
    let mut writer = Writer::new();
    writer.text("tokenizer.ggml.model", "llama");
    writer.entry("tokenizer.ggml.scores", WriterValue::F32s(vec![0.0; tokens.len()]));
    writer.entry("tokenizer.ggml.tokens", WriterValue::Texts(tokens));
    writer.entry("tokenizer.ggml.token_type", WriterValue::I32s(kinds));
    let names = templates.iter().filter_map(|(key, _)| key.strip_prefix("tokenizer.chat_template."));
    writer.entry("tokenizer.chat_templates", WriterValue::Texts(names.map(String::from).collect()));
    templates.iter().for_each(|(key, template)| writer.text(key, template));
    writer.header()
}

fn format(file: &[u8]) -> Result<(ChatFormat, Tokenizer), ChatError> {
    let header = Header::parse(file, file.len() as u64).unwrap();
    let tokenizer = Tokenizer::new(&header).unwrap();
    Ok((ChatFormat::of(&header, &tokenizer)?, tokenizer))
}

/// One message rendered with and without tools, and the form of calls.
fn read(templates: &[(&str, &str)]) -> (String, String, Option<CallForm>) {
    let (format, _) = format(&file(templates)).unwrap();
    let render = |tools: &[Tool]| {
        let messages = [Message::new(Role::User, "Hi")];
        format.render(&Conversation { messages: &messages, tools, answer: true, now: None }).unwrap().text()
    };
    (render(&tools()), render(&[]), format.form())
}

/// Hermes 3 and others keep the template that tells of tools apart.
#[test]
fn conversations_with_tools_have_the_template_that_is_for_them() {
    let told = format!("<tool_call> {}Hi", tools().len());
    let hermes = Some(CallForm::Hermes);
    let read_of = |with_tools, without| (String::from(with_tools), String::from(without));
    for (templates, expected, form) in [
        (&[(CHAT_TEMPLATE, PLAIN)][..], read_of("plain Hi", "plain Hi"), None),
        (&[(CHAT_TEMPLATE, PLAIN), (TOOL_TEMPLATE, WITH_TOOLS)], read_of(&told, "plain Hi"), hermes),
        // The only one is for all.
        (&[(TOOL_TEMPLATE, WITH_TOOLS)], read_of(&told, "<tool_call> 0Hi"), hermes),
        // One that says nothing is none, and neither is one whose calls cannot be read.
        (&[(CHAT_TEMPLATE, PLAIN), (TOOL_TEMPLATE, " ")], read_of("plain Hi", "plain Hi"), None),
        (&[(CHAT_TEMPLATE, PLAIN), (TOOL_TEMPLATE, "{{ tools }}")], read_of("plain Hi", "plain Hi"), None),
        (&[(CHAT_TEMPLATE, WITH_TOOLS), (TOOL_TEMPLATE, "{{ tools }}")], read_of(&told, "<tool_call> 0Hi"), hermes),
        // A file may have others for other ends.
        (&[(CHAT_TEMPLATE, PLAIN), ("tokenizer.chat_template.rag", WITH_TOOLS)], read_of("plain Hi", "plain Hi"), None),
    ] {
        let (with_tools, without, found) = read(templates);
        assert_eq!(((with_tools, without), found), (expected, form), "{templates:?}");
    }
    let (with_tools, without, form) =
        read(&[(CHAT_TEMPLATE, &text("templates/chatml.jinja")), (TOOL_TEMPLATE, &text("templates/hermes.jinja"))]);
    assert!(with_tools.contains("Call functions within <tool_call></tool_call> tags."), "{with_tools}");
    assert!(without.contains("You are a helpful assistant."), "{without}");
    assert_eq!(form, hermes);
}

/// A mark that only the template with tools speaks of comes from that one only.
#[test]
fn marks_of_either_template_come_from_no_person() {
    let (format, tokenizer) = format(&file(&[(CHAT_TEMPLATE, PLAIN), (TOOL_TEMPLATE, WITH_TOOLS)])).unwrap();
    let messages = [Message::new(Role::User, "<tool_call>")];
    for (tools, marks) in [(tools(), 1), (Vec::new(), 0)] {
        let conversation = Conversation { messages: &messages, tools: &tools, answer: true, now: None };
        let ids = format.render(&conversation).unwrap().encode(&tokenizer);
        assert_eq!(ids.iter().filter(|id| **id == CALL).count(), marks);
    }
}

#[test]
fn a_template_for_tools_that_is_none_is_refused() {
    let refused = format(&file(&[(CHAT_TEMPLATE, PLAIN), (TOOL_TEMPLATE, "{{ tools }}<tool_call>{% if")])).map(drop);
    assert!(matches!(&refused, Err(ChatError::Syntax { .. })), "{refused:?}");
}

/// Whatever type the file says that a mark is of, it is one token where the template writes it, and none where a person does.
#[test]
fn marks_come_of_the_template_whatever_their_type() {
    let templates = [
        "<tool_call>{{ messages[0].content }}",
        "{{ '<tool_call>' + messages[0].content }}",
        "{{ '<' + 'tool_call>' + messages[0].content }}",
    ];
    // Of text that the file counts as one piece, a template that puts it together from others does not speak.
    let all = [1, 3, 4].into_iter().flat_map(|kind| templates.map(|template| (kind, template)));
    for (kind, template) in all.filter(|(kind, template)| *kind != 4 || template.contains("<tool_call>")) {
        let (format, tokenizer) = format(&file_of_type(kind, &[(CHAT_TEMPLATE, template)])).unwrap();
        for said in ["Hi", "<tool_call>", "a<tool_call>b", "tool_call>", "</tool_call><tool_call"] {
            let messages = [Message::new(Role::User, said)];
            let prompt =
                format.render(&Conversation { messages: &messages, tools: &[], answer: true, now: None }).unwrap();
            assert_eq!(prompt.text(), format!("<tool_call>{said}"));
            let ids = prompt.encode(&tokenizer);
            let spelled: Vec<u32> = said.bytes().map(|byte| 3 + u32::from(byte)).collect();
            let space = [226, 150, 129].map(|byte: u32| 3 + byte);
            assert_eq!(ids, [&[1, CALL][..], &space, &spelled].concat(), "{kind} {template} {said}");
        }
    }
}

/// What packing tells of a template before anybody talks with it.
#[test]
fn samples_tell_what_a_template_rejects() {
    let tried = |source: &str| format(&file(&[(CHAT_TEMPLATE, source)])).unwrap().0.try_out();
    let say = "{% for m in messages %}{{ m.content }}{{ strftime_now('%Y') }}{% endfor %}";
    let tools = "{% if tools %}<tool_call>{% endif %}";
    assert_eq!(tried(say), Ok(Vec::new()));
    assert_eq!(tried(&format!("{say}{tools}")), Ok(Vec::new()));
    // Whole files that no conversation comes through are refused; others are told of what they reject.
    for source in ["{{ raise_exception('No.') }}", "{{ nothing.at.all }}", "{{ 'x'|no_filter }}"] {
        assert!(matches!(tried(source), Err(ChatError::Rendering { .. })), "{source}");
    }
    let no_tools =
        "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('No tools.') }}{% endif %}{% endfor %}";
    let rejected = tried(&format!("{tools}{no_tools}")).unwrap();
    let whats: Vec<&str> = rejected.iter().filter_map(|told| told.split(':').next()).collect();
    assert_eq!(whats, ["a call and its result", "two calls in one answer", "a question behind a call"]);
    assert!(
        rejected[0].contains("No tools. (line 1 of the template), at message 4 of 4: the result of read_file"),
        "{rejected:?}"
    );
}
