//! Bound calls: whatever happens while a call is bound is as if it were not.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_abi::{CapId, MessageHeader, Rights, Status, TransferMode, ring, syscall as number};

use super::bench::{Actor, SCRATCH, alone, buffer, settle, shared};
use super::calls::{INTERFACE, Pair, header, pair};
use crate::arch::percpu;
use crate::object::account::{Account, Resource};
use crate::object::capability::{Capability, Object};
use crate::object::derivation;
use crate::object::endpoint::Client;
use crate::object::notification::Notification;
use crate::object::process::{Cause, End};
use crate::object::thread::State;
use crate::sched::{scheduler, switching};
use crate::syscall::bound_call::{self, RecentCalls};
use crate::syscall::{self, Handled};

/// Rounds before anything happens: the call is bound long before they are over.
const ROUNDS: u64 = 12;
/// Tags of the client's entries, and of the server's, in the first round.
const CALLS: u64 = 1000;
const RECEIVES: u64 = 2000;
/// Where the client's parameters are, and where its results go.
const PARAMS: u64 = 0;
const RESULTS: u64 = 0x100;
/// Where the server's messages come in, and where its results are.
const MESSAGE: u64 = 0;
const ANSWER: u64 = 0x300;
/// Where both have arrays of capabilities.
const CAPS: u64 = 0x600;

/// Holds the kernel lock exclusively, which flushes what is bound.
fn be_alone() {
    let _ = alone();
}

/// A pair that calls, and whether its calls may be bound.
struct Talk {
    account: Arc<Account>,
    pair: Pair,
    /// What the client's capability derives from.
    source: CapId,
    binds: bool,
    /// Capabilities that each call sends along.
    sent: u8,
    round: u64,
    /// The tag of the entry that receives the next call.
    receives: u64,
    /// The Reply to the last call, and the one before.
    replies: [u64; 2],
    /// Entries that continued a bound call.
    bound: u64,
    /// What was seen.
    seen: Vec<String>,
}

impl Talk {
    /// One that has gone on for some rounds; where `works`, the server has received a call and not yet answered it.
    fn new(account: &Arc<Account>, binds: bool, works: bool, sent: u8) -> Self {
        let mut pair = pair(account);
        let source = pair.cap;
        let Capability { object, node, .. } = pair.client.process.get(source).unwrap();
        pair.cap = pair.client.process.insert(object, Rights::ALL, node).unwrap();
        let account = Arc::clone(account);
        let (replies, seen) = ([0; 2], Vec::new());
        let receives = RECEIVES;
        let mut talk = Self { account, pair, source, binds, sent, round: 0, receives, replies, bound: 0, seen };
        if sent > 0 {
            let given = Notification::new(talk.pair.client.process.account.hold(Resource::Objects, 1).ok());
            let cap = talk.pair.client.give(Object::Notification(given));
            talk.pair.client.send_caps(SCRATCH + CAPS, &[cap], TransferMode::Copy);
        }
        let receive = Operation::Recv { endpoint: talk.pair.endpoint.0, buffer: buffer(MESSAGE, 256), caps: accepts() };
        assert!(!talk.serve(RECEIVES, receive));
        while talk.round < ROUNDS {
            talk.call_and_see();
            talk.answer_and_see();
        }
        if works {
            talk.call_and_see();
        }
        // Most of the time it was bound, where it could be.
        assert_eq!(talk.bound >= ROUNDS, binds, "{} of {ROUNDS} rounds' entries went on with it", talk.bound);
        talk.seen.clear();
        talk
    }

    /// What the client's call says in this round.
    fn call(&self) -> Operation {
        Operation::Call {
            cap: self.pair.cap.0,
            interface: INTERFACE,
            method: self.round as u16,
            // As long and from where it differs each time.
            params: buffer(PARAMS + 8 * (self.round % 4), 8 + self.round as u32),
            results: buffer(RESULTS + 8 * (self.round % 3), 64),
            caps: if self.sent == 0 {
                CapArray::default()
            } else {
                CapArray { address: SCRATCH + CAPS, sent: self.sent, accepted: 0 }
            },
        }
    }

    /// The answer to the last call, behind which the next one is received.
    fn answer(&self) -> Operation {
        Operation::ReturnRecv {
            reply: self.replies[0],
            endpoint: self.pair.endpoint.0,
            exception: 0,
            results: buffer(ANSWER + 8 * (self.round % 5), 8 + self.round as u32),
            buffer: buffer(MESSAGE, 256),
            caps: accepts(),
        }
    }

    fn client(&mut self, tag: u64, operation: Operation) -> bool {
        enter(&mut self.pair.client, tag, operation, self.binds)
    }

