//! Calls, replies and cancellations in every wrong order.

use alloc::format;
use alloc::vec::Vec;

use capos_abi::entry::{Buffer, CapArray, MAX_CAPS, Operation};
use capos_abi::{CapSlot, RawEntry, Rights, Status, TransferMode};
use capos_rt::{Context, Error};
use capos_schema::cap::AsCap;
use capos_schema::kernel::{DebugLogClient, ResourceAccountClient, TimerClient};

use crate::kit::{self, Answers, Kit};

const CALL: u64 = 1;
const RECEIVE: u64 = 2;
const RETURN: u64 = 3;

fn results(kit: &Kit) -> Buffer {
    Buffer { address: kit.params, length: 16 }
}

/// Calls itself and receives the call; the reply capability.
fn receive_own_call(kit: &Kit, answers: &mut Answers) -> Result<u64, Error> {
    answers.send(&[kit.receive(RECEIVE), kit.call(CALL)]);
    answers.expect(RECEIVE, Status::Ok)?;
    Ok(kit.reply())
}

/// Answers one call twice.
pub async fn answer_twice(kit: &Kit) -> Result<(), Error> {
    for _ in 0..50 {
        let mut answers = Answers::new();
        let reply = receive_own_call(kit, &mut answers)?;
        let again = |tag| kit::answer(tag, reply, results(kit), CapArray::default());
        answers.send(&[again(RETURN), again(RETURN + 1), again(RETURN + 2)]);
        answers.expect(RETURN, Status::Ok)?;
        answers.expect(RETURN + 1, Status::StaleCapability)?;
        answers.expect(RETURN + 2, Status::StaleCapability)?;
        answers.expect(CALL, Status::Ok)?;
        kit::ensure(kit::collect().is_empty(), || "one call had two answers".into())?;
    }
    kit.still_served()
}

/// Drops replies in place of answering.
pub async fn drop_reply(kit: &Kit) -> Result<(), Error> {
    for _ in 0..50 {
        let mut answers = Answers::new();
        let reply = receive_own_call(kit, &mut answers)?;
        answers.send(&[kit::release(RETURN, reply)]);
        answers.expect(RETURN, Status::Ok)?;
        answers.expect(CALL, Status::Disconnected)?;
    }
    kit.still_served()
}

/// Sends the reply capability along: with its own answer, and to itself in another call.
pub async fn pass_reply(kit: &Kit) -> Result<(), Error> {
    let (params, back) = (results(kit), Buffer { address: kit.results, length: 64 });
    for mode in [TransferMode::Copy, TransferMode::Move] {
        let mut answers = Answers::new();
        let accepts = CapArray { address: kit.caps + 1024, sent: 0, accepted: 2 };
        let call = kit::call(CALL, kit::id(&kit.client), kit::INTERFACE, 0, params, back, accepts);
        answers.send(&[kit.receive(RECEIVE), call]);
        answers.expect(RECEIVE, Status::Ok)?;
        let reply = kit.reply();
        kit.put_slot(0, CapSlot::send(reply, Rights::ALL, mode));
        let caps = CapArray { address: kit.caps, sent: 1, accepted: 0 };
        answers.send(&[kit::answer(RETURN, reply, params, caps)]);
        let status = answers.wait(RETURN)?.status;
        if status == 0 {
            // The call was answered with its own reply: good for nothing any more.
            let completion = answers.wait(CALL)?;
            if completion.caps > 0 {
                let found = kit::status_of(&kit::answer(9, kit::read(kit.caps + 1024), params, CapArray::default()))?;
                kit::ensure(found <= 0, || format!("a used reply was answered with {found}"))?;
            }
        } else {
            answers.send(&[kit::answer(RETURN + 1, reply, params, CapArray::default())]);
            answers.expect(RETURN + 1, Status::Ok).context("the answer after a refused one")?;
            answers.expect(CALL, Status::Ok)?;
        }
    }
    // In another call to itself: the new holder can answer, once.
    let mut answers = Answers::new();
    let reply = receive_own_call(kit, &mut answers)?;
    kit.put_slot(0, CapSlot::send(reply, Rights::ALL, TransferMode::Move));
    let sends = CapArray { address: kit.caps, sent: 1, accepted: 0 };
    let call = kit::call(11, kit::id(&kit.client), kit::INTERFACE, 0, params, back, sends);
    answers.send(&[kit.receive_caps(12, 1), call]);
    answers.expect(12, Status::Ok).context("a reply passed on in a call")?;
    let (second, passed) = (kit.reply(), kit::read(kit.caps + 2048));
    answers.send(&[kit::answer(13, passed, params, CapArray::default())]);
    answers.expect(13, Status::Ok).context("an answer through a reply that was passed on")?;
    answers.expect(CALL, Status::Ok)?;
    answers.send(&[kit::answer(14, reply, params, CapArray::default()), kit::release(15, second)]);
    answers.expect(14, Status::StaleCapability).context("the reply's old name")?;
    answers.expect(11, Status::Disconnected)?;
    kit.still_served()
}

