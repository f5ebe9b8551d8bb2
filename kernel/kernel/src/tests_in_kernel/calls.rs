//! Tests of calls: delivery, answers, capabilities in messages, cancellation, bad pointers.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_abi::{CapId, MessageHeader, Rights, Status, TransferMode};
use capos_paging::PAGE;
use capos_schema::kernel_capnp as schema;
use capos_schema::kernel_dispatch as interface;

use super::bench::{Actor, SCRATCH, alone, buffer, memory, settle, status};
use crate::cpu::budget::Budget;
use crate::log;
use crate::memory::page_table::Access;
use crate::object::account::{Account, Resource};
use crate::object::address_space::Backing;
use crate::object::capability::Object;
use crate::object::derivation;
use crate::object::endpoint::{Client, Endpoint};
use crate::object::memory::MemoryObject;
use crate::object::notification::Notification;
use crate::object::process::{Cause, End};

pub const INTERFACE: u64 = 77;
const BADGE: u64 = 5;

/// A server that holds an endpoint and a client that may call it.
pub struct Pair {
    pub server: Actor,
    pub client: Actor,
    pub endpoint: CapId,
    pub cap: CapId,
}

/// Makes them.
pub fn pair(account: &Arc<Account>) -> Pair {
    let server = Actor::new(account, "server");
    let client = Actor::new(account, "client");
    let object = Endpoint::new(server.process.account.hold(Resource::Objects, 1).unwrap()).unwrap();
    let endpoint = server.give(Object::Endpoint(Arc::clone(&object)));
    let cap = client.give(Object::Client(Client { endpoint: object, badge: BADGE, interface: INTERFACE }));
    Pair { server, client, endpoint, cap }
}

/// A call with 16 bytes of parameters.
pub fn call(cap: CapId) -> Operation {
    Operation::Call {
        cap: cap.0,
        interface: INTERFACE,
        method: 3,
        params: buffer(0, 16),
        results: buffer(0x100, 64),
        caps: CapArray { address: SCRATCH + 0x200, sent: 0, accepted: 2 },
    }
}

/// A receive with room for them, and for two capabilities.
pub fn receive(endpoint: CapId) -> Operation {
    let caps = CapArray { address: SCRATCH + 0x200, sent: 0, accepted: 2 };
    Operation::Recv { endpoint: endpoint.0, buffer: buffer(0, 256), caps }
}

fn answer(reply: u64, length: u32) -> Operation {
    let results = if length == 0 { Buffer::default() } else { buffer(0x300, length) };
    Operation::Return { reply, exception: 0, results, caps: CapArray::default() }
}

/// The header of the message that was received last.
pub fn header(server: &Actor) -> MessageHeader {
    MessageHeader::decode(server.read(SCRATCH, MessageHeader::SIZE).as_slice().try_into().unwrap())
}

impl Pair {
    /// Has a call delivered; the reply.
    fn deliver(&mut self) -> u64 {
        assert!(self.server.run(1, receive(self.endpoint)).is_empty());
        assert!(self.client.run(2, call(self.cap)).is_empty());
        let received = self.server.completions();
        assert_eq!((received.len(), received[0].status), (1, 0));
        header(&self.server).reply
    }
}

/// Parameters, badge and results arrive, whoever comes first.
pub fn calls_meet_receivers(account: &Arc<Account>) {
    let mut pair = pair(account);
    for receiver_first in [true, false] {
        pair.client.write(SCRATCH, b"sixteen letters!");
        pair.server.write(SCRATCH + 0x300, b"results!");
        if receiver_first {
            assert!(pair.server.run(1, receive(pair.endpoint)).is_empty());
            assert!(pair.client.run(2, call(pair.cap)).is_empty());
        } else {
            assert!(pair.client.run(2, call(pair.cap)).is_empty());
            pair.server.run(1, receive(pair.endpoint));
        }
        let _ = pair.server.completions();
        let header = header(&pair.server);
        assert_eq!((header.badge, header.interface, header.method, header.length), (BADGE, INTERFACE, 3, 16));
        assert_eq!((header.results_capacity, header.caps_accepted), (64, 2));
        assert_eq!(pair.server.read(SCRATCH + MessageHeader::SIZE as u64, 16), b"sixteen letters!");
        assert_eq!(pair.server.once(answer(header.reply, 8)).status, 0);
        let done = pair.client.completions();
        assert_eq!((done.len(), done[0].user_data, done[0].status, done[0].length), (1, 2, 0, 8));
        assert_eq!(pair.client.read(SCRATCH + 0x100, 8), b"results!");
        assert_eq!(pair.server.once(answer(header.reply, 8)).status, status(Status::StaleCapability));
    }
}

