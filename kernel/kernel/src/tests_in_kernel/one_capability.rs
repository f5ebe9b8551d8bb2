//! One capability in a message: a call and an answer, on the fast path and on the slow path, give the same capability.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_abi::{CapId, CapSlot, Rights, Status, TransferMode};
use capos_paging::PAGE;
use capos_schema::kernel_dispatch as interface;

use super::bench::{Actor, SCRATCH, alone, buffer, memory, settle, status};
use super::calls::{self, Pair, call, header, receive};
use super::processes::{PAGED_AT, paging};
use crate::object::account::{Account, Resource};
use crate::object::capability::Object;
use crate::object::derivation;
use crate::object::endpoint::{Client, Endpoint};
use crate::object::thread::State;
use crate::syscall::LONG_ENTRIES;

/// How a message with a capability goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// In a call for which a receiver waits: the fast path.
    Call,
    /// In a call that waits for its receiver: the slow path.
    QueuedCall,
    /// In an answer.
    Answer,
    /// In an answer that receives the next call.
    AnswerAndReceive,
}

/// All ways.
const WAYS: [Way; 4] = [Way::Call, Way::QueuedCall, Way::Answer, Way::AnswerAndReceive];
/// Where capabilities are received.
const RECEIVED: u64 = SCRATCH + 0x200;
/// Where those that are sent lie.
const SENT: u64 = SCRATCH + 0x400;
/// Where nothing is mapped.
const NOWHERE: u64 = 0x7000_0000;
/// What an answer says beside its capability.
const WORDS: &[u8; 8] = b"results!";

fn accepting(address: u64, accepted: u8) -> CapArray {
    if accepted == 0 { CapArray::default() } else { CapArray { address, sent: 0, accepted } }
}

fn calling(pair: &Pair, caps: CapArray) -> Operation {
    let Operation::Call { cap, interface, method, params, results, .. } = call(pair.cap) else { return Operation::Nop };
    Operation::Call { cap, interface, method, params, results, caps }
}

fn receiving(pair: &Pair, caps: CapArray) -> Operation {
    let Operation::Recv { endpoint, buffer, .. } = receive(pair.endpoint) else { return Operation::Nop };
    Operation::Recv { endpoint, buffer, caps }
}

impl Way {
    const fn is_call(self) -> bool {
        matches!(self, Self::Call | Self::QueuedCall)
    }

    fn sender(self, pair: &Pair) -> &Actor {
        if self.is_call() { &pair.client } else { &pair.server }
    }

    fn receiver(self, pair: &Pair) -> &Actor {
        if self.is_call() { &pair.server } else { &pair.client }
    }

    /// Entries of a message that arrives which take the slow path: a call that is queued and its receive; the end of a receive
    /// that nothing came for.
    const fn long_entries(self) -> u64 {
        match self {
            Self::Call | Self::Answer => 0,
            Self::QueuedCall => 2,
            Self::AnswerAndReceive => 1,
        }
    }

    /// Sends what the slot at `array` says to who accepts this many; what the receiver has then, or what the sender is told.
    fn send(self, pair: &mut Pair, array: u64, accepted: u8) -> Result<CapSlot, i32> {
        self.send_to(pair, array, (RECEIVED, accepted))
    }

    /// The same, where it is received into the array at `received`.
    fn send_to(self, pair: &mut Pair, array: u64, (received, accepted): (u64, u8)) -> Result<CapSlot, i32> {
        let accepts = accepting(received, accepted);
        let sends = CapArray { address: array, sent: 1, accepted: 0 };
        if self.is_call() {
            self.send_call(pair, sends, accepts)?
        } else {
            self.send_answer(pair, sends, accepts)?
        };
        let raw = self.receiver(pair).read(received, CapSlot::SIZE);
        Ok(CapSlot::decode(raw.as_slice().try_into().unwrap()))
    }

