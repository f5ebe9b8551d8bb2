//! The commands, on the models in `tests/infer/models`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn model(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/infer/models").join(name)
}

fn expected(name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(model(name).with_extension("json")).unwrap()).unwrap()
}

fn ids(value: &Value) -> String {
    let ids: Vec<String> = value.as_array().unwrap().iter().map(Value::to_string).collect();
    ids.join(",")
}

/// The output of a command with `--json`, or its error.
fn command(arguments: &[&str], file: &Path) -> Result<Value, String> {
    let (name, rest) = arguments.split_first().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_capos-infer"));
    let output = command.arg(name).arg(file).args(rest).arg("--json").output().unwrap();
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout).unwrap()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

#[test]
fn info_tells_what_the_model_is_like() {
    let info = command(&["info"], &model("architectures/qwen3moe.gguf")).unwrap();
    assert_eq!(info["architecture"], "qwen3moe");
    assert_eq!(info["experts"]["count"], 6);
    assert_eq!(info["keySize"], 12);
    assert_eq!(info["tiedOutput"], false);
    assert_eq!(command(&["info"], &model("architectures/qwen2.gguf")).unwrap()["tiedOutput"], true);
}

#[test]
fn logits_gives_the_likeliest_and_all() {
    let expected = expected("floats/llama-f32.gguf");
    let file = model("floats/llama-f32.gguf");
    let prompt = ids(&expected["ids"]);
    let found = command(&["logits", "--ids", &prompt, "--top", "3", "--full"], &file).unwrap();
    let all = found["full"].as_array().unwrap();
    for (found, expected) in all.iter().zip(expected["logits"].as_array().unwrap()) {
        assert!((found.as_f64().unwrap() - expected.as_f64().unwrap()).abs() < 0.01);
    }
    let top = found["top"].as_array().unwrap();
    assert_eq!(top.len(), 3);
    assert_eq!(top[0][0], expected["greedy"][0]);
    assert_eq!(top[0][1], all[top[0][0].as_u64().unwrap() as usize]);
    assert!(command(&["logits", "--ids", &prompt], &file).unwrap().get("full").is_none());
}

#[test]
fn logits_come_behind_several_prompts_and_one_by_one() {
    let expected = expected("floats/llama-f32.gguf");
    let file = model("floats/llama-f32.gguf");
    let prompts = std::env::temp_dir().join(format!("capos-infer-prompts-{}.json", std::process::id()));
    let list = [&expected["ids"], &expected["more"][3]["ids"]];
    fs::write(&prompts, serde_json::to_string(&list).unwrap()).unwrap();
    capos_engine_threads::permit_tiles();
    // One set at a time, by name: which is the fastest may be another from trial to trial, while other tests run.
    for kernels in capos_engine::kernel::available() {
        let logits = |arguments: &[&str]| {
            command(&[&["logits", "--kernels", kernels.name()], arguments].concat(), &file).unwrap()
        };
        let found = logits(&["--prompts", prompts.to_str().unwrap()]);
        for (found, prompt) in found.as_array().unwrap().iter().zip(list) {
            assert_eq!(*found, logits(&["--ids", &ids(prompt)]), "{}", kernels.name());
            let one_by_one = logits(&["--one-by-one", "--ids", &ids(prompt)]);
            assert_eq!(one_by_one["top"][0][0], found["top"][0][0], "{}", kernels.name());
        }
        assert_eq!(found.as_array().unwrap().len(), 2);
    }
    fs::remove_file(&prompts).unwrap();
    let told = command(&["logits", "--prompts", "/no/such"], &file).unwrap_err();
    assert!(told.contains("/no/such cannot be read"), "{told}");
}

#[test]
fn generate_gives_the_same_ids_with_any_number_of_threads() {
    let expected = expected("floats/llama-f32.gguf");
    let file = model("floats/llama-f32.gguf");
    let prompt = ids(&expected["ids"]);
    capos_engine_threads::permit_tiles();
    for kernels in capos_engine::kernel::available() {
        for threads in ["1", "2", "3"] {
            let mut arguments = vec!["generate", "--ids", &prompt, "--n", "8", "--greedy", "-t", threads];
            arguments.extend(["--kernels", kernels.name()]);
            assert_eq!(command(&arguments, &file).unwrap()["ids"], expected["greedy"]);
        }
    }
}