/// Messages of all lengths arrive the same at all places, in one page or across two, whether the receiver waits, which is
/// the fast path, or the call, which is the slow path; nothing is written behind them, and nothing is left of them.
pub fn messages_arrive_whole(account: &Arc<Account>) {
    const FILL: u8 = 0xee;
    /// Where the second of two pages begins; the frame of the first is not the one before it.
    const FROM: u64 = 0x40_1000;
    const TO: u64 = 0x50_1000;
    let mut pair = pair(account);
    let text: Vec<u8> = (0..400_u32).map(|at| (at % 251) as u8).collect();
    for actor in [&pair.server, &pair.client] {
        for border in [FROM, TO] {
            // Frames are given out in rising order.
            for page in [border, border - PAGE] {
                let memory = MemoryObject::anonymous(&mut alone(), &actor.process.account, PAGE).unwrap();
                let access = Access { read: true, write: true, ..Access::default() };
                actor.process.space.map(&mut alone(), Backing::Memory(memory), (page, PAGE), 0, access, None).unwrap();
            }
        }
    }
    let held = |pair: &Pair| (pair.server.process.capability_count(), pair.server.process.account.usage());
    let before = held(&pair);
    for length in [0_u32, 1, 7, 8, 9, 31, 32, 33, 64, 100, 216, 296] {
        for step in [0_u64, 8, 40, 48, 104, 296] {
            for receiver_first in [true, false] {
                let buffer = |offset: u64| match length {
                    0 => Buffer::default(),
                    _ => Buffer { address: offset, length },
                };
                let (from, to) = (FROM - step, TO - step);
                pair.client.write(from, &text);
                pair.client.write(to, &[FILL; 400]);
                pair.server.write(to, &[FILL; 400]);
                let room = MessageHeader::SIZE as u32 + length;
                let receive = Operation::Recv {
                    endpoint: pair.endpoint.0,
                    buffer: Buffer { address: to, length: room },
                    caps: CapArray::default(),
                };
                let call = Operation::Call {
                    cap: pair.cap.0,
                    interface: INTERFACE,
                    method: 3,
                    params: buffer(from),
                    results: buffer(to),
                    caps: CapArray::default(),
                };
                if receiver_first {
                    assert!(pair.server.run(1, receive).is_empty());
                    assert!(pair.client.run(2, call).is_empty());
                } else {
                    assert!(pair.client.run(2, call).is_empty());
                    pair.server.push(1, receive);
                    assert_eq!(pair.server.enter(0), 1);
                }
                let received = pair.server.completions();
                assert_eq!((received.len(), received[0].status, received[0].length), (1, 0, room));
                let message = pair.server.read(to, 400);
                let (head, rest) = message.split_at(MessageHeader::SIZE);
                let header = MessageHeader::decode(head.try_into().unwrap());
                let whole = MessageHeader {
                    badge: BADGE,
                    interface: INTERFACE,
                    reply: header.reply,
                    method: 3,
                    caps: 0,
                    length,
                    results_capacity: length,
                    caps_accepted: 0,
                };
                assert_eq!(header, whole);
                assert!(rest[..length as usize] == text[..length as usize], "{length} bytes at {step}");
                assert!(rest[length as usize..].iter().all(|byte| *byte == FILL), "behind {length} bytes at {step}");
                // The answer goes the other way; its first byte is not that of the parameters.
                pair.server.write(from, &text[1..]);
                let reply = Operation::Return {
                    reply: header.reply,
                    exception: 0,
                    results: buffer(from),
                    caps: CapArray::default(),
                };
                assert_eq!(pair.server.once(reply).status, 0);
                let done = pair.client.completions();
                assert_eq!((done.len(), done[0].status, done[0].length), (1, 0, length));
                let results = pair.client.read(to, 399);
                assert!(results[..length as usize] == text[1..=length as usize]);
                assert!(results[length as usize..].iter().all(|byte| *byte == FILL));
                assert_eq!(held(&pair), before);
            }
        }
    }
}

/// An answer that offers the buffer for the next call as well.
fn answer_and_receive(reply: u64, endpoint: CapId, length: u32) -> Operation {
    let Operation::Return { results, .. } = answer(reply, length) else { return Operation::Nop };
    let Operation::Recv { endpoint, buffer, caps } = receive(endpoint) else { return Operation::Nop };
    Operation::ReturnRecv { reply, endpoint, exception: 0, results, buffer, caps }
}