    fn serve(&mut self, tag: u64, operation: Operation) -> bool {
        enter(&mut self.pair.server, tag, operation, self.binds)
    }

    /// The client calls; the message is there.
    fn call_and_see(&mut self) {
        let text = format!("call {:>3}, and words behind it", self.round);
        self.pair.client.write(SCRATCH + PARAMS + 8 * (self.round % 4), text.as_bytes());
        let bound = self.client(CALLS + self.round, self.call());
        self.bound += u64::from(bound);
        let received = self.pair.server.completions();
        let length = 8 + self.round as usize;
        let header = header(&self.pair.server);
        let tag = self.receives;
        let size = (MessageHeader::SIZE + length) as u32;
        let told: Vec<_> = received.iter().map(|told| (told.user_data, told.status, told.length, told.caps)).collect();
        assert_eq!(told, [(tag, 0, size, self.sent)], "round {}, bound: {bound}", self.round);
        assert_eq!(
            (header.badge, header.interface, header.method, header.caps, header.length, header.results_capacity),
            (5, INTERFACE, self.round as u16, self.sent, length as u32, 64)
        );
        let came = self.pair.server.read(SCRATCH + MESSAGE + MessageHeader::SIZE as u64, length);
        assert_eq!(came, text.as_bytes()[..length]);
        assert!(header.reply != self.replies[0] && header.reply != self.replies[1], "an identifier came twice");
        self.replies = [header.reply, self.replies[0]];
    }

    /// The server answers; the results are there.
    fn answer_and_see(&mut self) {
        let text = format!("answer {:>3} and words behind it", self.round);
        self.pair.server.write(SCRATCH + ANSWER + 8 * (self.round % 5), text.as_bytes());
        let answer = self.answer();
        self.receives = RECEIVES + self.round + 1;
        let bound = self.serve(self.receives, answer);
        self.bound += u64::from(bound);
        let done = self.pair.client.completions();
        let length = 8 + self.round as u32;
        let told: Vec<_> = done.iter().map(|told| (told.user_data, told.status, told.length)).collect();
        assert_eq!(told, [(CALLS + self.round, 0, length)], "round {}, bound: {bound}", self.round);
        let came = self.pair.client.read(SCRATCH + RESULTS + 8 * (self.round % 3), length as usize);
        assert_eq!(came, text.as_bytes()[..length as usize]);
        self.round += 1;
    }

    /// Continues for some rounds.
    fn go_on(&mut self) {
        for _ in 0..3 {
            self.call_and_see();
            self.answer_and_see();
        }
    }

    /// Notes what both were told since the last time, and what they hold.
    fn note(&mut self, what: &str) {
        be_alone();
        settle();
        let Pair { client, server, .. } = &mut self.pair;
        for (name, actor) in [("client", client), ("server", server)] {
            let told: Vec<_> = match actor.report() {
                None => actor.completions().iter().map(|c| (c.user_data, c.status, c.length, c.caps)).collect(),
                Some(_) => Vec::new(),
            };
            let (usage, caps) = (actor.process.account.usage(), actor.process.capability_count());
            let (flight, ended) = (actor.thread.in_flight(), actor.report().is_some());
            let wanted = actor.thread.wanted();
            self.seen.push(format!(
                "{what}: {name} {told:?} holds {usage:?}, {caps}, {flight} in flight, ended: {ended}, waits for {wanted}"
            ));
        }
    }

    /// The server answers by an entry that differs from the usual one.
    fn answer_otherwise(&mut self, what: &str, change: impl FnOnce(&mut Operation)) {
        let mut answer = self.answer();
        change(&mut answer);
        self.receives = 77;
        self.serve(self.receives, answer);
        self.note(what);
    }

    /// The server takes the call that it was given.
    fn take(&mut self) {
        self.replies = [header(&self.pair.server).reply, self.replies[0]];
    }

    /// The client calls by an entry that differs from the usual one.
    fn call_otherwise(&mut self, what: &str, change: impl FnOnce(&mut Operation)) {
        let mut call = self.call();
        change(&mut call);
        self.client(78, call);
        self.note(what);
        let header = header(&self.pair.server);
        self.seen.push(format!("{what}: {} {} {}", header.badge, header.method, header.length));
    }
}

/// What a receive of the tests accepts.
const fn accepts() -> CapArray {
    CapArray { address: SCRATCH + CAPS, sent: 0, accepted: 1 }
}

