//! `ModelInfo`, made from a file and compared with a given one.

use alloc::format;
use alloc::string::{String, ToString};

use capos_call_form::CallForm;
use capos_gguf::Header;
use capos_schema::models::ModelInfo;

use crate::{Backend, LOCAL_EMBEDDER, LOCAL_ENGINE};

/// The id of the model file with this fs-verity digest.
pub fn id(digest: &str, header: &Header<'_>) -> String {
    format!("{digest}-{}", header.facts().architecture)
}

/// Characters that are kept of a file's description of its model.
const MAX_DESCRIPTION: usize = 240;

/// The description of a file of `bytes` bytes. Its answers are limited by its context alone: see [`output_tokens`]. Whether it
/// summarises is not in the file: its signature or its script says so.
#[must_use]
pub fn describe(header: &Header<'_>, id: &str, bytes: u64, backend: &Backend) -> ModelInfo {
    let facts = header.facts();
    let (quantisation, supports_tools) = match backend {
        Backend::Engine => (facts.quantisation, CallForm::first(facts.templates_with_tools()).is_some()),
        Backend::Embedder => (facts.quantisation, false),
        // A script calls tools of a model whose file is one that talks.
        Backend::Scripted => (facts.quantisation, facts.template_without_tools().is_some()),
        // It has no tensors, and its answers need no template.
        Backend::Retrieval(handbook) => ("none", handbook.calls_tools()),
    };
    ModelInfo {
        id: id.to_string(),
        display_name: facts.name.unwrap_or("unnamed").to_string(),
        arch: facts.architecture.to_string(),
        context_tokens: facts.context_length,
        output_tokens: if *backend == Backend::Embedder { 0 } else { facts.context_length },
        backend: backend.name().to_string(),
        quantisation: quantisation.to_string(),
        supports_tools,
        bytes,
        license: facts.license.unwrap_or_default().to_string(),
        description: one_line(facts.description.unwrap_or_default()),
        summarises: false,
    }
}

/// The words of a text, until [`MAX_DESCRIPTION`] characters are full.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        // A word may be as long as the file.
        if let Some((end, _)) = line.char_indices().nth(MAX_DESCRIPTION) {
            line.truncate(end);
            line.push('…');
            break;
        }
    }
    line
}

/// The most tokens of one answer of a model: the limit of one call, and at most the context if that is known.
#[must_use]
pub fn output_tokens(info: &ModelInfo, per_call: u32) -> u32 {
    match (writes(info), info.context_tokens) {
        (false, _) => 0,
        (true, 0) => per_call,
        (true, context) => per_call.min(context),
    }
}

/// Whether a model can be talked to: one that only embeds texts cannot.
#[must_use]
pub fn writes(info: &ModelInfo) -> bool {
    info.backend != LOCAL_EMBEDDER
}

/// Whether texts can be embedded with a model: those that the engine runs.
#[must_use]
pub fn embeds(info: &ModelInfo) -> bool {
    [LOCAL_ENGINE, LOCAL_EMBEDDER].contains(&info.backend.as_str())
}