/// RETURN_RECV answers and receives with one completion, whether the next call waits already, which is the slow path, or comes
/// later. Where one part is refused nothing of the other is done that could not be done again.
pub fn answers_receive_the_next(account: &Arc<Account>) {
    let mut pair = pair(account);
    let mut second = pair.client.sibling(1);
    let usage = |pair: &Pair| (pair.server.process.capability_count(), pair.server.process.account.usage());
    let before = usage(&pair);
    let mut reply = pair.deliver();
    for call_waits in [false, true, true, false] {
        pair.server.write(SCRATCH + 0x300, b"results!");
        if call_waits {
            assert!(second.run(9, call(pair.cap)).is_empty());
        }
        let done = pair.server.run(7, answer_and_receive(reply, pair.endpoint, 8));
        let answered = pair.client.completions();
        assert_eq!((answered.len(), answered[0].user_data, answered[0].status, answered[0].length), (1, 2, 0, 8));
        assert_eq!(pair.client.read(SCRATCH + 0x100, 8), b"results!");
        let received = if call_waits {
            done
        } else {
            assert!(done.is_empty(), "the answer alone is told nobody: {done:?}");
            assert!(second.run(9, call(pair.cap)).is_empty());
            pair.server.completions()
        };
        assert_eq!((received.len(), received[0].user_data, received[0].status), (1, 7, 0));
        let other = header(&pair.server).reply;
        assert_ne!(other, reply);
        assert_eq!(pair.server.once(answer(reply, 8)).status, status(Status::StaleCapability));
        assert_eq!(pair.server.once(answer(other, 8)).status, 0);
        assert_eq!(second.completions().len(), 1);
        reply = pair.deliver();
    }

    // What is wrong with the offer is said before the call is answered.
    let not_here = answer_and_receive(reply, CapId(12345), 8);
    assert_eq!(pair.server.once(not_here).status, status(Status::BadCapability));
    let Operation::ReturnRecv { endpoint, exception, results, caps, .. } = answer_and_receive(reply, pair.endpoint, 8)
    else {
        return;
    };
    let narrow = Operation::ReturnRecv { reply, endpoint, exception, results, buffer: buffer(0, 32), caps };
    assert_eq!(pair.server.once(narrow).status, status(Status::TooLarge));
    assert!(pair.client.completions().is_empty(), "the call still waits");

    // What is wrong with the answer leaves nothing offered.
    let stale = answer_and_receive(reply ^ 1 << 32, pair.endpoint, 8);
    assert!(pair.server.once(stale).status < 0);
    assert!(second.run(9, call(pair.cap)).is_empty());
    assert!(pair.server.completions().is_empty(), "no buffer waits");
    assert_eq!(second.run(4, Operation::Cancel { target: 9 }).len(), 2);
    let exception = Operation::ReturnRecv { reply, endpoint, exception: 2, results, buffer: buffer(0, 256), caps };
    let _ = pair.server.run(8, exception);
    let refused = pair.client.completions();
    assert_eq!((refused.len(), refused[0].status, refused[0].length), (1, 2, 8));

    // No thread waits for the answer any more: it goes nowhere, and the next call is received.
    pair.server.run(3, Operation::Cancel { target: 8 });
    let reply = pair.deliver();
    pair.client.run(4, Operation::Cancel { target: 2 });
    assert!(pair.server.run(5, answer_and_receive(reply, pair.endpoint, 8)).is_empty());
    assert!(pair.client.run(2, call(pair.cap)).is_empty());
    let received = pair.server.completions();
    assert_eq!((received.len(), received[0].user_data, received[0].status), (1, 5, 0));
    let reply = header(&pair.server).reply;
    assert_eq!(pair.server.once(answer(reply, 0)).status, 0);
    assert_eq!(usage(&pair), before);
}

/// The kernel keeps translations of pages that it reached. None outlives its page: what is unmapped is not reached by the next
/// message, what is mapped there again is, and not to be written where that is not allowed.
pub fn known_pages_are_forgotten(account: &Arc<Account>) {
    const PLACE: u64 = 0x40_0000;
    let mut pair = pair(account);
    let show = |actor: &Actor, write: bool| {
        let memory = MemoryObject::anonymous(&mut alone(), &actor.process.account, PAGE).unwrap();
        let access = Access { read: true, write, ..Access::default() };
        actor.process.space.map(&mut alone(), Backing::Memory(memory), (PLACE, PAGE), 0, access, None).unwrap();
    };
    let hide = |actor: &Actor| actor.process.space.unmap_at_once(&mut alone(), PLACE, PAGE).unwrap();
    let place = Buffer { address: PLACE, length: 16 };
    let Operation::Call { cap, interface, method, .. } = call(pair.cap) else { return };
    let caps = CapArray::default();
    let there = Operation::Call { cap, interface, method, params: place, results: place, caps };
    let once = |pair: &mut Pair, text: &[u8; 16]| {
        assert!(pair.server.run(1, receive(pair.endpoint)).is_empty());
        let refused = pair.client.run(2, there);
        if let [refused] = refused.as_slice() {
            pair.server.run(3, Operation::Cancel { target: 1 });
            return Some(refused.status);
        }
        let _ = pair.server.completions();
        assert_eq!(pair.server.read(SCRATCH + MessageHeader::SIZE as u64, 16), text);
        pair.server.write(SCRATCH + 0x300, text);
        assert_eq!(pair.server.once(answer(header(&pair.server).reply, 16)).status, 0);
        let done = pair.client.completions();
        assert_eq!(done.len(), 1);
        (done[0].status < 0).then_some(done[0].status)
    };
    show(&pair.client, true);
    for text in [b"the first page..", b"another page...."] {
        pair.client.write(PLACE, text);
        assert_eq!(once(&mut pair, text), None);
        assert_eq!(once(&mut pair, text), None);
        hide(&pair.client);
        assert_eq!(once(&mut pair, text), Some(status(Status::BadAddress)));
        show(&pair.client, true);
    }
    assert_eq!(once(&mut pair, &[0; 16]), None);
    hide(&pair.client);
    show(&pair.client, false);
    assert_eq!(once(&mut pair, &[0; 16]), Some(status(Status::BadAddress)), "the results have no place");
}