/// Makes the system call ENTER with one entry, which waits for one completion; the other thread is there to go on. Where calls may
/// be bound the kernel lock is shared. Whether the entry continued a bound call.
fn enter(actor: &mut Actor, tag: u64, operation: Operation, binds: bool) -> bool {
    enter_with(actor, &[(tag, operation)], (1, number::NO_DEADLINE), binds)
}

/// The same with several entries, which waits for this many completions until a moment.
fn enter_with(actor: &mut Actor, entries: &[(u64, Operation)], (completions, until): (u64, u64), binds: bool) -> bool {
    for (tag, operation) in entries {
        actor.push(*tag, *operation);
    }
    actor.thread.change(State::Blocked, State::Running);
    actor.thread.change(State::Ready, State::Running);
    actor.thread.with_context(|context| {
        (context.rax, context.rdi, context.rsi, context.rdx) =
            (number::ENTER, entries.len() as u64, completions, until);
    });
    let (own, thread) = (percpu::current(), &actor.thread);
    let mut bound = false;
    if !binds {
        let mut lock = alone();
        switching::with_current(own, thread, || syscall::handle_alone(&mut lock, thread));
        return bound;
    }
    let lock = shared();
    switching::with_current(own, thread, || {
        bound = RecentCalls::of(own).is_turn_of(thread) && bound_call::go(&lock, thread).is_some();
        if bound {
            return;
        }
        let mut rest = None;
        match syscall::handle(&lock, thread, &mut rest) {
            Handled::Waits(next) if RecentCalls::of(own).have_turns(thread, &next) => {
                bound_call::open(&lock, thread, &next)
            }
            Handled::Done | Handled::Waits(_) => {}
            Handled::Left => syscall::go_on(&mut scheduler::upgrade(lock), Some(thread), &mut rest.unwrap()),
        }
    });
    bound
}

/// A notification that the client waits for beside its calls, whose wait is in flight.
fn waits_beside(talk: &mut Talk) -> Arc<Notification> {
    be_alone();
    let client = &mut talk.pair.client;
    let notification = Notification::new(client.process.account.hold(Resource::Objects, 1).ok());
    let cap = client.give(Object::Notification(Arc::clone(&notification)));
    let wait = [(90, Operation::Wait { cap: cap.0 })];
    enter_with(client, &wait, (0, number::NO_DEADLINE), talk.binds);
    notification
}

/// Something that happens.
type Event = fn(&mut Talk);