/// Answers calls that were cancelled meanwhile.
pub async fn answer_cancelled(kit: &Kit) -> Result<(), Error> {
    for _ in 0..50 {
        let mut answers = Answers::new();
        let reply = receive_own_call(kit, &mut answers)?;
        answers.send(&[kit::cancel(9, CALL), kit::cancel(10, CALL)]);
        answers.expect(9, Status::Ok)?;
        answers.expect(10, Status::NotFound)?;
        answers.expect(CALL, Status::Cancelled)?;
        answers.send(&[kit::answer(RETURN, reply, results(kit), CapArray::default())]);
        answers.expect(RETURN, Status::Ok)?;
    }
    kit.still_served()
}

/// Calls itself without a receiver.
pub async fn call_itself(kit: &Kit) -> Result<(), Error> {
    let mut answers = Answers::new();
    for tag in 100..140 {
        answers.send(&[kit.call(tag)]);
    }
    // They wait in line; each is received and answered in its turn, the rest is cancelled.
    for tag in 100..120 {
        answers.send(&[kit.receive(tag + 1000)]);
        answers.expect(tag + 1000, Status::Ok)?;
        answers.send(&[kit::answer(tag + 2000, kit.reply(), results(kit), CapArray::default())]);
        answers.expect(tag, Status::Ok)?;
    }
    for tag in 120..140 {
        answers.send(&[kit::cancel(tag + 3000, tag)]);
        answers.expect(tag, Status::Cancelled)?;
    }
    kit.still_served()
}

/// Takes away what a queued call sends: releases it, moves it away in another call, revokes it.
pub async fn move_in_flight(kit: &Kit) -> Result<(), Error> {
    let (params, back) = (results(kit), Buffer { address: kit.results, length: 64 });
    let sends = CapArray { address: kit.caps, sent: 1, accepted: 0 };
    let call = |tag| kit::call(tag, kit::id(&kit.client), kit::INTERFACE, 0, params, back, sends);
    for how in 0..3 {
        let parent = kit.table.derive(kit::id(&kit.notification), u32::MAX).await?;
        let child = kit.table.derive(parent, u32::MAX).await?;
        kit.put_slot(0, CapSlot::send(child, Rights::ALL, TransferMode::Move));
        let mut answers = Answers::new();
        answers.send(&[call(20)]);
        match how {
            0 => kit::expect(&kit::release(30, child), Status::Ok)?,
            1 => {
                kit.table.revoke(parent).await?;
            }
            _ => {
                let account = ResourceAccountClient::INTERFACE_ID;
                let moved =
                    kit::call(31, kit::id(&kit.account), account, 6, params, Buffer { length: 256, ..back }, sends);
                kit::expect(&moved, Status::Ok)?;
            }
        }
        answers.send(&[kit.receive_caps(21, 1)]);
        answers
            .expect(20, Status::StaleCapability)
            .with_context(|| format!("way {how} of taking a capability away"))?;
        kit::ensure(answers.get(21).is_none(), || "a receiver got a call whose capability is gone".into())?;
        answers.send(&[kit::cancel(22, 21)]);
        answers.expect(21, Status::Cancelled)?;
        kit::expect(&kit::release(23, parent), Status::Ok)?;
    }
    // Two calls that both move the same capability: the first gets it.
    let one = kit.table.derive(kit::id(&kit.notification), u32::MAX).await?;
    kit.put_slot(0, CapSlot::send(one, Rights::ALL, TransferMode::Move));
    let mut answers = Answers::new();
    answers.send(&[call(40), call(41), kit.receive_caps(42, 1), kit.receive_caps(43, 1)]);
    answers.expect(42, Status::Ok)?;
    answers.expect(41, Status::StaleCapability)?;
    kit::ensure(answers.get(43).is_none(), || "one capability arrived twice".into())?;
    answers.send(&[kit::cancel(44, 43), kit::cancel(45, 40)]);
    answers.expect(43, Status::Cancelled)?;
    answers.expect(40, Status::Cancelled)?;
    // The endpoint's last receiver ends while calls wait in line.
    answers.send(&[kit.call(50), kit.call(51), kit::release(52, kit::id(&kit.endpoint))]);
    answers.expect(50, Status::Disconnected)?;
    answers.expect(51, Status::Disconnected)?;
    kit::expect(&kit.call(53), Status::Disconnected).context("a call of an endpoint that nobody can receive from")
}