/// Too large for the other side, wrong interface, missing rights, exceptions.
pub fn calls_are_refused(account: &Arc<Account>) {
    let mut pair = pair(account);
    let small = Operation::Recv { endpoint: pair.endpoint.0, buffer: buffer(0, 48), caps: CapArray::default() };
    assert!(pair.server.run(1, small).is_empty());
    assert_eq!(pair.client.once(call(pair.cap)).status, status(Status::TooLarge));
    assert!(pair.server.completions().is_empty(), "the buffer is still offered");
    let cancelled = pair.server.run(3, Operation::Cancel { target: 1 });
    assert_eq!(cancelled[0].status, status(Status::Cancelled));
    assert_eq!((cancelled[1].user_data, cancelled[1].status), (3, 0));

    let Operation::Call { cap, method, params, results, caps, .. } = call(pair.cap) else { return };
    let other = Operation::Call { cap, interface: 1, method, params, results, caps };
    assert_eq!(pair.client.once(other).status, status(Status::WrongInterface));
    let id = pair.client.process.get(pair.cap).unwrap();
    let weak = pair.client.process.insert(id.object, Rights::GRANT, id.node).unwrap();
    assert_eq!(pair.client.once(call(weak)).status, status(Status::MissingRight));

    let reply = pair.deliver();
    let long = answer(reply, 128);
    assert_eq!(pair.server.once(long).status, status(Status::TooLarge));
    assert_eq!(pair.client.completions()[0].status, status(Status::TooLarge));

    let reply = pair.deliver();
    pair.server.write(SCRATCH + 0x300, b"not now");
    let refusal = Operation::Return { reply, exception: 2, results: buffer(0x300, 7), caps: CapArray::default() };
    assert_eq!(pair.server.once(refusal).status, 0);
    let done = pair.client.completions();
    assert_eq!((done[0].status, done[0].length), (2, 7));
    assert_eq!(pair.client.read(SCRATCH + 0x100, 7), b"not now");
}

/// A dropped reply, a cancelled call, a closed endpoint, a dead server.
pub fn calls_always_end(account: &Arc<Account>) {
    let mut pair = pair(account);
    let reply = pair.deliver();
    assert_eq!(pair.server.once(Operation::Release { cap: reply }).status, 0);
    assert_eq!(pair.client.completions()[0].status, status(Status::Disconnected));

    let reply = pair.deliver();
    let cancelled = pair.client.run(4, Operation::Cancel { target: 2 });
    assert_eq!((cancelled[0].user_data, cancelled[0].status), (2, status(Status::Cancelled)));
    assert_eq!(pair.server.once(answer(reply, 8)).status, 0, "the results go nowhere");
    assert!(pair.client.completions().is_empty());
    assert_eq!(pair.client.once(Operation::Cancel { target: 2 }).status, status(Status::NotFound));

    assert!(pair.client.run(2, call(pair.cap)).is_empty());
    let cancelled = pair.client.run(4, Operation::Cancel { target: 2 });
    assert_eq!(cancelled[0].status, status(Status::Cancelled));
    assert!(pair.server.run(1, receive(pair.endpoint)).is_empty(), "a cancelled call is not delivered");
    pair.server.run(3, Operation::Cancel { target: 1 });

    pair.deliver();
    assert!(pair.client.run(6, call(pair.cap)).is_empty());
    let Pair { server, mut client, cap, .. } = pair;
    drop(server);
    let ended = client.completions();
    assert_eq!(ended.len(), 2, "{ended:?}");
    assert!(ended.iter().all(|done| done.status == status(Status::Disconnected)));
    assert_eq!(client.once(call(cap)).status, status(Status::Disconnected));

    // A server that was killed takes no call, also before the first step of its end: the next instance gets it.
    let mut pair = self::pair(account);
    let mut next = Actor::new(account, "next");
    let endpoint = next.give(pair.server.process.get(pair.endpoint).unwrap().object);
    assert!(pair.server.run(1, receive(pair.endpoint)).is_empty());
    pair.server.process.doom(&mut alone(), End { cause: Cause::Killed, code: 0, report: String::new() });
    assert!(pair.client.run(2, call(pair.cap)).is_empty(), "it waits");
    assert_eq!(next.run(3, receive(endpoint)).len(), 1);
    settle();
    assert!(pair.client.completions().is_empty(), "it was delivered");
}