/// While the server works on a call.
const WHILE_IT_WORKS: [(&str, Event); 18] = [
    ("it goes on", |talk| {
        talk.answer_and_see();
        talk.go_on();
    }),
    ("the lock is held exclusively", |talk| {
        talk.note("alone");
        talk.answer_and_see();
        talk.go_on();
    }),
    ("something else that the client waits for ends", |talk| {
        talk.answer_and_see();
        let notification = waits_beside(talk);
        talk.call_and_see();
        be_alone();
        notification.signal(&mut alone(), 1);
        talk.note("notified");
        // It had waited for one, which was the other.
        talk.answer_otherwise("answered", |_| {});
        talk.round += 1;
        talk.go_on();
    }),
    ("it answers beside another entry", |talk| {
        let entries = [(91, Operation::Nop), (77, talk.answer())];
        enter_with(&mut talk.pair.server, &entries, (1, number::NO_DEADLINE), talk.binds);
        talk.note("two entries");
        enter_with(&mut talk.pair.server, &[], (1, number::NO_DEADLINE), talk.binds);
        talk.note("waited");
    }),
    ("it answers and does not receive", |talk| {
        let answer = Operation::Return {
            reply: talk.replies[0],
            exception: 0,
            results: buffer(ANSWER, 16),
            caps: CapArray::default(),
        };
        talk.serve(77, answer);
        talk.note("answered");
        talk.serve(77, answer);
        talk.note("answered twice");
        talk.client(78, talk.call());
        talk.note("called");
    }),
    ("it answers by an earlier Reply", |talk| {
        let earlier = talk.replies[1];
        talk.answer_otherwise("earlier", |answer| set_reply(answer, earlier));
        talk.answer_otherwise("in time", |_| {});
    }),
    ("it answers by a Reply that there is not", |talk| {
        let later = talk.replies[0] + (1 << 32);
        talk.answer_otherwise("later", |answer| set_reply(answer, later));
        talk.answer_otherwise("none", |answer| set_reply(answer, 0));
        talk.answer_otherwise("in time", |_| {});
    }),
    ("it answers by the Reply to nothing", |talk| {
        // The one that holds the slot while the call is bound, whichever it was.
        for before in 1..ROUNDS {
            let id = CapId(talk.replies[0]);
            let earlier = CapId::new(id.index(), id.generation().wrapping_sub(before as u32));
            talk.answer_otherwise("guessed", |answer| set_reply(answer, earlier.0));
        }
        talk.answer_otherwise("in time", |_| {});
    }),
    ("its results are too long", |talk| {
        talk.answer_otherwise("too long", |answer| set_results(answer, buffer(ANSWER, 65)));
        talk.answer_otherwise("in time", |_| {});
    }),
    ("its results are nowhere", |talk| {
        talk.answer_otherwise("nowhere", |answer| set_results(answer, Buffer { address: 0x7000_0000, length: 8 }));
        talk.answer_otherwise("not aligned", |answer| set_results(answer, buffer(ANSWER + 1, 8)));
        talk.answer_otherwise("none", |answer| set_results(answer, Buffer::default()));
    }),
    ("it raises an exception", |talk| {
        talk.answer_otherwise("exception", |answer| {
            if let Operation::ReturnRecv { exception, .. } = answer {
                *exception = 2;
            }
        });
    }),
    ("it receives into another buffer", |talk| {
        talk.answer_otherwise("elsewhere", |answer| {
            if let Operation::ReturnRecv { buffer: other, .. } = answer {
                *other = buffer(0x2000, 128);
            }
        });
        talk.client(78, talk.call());
        talk.note("called");
    }),
    ("it gives the Reply up", |talk| {
        talk.serve(77, Operation::Release { cap: talk.replies[0] });
        talk.note("given up");
    }),
    ("the call is cancelled", |talk| {
        be_alone();
        let told = talk.pair.client.thread.cancel(&mut alone(), CALLS + talk.round);
        talk.seen.push(format!("{told:?}"));
        talk.note("cancelled");
        talk.answer_otherwise("too late", |_| {});
    }),
    ("the capability is revoked", |talk| {
        revoke(talk);
        talk.note("revoked");
        talk.answer_otherwise("too late", |_| {});
        talk.call_otherwise("stale", |_| {});
    }),
    ("the client ends", |talk| {
        end(&talk.pair.client);
        talk.note("ended");
        talk.answer_otherwise("nowhere", |_| {});
    }),
    ("the server ends", |talk| {
        end(&talk.pair.server);
        talk.note("ended");
    }),
    ("the client's rings are corrupt", |talk| {
        talk.pair.client.set_index(ring::COMPLETION_HEAD, 4711);
        talk.answer_otherwise("corrupt", |_| {});
    }),
];

