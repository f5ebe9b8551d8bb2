//! Lines that neither side would send.

use capos_client_protocol::Line;
use serde_json::json;
use std::time::Duration;

use crate::pair::{Pair, prompt};

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn damaged(&mut self, seeds: &[&str]) -> Vec<u8> {
        let mut line = seeds[self.below(seeds.len())].as_bytes().to_vec();
        for _ in 0..self.below(4) {
            let at = self.below(line.len().max(1));
            match self.below(5) {
                _ if line.is_empty() => break,
                0 => line[at] = self.next() as u8,
                1 => drop(line.remove(at)),
                2 => line.truncate(at),
                3 => line[at] = b'0' + (self.next() % 75) as u8,
                _ => {
                    let other = seeds[self.below(seeds.len())].as_bytes();
                    let piece = other[self.below(other.len())..].to_vec();
                    drop(line.splice(at..at, piece).collect::<Vec<_>>());
                }
            }
        }
        line
    }
}

const EDITOR: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"session":{"notices":{}}}}}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"conversation-1","prompt":[{"type":"text","text":"write a"}]}}"#,
    r#"{"jsonrpc":"2.0","id":4,"method":"session/prompt","params":{"sessionId":"conversation-1","prompt":[{"type":"resource","resource":{"uri":"file:///a","text":"x"}}]}}"#,
    r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"conversation-1"}}"#,
    r#"{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"selected","optionId":"reject"}}}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"session/load","params":{"sessionId":"old","cwd":"/","mcpServers":[]}}"#,
    r#"{"jsonrpc":"2.0","id":6,"method":"session/list","params":{}}"#,
    r#"{"jsonrpc":"2.0","id":7,"method":"session/close","params":{"sessionId":"conversation-1"}}"#,
    r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"no"}}"#,
];

const MACHINE: &[&str] = &[
    r#"{"jsonrpc":"2.0","method":"SessionEvent","params":{"eventType":"approval_requested","taskId":"task-2","payload":{"approvalId":"a","title":"t","actionSummary":"s","riskLevel":"low","reaches":["turn"],"details":{"callId":"c","toolName":"t","arguments":"{\"path\":\"x\"}","notes":["n"]}}}}"#,
    r#"{"jsonrpc":"2.0","method":"SessionEvent","params":{"eventType":"approval_timeout","payload":{"approvalId":"a"}}}"#,
    r#"{"jsonrpc":"2.0","method":"SessionEvent","params":{"eventType":"tool_requested","payload":{"callId":"c","toolName":"t","category":"mutating","arguments":"{"}}}"#,
    r#"{"jsonrpc":"2.0","method":"SessionEvent","params":{"eventType":"tool_completed","payload":{"callId":"c","toolName":"t","status":"ok","text":"x"}}}"#,
    r#"{"jsonrpc":"2.0","method":"SessionEvent","params":{"eventType":"text_chunk","payload":{"text":"x","lostBytes":3}}}"#,
    r#"{"jsonrpc":"2.0","method":"SessionEvent","params":{"eventType":"task_completed","taskId":"task-2","payload":{"cause":"later"}}}"#,
    r#"{"jsonrpc":"2.0","method":"SessionEvent","params":{"eventType":"session_failed","payload":{"reason":"x"}}}"#,
    r#"{"jsonrpc":"2.0","id":3,"result":{"conversationId":"c","messages":[{"role":"tool","callId":"c","text":"x"}],"next":9}}"#,
    r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32011,"message":"x"}}"#,
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#,
    r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s","principal":"p","conversationId":"conversation-1","protocolVersion":1}}"#,
];

/// Damaged lines of both sides, in any order, with time that passes: no panic, no approval that nobody gave, and what a
/// message costs is bounded by what it is.
#[test]
fn c16_damaged_lines_of_both_sides_never_panic() {
    let rounds = 1_000_000;
    let mut random = Random(7);
    let (mut pair, session) = Pair::with_session();
    pair.machine.save("old");
    let mut now = Duration::ZERO;
    let (mut sent, mut begun) = (0_usize, 0_u32);
    for round in 0..rounds {
        if round % 500 == 0 {
            pair = Pair::with_session().0;
            pair.machine.save("old");
            if round % 1000 == 0 {
                pair.send("session/prompt", prompt(&session, "write a"));
            }
            begun += 1;
            now = Duration::ZERO;
        }
        let line = match random.below(3) {
            0 => random.damaged(MACHINE),
            1 => random.damaged(EDITOR),
            _ => (0..random.below(40)).map(|_| random.next() as u8).collect(),
        };
        let line = Line::Whole(line.into_iter().filter(|byte| *byte != b'\n').collect());
        if random.below(2) == 0 {
            pair.bridge.machine_line(&line, now);
        } else {
            pair.bridge.editor_line(&line, now);
        }
        if random.below(50) == 0 {
            now += Duration::from_secs(random.next() % 20);
            pair.bridge.tick(now);
        }
        pair.run();
        sent += pair.inbox.len();
        pair.inbox.clear();
        pair.log.clear();
        // No line here says yes.
        assert!(pair.machine.files.is_empty(), "round {round}");
    }
    assert!(begun > 10 && sent > rounds / 4, "{sent} messages");
}

#[test]
fn a_machine_that_sends_nonsense_is_given_up() {
    let (mut pair, session) = Pair::with_session();
    let id = pair.send("session/prompt", prompt(&session, "wait"));
    for _ in 0..99 {
        pair.machine_says("nonsense");
    }
    pair.run();
    assert!(pair.end.is_none());
    pair.machine_says("nonsense");
    pair.run();
    assert!(pair.answer(id).unwrap()["error"]["message"].as_str().unwrap().contains("nothing that can be read"));
}

#[test]
fn c16_a_bad_line_of_the_editor_is_answered() {
    let mut pair = Pair::new();
    pair.editor_says("nonsense");
    // A request that is too long is answered as that request, if its beginning says which one it is.
    for beginning in [
        r#"{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"prompt":[{"text":"BBB"#,
        r#"{"params":{"prompt":[{"text":"BBB"#,
        r#"{"jsonrpc":"2.0","id":8,"result":{"BBB"#,
        "BBB",
    ] {
        pair.bridge.editor_line(&Line::TooLong(beginning.into()), Duration::ZERO);
    }
    pair.run();
    let codes: Vec<_> =
        pair.inbox.iter().map(|answer| (answer["id"].as_i64(), answer["error"]["code"].as_i64().unwrap())).collect();
    assert_eq!(codes, [(None, -32700), (Some(7), -32600), (None, -32600), (None, -32600), (None, -32600)]);
}

/// Requests that the machine does not answer are bounded.
#[test]
fn requests_that_wait_are_bounded() {
    let (mut pair, _) = Pair::with_session();
    pair.is_held = true;
    for _ in 0..200 {
        pair.send("session/list", json!({}));
    }
    let rejected =
        pair.inbox.iter().filter(|answer| answer["error"]["message"].to_string().contains("wait for")).count();
    assert_eq!((rejected, pair.held.len()), (200 - 64, 64));
}