/// Copies derive, moves move, and none arrives where one is refused.
pub fn capabilities_travel(account: &Arc<Account>) {
    let mut pair = pair(account);
    let owned = pair.client.process.account.clone();
    let copied = pair.client.give(Object::Memory(memory(&owned, 1, 1)));
    let moved = pair.client.give(Object::Memory(memory(&owned, 1, 2)));
    let Operation::Call { cap, interface, method, params, results, .. } = call(pair.cap) else { return };
    let with = |sent| Operation::Call {
        cap,
        interface,
        method,
        params,
        results,
        caps: CapArray { address: SCRATCH + 0x200, sent, accepted: 2 },
    };
    pair.client.send_caps(SCRATCH + 0x200, &[copied], TransferMode::Copy);
    pair.client.send_caps(SCRATCH + 0x210, &[moved], TransferMode::Move);
    assert!(pair.server.run(1, receive(pair.endpoint)).is_empty());
    assert!(pair.client.run(2, with(2)).is_empty());
    let received = pair.server.completions();
    assert_eq!(received[0].caps, 2);
    let caps = pair.server.received_caps(SCRATCH + 0x200, 2);
    assert!(caps.iter().all(|cap| pair.server.process.get(*cap).is_ok()));
    assert!(pair.client.process.get(copied).is_ok());
    assert_eq!(pair.client.process.get(moved).err(), Some(Status::StaleCapability));
    let node = pair.client.process.get(copied).unwrap().node.unwrap();
    assert_eq!(
        (derivation::revoke_at_once(&mut alone(), node), pair.server.process.get(caps[0]).err()),
        (1, Some(Status::StaleCapability))
    );
    assert!(pair.server.process.get(caps[1]).is_ok());

    let held = pair.server.process.capability_count();
    pair.client.send_caps(SCRATCH + 0x200, &[copied, CapId(12345)], TransferMode::Copy);
    assert!(pair.server.run(1, receive(pair.endpoint)).is_empty());
    assert_eq!(pair.client.once(with(2)).status, status(Status::BadCapability));
    let ungranted = pair.client.process.get(copied).unwrap();
    let ungranted = pair.client.process.insert(ungranted.object, Rights::READ, ungranted.node).unwrap();
    pair.client.send_caps(SCRATCH + 0x200, &[copied, ungranted], TransferMode::Copy);
    assert_eq!(pair.client.once(with(2)).status, status(Status::MissingRight));
    // While a capability is being revoked, neither it nor what derives from it can be copied.
    let source = pair.client.process.get(copied).unwrap();
    let node = source.node.unwrap();
    let below = pair.client.process.insert(source.object, Rights::ALL, source.node).unwrap();
    derivation::begin_revocation(node);
    for sent in [copied, below] {
        pair.client.send_caps(SCRATCH + 0x200, &[sent], TransferMode::Copy);
        assert_eq!(pair.client.once(with(1)).status, status(Status::Overloaded));
    }
    derivation::end_revocation(node);
    assert_eq!(pair.server.process.capability_count(), held, "none arrived");
    assert!(pair.server.completions().is_empty());
}

/// Revoking a client capability ends what is in flight through it.
pub fn revocation_ends_calls(account: &Arc<Account>) {
    let mut pair = pair(account);
    let source = pair.server.process.get(pair.endpoint).unwrap();
    let Object::Endpoint(endpoint) = source.object else { return };
    let object = Object::Client(Client { endpoint, badge: 1, interface: INTERFACE });
    let cap = pair.client.process.insert(object.clone(), Rights::ALL, source.node).unwrap();
    assert!(pair.client.run(2, call(cap)).is_empty());
    assert_eq!(derivation::revoke_at_once(&mut alone(), source.node.unwrap()), 1);
    assert_eq!(pair.client.completions()[0].status, status(Status::Cancelled));
    assert!(pair.server.run(1, receive(pair.endpoint)).is_empty());
    assert_eq!(pair.client.once(call(cap)).status, status(Status::StaleCapability));
    pair.server.run(3, Operation::Cancel { target: 1 });

    // The same where the caller has released the capability meanwhile.
    let node = source.node;
    let cap = pair.client.process.insert(object, Rights::ALL, node).unwrap();
    let calls_before = derivation::count();
    assert!(pair.client.run(2, call(cap)).is_empty());
    assert_eq!(pair.client.once(Operation::Release { cap: cap.0 }).status, 0);
    assert_eq!(derivation::revoke_at_once(&mut alone(), node.unwrap()), 0);
    assert_eq!(pair.client.completions()[0].status, status(Status::Cancelled));
    assert_eq!(derivation::count(), calls_before - 1);
}

/// What waits for messages and signals ends as calls do, also where its capability was given up.
pub fn revocation_ends_waits(account: &Arc<Account>) {
    for (given_up, notification) in [(false, false), (true, false), (false, true), (true, true)] {
        let owner = Actor::new(account, "owner");
        let mut waiter = Actor::new(account, "waiter");
        let object = if notification {
            Object::Notification(Notification::new(None))
        } else {
            Object::Endpoint(Endpoint::new(owner.process.account.hold(Resource::Objects, 1).unwrap()).unwrap())
        };
        let source = owner.give(object.clone());
        let node = owner.process.get(source).unwrap().node;
        let cap = waiter.process.insert(object, Rights::ALL, node).unwrap();
        let waits = if notification { Operation::Wait { cap: cap.0 } } else { receive(cap) };
        assert!(waiter.run(1, waits).is_empty());
        if given_up {
            assert_eq!(waiter.once(Operation::Release { cap: cap.0 }).status, 0);
        }
        derivation::revoke_at_once(&mut alone(), node.unwrap());
        let ended = waiter.completions();
        assert_eq!((ended.len(), ended[0].user_data, ended[0].status), (1, 1, status(Status::Cancelled)));
        assert_eq!(waiter.thread.in_flight(), 0);
    }
}

