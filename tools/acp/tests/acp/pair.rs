//! An editor, the bridge and a machine in one thread.

use std::time::Duration;

use capos_acp::{Bridge, End, Login};
use capos_client_protocol::{Line, Lines, Secret};
use serde_json::{Value, json};

use crate::simulated::{Machine, PASSPHRASE};

/// The three together. What the bridge sends is delivered at once, unless the machine is held.
pub struct Pair {
    pub bridge: Bridge,
    pub machine: Machine,
    /// Messages for the editor that no test has looked at.
    pub inbox: Vec<Value>,
    /// Whether lines for the machine wait.
    pub is_held: bool,
    pub held: Vec<String>,
    pub log: Vec<String>,
    pub end: Option<End>,
    now: Duration,
    id: i64,
}

pub fn login(passphrase: &str) -> Login {
    let passphrase = passphrase.to_owned();
    Login { user: Some("ada".into()), passphrase: Box::new(move || Ok(Some(Secret::new(passphrase.clone())))) }
}

impl Pair {
    /// Nothing was said yet, and the machine hears nothing yet.
    pub fn booting(machine: Machine, login: Login) -> Self {
        Self {
            bridge: Bridge::new(login, Duration::ZERO),
            machine,
            inbox: vec![],
            is_held: true,
            held: vec![],
            log: vec![],
            end: None,
            now: Duration::ZERO,
            id: 100,
        }
    }

    /// Nothing was said yet.
    pub fn raw(machine: Machine, login: Login) -> Self {
        let mut pair = Self::booting(machine, login);
        pair.is_held = false;
        pair.run();
        pair
    }

    /// The editor has introduced itself.
    pub fn new() -> Self {
        let mut pair = Self::raw(Machine::default(), login(PASSPHRASE));
        pair.initialize();
        pair
    }

    pub fn initialize(&mut self) {
        let answer = self.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
    }

    /// The editor has a session; its id.
    pub fn with_session() -> (Self, String) {
        let mut pair = Self::new();
        let answer = pair.call("session/new", json!({"cwd": "/", "mcpServers": []}));
        let id = answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        (pair, id)
    }

    pub fn run(&mut self) {
        loop {
            let output = self.bridge.output();
            self.log.extend(output.log);
            self.inbox.extend(output.editor.iter().map(|line| {
                assert_eq!(line.matches('\n').count(), 1, "{line:?}");
                serde_json::from_str::<Value>(line).unwrap()
            }));
            self.end = output.end.or(self.end.take());
            self.held.extend(output.machine);
            if self.is_held || self.held.is_empty() {
                return;
            }
            for line in std::mem::take(&mut self.held) {
                let mut lines = Lines::default();
                if let (_, Some(Line::Whole(line))) = lines.take(line.as_bytes()) {
                    for answer in self.machine.line(&line) {
                        self.machine_says(answer.trim_end());
                    }
                }
            }
        }
    }

    pub fn machine_says(&mut self, line: &str) {
        self.bridge.machine_line(&Line::Whole(line.as_bytes().to_vec()), self.now);
    }

    pub fn editor_says(&mut self, line: &str) {
        self.bridge.editor_line(&Line::Whole(line.as_bytes().to_vec()), self.now);
        self.run();
    }

    /// Sends a request; its id.
    pub fn send(&mut self, method: &str, params: Value) -> i64 {
        self.id += 1;
        let line = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params});
        self.editor_says(&line.to_string());
        self.id
    }

    /// Sends a request and takes its answer.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id).unwrap_or_else(|| panic!("{method} has no answer: {:?}", self.inbox))
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.editor_says(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Answers a request of the bridge.
    pub fn reply(&mut self, id: &Value, result: Value) {
        self.editor_says(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
    }

    /// Takes the answer to a request, if it has come.
    pub fn answer(&mut self, id: i64) -> Option<Value> {
        let at = self.inbox.iter().position(|message| message["id"] == id && message["method"].is_null())?;
        Some(self.inbox.remove(at))
    }

    /// Takes the question to the person, if there is one.
    pub fn question(&mut self) -> Option<Value> {
        let at = self.inbox.iter().position(|message| message["method"] == "session/request_permission")?;
        Some(self.inbox.remove(at))
    }

    /// Takes the updates that came.
    pub fn updates(&mut self) -> Vec<Value> {
        let (updates, others) = std::mem::take(&mut self.inbox)
            .into_iter()
            .partition::<Vec<Value>, _>(|message| message["method"] == "session/update");
        self.inbox = others;
        updates.into_iter().map(|message| message["params"]["update"].clone()).collect()
    }

    pub fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            self.bridge.tick(self.now);
            self.run();
        }
    }

    pub fn close_editor(&mut self) {
        self.bridge.editor_end(self.now);
        self.run();
    }

    pub fn close_machine(&mut self) {
        self.bridge.machine_end(self.now);
        self.run();
    }
}

/// The text of all chunks of the agent.
pub fn text(updates: &[Value]) -> String {
    let chunks = updates.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    chunks.filter_map(|update| update["content"]["text"].as_str()).collect()
}

/// A prompt of a session.
pub fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}
