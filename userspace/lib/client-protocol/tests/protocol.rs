//! Both sides of the protocol against each other, and against what neither would send.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use capos_client_protocol::event::{
    ApprovalRequest, ApprovalResolved, ApprovalTimeout, Cause, Chain, Details, Failed, Kind, LlmCompleted, LlmStarted,
    Notice, Risk, SessionCompleted, SessionStarted, Step, StepLimit, TaskCompleted, TextChunk, ToolCompleted,
    ToolRequested, ToolStarted,
};
use capos_client_protocol::request::{
    ApproveAction, CancelTask, ClientInfo, CreateSession, Decision, Empty, GetMessages, GetPatchPreview, ListSessions,
    Reach, ResumeSession, StartTask,
};
use capos_client_protocol::result::{
    Call, Change, Conversations, Created, Done, Message, Messages, PatchPreview, Role, Saved, SessionState,
    SessionStatus, Started, TaskState, TaskStatus,
};
use capos_client_protocol::{
    Event, FromHost, Id, Line, Lines, Request, RpcError, Secret, SessionEvent, code, decode_from_host, decode_request,
    encode_error, encode_event, encode_request, encode_result, limits,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

const TEXT: &str = "\\PC{0,12}|[\"\\\\\\n\\u{0}\\u{1f}{}\\[\\]]{0,8}";

fn id() -> impl Strategy<Value = Id> {
    prop_oneof![any::<i64>().prop_map(Id::Number), TEXT.prop_map(Id::Text)]
}

fn reach() -> impl Strategy<Value = Reach> {
    prop_oneof![Just(Reach::Once), Just(Reach::Turn), Just(Reach::Session)]
}

fn decision() -> impl Strategy<Value = Decision> {
    prop_oneof![Just(Decision::Approved), Just(Decision::Denied)]
}

fn info() -> impl Strategy<Value = ClientInfo> {
    (TEXT, TEXT).prop_map(|(name, version)| ClientInfo { name, version })
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        (any::<u32>(), info(), option::of(TEXT), option::of(TEXT)).prop_map(
            |(version, client_info, user, passphrase)| {
                let passphrase = passphrase.map(Secret::new);
                Request::CreateSession(CreateSession { protocol_version: version, client_info, user, passphrase })
            }
        ),
        TEXT.prop_map(|prompt| Request::StartTask(StartTask { prompt })),
        option::of(TEXT).prop_map(|task_id| Request::CancelTask(CancelTask { task_id })),
        TEXT.prop_map(|conversation_id| Request::ResumeSession(ResumeSession { conversation_id })),
        any::<u32>().prop_map(|from| Request::GetMessages(GetMessages { from })),
        Just(Request::GetSessionState(Empty {})),
        TEXT.prop_map(|approval_id| Request::GetPatchPreview(GetPatchPreview { approval_id })),
        (TEXT, decision(), reach(), option::of(TEXT)).prop_map(|(approval_id, decision, reach, reason)| {
            Request::ApproveAction(ApproveAction { approval_id, decision, reach, reason })
        }),
        (option::of(any::<u32>()), option::of(TEXT))
            .prop_map(|(limit, after)| Request::ListSessions(ListSessions { limit, after })),
        Just(Request::Shutdown(Empty {})),
    ]
}

fn approval() -> impl Strategy<Value = ApprovalRequest> {
    let details =
        (TEXT, TEXT, TEXT, TEXT, vec(TEXT, 0..3)).prop_map(|(call_id, tool_name, category, arguments, notes)| {
            let (capability, description) = (tool_name.clone(), arguments.clone());
            Details { call_id, tool_name, capability, category, description, arguments, notes }
        });
    let risk = prop_oneof![Just(Risk::Low), Just(Risk::Medium), Just(Risk::High)];
    let kind = prop_oneof![Just(Kind::ToolCall), Just(Kind::GoOn)];
    (kind, TEXT, TEXT, risk, vec(reach(), 0..3), option::of(any::<u64>()), option::of(details)).prop_map(
        |(kind, approval_id, title, risk_level, reaches, expires_in_ms, details)| {
            let action_summary = title.clone();
            ApprovalRequest { approval_id, kind, title, action_summary, risk_level, reaches, expires_in_ms, details }
        },
    )
}