/// Operations through many capabilities end with theirs, whatever else is in flight.
pub fn operations_are_found_by_capability(account: &Arc<Account>) {
    let mut actor = Actor::new(account, "waiter");
    let object = Object::Notification(Notification::new(None));
    let root = actor.give(object.clone());
    let node = actor.process.get(root).unwrap().node;
    // More capabilities than the thread has places, so that some share a list.
    let caps: Vec<CapId> = (0..40).map(|_| actor.process.insert(object.clone(), Rights::ALL, node).unwrap()).collect();
    let chosen = [caps[0], caps[16], caps[32], caps[1], caps[17], caps[0], caps[32], caps[16]];
    for (tag, cap) in (0..).zip(chosen) {
        assert!(actor.run(tag, Operation::Wait { cap: cap.0 }).is_empty());
    }
    for (cap, tags) in [(caps[16], [1, 7].as_slice()), (caps[2], &[]), (caps[0], &[0, 5]), (caps[17], &[4])] {
        let node = actor.process.get(cap).unwrap().node.unwrap();
        assert!(actor.process.lose(&mut alone(), cap, node, &mut Budget::new()));
        let mut ended: Vec<u64> = actor.completions().iter().map(|done| done.user_data).collect();
        ended.sort_unstable();
        assert_eq!(ended, tags);
    }
    let cancelled = actor.run(9, Operation::Cancel { target: 2 });
    assert_eq!(cancelled.len(), 2);
    let lost = actor.process.get(caps[32]).unwrap().node.unwrap();
    assert!(actor.process.lose(&mut alone(), caps[32], lost, &mut Budget::new()));
    assert_eq!(actor.completions().iter().map(|done| done.user_data).collect::<Vec<_>>(), [6]);
    assert_eq!(actor.thread.in_flight(), 1);
    // What was given up before the waits are lost is dropped with the root.
    derivation::revoke_at_once(&mut alone(), node.unwrap());
    assert_eq!(actor.completions().len(), 1);
}

/// A reader of the log that names a position far ahead keeps no other from reading.
pub fn log_readers_are_served(account: &Arc<Account>) {
    let mut readers = [u64::MAX, crate::cpu::log::end()].map(|position| {
        let mut actor = Actor::new(account, "reader");
        let log = actor.give(Object::Log);
        let params = actor.params(|params| {
            let mut params: schema::debug_log::read_params::Builder<'_> = params.init_as();
            params.set_position(position);
        });
        let caps = CapArray::default();
        let (interface, results) = (interface::DEBUG_LOG, buffer(0x1000, 0x1000));
        let read = Operation::Call { cap: log.0, interface, method: 1, params, results, caps };
        assert!(actor.run(1, read).is_empty());
        actor
    });
    log!("a line");
    settle();
    for reader in &mut readers {
        let ended = reader.completions();
        assert_eq!((ended.len(), ended[0].status), (1, 0));
    }
}

/// Many entries at once are worked on in turns with others, in order, and each is answered once.
pub fn long_entries_give_way(account: &Arc<Account>) {
    let mut actor = Actor::with_rings(account, "busy", 1024, 1024);
    let table = actor.give(Object::Table(Arc::clone(&actor.process)));
    while actor.process.insert(Object::Timer, Rights::ALL, None).is_ok() {}
    let params = actor.params(|params| {
        let _: schema::capability_table::list_params::Builder<'_> = params.init_as();
    });
    let (results, caps) = (buffer(0x1000, 0x4000), CapArray::default());
    let interface = interface::CAPABILITY_TABLE;
    for tag in 0..1024 {
        actor.push(tag, Operation::Call { cap: table.0, interface, method: 0, params, results, caps });
    }
    actor.enter(0);
    let mut turns = 1;
    let mut done: Vec<u64> = Vec::new();
    while actor.thread.has_resume() {
        let tags: Vec<u64> = actor.completions().iter().map(|done| done.user_data).collect();
        assert!(!tags.is_empty() && tags.len() < 512, "{} entries in one turn", tags.len());
        done.extend(tags);
        crate::syscall::resume(&mut alone(), &actor.thread);
        turns += 1;
    }
    done.extend(actor.completions().iter().map(|done| done.user_data));
    assert!(turns > 2, "{turns} turns");
    assert!(done.into_iter().eq(0..1024));
    assert_eq!(actor.thread.with_context(|context| context.rax), 1024);
}