    fn send_call(self, pair: &mut Pair, sends: CapArray, accepts: CapArray) -> Result<(), i32> {
        let (receives, calls) = (receiving(pair, accepts), calling(pair, sends));
        if self == Self::Call {
            assert!(pair.server.run(1, receives).is_empty());
        }
        let mut told = pair.client.run(2, calls);
        let mut received = Vec::new();
        if self == Self::QueuedCall {
            assert!(told.is_empty());
            received = pair.server.run(1, receives);
            told = pair.client.completions();
        }
        received.append(&mut pair.server.completions());
        if let [refused] = told.as_slice() {
            assert!(received.is_empty(), "{received:?}");
            assert_eq!(pair.server.run(3, Operation::Cancel { target: 1 }).len(), 2);
            return Err(refused.status);
        }
        assert_eq!((received.len(), received[0].status, received[0].caps), (1, 0, 1));
        let header = header(&pair.server);
        assert_eq!(header.caps, 1);
        assert_eq!(pair.server.once(answering(header.reply, CapArray::default())).status, 0);
        assert_eq!(pair.client.completions().len(), 1);
        Ok(())
    }

    fn send_answer(self, pair: &mut Pair, sends: CapArray, accepts: CapArray) -> Result<(), i32> {
        assert!(pair.server.run(1, receive(pair.endpoint)).is_empty());
        assert!(pair.client.run(2, calling(pair, accepts)).is_empty());
        assert_eq!(pair.server.completions().len(), 1);
        let reply = header(&pair.server).reply;
        pair.server.write(SCRATCH + 0x300, WORDS);
        let answers = answering(reply, sends);
        let told = match (self, answers) {
            (Self::AnswerAndReceive, Operation::Return { reply, exception, results, caps }) => {
                let (endpoint, buffer) = (pair.endpoint.0, buffer(0, 256));
                pair.server.run(7, Operation::ReturnRecv { reply, endpoint, exception, results, buffer, caps })
            }
            _ => pair.server.run(7, answers),
        };
        let refused = told.first().map_or(0, |told| told.status);
        if refused < 0 {
            // Where its own entry was at fault, the call still waits.
            let _ = pair.server.run(8, answering(reply, CapArray::default()));
            assert_eq!(pair.client.completions().len(), 1);
            return Err(refused);
        }
        if self == Self::AnswerAndReceive {
            assert!(told.is_empty());
            assert_eq!(pair.server.run(3, Operation::Cancel { target: 7 }).len(), 2);
        }
        let answered = pair.client.completions();
        assert_eq!((answered.len(), answered[0].status, answered[0].caps), (1, 0, 1));
        assert_eq!(answered[0].length as usize, WORDS.len());
        assert_eq!(pair.client.read(SCRATCH + 0x100, WORDS.len()), WORDS);
        Ok(())
    }
}

fn answering(reply: u64, caps: CapArray) -> Operation {
    let results = if caps.sent == 0 { Buffer::default() } else { buffer(0x300, WORDS.len() as u32) };
    Operation::Return { reply, exception: 0, results, caps }
}

/// What both hold, what they pay for, and all that derives from anything.
fn held(pair: &Pair) -> ([u32; 2], [[u64; 5]; 2], usize) {
    let both = [&pair.server.process, &pair.client.process];
    (both.map(|it| it.capability_count()), both.map(|it| it.account.usage()), derivation::count())
}

/// A capability that is sent alone arrives with the rights that it is sent with, derived from its source, whichever way it
/// goes, and what is refused is refused alike: no process has any of it then.
pub fn one_capability_travels(account: &Arc<Account>) {
    for way in WAYS {
        let mut pair = calls::pair(account);
        copies_arrive(way, &mut pair);
        moves_arrive(way, &mut pair);
        refusals_leave_nothing(way, &mut pair);
        limits_leave_nothing(way, &mut pair);
    }
    receivers_without_an_array(account);
    callers_without_an_array(account);
    answers_and_calls_share_an_array(account);
    arrays_come_in(account);
}

