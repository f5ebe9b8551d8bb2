//! `capos bench-first-token`: the time from power-on to the first token of the built-in model's first answer, once the
//! prompt has been read. A minimal Linux with llama.cpp and the same prompt runs in the same kind of virtual machine,
//! which counts instructions. It runs twice: with a prompt cache of the same tokens that capOS's has, and without one.
//!
//! Idle times are left out if kernels report them: capOS to the nanosecond, Linux to a hundredth of a second. Both
//! include the firmware's waits.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use capos_chat::{Conversation, Message, Role, Template, Tool};
use capos_gguf::Header;
use capos_schema::authority::Profile;
use capos_tokenizer::Tokenizer;

use crate::build::system::System;
use crate::manifest;
use crate::measure::bench;
use crate::measure::figure::{Figure, Figures};
use crate::scenario::Scenario;
use crate::session_tools;
use capos_vm::linux;

/// The scenario, and the prefix of the figures' names.
const NAME: &str = "first-token";
/// Where the program on Linux looks for the model, and for the tokens of its prompt.
const MODEL: &str = "home/model.gguf";
const PROMPT: &str = "home/prompt.txt";
const CACHE: &str = "home/cache.bin";

/// Measure how soon after power-on a model answers, into target/bench-first-token.json.
#[derive(clap::Args)]
pub struct Args {
    /// Static program that answers with llama.cpp on Linux; `make bench-first-token` builds it.
    #[arg(long, value_name = "FILE")]
    peer: PathBuf,
    #[command(flatten)]
    linux: linux::KernelArgs,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let system = System::find()?;
    let kernel = args.linux.kernel(&system.target())?;
    let parts = system.build(true)?;
    let scenario = Scenario::open(&bench::scenario(&system, NAME))?;
    let model = scenario.settings.model.first().and_then(|model| model.file.as_ref());
    let place = scenario.folder.join(model.context("the scenario has no model")?);
    let model = std::fs::read(&place)?;
    let question = std::fs::read_to_string(scenario.folder.join("terminal.txt"))?;
    let question = asked(&question)?;
    let (prompt, other) = (prompt(&system, &model, question)?, prompt(&system, &model, &format!("?{question}"))?);
    // What all first requests have in common is what capOS's prompt cache holds.
    let known = prompt.iter().zip(&other).take_while(|(one, other)| one == other).count();
    let own = bench::measure(&system, &parts, NAME)?;
    let read = read_tokens(&bench::folder(&system, NAME))?;
    ensure!(read == prompt.len(), "the worker read {read} tokens, and {} are for Linux", prompt.len());
    let text: String = prompt.iter().map(|token| format!("{token} ")).collect();
    let folder = bench::folder(&system, "first-token-linux");
    let cache = cache(&args.peer, (&place, &text), known, &folder)?;
    let files = [(MODEL, model.as_slice()), (PROMPT, text.as_bytes()), (CACHE, &cache)];
    let linux = |files: &[(&str, &[u8])], known: usize| -> Result<String> {
        let guest = linux::Guest { files, ..linux::Guest::default() };
        let said = linux::run(&kernel, &args.peer, guest, &folder.join(known.to_string()))?;
        ensure!(said.contains(&format!("of which {known} were known")), "Linux did not know {known} tokens: {said}");
        Ok(said)
    };
    let (without, with) = (linux(&files[..2], 0)?, linux(&files, known)?);
    let figures = figures(&own, (&without, &with))?;
    println!(
        "from power-on to the first token after a prompt of {read}, without the times when all wait for something:"
    );
    for (name, figure) in &figures {
        println!("{name:32} {:>14} {} ({})", figure.value, figure.unit, figure.how);
    }
    bench::write(&system.target().join("bench-first-token.json"), &figures)?;
    Ok(ExitCode::SUCCESS)
}

/// The first line that the person of a script types.
fn asked(script: &str) -> Result<&str> {
    let line = script.lines().find_map(|line| line.strip_prefix("line \"")?.strip_suffix('"'));
    line.context("nothing is asked in the scenario")
}

/// The tokens that the worker reads before it answers a question.
fn prompt(system: &System, model: &[u8], question: &str) -> Result<Vec<u32>> {
    let manifest = manifest::read(&[system.root().join(session_tools::MANIFEST)])?;
    let profile = Profile::Operator;
    let tools = session_tools::to_json(&manifest, |found| found == profile)?;
    let tools = Tool::list(tools.get(profile.name()).context("the manifest has no profile of operators")?)?;
    let header = Header::parse(model, model.len() as u64)?;
    let tokenizer = Tokenizer::new(&header)?;
    let template = header.get("tokenizer.chat_template").and_then(|value| value.as_text());
    let template = Template::new(template.context("the model has no template")?, &tokenizer)?;
    let messages = [Message::new(Role::User, question)];
    let conversation = Conversation { messages: &messages, tools: &tools, answer: true, now: None };
    Ok(template.render(&conversation)?.encode(&tokenizer))
}

