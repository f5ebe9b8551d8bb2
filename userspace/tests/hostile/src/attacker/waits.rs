//! Waits for the end of calls: in every wrong order, through capabilities that are not replies, and very many.

use alloc::format;
use alloc::vec::Vec;

use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_abi::{CapId, RawEntry, Status};
use capos_rt::{Context, Error};

use crate::kit::{self, Answers, Kit};

const CALL: u64 = 1;
const RECEIVE: u64 = 2;
const RETURN: u64 = 3;
const WAIT: u64 = 4;
/// Calls, each of which is received and waited for at the same time.
const MANY: u64 = 40;

fn wait(tag: u64, cap: u64) -> RawEntry {
    kit::encode(tag, Operation::Wait { cap })
}

fn answer(tag: u64, reply: u64) -> RawEntry {
    kit::answer(tag, reply, Buffer::default(), CapArray::default())
}

fn still_waits(answers: &mut Answers, tag: u64) -> Result<(), Error> {
    let found = answers.get(tag).map(|completion| kit::words(completion.status));
    kit::ensure(found.is_none(), || format!("wait {tag} ended before the call that it is for: {found:?}"))
}

/// Calls itself, receives the call and waits for its end; the reply capability.
fn watch_own_call(kit: &Kit, answers: &mut Answers) -> Result<u64, Error> {
    answers.send(&[kit.receive(RECEIVE), kit.call(CALL)]);
    answers.expect(RECEIVE, Status::Ok)?;
    let reply = kit.reply();
    answers.send(&[wait(WAIT, reply)]);
    still_waits(answers, WAIT)?;
    Ok(reply)
}

/// Waits twice, after the end, through an object that was a reply once, and through one that never was.
pub async fn on_replies(kit: &Kit) -> Result<(), Error> {
    for _ in 0..50 {
        let mut answers = Answers::new();
        let reply = watch_own_call(kit, &mut answers)?;
        answers.send(&[wait(20, reply), wait(21, reply)]);
        answers.expect(20, Status::Overloaded).context("a second wait")?;
        answers.expect(21, Status::Overloaded).context("a third wait")?;
        answers.send(&[kit::cancel(22, WAIT), wait(23, reply), kit::cancel(24, CALL), wait(25, reply)]);
        answers.expect(WAIT, Status::Cancelled)?;
        answers.expect(CALL, Status::Cancelled)?;
        answers.expect(23, Status::Ok).context("the wait for a call that is cancelled")?;
        answers.expect(25, Status::Ok).context("a wait for a call that was cancelled")?;
        answers.send(&[answer(RETURN, reply), wait(26, reply)]);
        answers.expect(RETURN, Status::Ok)?;
        answers.expect(26, Status::StaleCapability).context("a wait through a reply that is used up")?;
    }
    for release in [false, true] {
        let mut answers = Answers::new();
        let reply = watch_own_call(kit, &mut answers)?;
        answers.send(&[if release { kit::release(RETURN, reply) } else { answer(RETURN, reply) }]);
        answers.expect(RETURN, Status::Ok)?;
        answers.expect(WAIT, Status::StaleCapability).context("the wait through a reply that is used up")?;
        answers.expect(CALL, if release { Status::Disconnected } else { Status::Ok })?;
        // The reply's place may be taken again; its old names lead nowhere.
        let mut answers = Answers::new();
        let next = watch_own_call(kit, &mut answers)?;
        let (index, generation) = (CapId(next).index(), CapId(next).generation());
        for other in [reply, CapId::new(index, generation.wrapping_add(1)).0, CapId::new(index, 0).0, next | 1 << 63] {
            kit::ensure(other != next, || "a used reply has the name of the next".into())?;
            let found = kit::status_of(&wait(30, other))?;
            let refused = [Status::StaleCapability, Status::BadCapability].map(|status| status as i32);
            kit::ensure(refused.contains(&found), || format!("a wait through a forged reply: {}", kit::words(found)))?;
        }
        answers.send(&[kit::cancel(31, CALL), kit::release(32, next)]);
        answers.expect(WAIT, Status::Ok)?;
    }
    // Objects without an end to wait for.
    for cap in [kit::id(&kit.client), kit::id(&kit.endpoint), kit::id(&kit.account), kit::id(&kit.table)] {
        let found = kit::status_of(&wait(40, cap))?;
        let refused = [Status::WrongInterface, Status::MissingRight].map(|status| status as i32);
        kit::ensure(refused.contains(&found), || format!("a wait for what never ends: {}", kit::words(found)))?;
    }
    kit.still_served()
}

/// As many received calls as the rings hold, each waited for; ended in one way each, then left in flight.
pub async fn on_many_replies(kit: &Kit) -> Result<(), Error> {
    for round in 0..4_u64 {
        let mut answers = Answers::new();
        let mut replies = Vec::new();
        for number in 0..MANY {
            answers.send(&[kit.receive(3000 + number), kit.call(1000 + number)]);
            answers.expect(3000 + number, Status::Ok)?;
            replies.push((number, kit.reply()));
            answers.send(&[wait(2000 + number, kit.reply())]);
            still_waits(&mut answers, 2000 + number)?;
        }
        if round == 3 {
            // The end of the process takes calls, replies and waits along.
            capos_rt::exit(0)
        }
        for (number, reply) in replies {
            let (call, watch) = (1000 + number, 2000 + number);
            let ended = match (number + round) % 3 {
                0 => {
                    answers.send(&[kit::cancel(4000, call), kit::release(4001, reply)]);
                    answers.expect(call, Status::Cancelled)?;
                    Status::Ok
                }
                1 => {
                    answers.send(&[answer(4000, reply)]);
                    answers.expect(call, Status::Ok)?;
                    Status::StaleCapability
                }
                _ => {
                    answers.send(&[kit::cancel(4000, watch), kit::release(4001, reply)]);
                    answers.expect(call, Status::Disconnected)?;
                    Status::Cancelled
                }
            };
            answers.expect(watch, ended).with_context(|| format!("wait {number} of round {round}"))?;
        }
        kit.still_served()?;
    }
    Err(Error::new("the last round did not end the process"))
}