#[test]
fn generate_chooses_by_chance_as_the_options_say() {
    let expected = expected("floats/llama-f32.gguf");
    let file = model("floats/llama-f32.gguf");
    let prompt = ids(&expected["ids"]);
    let generate = |options: &[&str]| {
        let arguments = [&["generate", "--ids", &prompt, "--n", "8", "--kernels", "scalar"], options].concat();
        command(&arguments, &file).unwrap()["ids"].clone()
    };
    let random = generate(&["--seed", "1"]);
    assert_eq!(random, generate(&["--seed", "1"]));
    assert_ne!(random, generate(&["--seed", "2"]));
    // Each of these leaves the likeliest token alone.
    for options in [["--temperature", "0"], ["--top-k", "1"], ["--top-p", "0"], ["--min-p", "1"]] {
        assert_eq!(generate(&options), expected["greedy"], "{options:?}");
    }
    let penalised = generate(&["--greedy", "--repetition-penalty", "100"]);
    assert_ne!(penalised, expected["greedy"]);
}

#[test]
fn keys_and_values_are_kept_as_is_asked() {
    let expected = expected("floats/llama-f32.gguf");
    let file = model("floats/llama-f32.gguf");
    let prompt = ids(&expected["ids"]);
    let logits = |cache| {
        let found = command(&["logits", "--ids", &prompt, "--full", "--cache", cache], &file).unwrap();
        let numbers = found["full"].as_array().unwrap().iter().map(|logit| logit.as_f64().unwrap());
        let expected = expected["logits"].as_array().unwrap().iter().map(|logit| logit.as_f64().unwrap());
        numbers.zip(expected).map(|(found, expected)| (found - expected).powi(2)).sum::<f64>()
    };
    // A byte says less than 16 bits.
    assert!(logits("q8_0") > 4.0 * logits("f16"));
    let generate = ["generate", "--ids", &prompt, "--n", "2", "--greedy", "--cache", "q8_0"];
    assert_eq!(command(&generate, &file).unwrap()["ids"].as_array().unwrap().len(), 2);
}

#[test]
fn generate_says_why_it_ended() {
    let file = model("floats/llama-f32.gguf");
    let generate = |options: &[&str]| {
        command(&[&["generate", "--ids", "3,1,4", "--greedy"], options].concat(), &file).unwrap()["finish"].clone()
    };
    assert_eq!(generate(&["--n", "2"]), "limit");
    assert_eq!(generate(&["--n", "2", "--context", "4"]), "limit");
    assert_eq!(generate(&["--n", "3", "--context", "4"]), "full");
}

#[test]
fn what_cannot_be_is_said_in_words() {
    let file = model("floats/llama-f32.gguf");
    let said = command(&["logits", "--ids", "48"], &file).unwrap_err();
    assert!(said.contains("the token 48 is not in the vocabulary, whose ids end at 47"), "{said}");
    let said = command(&["generate", "--ids", "1,2,3", "--greedy", "--context", "2"], &file).unwrap_err();
    assert!(said.contains("the prompt has 3 tokens, and the context holds 2"), "{said}");
    let said = command(&["generate", "--ids", "1", "--greedy", "--top-k", "2"], &file).unwrap_err();
    assert!(said.contains("'--greedy' cannot be used with '--top-k"), "{said}");
    let said = command(&["generate", "--ids", "1", "--top-p", "2"], &file).unwrap_err();
    assert!(said.contains("the top-p is 2; 0 to 1 is accepted"), "{said}");
    let said = command(&["info"], &file.with_extension("json")).unwrap_err();
    assert!(said.contains("this is no GGUF file"), "{said}");
}

