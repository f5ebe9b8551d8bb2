//! `capos acp` as editors use it: started by an ACP client that others publish, between it and a simulated machine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../../acp/tests/simulated/mod.rs"]
mod simulated;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use simulated::{Machine, PASSPHRASE};

/// The Python with the client, which `make test` installs.
fn python() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/acp-client/bin/python");
    if path.is_file() {
        return Some(path);
    }
    // Output of macros is shown for failed tests only. The line must not follow a test's name.
    let line = "\nnot run: capos acp with a published ACP client: `make test` could not install it\n";
    std::io::stdout().write_all(line.as_bytes()).unwrap();
    None
}

/// A machine at a socket, one client after the other.
fn listen(socket: &Path) -> Arc<Mutex<Machine>> {
    let listener = UnixListener::bind(socket).unwrap();
    let machine = Arc::new(Mutex::new(Machine::default()));
    let shared = Arc::clone(&machine);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut to = stream.try_clone().unwrap();
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let answers = shared.lock().unwrap().line(line.as_bytes());
                for answer in answers {
                    let _ = to.write_all(answer.as_bytes());
                }
            }
        }
    });
    machine
}

struct Setting {
    folder: tempfile::TempDir,
    machine: Arc<Mutex<Machine>>,
}

impl Setting {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machine = listen(&folder.path().join("client.sock"));
        let passphrase = folder.path().join("passphrase");
        std::fs::write(&passphrase, format!("{PASSPHRASE}\n")).unwrap();
        std::fs::set_permissions(&passphrase, std::fs::Permissions::from_mode(0o600)).unwrap();
        Self { folder, machine }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The words of `capos acp` for this machine.
    fn command(&self) -> Vec<String> {
        let word = |path: PathBuf| path.to_str().unwrap().to_owned();
        let [socket, passphrase] = ["client.sock", "passphrase"].map(|name| word(self.path(name)));
        [env!("CARGO_BIN_EXE_capos"), "acp", "--socket", &socket, "--user", "ada", "--passphrase-file", &passphrase]
            .map(String::from)
            .into()
    }

    /// Does the steps in the client.
    fn client(&self, python: &Path, steps: &Value) -> Output {
        let file = self.path("steps.json");
        std::fs::write(&file, steps.to_string()).unwrap();
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../acp/client/client.py");
        Command::new(python).arg(program).arg(file).args(self.command()).output().unwrap()
    }
}

fn said(output: &Output) -> String {
    let [out, error] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    format!("{}\n{out}\n{error}", output.status)
}

#[test]
fn c16_a_published_acp_client_works_with_it() {
    let Some(python) = python() else { return };
    let setting = Setting::new();
    setting.machine.lock().unwrap().save("old");
    let steps = json!([
        {"do": "new"},
        {"do": "new", "error": "one session at a time"},
        {"do": "prompt", "text": "hello there", "stop": "end_turn", "said": "hello there"},
        {"do": "prompt", "text": "write notes.txt", "permit": "allow_once", "stop": "end_turn", "kinds": ["edit"],
         "calls": ["write_file notes.txt: completed"], "diff": ["new text\n"], "said": "It is written."},
        {"do": "prompt", "text": "write other.txt", "permit": "reject_once", "stop": "end_turn",
         "calls": ["write_file other.txt: failed"], "results": ["the person said no"], "said": "It is not written."},
        {"do": "prompt", "text": "write third.txt", "cancel": "question", "stop": "cancelled", "within": 200},
        {"do": "prompt", "text": "wait", "cancel": "start", "stop": "cancelled", "within": 200},
        {"do": "prompt", "text": "end tokens", "stop": "max_tokens", "said": "the message of the end"},
        {"do": "list", "said": "old"},
        {"do": "close"},
        {"do": "prompt", "text": "hello", "error": "no such session"},
        {"do": "load", "session": "old", "said": "They say: buy milk.", "calls": ["read_file notes.txt: completed"]},
        {"do": "prompt", "text": "hello again", "stop": "end_turn", "said": "hello again"},
    ]);
    let output = setting.client(&python, &steps);
    assert!(output.status.success(), "{}", said(&output));
    let machine = setting.machine.lock().unwrap();
    assert_eq!(
        machine.files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>(),
        [("notes.txt", "new text\n")]
    );
    assert_eq!(machine.decisions.len(), 2);
    assert!(!machine.has_session());
}

#[test]
fn a_client_sees_that_its_steps_do_not_hold() {
    let Some(python) = python() else { return };
    let setting = Setting::new();
    let steps = json!([{"do": "new"}, {"do": "prompt", "text": "hello", "stop": "max_tokens"}]);
    let output = setting.client(&python, &steps);
    assert!(!output.status.success() && said(&output).contains("stop is 'end_turn'"), "{}", said(&output));
}

#[test]
fn a_machine_that_is_not_there_is_an_error_that_says_what_to_do() {
    let setting = Setting::new();
    let mut command = setting.command();
    command[3] = "/nowhere.sock".into();
    let output = Command::new(&command[0]).args(&command[1..]).stdin(Stdio::null()).output().unwrap();
    let said = said(&output);
    assert!(!output.status.success() && output.stdout.is_empty(), "{said}");
    assert!(said.contains("make run CLIENT=/nowhere.sock"), "{said}");
}

/// Nothing but the protocol is on standard output.
#[test]
fn standard_output_holds_the_protocol_only() {
    let setting = Setting::new();
    let command = setting.command();
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#,
        "\nnonsense\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#,
        "\n"
    );
    child.stdin.as_mut().unwrap().write_all(lines.as_bytes()).unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..3 {
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0");
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(!setting.machine.lock().unwrap().has_session());
}