fn copies_arrive(way: Way, pair: &mut Pair) {
    let sender = way.sender(pair);
    let object = Object::Memory(memory(&sender.process.account, 1, 1));
    let Object::Endpoint(endpoint) = pair.server.process.get(pair.endpoint).unwrap().object else { return };
    // One for the endpoint that is called, and the endpoint itself, whose slots are counted.
    let client = Object::Client(Client { endpoint: Arc::clone(&endpoint), badge: 1, interface: 7 });
    for (object, interface) in
        [(object, interface::MEMORY_OBJECT), (client, 7), (Object::Endpoint(endpoint), interface::ENDPOINT)]
    {
        let source = way.sender(pair).give(object);
        let before = held(pair);
        let mask = Rights(Rights::GRANT.0 | Rights::READ.0);
        // Both arrays in one page, which is the fast path; one of them across two pages.
        for (array, received) in [(SENT, RECEIVED), (SCRATCH + PAGE - 8, RECEIVED), (SENT, SCRATCH + PAGE - 8)] {
            way.sender(pair).write(array, &CapSlot::send(source.0, mask, TransferMode::Copy).encode());
            let long = LONG_ENTRIES.load(Ordering::Relaxed);
            let got = way.send_to(pair, array, (received, 1)).unwrap();
            if (array, received) == (SENT, RECEIVED) {
                assert_eq!(LONG_ENTRIES.load(Ordering::Relaxed) - long, way.long_entries(), "{way:?}");
            }
            assert_eq!(got.word1, interface, "{way:?}");
            let (sender, receiver) = (&way.sender(pair).process, &way.receiver(pair).process);
            let here = receiver.get(CapId(got.word0)).unwrap();
            assert_eq!(here.rights, Rights::ALL.intersection(mask), "{way:?}");
            let node = sender.get(source).unwrap().node.unwrap();
            assert_eq!(derivation::revoke_at_once(&mut alone(), node), 1, "{way:?}: it derives from its source");
            assert_eq!(receiver.get(CapId(got.word0)).err(), Some(Status::StaleCapability));
            if let Object::Client(client) = here.object {
                assert_eq!(client.badge, 1);
            }
            assert_eq!(held(pair), before, "{way:?}");
        }
        way.sender(pair).process.release(&mut alone(), source).unwrap();
    }
    if way.is_call() {
        // What is called through is itself sent.
        pair.client.send_caps(SENT, &[pair.cap], TransferMode::Copy);
        let got = way.send(pair, SENT, 1).unwrap();
        pair.server.process.release(&mut alone(), CapId(got.word0)).unwrap();
    }
}

fn moves_arrive(way: Way, pair: &mut Pair) {
    let source = way.sender(pair).give(Object::Timer);
    way.sender(pair).send_caps(SENT, &[source], TransferMode::Move);
    let got = way.send(pair, SENT, 2).unwrap();
    assert_eq!(way.sender(pair).process.get(source).err(), Some(Status::StaleCapability), "{way:?}");
    way.receiver(pair).process.release(&mut alone(), CapId(got.word0)).unwrap();
}

fn refusals_leave_nothing(way: Way, pair: &mut Pair) {
    let source = way.sender(pair).give(Object::Memory(memory(&way.sender(pair).process.account, 1, 1)));
    let whole = way.sender(pair).process.get(source).unwrap();
    let narrow = way.sender(pair).process.insert(whole.object.clone(), Rights::READ, whole.node).unwrap();
    let revoked = way.sender(pair).process.insert(whole.object.clone(), Rights::ALL, whole.node).unwrap();
    way.sender(pair).process.release(&mut alone(), revoked).unwrap();
    drop(whole);
    let before = held(pair);
    let copy = |cap: CapId| CapSlot::send(cap.0, Rights::ALL, TransferMode::Copy);
    let reserved = CapSlot { word1: 2 << 32, ..copy(source) };
    for (slot, accepted, refused) in [
        (copy(narrow), 1, Status::MissingRight),
        (copy(revoked), 1, Status::StaleCapability),
        (copy(CapId(12345)), 1, Status::BadCapability),
        (reserved, 1, Status::InvalidArgument),
        (copy(source), 0, Status::TooLarge),
    ] {
        way.sender(pair).write(SENT, &slot.encode());
        assert_eq!(way.send(pair, SENT, accepted), Err(status(refused)), "{way:?}: {slot:?}");
        assert_eq!(held(pair), before, "{way:?}: {refused:?}");
    }
    assert_eq!(way.send(pair, NOWHERE, 1), Err(status(Status::BadAddress)), "{way:?}");
    assert_eq!(held(pair), before, "{way:?}");
    for cap in [narrow, source] {
        way.sender(pair).process.release(&mut alone(), cap).unwrap();
    }
}