fn cause() -> impl Strategy<Value = Cause> {
    prop::sample::select(vec![
        Cause::Answered,
        Cause::Cancelled,
        Cause::Steps,
        Cause::Tokens,
        Cause::Limit,
        Cause::Rejected,
        Cause::Failed,
    ])
}

fn happening() -> impl Strategy<Value = Event> {
    let numbers = (any::<u32>(), any::<u64>(), any::<u64>());
    prop_oneof![
        TEXT.prop_map(|execution_environment| Event::SessionStarted(SessionStarted { execution_environment })),
        numbers.prop_map(|(task_count, total_tokens, duration_ms)| {
            Event::SessionCompleted(SessionCompleted { task_count, total_tokens, duration_ms })
        }),
        TEXT.prop_map(|reason| Event::SessionFailed(Failed { reason })),
        (cause(), TEXT).prop_map(|(cause, message)| Event::TaskCompleted(TaskCompleted { cause, message })),
        any::<u32>().prop_map(|step_count| Event::StepStarted(Step { step_count })),
        any::<u32>().prop_map(|step_count| Event::StepCompleted(Step { step_count })),
        (any::<u32>(), any::<u32>())
            .prop_map(|(step_count, max_steps)| Event::StepLimitApproaching(StepLimit { step_count, max_steps })),
        (TEXT, any::<u64>()).prop_map(|(text, lost_bytes)| Event::TextChunk(TextChunk { text, lost_bytes })),
        (TEXT, option::of(any::<u64>())).prop_map(|(model, estimated_input_tokens)| {
            Event::LlmRequestStarted(LlmStarted { model, estimated_input_tokens })
        }),
        (TEXT, numbers).prop_map(|(model, (_, input_tokens, output_tokens))| {
            Event::LlmRequestCompleted(LlmCompleted { model, input_tokens, output_tokens, latency_ms: 7 })
        }),
        (TEXT, TEXT, TEXT, TEXT).prop_map(|(call_id, tool_name, category, arguments)| {
            let capability = tool_name.clone();
            Event::ToolRequested(ToolRequested { call_id, tool_name, capability, category, arguments })
        }),
        TEXT.prop_map(|call_id| Event::ToolStarted(ToolStarted { call_id })),
        (TEXT, TEXT, TEXT, any::<u64>()).prop_map(|(call_id, tool_name, text, latency_ms)| {
            Event::ToolCompleted(ToolCompleted { call_id, tool_name, status: "ok".into(), latency_ms, text })
        }),
        approval().prop_map(Event::ApprovalRequested),
        (TEXT, decision(), option::of(TEXT), any::<u64>()).prop_map(|(approval_id, decision, reason, latency_ms)| {
            Event::ApprovalResolved(ApprovalResolved { approval_id, decision, reason, latency_ms })
        }),
        TEXT.prop_map(|approval_id| Event::ApprovalTimeout(ApprovalTimeout { approval_id })),
        Just(Event::PolicyExpired(Empty {})),
        TEXT.prop_map(|text| Event::Notice(Notice { text })),
    ]
}

fn event() -> impl Strategy<Value = SessionEvent> {
    (TEXT, TEXT, TEXT, TEXT, happening()).prop_map(|(workspace_id, session_id, task_id, step_id, event)| SessionEvent {
        chain: Chain { workspace_id, session_id, task_id, step_id },
        event,
    })
}

fn message() -> impl Strategy<Value = Message> {
    let role = prop::sample::select(vec![Role::User, Role::Assistant, Role::Tool, Role::System]);
    let call = (TEXT, TEXT, TEXT, TEXT).prop_map(|(call_id, tool_name, category, arguments)| Call {
        call_id,
        tool_name,
        category,
        arguments,
    });
    (role, TEXT, any::<bool>(), vec(call, 0..3), option::of(TEXT), option::of(TEXT))
        .prop_map(|(role, text, cut, calls, call_id, outcome)| Message { role, text, cut, calls, call_id, outcome })
}

