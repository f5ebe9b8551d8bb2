//! The bridge between real streams.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use capos_acp::{End, serve};
use serde_json::{Value, json};

use crate::pair::login;
use crate::simulated::{Machine, PASSPHRASE};

/// A machine at one end of a stream, until the other end closes.
fn machine(stream: UnixStream) -> thread::JoinHandle<Machine> {
    thread::spawn(move || {
        let mut machine = Machine::default();
        let mut to = stream.try_clone().unwrap();
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { break };
            for answer in machine.line(line.as_bytes()) {
                if to.write_all(answer.as_bytes()).is_err() {
                    break;
                }
            }
        }
        machine
    })
}

struct Running {
    editor: UnixStream,
    end: mpsc::Receiver<End>,
    machine: thread::JoinHandle<Machine>,
}

fn running() -> Running {
    let (editor, ours) = UnixStream::pair().unwrap();
    let (there, here) = UnixStream::pair().unwrap();
    let machine = machine(there);
    let (sender, end) = mpsc::channel();
    thread::spawn(move || {
        let pair = |stream: &UnixStream| (stream.try_clone().unwrap(), stream.try_clone().unwrap());
        let how = serve(pair(&ours), pair(&here), login(PASSPHRASE), |_| ());
        here.shutdown(std::net::Shutdown::Both).unwrap();
        sender.send(how).unwrap();
    });
    Running { editor, end, machine }
}

fn send(mut stream: &UnixStream, id: i64, method: &str, params: Value) {
    let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn answer(from: &mut impl BufRead, id: i64) -> Value {
    loop {
        let mut line = String::new();
        assert_ne!(from.read_line(&mut line).unwrap(), 0, "the end before the answer to {id}");
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["id"] == id && message["method"].is_null() {
            return message;
        }
    }
}

#[test]
fn c39_an_editor_that_closes_its_end_ends_the_session() {
    let Running { editor, end, machine } = running();
    let mut from = BufReader::new(editor.try_clone().unwrap());
    send(&editor, 1, "initialize", json!({"protocolVersion": 1}));
    send(&editor, 2, "session/new", json!({"cwd": "/", "mcpServers": []}));
    assert!(answer(&mut from, 2)["result"]["sessionId"].is_string());
    editor.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(end.recv_timeout(Duration::from_secs(10)).unwrap(), End::Done);
    let machine = machine.join().unwrap();
    assert!(!machine.has_session());
    assert_eq!(machine.seen.last().unwrap(), "Shutdown");
}

/// An editor that reads nothing while the machine talks: it is held back, and the cancel arrives nevertheless.
#[test]
fn an_editor_that_stalls_can_still_cancel() {
    let Running { editor, end, machine } = running();
    let mut from = BufReader::new(editor.try_clone().unwrap());
    send(&editor, 1, "initialize", json!({"protocolVersion": 1}));
    send(&editor, 2, "session/new", json!({"cwd": "/", "mcpServers": []}));
    let session = answer(&mut from, 2)["result"]["sessionId"].clone();
    // Each word is an update of some hundred bytes: much more than a pipe holds.
    let text = "word ".repeat(20_000);
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
    send(&editor, 3, "session/prompt", prompt);
    thread::sleep(Duration::from_millis(300));
    let wait = json!({"sessionId": session, "prompt": [{"type": "text", "text": "wait"}]});
    assert_eq!(answer(&mut from, 3)["result"]["stopReason"], "end_turn");
    send(&editor, 4, "session/prompt", wait);
    let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}});
    let began = Instant::now();
    (&editor).write_all(format!("{cancel}\n").as_bytes()).unwrap();
    assert_eq!(answer(&mut from, 4)["result"]["stopReason"], "cancelled");
    assert!(began.elapsed() < Duration::from_millis(200), "{:?}", began.elapsed());
    editor.shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(end.recv_timeout(Duration::from_secs(10)).unwrap(), End::Done);
    machine.join().unwrap();
}