/// No pointer of an entry that is not the process's memory is used.
pub fn bad_pointers_are_answers(account: &Arc<Account>) {
    let mut pair = pair(account);
    let bad = status(Status::BadAddress);
    for address in [8, 0xffff_8000_0000_1000, 0x7fff_ffff_fff8, 0x30_0000, SCRATCH + 0xfff8, u64::MAX - 7] {
        let wrong = Buffer { address, length: 16 };
        let Operation::Call { cap, interface, method, params, results, caps } = call(pair.cap) else { return };
        assert!(pair.server.run(1, receive(pair.endpoint)).is_empty());
        let sent = Operation::Call { cap, interface, method, params: wrong, results, caps };
        assert_eq!(pair.client.once(sent).status, bad, "parameters at {address:#x}");
        let array = CapArray { address, sent: 1, accepted: 0 };
        let sent = Operation::Call { cap, interface, method, params, results, caps: array };
        assert_eq!(pair.client.once(sent).status, bad, "capabilities at {address:#x}");
        pair.server.run(3, Operation::Cancel { target: 1 });

        let offered = Operation::Recv {
            endpoint: pair.endpoint.0,
            buffer: Buffer { address, length: 64 },
            caps: CapArray::default(),
        };
        assert!(pair.server.run(1, offered).is_empty());
        assert!(pair.client.run(2, call(pair.cap)).is_empty(), "the call waits for a better buffer");
        assert_eq!(pair.server.completions()[0].status, bad, "a buffer at {address:#x}");
        pair.client.run(4, Operation::Cancel { target: 2 });

        assert!(pair.server.run(1, receive(pair.endpoint)).is_empty());
        let sent = Operation::Call { cap, interface, method, params, results: wrong, caps };
        assert!(pair.client.run(2, sent).is_empty());
        let _ = pair.server.completions();
        let reply = header(&pair.server).reply;
        let returned = Operation::Return { reply, exception: 0, results: wrong, caps: CapArray::default() };
        assert_eq!(pair.server.once(returned).status, bad, "results from {address:#x}");
        assert_eq!(pair.server.once(answer(reply, 16)).status, 0);
        assert_eq!(pair.client.completions()[0].status, bad, "results to {address:#x}");
    }
}

/// Bits arrive, once, at one waiter; waits can be cancelled.
pub fn notifications_signal(account: &Arc<Account>) {
    let mut actor = Actor::new(account, "waiter");
    let cap = actor.give(Object::Notification(Notification::new(None)));
    assert!(actor.run(1, Operation::Wait { cap: cap.0 }).is_empty());
    let done = actor.run(2, Operation::Notify { notification: cap.0, bits: 0x8000_0000_0000_0001 });
    assert_eq!((done[0].user_data, done[0].value), (1, 0x8000_0000_0000_0001));
    actor.run(2, Operation::Notify { notification: cap.0, bits: 2 });
    actor.run(2, Operation::Notify { notification: cap.0, bits: 4 });
    assert_eq!(actor.once(Operation::Wait { cap: cap.0 }).value, 6);
    assert!(actor.run(1, Operation::Wait { cap: cap.0 }).is_empty());
    let cancelled = actor.run(3, Operation::Cancel { target: 1 });
    assert_eq!(cancelled[0].status, status(Status::Cancelled));
    assert_eq!(actor.run(4, Operation::Notify { notification: cap.0, bits: 1 }).len(), 1);
}

/// Tag of the wait for the end of a call.
const WATCH: u64 = 7;

impl Pair {
    /// Has a call delivered and waits for its end; the reply.
    fn watch(&mut self) -> u64 {
        let reply = self.deliver();
        assert!(self.server.run(WATCH, Operation::Wait { cap: reply }).is_empty());
        reply
    }

    /// The wait has ended, with this status and nothing else.
    fn watch_ended(&mut self, expected: Status) {
        let done = self.server.completions();
        let done: Vec<(u64, i32)> = done.iter().map(|done| (done.user_data, done.status)).collect();
        assert_eq!(done, [(WATCH, status(expected))]);
    }
}

/// Who received a call learns that no thread waits for the answer any more: the caller cancelled, lost
/// what it called through, or died. Nothing is charged for it, and nothing stays.
pub fn waits_for_callers_end(account: &Arc<Account>) {
    let mut pair = pair(account);
    let before = (pair.server.process.account.usage(), derivation::count());

    let reply = pair.watch();
    pair.client.run(4, Operation::Cancel { target: 2 });
    pair.watch_ended(Status::Ok);
    // What waits later is told at once, as often as it asks.
    for _ in 0..2 {
        assert_eq!(pair.server.once(Operation::Wait { cap: reply }).status, 0);
    }
    assert_eq!(pair.server.once(answer(reply, 8)).status, 0, "the results go nowhere");
    assert_eq!(pair.server.once(Operation::Wait { cap: reply }).status, status(Status::StaleCapability));

    let client = pair.client.process.get(pair.cap).unwrap();
    let kept = pair.cap;
    pair.cap = pair.client.process.insert(client.object, client.rights, client.node).unwrap();
    let reply = pair.watch();
    assert_eq!(derivation::revoke_at_once(&mut alone(), client.node.unwrap()), 1);
    pair.watch_ended(Status::Ok);
    assert_eq!(pair.client.completions()[0].status, status(Status::Cancelled));
    assert_eq!(pair.server.once(Operation::Release { cap: reply }).status, 0);
    pair.cap = kept;
    assert_eq!(before, (pair.server.process.account.usage(), derivation::count()));

    let reply = pair.watch();
    let Pair { mut server, client, .. } = pair;
    drop(client);
    let done = server.completions();
    assert_eq!((done.len(), done[0].user_data, done[0].status), (1, WATCH, 0));
    assert_eq!(server.once(Operation::Release { cap: reply }).status, 0);
    assert_eq!(before.0, server.process.account.usage());
}