fn done() -> impl Strategy<Value = Done> {
    prop_oneof![
        (TEXT, TEXT, TEXT, TEXT, any::<u32>(), info()).prop_map(
            |(session_id, principal, conversation_id, model, protocol_version, agent_info)| {
                let workspace_id = principal.clone();
                let created = Created {
                    session_id,
                    workspace_id,
                    principal,
                    conversation_id,
                    model,
                    protocol_version,
                    agent_info,
                };
                Done::Created(created)
            }
        ),
        TEXT.prop_map(|task_id| Done::Started(Started { task_id })),
        (TEXT, vec(message(), 0..4), option::of(any::<u32>()), any::<bool>()).prop_map(
            |(conversation_id, messages, next, can_continue)| {
                Done::Messages(Messages { conversation_id, messages, next, can_continue })
            }
        ),
        (option::of(TEXT), option::of(TEXT), vec(approval(), 0..3)).prop_map(|(session_id, task, open_approvals)| {
            let task = task.map(|task_id| TaskState {
                task_id,
                status: TaskStatus::WaitingForLlm,
                step_count: 3,
                max_steps: 40,
            });
            let (session_status, conversation_id) = (SessionStatus::Running, session_id.clone());
            Done::State(SessionState { session_status, session_id, conversation_id, task, open_approvals })
        }),
        vec((TEXT, option::of(TEXT), option::of(TEXT), TEXT), 0..3).prop_map(|changes| {
            let changes = changes.into_iter().map(|(path, old_text, omitted, new_text)| Change {
                path,
                old_text,
                omitted,
                new_text,
                new_sha256: "00".into(),
            });
            Done::Patch(PatchPreview { changes: changes.collect() })
        }),
        (vec((TEXT, TEXT, any::<u64>()), 0..3), option::of(TEXT)).prop_map(|(saved, next)| {
            let saved = saved.into_iter().map(|(conversation_id, title, updated_at)| Saved {
                conversation_id,
                title,
                updated_at,
                message_count: 2,
            });
            Done::Conversations(Conversations { conversations: saved.collect(), next })
        }),
        Just(Done::Nothing(Empty {})),
    ]
}

/// A line without its end; there is exactly one.
fn body(line: &str) -> &[u8] {
    let body = line.strip_suffix('\n').unwrap();
    assert!(!body.contains('\n'), "{body:?}");
    body.as_bytes()
}

