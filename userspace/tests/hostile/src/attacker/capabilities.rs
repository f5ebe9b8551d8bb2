//! Identifiers that were never given, or not any more; rights and interfaces that are not held.

use alloc::format;
use alloc::vec::Vec;

use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_abi::{CapId, CapSlot, RawEntry, Rights, Status, TransferMode};
use capos_rt::{Context, Error};
use capos_schema::kernel::{EndpointClient, ResourceAccountClient};

use crate::kit::{self, Answers, Kit};

const TAG: u64 = 0xc0;

/// One entry of each opcode that names a capability.
fn entries(kit: &Kit, cap: u64) -> [(&'static str, RawEntry); 6] {
    let params = Buffer { address: kit.params, length: 16 };
    let results = Buffer { address: kit.results, length: 256 };
    let none = CapArray::default();
    [
        ("CALL", kit::call(TAG, cap, ResourceAccountClient::INTERFACE_ID, 6, params, results, none)),
        ("RECV", kit::encode(TAG, Operation::Recv { endpoint: cap, buffer: results, caps: none })),
        ("RETURN", kit::answer(TAG, cap, params, none)),
        ("RELEASE", kit::release(TAG, cap)),
        ("NOTIFY", kit::encode(TAG, Operation::Notify { notification: cap, bits: 1 })),
        ("WAIT", kit::encode(TAG, Operation::Wait { cap })),
    ]
}

fn refused(kit: &Kit, cap: u64, allowed: &[Status]) -> Result<(), Error> {
    for (name, entry) in entries(kit, cap) {
        let found = kit::status_of(&entry)?;
        kit::ensure(allowed.iter().any(|status| found == *status as i32), || {
            format!("{name} through {:?}: {} in place of {allowed:?}", CapId(cap), kit::words(found))
        })?;
    }
    // As a capability in a message.
    kit.put_copy(0, cap);
    let caps = CapArray { address: kit.caps, sent: 1, accepted: 0 };
    let params = Buffer { address: kit.params, length: 16 };
    let results = Buffer { address: kit.results, length: 256 };
    let entry = kit::call(TAG, kit::id(&kit.account), ResourceAccountClient::INTERFACE_ID, 6, params, results, caps);
    let found = kit::status_of(&entry)?;
    kit::ensure(allowed.iter().any(|status| found == *status as i32), || {
        format!("{:?} in a message: {} in place of {allowed:?}", CapId(cap), kit::words(found))
    })
}

/// Identifiers that this process was never given.
pub async fn forged(kit: &Kit) -> Result<(), Error> {
    let held: Vec<u64> = capos_rt::capabilities(&kit.table).await?.iter().map(|info| info.id).collect();
    let mut random = kit::Random::new(3);
    let mut guesses: Vec<u64> = alloc::vec![0, 1, u64::MAX, u64::from(u32::MAX), 1 << 32, 1 << 63];
    for id in &held {
        let id = CapId(*id);
        let (index, generation) = (id.index(), id.generation());
        guesses.extend(
            [
                CapId::new(index, 0),
                CapId::new(index, generation.wrapping_add(1)),
                CapId::new(index, u32::MAX),
                CapId::new(index ^ 1 << 16, generation),
                CapId::new(index ^ 1 << 31, generation),
            ]
            .map(|guess| guess.0),
        );
    }
    guesses.extend((0..500).map(|_| random.next()));
    guesses.extend((0..500).map(|_| random.next() & 0x0000_000f_0000_00ff));
    for guess in guesses.into_iter().filter(|guess| !held.contains(guess)) {
        refused(kit, guess, &[Status::BadCapability, Status::StaleCapability])?;
        kit::ensure(kit.table.info(guess).await.is_err(), || format!("{:?} has an info", CapId(guess)))?;
    }
    let now: Vec<u64> = capos_rt::capabilities(&kit.table).await?.iter().map(|info| info.id).collect();
    kit::ensure(now == held, || "the table has changed under forged identifiers".into())?;
    kit.still_served()
}

/// Identifiers of capabilities that were released, revoked or given away, with their slots used
/// again by others.
pub async fn stale(kit: &Kit) -> Result<(), Error> {
    let mut stale = Vec::new();
    for _ in 0..20 {
        let derived = kit.table.derive(kit::id(&kit.account), Rights::ALL.0).await?;
        kit::expect(&kit::release(TAG, derived), Status::Ok)?;
        stale.push(derived);
        let derived = kit.table.derive(kit::id(&kit.account), Rights::ALL.0).await?;
        kit.table.revoke(kit::id(&kit.account)).await?;
        stale.push(derived);
    }
    let again = kit.account.create_endpoint().await?;
    for id in &stale {
        kit::ensure(*id != kit::id(&again), || "an identifier was given out twice".into())?;
        refused(kit, *id, &[Status::StaleCapability])?;
    }
    kit.still_served()
}

/// Capabilities used as other types, or for more than they permit.
pub async fn rights(kit: &Kit) -> Result<(), Error> {
    let (account, endpoint) = (kit::id(&kit.account), kit::id(&kit.endpoint));
    let params = Buffer { address: kit.params, length: 16 };
    let results = Buffer { address: kit.results, length: 256 };
    let none = CapArray::default();
    let wrong = kit::call(TAG, account, EndpointClient::INTERFACE_ID, 0, params, results, none);
    kit::expect(&wrong, Status::WrongInterface).context("an account called as an endpoint")?;
    let wrong = kit::call(TAG, kit::id(&kit.client), !kit::INTERFACE, 0, params, results, none);
    kit::expect(&wrong, Status::WrongInterface).context("a client called by another interface")?;
    for (name, entry) in entries(kit, account).iter().skip(1).filter(|(name, _)| *name != "RELEASE") {
        kit::expect(entry, Status::WrongInterface).with_context(|| format!("{name} through an account"))?;
    }
    // Fewer rights, and no way back to more.
    let without = |right: Rights| Rights(!right.0).0;
    let deaf = kit.table.derive(endpoint, without(Rights::RECEIVE)).await?;
    let receive = kit::encode(TAG, Operation::Recv { endpoint: deaf, buffer: results, caps: none });
    kit::expect(&receive, Status::MissingRight).context("RECV without the right to receive")?;
    let mute = kit.table.derive(account, without(Rights::CALL)).await?;
    let call = kit::call(TAG, mute, ResourceAccountClient::INTERFACE_ID, 6, params, results, none);
    kit::expect(&call, Status::MissingRight).context("CALL without the right to call")?;
    for weak in [deaf, mute] {
        let before = kit.table.info(weak).await?.rights;
        let more = kit.table.derive(weak, Rights::ALL.0).await?;
        let after = kit.table.info(more).await?.rights;
        kit::ensure(before == after, || format!("rights {before:#x} became {after:#x} by deriving"))?;
    }
    // Capabilities that may not be passed on are not, neither by copy nor by move.
    let kept = kit.table.derive(account, without(Rights::GRANT)).await?;
    for mode in [TransferMode::Copy, TransferMode::Move] {
        kit.put_slot(0, CapSlot::send(kept, Rights::ALL, mode));
        let caps = CapArray { address: kit.caps, sent: 1, accepted: 0 };
        let call = kit::call(1, kit::id(&kit.client), kit::INTERFACE, 0, params, results, caps);
        let mut answers = Answers::new();
        answers.send(&[kit.receive_caps(2, 1), call]);
        answers.expect(1, Status::MissingRight).with_context(|| format!("passing on by {mode:?}"))?;
        answers.send(&[kit::cancel(3, 2)]);
        answers.expect(2, Status::Cancelled)?;
    }
    // A message that asks for an unknown way of passing on.
    kit.put_slot(0, CapSlot { word0: account, word1: 2 << 32 });
    let caps = CapArray { address: kit.caps, sent: 1, accepted: 0 };
    let call = kit::call(TAG, account, ResourceAccountClient::INTERFACE_ID, 6, params, results, caps);
    kit::expect(&call, Status::InvalidArgument).context("an unknown mode of transfer")?;
    // The same capability moved twice in one message.
    let moved = kit.table.derive(account, Rights::ALL.0).await?;
    for index in 0..2 {
        kit.put_slot(index, CapSlot::send(moved, Rights::ALL, TransferMode::Move));
    }
    let caps = CapArray { sent: 2, ..caps };
    let call = kit::call(TAG, account, ResourceAccountClient::INTERFACE_ID, 6, params, results, caps);
    kit::expect(&call, Status::InvalidArgument).context("one capability moved twice")?;
    kit.still_served()
}

/// Drops its own account, space and table, and continues.
pub async fn release_own(kit: &Kit) -> Result<(), Error> {
    for cap in [kit::id(&kit.table), kit::id(&kit.space), kit::id(&kit.account)] {
        kit::expect(&kit::release(TAG, cap), Status::Ok)?;
        refused(kit, cap, &[Status::StaleCapability]).or_else(|error| {
            // The last check of `refused` calls through the account, which is the last to go.
            if cap == kit::id(&kit.account) { Ok(()) } else { Err(error) }
        })?;
    }
    // The process still runs with its remaining time, and ends as it wants.
    let mut answers = Answers::new();
    answers.send(&[kit.receive(2), kit.call(1)]);
    answers.expect(2, Status::Ok)?;
    answers.send(&[kit::answer(3, kit.reply(), Buffer::default(), CapArray::default())]);
    answers.expect(1, Status::Ok)?;
    capos_rt::exit(0)
}

/// Revokes everything it holds while all of it is in use.
pub async fn revoke_all(kit: &Kit) -> Result<(), Error> {
    let mut answers = Answers::new();
    let tags = 0x200..0x230;
    for tag in tags.clone() {
        let entry = match tag % 3 {
            0 => kit.call(tag),
            1 => kit::encode(tag, Operation::Wait { cap: kit::id(&kit.notification) }),
            _ => kit.call(tag),
        };
        answers.send(&[entry]);
    }
    for info in capos_rt::capabilities(&kit.table).await? {
        // Some have nothing that derives from them, and some derive from those before them and are
        // gone by now; none may end the process or the kernel.
        drop(kit.table.revoke(info.id).await);
    }
    for tag in tags.filter(|tag| tag % 3 != 1) {
        // The client derives from the endpoint, so the calls through it have ended.
        answers.expect(tag, Status::Cancelled)?;
    }
    kit::expect(&kit.call(TAG), Status::StaleCapability).context("a call through a revoked client")?;
    kit.still_served()
}