/// A wait through a reply ends when the reply does, however that is, and can itself be cancelled.
pub fn waits_end_with_replies(account: &Arc<Account>) {
    let mut pair = pair(account);
    let before = (pair.server.process.account.usage(), pair.client.process.account.usage(), derivation::count());
    let stale = (WATCH, status(Status::StaleCapability));
    for (end, caller) in [
        (answer as fn(u64, u32) -> Operation, 0),
        (|reply, _| Operation::Release { cap: reply }, status(Status::Disconnected)),
        (|reply, _| answer(reply, 128), status(Status::TooLarge)),
    ] {
        let reply = pair.watch();
        let done = pair.server.run(8, end(reply, 8));
        assert_eq!((done.len(), (done[0].user_data, done[0].status)), (2, stale), "{done:?}");
        assert_eq!(pair.client.completions()[0].status, caller);
    }

    // An answer that cannot be read changes nothing: the call continues, and so does the wait.
    let reply = pair.watch();
    let unmapped = Buffer { address: 0x6000_0000, length: 8 };
    let bad = Operation::Return { reply, exception: 0, results: unmapped, caps: CapArray::default() };
    assert_eq!(pair.server.once(bad).status, status(Status::BadAddress));

    // One wait for each call; a second one is told so, and the first may be cancelled for it.
    assert_eq!(pair.server.once(Operation::Wait { cap: reply }).status, status(Status::Overloaded));
    let cancelled = pair.server.run(8, Operation::Cancel { target: WATCH });
    assert_eq!((cancelled[0].user_data, cancelled[0].status), (WATCH, status(Status::Cancelled)));
    assert!(pair.server.run(WATCH, Operation::Wait { cap: reply }).is_empty());

    // The reply goes to another process: there, a wait continues from where it is.
    let other = self::pair(account);
    let Pair { server: mut third, client: mut owner, endpoint, .. } = other;
    let object = third.process.get(endpoint).unwrap();
    let Object::Endpoint(object) = object.object else { return };
    let to_third = Client { endpoint: object, badge: BADGE, interface: INTERFACE };
    let to_third = pair.server.give(Object::Client(to_third));
    pair.server.send_caps(SCRATCH + 0x200, &[CapId(reply)], TransferMode::Move);
    assert!(third.run(1, receive(endpoint)).is_empty());
    let Operation::Call { cap, interface, method, params, results, caps } = call(to_third) else { return };
    let passed = Operation::Call { cap, interface, method, params, results, caps: CapArray { sent: 1, ..caps } };
    let done = pair.server.run(9, passed);
    assert_eq!((done.len(), (done[0].user_data, done[0].status)), (1, stale));
    assert_eq!(third.completions()[0].caps, 1);
    let moved = third.received_caps(SCRATCH + 0x200, 1)[0];
    assert!(third.run(WATCH, Operation::Wait { cap: moved.0 }).is_empty());
    pair.client.run(4, Operation::Cancel { target: 2 });
    let done = third.completions();
    assert_eq!((done.len(), done[0].user_data, done[0].status), (1, WATCH, 0));

    // A server that dies while it waits takes nothing along.
    assert_eq!(third.once(Operation::Release { cap: moved.0 }).status, 0);
    assert!(owner.completions().is_empty());
    drop((third, owner));
    assert_eq!(pair.server.completions()[0].status, status(Status::Disconnected));
    assert_eq!(pair.server.once(Operation::Release { cap: to_third.0 }).status, 0);
    let now = (pair.server.process.account.usage(), pair.client.process.account.usage(), derivation::count());
    assert_eq!(before, now);
    pair.watch();
    let Pair { server, mut client, .. } = pair;
    drop(server);
    assert_eq!(client.completions()[0].status, status(Status::Disconnected));
}

/// A server that keeps the replies to callers that have died keeps nothing of those: whoever paid for
/// them has everything back at once.
pub fn replies_keep_no_caller(account: &Arc<Account>) {
    let Pair { mut server, client, endpoint, cap } = pair(account);
    let object = client.process.get(cap).unwrap().object;
    drop(client);
    let (before, own) = (account.usage(), server.process.account.usage());
    let replies = [0, 1, 2].map(|_| {
        let mut caller = Actor::new(account, "caller");
        let cap = caller.give(object.clone());
        assert!(server.run(1, receive(endpoint)).is_empty());
        assert!(caller.run(2, call(cap)).is_empty());
        assert_eq!(server.completions().len(), 1);
        drop(caller);
        assert_eq!(account.usage(), before);
        header(&server).reply
    });
    // No thread waits for any of them, and each says so.
    for end in [answer(replies[0], 8), answer(replies[1], 0), Operation::Release { cap: replies[2] }] {
        assert_eq!(server.once(Operation::Wait { cap: replies[2] }).status, 0);
        assert_eq!(server.once(end).status, 0);
    }
    assert_eq!(server.once(answer(replies[0], 8)).status, status(Status::StaleCapability));
    assert_eq!(server.process.account.usage(), own);
}
