//! What has come and waits for the agent host, and what is to go out. Both are bounded.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;

use capos_client_protocol::limits::LINE;
use capos_client_protocol::{Line, Lines, RpcError, code, decode_request, encode_error};
use capos_schema::clients::{ClientId, ClientRequest};

use crate::requests::{id, request};

/// Requests that wait for the agent host at most.
const REQUESTS: usize = 32;
/// Bytes of the lines of waiting requests at most.
const WAITING: usize = 2 * LINE;
/// Bytes on their way out beyond which no further line is taken.
pub const OUT: usize = 16 << 10;
/// Bytes on their way out beyond which a client that sends nothing but errors is told of no further one.
const ERRORS: usize = 2 * LINE;

/// The state of the line.
#[derive(Default)]
pub struct Desk {
    lines: Lines,
    /// With the length of the line that each came in.
    requests: VecDeque<(ClientId, ClientRequest, usize)>,
    /// Bytes of the lines that they came in.
    waiting: usize,
    out: VecDeque<u8>,
}

impl Desk {
    /// Takes bytes of the client.
    pub fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (taken, line) = self.lines.take(bytes);
            bytes = bytes.get(taken..).unwrap_or_default();
            match line {
                None => {}
                Some(Line::Whole(line)) => self.read(&line),
                Some(Line::TooLong(_)) => {
                    let why = format!("the line has more than {LINE} bytes and was skipped; send shorter ones");
                    self.reject(&encode_error(None, &RpcError::new(code::INVALID_REQUEST, why)));
                }
            }
        }
    }

    fn read(&mut self, line: &[u8]) {
        let incoming = match decode_request(line) {
            Ok(incoming) => incoming,
            Err(rejected) if rejected.is_answered => {
                return self.reject(&encode_error(rejected.id.as_ref(), &rejected.error));
            }
            Err(_) => return,
        };
        let waiting = self.waiting.saturating_add(line.len());
        if self.requests.len() >= REQUESTS || waiting > WAITING {
            if incoming.id.is_some() {
                let why = format!("{} requests wait already; send this one again later", self.requests.len());
                self.reject(&encode_error(incoming.id.as_ref(), &RpcError::new(code::LIMIT, why)));
            }
            return;
        }
        self.waiting = waiting;
        self.requests.push_back((id(incoming.id), request(incoming.request), line.len()));
    }

    /// Answers what is no request. A client that reads no answers gets no further one.
    fn reject(&mut self, line: &str) {
        if self.out.len() <= ERRORS {
            self.out.extend(line.as_bytes());
        }
    }

    /// The next request.
    pub fn next(&mut self) -> Option<(ClientId, ClientRequest)> {
        let (id, request, length) = self.requests.pop_front()?;
        self.waiting = self.waiting.saturating_sub(length);
        Some((id, request))
    }

    /// Takes a line to the client; false if it has to wait.
    pub fn send(&mut self, line: &str) -> bool {
        let has_room = self.out.len() < OUT;
        if has_room {
            self.out.extend(line.as_bytes());
        }
        has_room
    }

    /// The next bytes to the client, at most this many.
    pub fn out(&mut self, most: usize) -> Vec<u8> {
        let length = self.out.len().min(most);
        let piece = self.out.drain(..length).collect();
        if self.out.is_empty() {
            // A long line is rare; its room is not kept.
            self.out.shrink_to(OUT);
        }
        piece
    }

    /// Bytes that are held, whatever the client sends.
    #[cfg(test)]
    fn held(&self) -> usize {
        self.lines.held().saturating_add(self.waiting).saturating_add(self.out.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};
    use proptest::prelude::*;

    fn said(desk: &mut Desk) -> String {
        String::from_utf8(desk.out(usize::MAX)).unwrap()
    }

    #[test]
    fn c16_requests_come_as_types_in_order() {
        let mut desk = Desk::default();
        desk.take(
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"StartTask\",\"params\":{\"prompt\":\"hello\"}}\n{\"jsonrpc\":",
        );
        desk.take(
            b"\"2.0\",\"id\":\"x\",\"method\":\"Shutdown\"}\r\n\n{\"jsonrpc\":\"2.0\",\"method\":\"CancelTask\"}\n",
        );
        assert_eq!(desk.next(), Some((ClientId::Number(1), ClientRequest::StartTask("hello".into()))));
        assert_eq!(desk.next(), Some((ClientId::Text("x".into()), ClientRequest::Shutdown)));
        assert_eq!(desk.next(), Some((ClientId::None, ClientRequest::CancelTask(String::new()))));
        assert_eq!(desk.next(), None);
        assert!(said(&mut desk).is_empty());
    }

    #[test]
    fn c16_a_line_that_is_no_request_is_answered_and_skipped() {
        let mut desk = Desk::default();
        desk.take(b"hello\n");
        assert!(said(&mut desk).contains("-32700"));
        desk.take(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"Format\"}\n");
        let answer = said(&mut desk);
        assert!(answer.contains("-32601") && answer.contains("\"id\":7") && answer.ends_with('\n'), "{answer}");
        desk.take(&[b'x'; LINE]);
        desk.take(b"yy");
        assert!(said(&mut desk).is_empty(), "it is not over");
        desk.take(b"\n{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"Shutdown\"}\n");
        let answer = said(&mut desk);
        assert!(answer.contains("-32600") && answer.contains("262144 bytes"), "{answer}");
        assert_eq!(desk.next(), Some((ClientId::Number(8), ClientRequest::Shutdown)));
    }

    #[test]
    fn c16_a_client_that_reads_nothing_costs_bounded_memory() {
        let mut desk = Desk::default();
        let line = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"StartTask\",\"params\":{\"prompt\":\"P\"}}\n";
        let line = line.replace('P', &"p".repeat(100_000));
        for _ in 0..1000 {
            desk.take(line.as_bytes());
            desk.take(b"nonsense\n");
            assert!(desk.held() <= WAITING + ERRORS + 2 * LINE + 4096, "{}", desk.held());
        }
        assert_eq!(core::iter::from_fn(|| desk.next()).count(), 5);
        // The host's own lines wait, and none is lost.
        assert!(!desk.send("event\n"));
        while !desk.out(4096).is_empty() {}
        assert!(desk.send("event\n"));
        assert_eq!(said(&mut desk), "event\n");
        // There is room for others again.
        desk.take(line.as_bytes());
        assert!(desk.next().is_some());
    }

    /// Pieces of lines that a client could send, right and wrong.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..40),
            "[ -~\\n]{0,60}".prop_map(String::into_bytes),
            prop_oneof![
                Just("{\"jsonrpc\":\"2.0\",\"id\":"),
                Just("1"),
                Just("\"a\""),
                Just("null"),
                Just(",\"method\":\""),
                Just("StartTask\""),
                Just("ApproveAction\""),
                Just("CreateSession\""),
                Just(",\"params\":{"),
                Just("\"prompt\":\"x\""),
                Just("\"approvalId\":\"1\",\"decision\":\"approved\""),
                Just("\"protocolVersion\":1,\"clientInfo\":{\"name\":\"x\"}"),
                Just("}"),
                Just("[[[[[["),
                Just("\n"),
                Just("}\n"),
                Just("}}\n"),
                Just("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"StartTask\",\"params\":{\"prompt\":\"x\"}}"),
                Just("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"Shutdown\"}"),
                Just("{\"jsonrpc\":\"2.0\",\"method\":\"CancelTask\"}"),
            ]
            .prop_map(|text| text.to_string().into_bytes()),
        ]
    }

    /// A million lines: each case sends 100 random pieces in random order, again and again. No panic, and bounded memory.
    #[test]
    fn c16_random_lines_do_no_harm() {
        let config = ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        let (lines, taken) = (core::cell::Cell::new(0_usize), core::cell::Cell::new(0_usize));
        let pieces = proptest::collection::vec(piece(), 100);
        let order = proptest::collection::vec(0_usize..100, 1000..2000);
        runner
            .run(&(pieces, order), |(pieces, order)| {
                let mut desk = Desk::default();
                for piece in order.into_iter().filter_map(|place| pieces.get(place)) {
                    let mut piece = piece.clone();
                    piece.push(b'\n');
                    lines.set(lines.get() + piece.iter().filter(|byte| **byte == b'\n').count());
                    desk.take(&piece);
                    prop_assert!(desk.held() <= WAITING + ERRORS + 2 * LINE + 4096);
                    if desk.requests.len() > 8 {
                        taken.set(taken.get() + usize::from(desk.next().is_some()));
                        desk.out(1 << 20);
                    }
                }
                Ok(())
            })
            .unwrap();
        assert!(lines.get() > 1_000_000 && taken.get() > 1000, "{} lines, {} requests", lines.get(), taken.get());
    }
}