/// While the server waits for a call.
const WHILE_IT_WAITS: [(&str, Event); 18] = [
    ("the lock is held exclusively", |talk| {
        talk.note("alone");
        talk.go_on();
    }),
    ("the client waits for something else besides", |talk| {
        let notification = waits_beside(talk);
        talk.go_on();
        be_alone();
        notification.signal(&mut alone(), 1);
        talk.note("notified");
        talk.go_on();
    }),
    ("the client calls beside another entry", |talk| {
        let entries = [(91, Operation::Nop), (78, talk.call())];
        enter_with(&mut talk.pair.client, &entries, (2, number::NO_DEADLINE), talk.binds);
        talk.note("two entries");
        talk.take();
        talk.answer_otherwise("answered", |_| {});
    }),
    ("the client waits for two completions", |talk| {
        let entries = [(78, talk.call())];
        enter_with(&mut talk.pair.client, &entries, (2, number::NO_DEADLINE), talk.binds);
        talk.note("called");
        talk.take();
        talk.answer_otherwise("answered", |_| {});
    }),
    ("the client waits until a moment that is over", |talk| {
        let entries = [(78, talk.call())];
        enter_with(&mut talk.pair.client, &entries, (1, 1), talk.binds);
        talk.note("called");
        talk.take();
        talk.answer_otherwise("answered", |_| {});
        talk.round += 1;
        talk.go_on();
    }),
    ("another client calls", |talk| {
        be_alone();
        let endpoint = client_of(talk).unwrap().endpoint;
        let mut other = Actor::new(&talk.account, "other");
        let cap = other.give(Object::Client(Client { endpoint, badge: 6, interface: INTERFACE }));
        let mut call = talk.call();
        if let Operation::Call { cap: named, caps, .. } = &mut call {
            (*named, *caps) = (cap.0, CapArray::default());
        }
        enter(&mut other, 79, call, talk.binds);
        talk.note("another's");
        let reply = header(&talk.pair.server).reply;
        talk.answer_otherwise("answered", |answer| set_reply(answer, reply));
        talk.seen.push(format!("{:?}", other.completions()));
        be_alone();
        drop(other);
        talk.go_on();
    }),
    ("the interface is another", |talk| {
        talk.call_otherwise("interface", |call| {
            if let Operation::Call { interface, .. } = call {
                *interface += 1;
            }
        });
        talk.go_on();
    }),
    ("the capability is another", |talk| {
        talk.call_otherwise("capability", |call| {
            if let Operation::Call { cap, .. } = call {
                *cap += 1 << 32;
            }
        });
        talk.go_on();
    }),
    ("the message is too long", |talk| {
        talk.call_otherwise("too long", |call| set_params(call, buffer(PARAMS, 256)));
        talk.go_on();
    }),
    ("the message lies in two pages", |talk| {
        talk.call_otherwise("two pages", |call| set_params(call, buffer(0xfe0, 64)));
    }),
    ("the message is nowhere", |talk| {
        talk.call_otherwise("nowhere", |call| set_params(call, Buffer { address: 0x7000_0000, length: 8 }));
        talk.call_otherwise("not aligned", |call| set_params(call, buffer(PARAMS + 4, 8)));
        talk.call_otherwise("none", |call| set_params(call, Buffer::default()));
    }),
    ("more is accepted", |talk| {
        talk.call_otherwise("accepts", |call| {
            if let Operation::Call { results, caps, .. } = call {
                *results = buffer(RESULTS, 72);
                *caps = CapArray { address: SCRATCH + CAPS, sent: caps.sent, accepted: 2 };
            }
        });
    }),
    ("the receive is cancelled", |talk| {
        be_alone();
        let told = talk.pair.server.thread.cancel(&mut alone(), talk.receives);
        talk.seen.push(format!("{told:?}"));
        talk.note("cancelled");
        talk.client(78, talk.call());
        talk.note("queued");
    }),
    ("the capability is revoked", |talk| {
        revoke(talk);
        talk.note("revoked");
        talk.call_otherwise("stale", |_| {});
    }),
    ("the client ends", |talk| {
        end(&talk.pair.client);
        talk.note("ended");
    }),
    ("the server ends", |talk| {
        end(&talk.pair.server);
        talk.note("ended");
        talk.client(78, talk.call());
        talk.note("called");
    }),
    ("the server's table is full", |talk| {
        be_alone();
        let notification = Notification::new(talk.pair.server.process.account.hold(Resource::Objects, 1).ok());
        let mut told = Status::Ok;
        while told == Status::Ok {
            let given =
                talk.pair.server.process.insert(Object::Notification(Arc::clone(&notification)), Rights::ALL, None);
            told = given.err().unwrap_or(Status::Ok);
        }
        talk.seen.push(format!("{told:?}"));
        talk.client(78, talk.call());
        talk.note("called");
    }),
    ("the server's rings are corrupt", |talk| {
        talk.pair.server.set_index(ring::COMPLETION_HEAD, 4711);
        talk.client(78, talk.call());
        talk.note("called");
    }),
];

fn set_reply(operation: &mut Operation, to: u64) {
    if let Operation::ReturnRecv { reply, .. } = operation {
        *reply = to;
    }
}

fn set_results(operation: &mut Operation, to: Buffer) {
    if let Operation::ReturnRecv { results, .. } = operation {
        *results = to;
    }
}

fn set_params(operation: &mut Operation, to: Buffer) {
    if let Operation::Call { params, .. } = operation {
        *params = to;
    }
}

/// Takes away what the client calls through.
fn revoke(talk: &Talk) {
    be_alone();
    let node = talk.pair.client.process.get(talk.source).unwrap().node.unwrap();
    assert_eq!(derivation::revoke_at_once(&mut alone(), node), 1);
}

/// What the client's capability designates, where that is what it is.
fn client_of(talk: &Talk) -> Option<Client> {
    match talk.pair.client.process.get(talk.source).ok()?.object {
        Object::Client(client) => Some(client),
        _ => None,
    }
}

fn end(actor: &Actor) {
    be_alone();
    actor.process.doom(&mut alone(), End { cause: Cause::Killed, code: 0, report: String::from("it is to end") });
    settle();
}

/// Whatever happens while a call is bound is what happens where it is not.
pub fn bound_calls_are_calls(account: &Arc<Account>) {
    for sent in [0, 1] {
        for (works, events) in [(true, &WHILE_IT_WORKS[..]), (false, &WHILE_IT_WAITS[..])] {
            for (name, event) in events {
                let [bound, plain] = [true, false].map(|binds| {
                    let mut talk = Talk::new(account, binds, works, sent);
                    event(&mut talk);
                    talk.note("in the end");
                    be_alone();
                    talk.seen
                });
                assert_eq!(bound, plain, "{name}; capabilities sent: {sent}");
            }
        }
    }
    settle();
}