fn answered(line: &str) -> capos_client_protocol::Answer<'_> {
    match decode_from_host(body(line)).unwrap() {
        FromHost::Answer(answer) => answer,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn c16_requests_arrive_as_they_were_sent(id in id(), request in request()) {
        let line = encode_request(&id, &request).unwrap();
        let incoming = decode_request(body(&line)).unwrap();
        prop_assert_eq!((incoming.id, incoming.request), (Some(id), request));
    }

    #[test]
    fn c17_events_arrive_as_they_were_sent(event in event()) {
        let line = encode_event(&event).unwrap();
        match decode_from_host(body(&line)).unwrap() {
            FromHost::Event(found) => prop_assert_eq!(*found, event),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn c16_results_arrive_as_they_were_sent(id in id(), done in done()) {
        let line = encode_result(&id, &done).unwrap();
        let answer = answered(&line);
        prop_assert_eq!(answer.id.clone(), Some(id));
        let found = match &done {
            Done::Created(_) => Done::Created(answer.result().unwrap()),
            Done::Started(_) => Done::Started(answer.result().unwrap()),
            Done::Messages(_) => Done::Messages(answer.result().unwrap()),
            Done::State(_) => Done::State(answer.result().unwrap()),
            Done::Patch(_) => Done::Patch(answer.result().unwrap()),
            Done::Conversations(_) => Done::Conversations(answer.result().unwrap()),
            Done::Nothing(_) => Done::Nothing(answer.result().unwrap()),
        };
        prop_assert_eq!(found, done);
    }

    #[test]
    fn c16_errors_arrive_as_they_were_sent(id in option::of(id()), code in any::<i32>(), message in TEXT) {
        let error = RpcError::new(code, message);
        let line = encode_error(id.as_ref(), &error);
        let answer = answered(&line);
        prop_assert_eq!((answer.id.clone(), answer.error()), (id, Some(&error)));
    }

    /// However the bytes arrive, the lines are the same, and no more than one is held.
    #[test]
    fn lines_do_not_depend_on_pieces(
        lines in vec("[a-z{}\"]{0,20}", 0..6),
        long in any::<bool>(),
        size in 1_usize..50_000,
    ) {
        let mut sent: Vec<String> = lines;
        if long {
            sent.insert(sent.len() / 2, "x".repeat(limits::LINE + 10));
            sent.push("y".repeat(limits::LINE));
        }
        let bytes: Vec<u8> = sent.iter().flat_map(|line| format!("{line}\r\n").into_bytes()).collect();
        let size = if long { size.max(2000) } else { size };
        let mut found = Vec::new();
        let mut lines = Lines::default();
        for mut piece in bytes.chunks(size) {
            while !piece.is_empty() {
                let (taken, line) = lines.take(piece);
                prop_assert!(taken > 0);
                piece = &piece[taken..];
                found.extend(line);
            }
            prop_assert!(lines.held() <= 2 * limits::LINE + 2);
        }
        let expected: Vec<Line> = sent
            .iter()
            .filter(|line| !line.is_empty())
            .map(|line| match line.len() > limits::LINE {
                true => Line::TooLong(line.as_bytes()[..capos_client_protocol::BEGINNING].to_vec()),
                false => Line::Whole(line.clone().into_bytes()),
            })
            .collect();
        prop_assert_eq!(found, expected);
    }
}

/// A fast generator without dependencies (splitmix64).
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
}

/// Random bytes, pieces of messages and damaged messages: neither side panics. What is rejected has an answer that the
/// other side can read, and what is taken can be sent again.
#[test]
fn c16_damaged_lines_never_panic() {
    const PIECES: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "\\u0000",
        "\\ud800",
        "null",
        "true",
        "-0",
        "1e999",
        "18446744073709551616",
        "\"jsonrpc\":\"2.0\"",
        "\"id\":1",
        "\"id\":null",
        "\"method\":\"CreateSession\"",
        "\"method\":\"StartTask\"",
        "\"method\":\"SessionEvent\"",
        "\"params\":{",
        "\"prompt\":\"x\"",
        "\"result\":{}",
        "\"error\":{\"code\":1,\"message\":\"\"}",
        "\"eventType\":\"text_chunk\"",
        "\"payload\":{\"text\":\"\"}",
        "\u{feff}",
        "é",
        " ",
        "\t",
    ];
    let rounds = 1_000_000;
    let mut random = Random(1);
    let seeds = [
        r#"{"jsonrpc":"2.0","id":1,"method":"CreateSession","params":{"protocolVersion":1,"clientInfo":{"name":"n"},"user":"u"}}"#,
        r#"{"jsonrpc":"2.0","id":"a","method":"ApproveAction","params":{"approvalId":"p","decision":"approved","reach":"turn"}}"#,
        r#"{"jsonrpc":"2.0","method":"SessionEvent","params":{"eventType":"approval_requested","payload":{"approvalId":"a","title":"t","actionSummary":"s","riskLevel":"low","details":{"callId":"c","toolName":"t","arguments":"{}"}}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"conversationId":"c","messages":[{"role":"user","text":"x"}]}}"#,
    ];
    let (mut taken, mut rejected) = (0_u32, 0_u32);
    for round in 0..rounds {
        let mut line: Vec<u8> = Vec::new();
        match round % 4 {
            0 => (0..random.below(60)).for_each(|_| line.push(random.next() as u8)),
            1 => (0..random.below(20)).for_each(|_| line.extend(PIECES[random.below(PIECES.len())].as_bytes())),
            _ => {
                line.extend(seeds[random.below(seeds.len())].as_bytes());
                for _ in 0..random.below(4) {
                    if line.is_empty() {
                        break;
                    }
                    let at = random.below(line.len());
                    match random.below(4) {
                        0 if line[at].is_ascii_alphanumeric() => line[at] = b'0' + (random.next() % 75) as u8,
                        0 => line[at] = random.next() as u8,
                        1 => drop(line.remove(at)),
                        2 => line.truncate(at.max(1)),
                        _ => {
                            let piece = PIECES[random.below(PIECES.len())].bytes();
                            drop(line.splice(at..at, piece).collect::<Vec<_>>());
                        }
                    }
                }
            }
        }
        match decode_request(&line) {
            Ok(incoming) => {
                taken += 1;
                let id = incoming.id.unwrap_or(Id::Number(0));
                let again = encode_request(&id, &incoming.request).unwrap();
                assert_eq!(decode_request(body(&again)).unwrap().request, incoming.request);
            }
            Err(reason) => {
                rejected += 1;
                assert_eq!(answered(&encode_error(reason.id.as_ref(), &reason.error)).id, reason.id);
            }
        }
        match decode_from_host(&line) {
            Ok(FromHost::Answer(answer)) => {
                let _ = answer.result::<Messages>();
            }
            Ok(FromHost::Event(event)) => assert!(encode_event(&event).is_ok()),
            Ok(FromHost::Unknown(_)) | Err(_) => {}
        }
    }
    assert!(taken > rounds / 100 && rejected > rounds / 4, "{taken} taken, {rejected} rejected");
}