/// As many operations of every kind as the rings hold.
fn everything(kit: &Kit) -> Result<Vec<(u64, RawEntry)>, Error> {
    let none = CapArray::default();
    let timer: TimerClient = kit.env.cap("timer")?;
    let log: DebugLogClient = kit.env.cap("log")?;
    // sleepUntil(2^62), then read(2^62): both wait for ever.
    kit::write(kit.params, 1 << 32);
    kit::write(kit.params + 8, 1 << 62);
    let far = results(kit);
    let mut all = Vec::new();
    for tag in 1000..1100_u64 {
        let entry = match tag % 5 {
            0 => kit.call(tag),
            1 => kit::encode(tag, Operation::Wait { cap: kit::id(&kit.notification) }),
            2 => kit::call(
                tag,
                timer.as_cap().id(),
                TimerClient::INTERFACE_ID,
                1,
                far,
                Buffer { address: kit.results, length: 64 },
                none,
            ),
            3 => kit::call(
                tag,
                log.as_cap().id(),
                DebugLogClient::INTERFACE_ID,
                1,
                far,
                Buffer { address: kit.results, length: 64 },
                none,
            ),
            _ => kit.call(tag),
        };
        all.push((tag, entry));
    }
    Ok(all)
}

/// Starts as much as it can and cancels all of it, and operations that never were.
pub async fn cancel_all(kit: &Kit) -> Result<(), Error> {
    for _ in 0..5 {
        let mut answers = Answers::new();
        let all = everything(kit)?;
        for (_, entry) in &all {
            answers.send(&[*entry]);
        }
        for (tag, _) in &all {
            let found = answers.get(*tag).map(|completion| kit::words(completion.status));
            kit::ensure(found.is_none(), || format!("operation {tag} ended by itself: {found:?}"))?;
            answers.send(&[kit::cancel(5000, *tag), kit::cancel(5001, *tag), kit::cancel(5002, 77)]);
            answers.expect(5000, Status::Ok)?;
            answers.expect(5001, Status::NotFound)?;
            answers.expect(5002, Status::NotFound)?;
            answers.expect(*tag, Status::Cancelled)?;
        }
    }
    kit::write(kit.params, 0);
    kit.still_served()
}

/// Ends with everything in flight.
pub async fn end_in_flight(kit: &Kit) -> Result<(), Error> {
    let mut answers = Answers::new();
    for (_, entry) in everything(kit)? {
        answers.send(&[entry]);
    }
    let mut answers = Answers::new();
    // Calls received and never answered, too: the oldest of those in line.
    for tag in 0..5 {
        answers.send(&[kit.receive(6000 + tag)]);
        answers.expect(6000 + tag, Status::Ok)?;
    }
    capos_rt::exit(0)
}

/// Sends its own endpoint to itself until it can hold no more.
pub async fn send_itself(kit: &Kit) -> Result<(), Error> {
    let (params, back) = (results(kit), Buffer { address: kit.results, length: 64 });
    let mut received = 0_u64;
    loop {
        for index in 0..u64::from(MAX_CAPS) {
            kit.put_copy(index, kit::id(&kit.endpoint));
        }
        let sends = CapArray { address: kit.caps, sent: MAX_CAPS, accepted: 0 };
        let call = kit::call(CALL, kit::id(&kit.client), kit::INTERFACE, 0, params, back, sends);
        let mut answers = Answers::new();
        answers.send(&[kit.receive_caps(RECEIVE, MAX_CAPS), call]);
        let Some(completion) = answers.get(RECEIVE) else {
            answers.expect(CALL, Status::Overloaded).context("a receiver that can hold no more")?;
            answers.send(&[kit::cancel(9, RECEIVE)]);
            answers.expect(RECEIVE, Status::Cancelled)?;
            break;
        };
        kit::ensure(completion.status == 0 && completion.caps == MAX_CAPS, || {
            format!("received {} capabilities, {}", completion.caps, kit::words(completion.status))
        })?;
        received += u64::from(MAX_CAPS);
        kit::ensure(received < 100_000, || "there is no limit".into())?;
        // The reply is dropped now and then, and else kept.
        if received.is_multiple_of(64) {
            answers.send(&[kit::release(RETURN, kit.reply())]);
            answers.expect(CALL, Status::Disconnected)?;
        } else {
            answers.send(&[kit::cancel(8, CALL)]);
            answers.expect(CALL, Status::Cancelled)?;
        }
    }
    kit::ensure(received > 0, || "nothing was received at all".into())?;
    kit.still_served()
}

/// Makes a long chain of derivations and a wide tree of them, and revokes both at their roots.
pub async fn derive_deep(kit: &Kit) -> Result<(), Error> {
    for wide in [false, true] {
        let root = kit.table.derive(kit::id(&kit.notification), u32::MAX).await?;
        let (mut from, mut count) = (root, 0_u32);
        loop {
            match kit.table.derive(from, u32::MAX).await {
                Ok(id) if !wide => from = id,
                Ok(_) => {}
                Err(_) => break,
            }
            count += 1;
            kit::ensure(count < 100_000, || "there is no limit".into())?;
        }
        let revoked = kit.table.revoke(root).await?;
        kit::ensure(revoked == count, || format!("{revoked} of {count} capabilities were revoked"))?;
        kit::expect(&kit::release(5, root), Status::Ok)?;
    }
    kit.still_served()
}