/// The difference between a stated description of a model and its file, as text. Empty, zero and false state nothing.
#[must_use]
pub fn difference(said: &ModelInfo, found: &ModelInfo) -> Option<String> {
    let texts = [
        ("id", &said.id, &found.id),
        ("displayName", &said.display_name, &found.display_name),
        ("arch", &said.arch, &found.arch),
        ("backend", &said.backend, &found.backend),
        ("quantisation", &said.quantisation, &found.quantisation),
        ("license", &said.license, &found.license),
        ("description", &said.description, &found.description),
    ];
    let numbers = [
        ("contextTokens", u64::from(said.context_tokens), u64::from(found.context_tokens)),
        ("outputTokens", u64::from(said.output_tokens), u64::from(found.output_tokens)),
        ("bytes", said.bytes, found.bytes),
    ];
    let text = texts.into_iter().find(|(_, said, found)| !said.is_empty() && said != found);
    if let Some((field, said, found)) = text {
        return Some(format!("its {field} is {found:?}, not {said:?} as stated"));
    }
    let number = numbers.into_iter().find(|(_, said, found)| *said != 0 && said != found);
    if let Some((field, said, found)) = number {
        return Some(format!("its {field} is {found}, not {said} as stated"));
    }
    let flags = [
        ("supportsTools", said.supports_tools, found.supports_tools),
        ("summarises", said.summarises, found.summarises),
    ];
    let flag = flags.into_iter().find(|(_, said, found)| *said && !found);
    flag.map(|(field, ..)| format!("its {field} is false, not true as stated"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SCRIPTED;
    use capos_gguf::Synthetic;
    use capos_retrieval::{Handbook, Title};

    fn found() -> ModelInfo {
        let file = Synthetic::new(256 << 10, 3).unwrap().to_vec();
        let header = Header::parse(&file, file.len() as u64).unwrap();
        describe(&header, "sha256:1-llama", file.len() as u64, &Backend::of(&header).unwrap())
    }

    #[test]
    fn b04_a_file_tells_all_that_the_contract_asks() {
        let expected = ModelInfo {
            id: "sha256:1-llama".into(),
            display_name: "capOS synthetic".into(),
            arch: "llama".into(),
            context_tokens: 8192,
            output_tokens: 8192,
            backend: "local-engine".into(),
            quantisation: "Q8_0".into(),
            supports_tools: false,
            bytes: 256 << 10,
            license: "MIT OR Apache-2.0".into(),
            description: "Well-formed filler without meaning, made by the capOS tools from seed 3".into(),
            summarises: false,
        };
        assert_eq!(found(), expected);
    }

    /// B03, B05: by this the catalog and the broker know what a session may begin with.
    #[test]
    fn b03_an_embedder_says_nothing_and_calls_no_tools() {
        let mut writer = capos_gguf::Writer::new();
        writer.text("general.architecture", "bert");
        writer.text("tokenizer.chat_template", "{{ tools }}<tool_call>{{ messages }}");
        let file = writer.header();
        let header = Header::parse(&file, file.len() as u64).unwrap();
        let info = describe(&header, "sha256:1-bert", file.len() as u64, &Backend::of(&header).unwrap());
        assert_eq!((info.backend.as_str(), info.supports_tools, info.output_tokens), ("local-embedder", false, 0));
        assert_eq!(output_tokens(&info, 4096), 0);
        assert!(embeds(&info) && !writes(&info));
        assert!(embeds(&found()) && writes(&found()), "a language model embeds too");
    }

    /// B17: the template says whether the engine's models call tools; scripted calls need no template for tools.
    #[test]
    fn b17_a_model_calls_tools_where_its_template_tells_of_them() {
        let calls = |template: &str, entries: &[(&str, &str)]| {
            let file = Synthetic::with_entries(256 << 10, 3, entries).unwrap().to_vec();
            let vocabulary = Header::parse(&file, file.len() as u64).unwrap();
            let backend = Backend::of(&vocabulary).unwrap();
            let file = capos_gguf::small_model(&vocabulary, Some(template), 3).unwrap();
            let header = Header::parse(&file, file.len() as u64).unwrap();
            describe(&header, "sha256:1-llama", file.len() as u64, &backend).supports_tools
        };
        assert!(calls("{{ tools }}<tool_call>{{ messages }}", &[]));
        assert!(!calls("{{ messages }}<tool_call>", &[]), "it is not told of them");
        assert!(!calls("{{ tools }}{{ messages }}", &[]), "its calls are in no known form");
        assert!(calls("{{ messages }}", &[SCRIPTED]));
        assert!(!calls("", &[SCRIPTED]));
        // Some keep the template for tools apart.
        let apart = |template| [(capos_gguf::TOOL_TEMPLATE, template)];
        assert!(calls("{{ messages }}", &apart("{{ tools }}<tool_call>{{ messages }}")));
        assert!(!calls("{{ messages }}", &apart("{{ tools }}{{ messages }}")), "its calls are in no known form");
    }

    #[test]
    fn a_handbook_is_a_model_too() {
        let told = |text: &str| {
            let title = Title { name: "help desk", license: "CC0-1.0" };
            let file = Handbook::parse(text).unwrap().to_file(title);
            let header = Header::parse(&file, file.len() as u64).unwrap();
            describe(&header, "sha256:1-retrieval", file.len() as u64, &Backend::of(&header).unwrap())
        };
        let found = told("? a\nb\n");
        let expected = ModelInfo {
            id: "sha256:1-retrieval".into(),
            display_name: "help desk".into(),
            arch: "retrieval".into(),
            context_tokens: 65_536,
            output_tokens: 65_536,
            backend: "local-retrieval".into(),
            quantisation: "none".into(),
            supports_tools: false,
            bytes: found.bytes,
            license: "CC0-1.0".into(),
            description: String::new(),
            summarises: false,
        };
        assert_eq!(found, expected);
        assert!(told("? a\ncall b {}\n").supports_tools);
    }

    #[test]
    fn a_description_is_one_short_line() {
        assert_eq!(one_line(" Knows\n\tlittle. "), "Knows little.");
        assert_eq!(one_line(""), "");
        let long = one_line(&"ä".repeat(1 << 20));
        assert_eq!((long.chars().count(), long.ends_with("ä…")), (MAX_DESCRIPTION + 1, true));
    }

    #[test]
    fn b04_answers_are_as_long_as_a_call_and_the_context_allow() {
        let of = |context_tokens| output_tokens(&ModelInfo { context_tokens, ..found() }, 4096);
        assert_eq!(of(8192), 4096);
        assert_eq!(of(2048), 2048);
        assert_eq!(of(0), 4096, "a file that does not tell its context");
    }

    #[test]
    fn b06_what_is_said_of_a_model_has_to_be_so() {
        let found = ModelInfo { supports_tools: true, ..found() };
        assert_eq!(difference(&ModelInfo::default(), &found), None, "nothing is said");
        assert_eq!(difference(&found, &found), None);
        type Lie = fn(&mut ModelInfo);
        let lies: [(&str, Lie); 10] = [
            ("id", |said| said.id.push('x')),
            ("displayName", |said| said.display_name.push('x')),
            ("arch", |said| said.arch.push('x')),
            ("backend", |said| said.backend.push('x')),
            ("quantisation", |said| said.quantisation.push('x')),
            ("license", |said| said.license.push('x')),
            ("description", |said| said.description.push('x')),
            ("contextTokens", |said| said.context_tokens += 1),
            ("outputTokens", |said| said.output_tokens += 1),
            ("bytes", |said| said.bytes += 1),
        ];
        for (field, lie) in lies {
            let mut said = found.clone();
            lie(&mut said);
            let words = difference(&said, &found).unwrap();
            assert!(words.contains(&format!("its {field} is ")), "{field}: {words}");
        }
        let toolless = ModelInfo { supports_tools: false, ..found.clone() };
        assert_eq!(difference(&found, &toolless).unwrap(), "its supportsTools is false, not true as stated");
        let able = ModelInfo { summarises: true, ..found.clone() };
        assert_eq!(difference(&able, &found).unwrap(), "its summarises is false, not true as stated");
    }
}