/// Where the receiver can pay for a reply and for nothing else.
fn limits_leave_nothing(way: Way, pair: &mut Pair) {
    let source = way.sender(pair).give(Object::Timer);
    let mut filler = Vec::new();
    while let Ok(id) = way.receiver(pair).process.insert(Object::Log, Rights::ALL, None) {
        filler.push(id);
    }
    if way.is_call() {
        way.receiver(pair).process.release(&mut alone(), filler.pop().unwrap()).unwrap();
    }
    let memory = way.sender(pair).give(Object::Memory(memory(&way.sender(pair).process.account, 1, 1)));
    let before = held(pair);
    for cap in [source, memory] {
        way.sender(pair).send_caps(SENT, &[cap], TransferMode::Copy);
        assert_eq!(way.send(pair, SENT, 1), Err(status(Status::Overloaded)), "{way:?}");
        assert_eq!(held(pair), before, "{way:?}");
    }
    for id in filler {
        way.receiver(pair).process.release(&mut alone(), id).unwrap();
    }
    for cap in [source, memory] {
        way.sender(pair).process.release(&mut alone(), cap).unwrap();
    }
}

/// A receiver whose array is not there is told so, and the call waits for the next one.
fn receivers_without_an_array(account: &Arc<Account>) {
    let mut pair = calls::pair(account);
    let source = pair.client.give(Object::Memory(memory(&pair.client.process.account, 1, 1)));
    pair.client.send_caps(SENT, &[source], TransferMode::Copy);
    let before = held(&pair);
    assert!(pair.server.run(1, receiving(&pair, accepting(NOWHERE, 1))).is_empty());
    assert!(pair.client.run(2, calling(&pair, CapArray { address: SENT, sent: 1, accepted: 0 })).is_empty());
    let told = pair.server.completions();
    assert_eq!((told.len(), told[0].status), (1, status(Status::BadAddress)));
    assert_eq!(pair.client.run(3, Operation::Cancel { target: 2 }).len(), 2);
    assert_eq!(held(&pair), before);
}

/// A caller whose array is not there is told so; the server has answered.
fn callers_without_an_array(account: &Arc<Account>) {
    let mut pair = calls::pair(account);
    let source = pair.server.give(Object::Timer);
    pair.server.send_caps(SENT, &[source], TransferMode::Copy);
    let before = held(&pair);
    assert!(pair.server.run(1, receive(pair.endpoint)).is_empty());
    assert!(pair.client.run(2, calling(&pair, accepting(NOWHERE, 1))).is_empty());
    assert_eq!(pair.server.completions().len(), 1);
    let reply = header(&pair.server).reply;
    let told = pair.server.once(answering(reply, CapArray { address: SENT, sent: 1, accepted: 0 }));
    assert_eq!(told.status, 0);
    let answered = pair.client.completions();
    assert_eq!((answered.len(), answered[0].status, answered[0].caps), (1, status(Status::BadAddress), 0));
    assert_eq!(held(&pair), before);
}