fn rejection(line: &str) -> (Option<Id>, i32, String, bool) {
    let rejected = decode_request(line.as_bytes()).unwrap_err();
    (rejected.id, rejected.error.code, rejected.error.message, rejected.is_answered)
}

#[test]
fn c16_each_bad_line_has_its_error() {
    let one = Some(Id::Number(1));
    let nested = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"Shutdown","x":{}}}"#, "[".repeat(40));
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "x".repeat(limits::LINE));
    let prompt = "p".repeat(limits::PROMPT + 1);
    let prompt = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"StartTask","params":{{"prompt":"{prompt}"}}}}"#);
    let cases: &[(&str, Option<Id>, i32, &str, bool)] = &[
        ("nonsense", None, code::PARSE, "not one JSON object", true),
        (r#"{"jsonrpc":"2.0""#, None, code::PARSE, "EOF", true),
        ("7", None, code::INVALID_REQUEST, "no JSON-RPC", true),
        ("[]", None, code::INVALID_REQUEST, "in a line of its own", true),
        (&nested, None, code::PARSE, "nested deeper than 32", true),
        (&long, None, code::INVALID_REQUEST, "send at most 262144", true),
        (r#"{"id":1,"method":"Shutdown"}"#, None, code::INVALID_REQUEST, "jsonrpc", true),
        (r#"{"jsonrpc":"2.0","id":null,"method":"Shutdown"}"#, None, code::INVALID_REQUEST, "null", true),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"Shutdown"}"#, None, code::INVALID_REQUEST, "whole number", true),
        (r#"{"jsonrpc":"2.0","id":1}"#, one.clone(), code::INVALID_REQUEST, "method is missing", true),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#, one.clone(), code::METHOD_NOT_FOUND, "no method x", true),
        (r#"{"jsonrpc":"2.0","method":"x"}"#, None, code::METHOD_NOT_FOUND, "no method x", false),
        (r#"{"jsonrpc":"2.0","id":1,"method":"StartTask"}"#, one.clone(), code::INVALID_PARAMS, "params", true),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"StartTask","params":["x"]}"#,
            one.clone(),
            code::INVALID_PARAMS,
            "no object",
            true,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ApproveAction","params":{"approvalId":"a","decision":"maybe"}}"#,
            one.clone(),
            code::INVALID_PARAMS,
            "maybe",
            true,
        ),
        (&prompt, one, code::INVALID_PARAMS, "prompt has 131073 bytes, and at most 131072", true),
    ];
    for (line, id, code, part, is_answered) in cases {
        let found = rejection(line);
        assert_eq!((&found.0, found.1, found.3), (id, *code, *is_answered), "{line:.80}: {}", found.2);
        assert!(found.2.contains(part), "{line:.80}: {}", found.2);
    }
}

#[test]
fn c16_unknown_members_are_skipped() {
    let line =
        r#"{"x":[1,{"y":2}],"jsonrpc":"2.0","params":{"later":{"a":[]},"prompt":"hi"},"id":"q","method":"StartTask"}"#;
    let incoming = decode_request(line.as_bytes()).unwrap();
    assert_eq!(incoming.request, Request::StartTask(StartTask { prompt: "hi".into() }));
    assert_eq!(incoming.id, Some(Id::Text("q".into())));
}

#[test]
fn c16_parameters_may_be_absent_where_none_is_needed() {
    for method in ["GetSessionState", "Shutdown", "CancelTask", "ListSessions"] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
        assert_eq!(decode_request(line.as_bytes()).unwrap().request.method(), method);
    }
}

#[test]
fn c17_an_event_has_its_name_ids_and_payload() {
    let chain = Chain { session_id: "s".into(), task_id: "t".into(), ..Chain::default() };
    let event = SessionEvent { chain, event: Event::TextChunk(TextChunk { text: "hi".into(), lost_bytes: 0 }) };
    let line = encode_event(&event).unwrap();
    let expected = r#"{"jsonrpc":"2.0","method":"SessionEvent","params":{"eventType":"text_chunk","sessionId":"s","taskId":"t","payload":{"text":"hi"}}}"#;
    assert_eq!(line, format!("{expected}\n"));
}

/// The 14 events of the specification, and those that this protocol adds.
#[test]
fn e08_all_events_have_names() {
    for name in [
        "session_started",
        "session_completed",
        "session_failed",
        "step_started",
        "step_completed",
        "step_limit_approaching",
        "text_chunk",
        "llm_request_started",
        "llm_request_completed",
        "tool_requested",
        "tool_completed",
        "approval_requested",
        "approval_resolved",
        "policy_expired",
    ] {
        assert!(Event::NAMES.contains(&name), "{name}");
    }
}

/// What a later host sends is left alone; what no host sends is malformed.
#[test]
fn c17_a_client_knows_what_it_does_not_know() {
    let unknown = |line: &str| match decode_from_host(line.as_bytes()).unwrap() {
        FromHost::Unknown(name) => name,
        other => panic!("{other:?}"),
    };
    assert_eq!(unknown(r#"{"jsonrpc":"2.0","method":"Later","params":{}}"#), "Later");
    let event = r#"{"jsonrpc":"2.0","method":"SessionEvent","params":{"eventType":"later","payload":[]}}"#;
    assert_eq!(unknown(event), "later");
    for (line, part) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"Ask"}"#, "request"),
        (r#"{"jsonrpc":"2.0","result":{}}"#, "no id"),
        (r#"{"jsonrpc":"2.0","id":1}"#, "either"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}"#, "either"),
        (r#"{"jsonrpc":"2.0","method":"SessionEvent","params":{"eventType":"text_chunk","payload":{}}}"#, "text"),
        (r#"{"jsonrpc":"2.0","method":"SessionEvent"}"#, "params"),
    ] {
        let malformed = decode_from_host(line.as_bytes()).unwrap_err();
        assert!(malformed.0.contains(part), "{line}: {malformed}");
    }
}

#[test]
fn a_message_that_has_no_room_is_an_error() {
    let text = "\u{1}".repeat(limits::LINE / 6);
    let prompt = Request::StartTask(StartTask { prompt: text });
    let too_long = encode_request(&Id::Number(1), &prompt).unwrap_err();
    assert!(too_long.bytes > limits::LINE, "{too_long}");
    let error = RpcError::new(code::INTERNAL, "\u{1}".repeat(limits::LINE));
    assert!(encode_error(None, &error).len() < limits::LINE);
}