/// llama.cpp's prompt cache of the first `known` tokens of a prompt, made on this machine.
fn cache(peer: &Path, (model, prompt): (&Path, &str), known: usize, folder: &Path) -> Result<Vec<u8>> {
    std::fs::create_dir_all(folder)?;
    let (tokens, cache) = (folder.join("prompt.txt"), folder.join("cache.bin"));
    std::fs::write(&tokens, prompt)?;
    let mut program = Command::new(peer);
    let status = program.arg(model).arg(&tokens).arg(known.to_string()).arg(&cache).status();
    let status = status.with_context(|| format!("running {}", peer.display()))?;
    ensure!(status.success(), "{} wrote no prompt cache: {status}", peer.display());
    Ok(std::fs::read(cache)?)
}

/// The number of tokens before the first answer, as the screen shows it.
fn read_tokens(out: &Path) -> Result<usize> {
    let screen = std::fs::read_to_string(out.join("transcript.txt"))?;
    let used = bench::number_between(&screen, "context: ", " tokens of")?;
    let new = bench::number_between(&screen, "; answer: ", " token")?;
    Ok(usize::try_from(used.saturating_sub(new))?)
}

/// The figures of both.
fn figures(own: &str, (without, with): (&str, &str)) -> Result<Figures> {
    let figure = |value, how| Figure { value, unit: "instructions".into(), how: String::from(how) };
    let firmware = bench::number_between(own, "after the kernel, and that ", " after the machine")?;
    let answer = bench::instructions_at(own, "the first token")?;
    let prompt = bench::instructions_at(own, "the prompt")?;
    let at_first_token = |linux: &str| -> Result<u64> {
        let told = linux.split_once(" were known, at ").context("the program on Linux reported no token")?.1;
        let all =
            told.split(',').next().unwrap_or_default().parse::<u64>().context("when the first token was there")?;
        Ok(all.saturating_sub(bench::number_between(told, ", ", " of which it was idle")?))
    };
    let said = [
        (
            "capos_firmware_and_loader",
            figure(firmware, "SeaBIOS and Limine, which reads the boot package from the disc"),
        ),
        (
            "capos_kernel_to_prompt",
            figure(prompt, "services, the model's signature and tree verified, a session opened"),
        ),
        (
            "capos_prompt_to_first_token",
            figure(answer.saturating_sub(prompt), "a line typed, tools described, the prompt read"),
        ),
        ("capos_first_token", figure(firmware.saturating_add(answer), "all of these")),
        (
            "linux_first_token",
            figure(at_first_token(without)?, "SeaBIOS, kernel and files put into memory by QEMU, llama.cpp"),
        ),
        (
            "linux_first_token_cached",
            figure(at_first_token(with)?, "the same with a prompt cache of what all first requests begin with"),
        ),
    ];
    Ok(said.map(|(name, figure)| (name.to_owned(), figure)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_are_counted_without_waiting() {
        let own = "time-stamp counter 1000000 kHz, timer\n\
            log: shell: at the prompt 3000 ns after the kernel began, 1000 ns of which it was idle; 7 of 9 frames in use; the \
            first process began 5 counts of the time-stamp counter after the kernel, and that 50 after the machine\n\
            log: shell: at the first token 9000 ns after the kernel began, 2000 ns of which it was idle; 8 of 9\n";
        let without = "first token 17 of a prompt of 523, of which 0 were known, at 4000, 300 of which it was idle\n";
        let with = "first token 17 of a prompt of 523, of which 511 were known, at 2000, 200 of which it was idle\n";
        let found = figures(own, (without, with)).unwrap();
        let values: Vec<(&str, u64)> = found.iter().map(|(name, figure)| (name.as_str(), figure.value)).collect();
        assert_eq!(
            values,
            [
                ("capos_firmware_and_loader", 50),
                ("capos_first_token", 7050),
                ("capos_kernel_to_prompt", 2000),
                ("capos_prompt_to_first_token", 5000),
                ("linux_first_token", 3700),
                ("linux_first_token_cached", 1800),
            ]
        );
        assert!(figures(own, ("", with)).is_err() && figures(own, (without, "")).is_err());
        assert_eq!(asked("# as a person\nexpect \"> \"\nline \"is it on?\"\nline \"/exit\"\n").unwrap(), "is it on?");
    }
}