/// A RETURN_RECV names one array: what is sent is taken from it before the next call's capability comes into it.
fn answers_and_calls_share_an_array(account: &Arc<Account>) {
    let mut pair = calls::pair(account);
    let theirs = pair.client.give(Object::Timer);
    let own = pair.server.give(Object::Log);
    pair.client.send_caps(SENT, &[theirs], TransferMode::Copy);
    pair.server.send_caps(SENT, &[own], TransferMode::Copy);
    assert!(pair.server.run(1, receive(pair.endpoint)).is_empty());
    assert!(pair.client.run(2, calling(&pair, accepting(RECEIVED, 1))).is_empty());
    assert_eq!(pair.server.completions().len(), 1);
    let shared = CapArray { address: SENT, sent: 1, accepted: 1 };
    let Operation::Return { reply, exception, results, .. } = answering(header(&pair.server).reply, shared) else {
        return;
    };
    let (endpoint, buffer) = (pair.endpoint.0, buffer(0, 256));
    let both = Operation::ReturnRecv { reply, endpoint, exception, results, buffer, caps: shared };
    assert!(pair.server.run(7, both).is_empty());
    assert_eq!(pair.client.completions()[0].caps, 1);
    let [got] = pair.client.received_caps(RECEIVED, 1)[..] else { return };
    assert!(matches!(pair.client.process.get(got).unwrap().object, Object::Log));
    assert!(pair.client.run(2, calling(&pair, CapArray { address: SENT, sent: 1, accepted: 0 })).is_empty());
    let received = pair.server.completions();
    assert_eq!((received.len(), received[0].user_data, received[0].caps), (1, 7, 1));
    let [got] = pair.server.received_caps(SENT, 1)[..] else { return };
    assert!(matches!(pair.server.process.get(got).unwrap().object, Object::Timer));
}

/// What is sent can lie in paged memory that is not there yet. Where a receiver waits it comes in first, and then the
/// capability arrives; where its pager refuses, the caller ends as with any page that is not to be had. A call that waited for
/// its receiver is told so. In neither case has the receiver anything of it.
fn arrays_come_in(account: &Arc<Account>) {
    for (receiver_first, refused) in [(true, false), (true, true), (false, true)] {
        let mut paging = paging(account, 4);
        let mut server = Actor::new(account, "server");
        let endpoint = Endpoint::new(server.process.account.hold(Resource::Objects, 1).unwrap()).unwrap();
        let receives = receive(server.give(Object::Endpoint(Arc::clone(&endpoint))));
        let to = paging.user.give(Object::Client(Client { endpoint, badge: 1, interface: calls::INTERFACE }));
        let sent = paging.user.give(Object::Timer);
        let Operation::Call { cap, interface, method, params, results, .. } = call(to) else { return };
        let caps = CapArray { address: PAGED_AT + PAGE, sent: 1, accepted: 0 };
        let before = (server.process.capability_count(), derivation::count());
        if receiver_first {
            assert!(server.run(1, receives).is_empty());
        }
        paging.user.push(2, Operation::Call { cap, interface, method, params, results, caps });
        paging.user.enter(0);
        if receiver_first {
            let (reply, offset, bytes, window) = paging.take();
            assert_eq!((offset, bytes), (PAGE, 3 * PAGE));
            let Object::Memory(memory) = paging.pager.process.get(window).unwrap().object else { return };
            let slot = CapSlot::send(sent.0, Rights::ALL, TransferMode::Copy).encode();
            assert!(crate::object::memory::user_memory::fill(&memory, 0, &slot));
            drop(memory);
            paging.answer(reply, refused.into());
            paging.user.thread.change(State::Ready, State::Running);
            crate::syscall::resume(&mut alone(), &paging.user.thread);
            if refused {
                // The pages that were refused together are asked for once more, the one that is needed alone.
                let (reply, offset, bytes, _) = paging.take();
                assert_eq!((offset, bytes), (PAGE, PAGE));
                paging.answer(reply, 1);
                let report = paging.user.report().unwrap();
                assert!(report.contains("pager failed"), "{report}");
                assert_eq!((server.completions().len(), server.process.capability_count()), (0, before.0));
                continue;
            }
            settle();
        } else {
            assert!(server.run(1, receives).is_empty());
        }
        let told: Vec<(u64, i32)> =
            paging.user.completions().iter().map(|told| (told.user_data, told.status)).collect();
        let received = server.completions();
        if refused {
            assert_eq!(told, [(2, status(Status::BadAddress))]);
            assert_eq!(
                (received.len(), server.process.capability_count(), derivation::count()),
                (0, before.0, before.1)
            );
        } else {
            assert!(told.is_empty());
            assert_eq!((received.len(), received[0].status, received[0].caps), (1, 0, 1));
            let [got] = server.received_caps(SCRATCH + 0x200, 1)[..] else { return };
            assert!(matches!(server.process.get(got).unwrap().object, Object::Timer));
        }
    }
}