#[test]
fn bench_measures_with_the_kernels_that_are_named() {
    let file = model("quants/llama-q8_0.gguf");
    let arguments = ["bench", "-p", "8", "-n", "4", "--repeat", "1", "-t", "1", "--kernels", "scalar"];
    assert!(command(&arguments, &file).unwrap()["decodeTogetherPerSecond"].is_null());
    let found = command(&[&arguments[..], &["--sequences", "3", "--rows", "5"]].concat(), &file).unwrap();
    assert!(found["decodeTogetherPerSecond"].as_f64().unwrap() > 0.0);
    let passes = found["passSeconds"].as_array().unwrap();
    assert_eq!(passes.len(), 5);
    assert!(passes.iter().all(|pass| pass.as_f64().unwrap() > 0.0));
    assert_eq!(found["kernels"], "scalar");
    assert_eq!(found["threads"], 1);
    assert!(found["prefillPerSecond"].as_f64().unwrap() > 0.0);
    assert!(found["decodePerSecond"].as_f64().unwrap() > 0.0);
    // All matrices except the embedding: a pass reads one row of it.
    assert_eq!(found["bytesPerToken"], (48 * 64 + 2 * (64 * 64 * 3 + 3 * 64 * 96)) / 32 * 34);
}

fn embedder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/infer/embedders").join(name)
}

#[test]
fn info_tells_what_embeds_and_what_writes() {
    let of = |file: &Path| {
        let info = command(&["info"], file).unwrap();
        (info["writes"].as_bool().unwrap(), info["pooling"].as_str().map(str::to_owned))
    };
    assert_eq!(of(&embedder("bert.gguf")), (false, Some("mean".to_owned())));
    assert_eq!(of(&embedder("bert-f32.gguf")), (false, Some("first".to_owned())));
    assert_eq!(of(&embedder("qwen3-last.gguf")), (true, Some("last".to_owned())));
    assert_eq!(of(&model("floats/llama-f32.gguf")), (true, Some("mean".to_owned())));
}

#[test]
fn b03_embed_gives_a_vector_for_each_text() {
    let file = embedder("bert.gguf");
    let text = fs::read_to_string(file.with_extension("json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let texts: Vec<&str> = expected["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let named: Vec<&str> = texts.iter().flat_map(|text| ["--text", text]).collect();
    let of_texts = command(&[&["embed"], &named[..]].concat(), &file).unwrap();
    let lines = tempfile::NamedTempFile::new().unwrap();
    fs::write(lines.path(), texts.join("\n") + "\n").unwrap();
    let of_lines = command(&["embed", "--text-file", lines.path().to_str().unwrap()], &file).unwrap();
    assert_eq!(of_lines, of_texts);
    for kernels in ["scalar", "swar"] {
        let found = command(&[&["embed", "--kernels", kernels, "--cache", "f16"], &named[..]].concat(), &file).unwrap();
        let found = found["vectors"].as_array().unwrap();
        assert_eq!(found.len(), texts.len());
        for (found, expected) in found.iter().zip(expected["vectors"].as_array().unwrap()) {
            let numbers = |list: &Value| -> Vec<f64> {
                list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
            };
            let both = numbers(found).into_iter().zip(numbers(expected));
            let apart = both.map(|(found, expected)| (found - expected).powi(2)).sum::<f64>().sqrt();
            assert!(apart < 1e-3, "{apart} from the reference with {kernels}");
        }
    }
}

#[test]
fn a_model_that_only_embeds_is_not_asked_to_write() {
    let file = embedder("bert.gguf");
    let messages = tempfile::NamedTempFile::new().unwrap();
    fs::write(messages.path(), r#"[{"role": "user", "content": "Hi"}]"#).unwrap();
    for arguments in [
        &["generate", "--ids", "1,2", "--greedy"][..],
        &["logits", "--ids", "1,2"],
        &["chat", "--messages", messages.path().to_str().unwrap()],
        &["bench", "-p", "4", "-n", "1"],
    ] {
        let said = command(arguments, &file).unwrap_err();
        assert!(said.contains("this model embeds texts and writes none"), "{arguments:?}: {said}");
    }
    let long = "a ".repeat(63);
    let said = command(&["embed", "--text", &long], &file).unwrap_err();
    assert!(said.contains("text 1 has 65 tokens, and the model takes 64; divide it"), "{said}");
}
