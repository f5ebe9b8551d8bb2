//! Entries that are not well formed: every bit of every opcode's entry, sizes and counts over their
//! limits, opcodes that do not exist.

use alloc::format;
use alloc::vec::Vec;

use capos_abi::entry::{Buffer, CapArray, ENTRY_SIZE, MAX_CAPS, MAX_MESSAGE, Operation};
use capos_abi::{Entry, RawEntry, Status};
use capos_rt::{Context, Error};

use crate::kit::{self, Kit, patched};
use crate::pointers;

const TAG: u64 = 0x7a67;

fn samples(kit: &Kit) -> Vec<(&'static str, RawEntry)> {
    let results = Buffer { address: kit.params, length: 16 };
    alloc::vec![
        ("NOP", kit::encode(TAG, Operation::Nop)),
        ("CALL", kit.usage(TAG)),
        ("RECV", kit.receive(TAG)),
        ("RETURN", kit::answer(TAG, 0, results, CapArray::default())),
        ("RETURN_RECV", pointers::and_receive(kit, kit::answer(TAG, 0, results, CapArray::default()))),
        ("RELEASE", kit::release(TAG, 0)),
        ("CANCEL", kit::cancel(TAG, 0x1_0000)),
        ("NOTIFY", kit::encode(TAG, Operation::Notify { notification: kit::id(&kit.notification), bits: 1 })),
        ("WAIT", kit::encode(TAG, Operation::Wait { cap: kit::id(&kit.notification) })),
    ]
}

/// Flips each bit of each opcode's entry; if the shared validator rejects it, the kernel must
/// reject it with the same status.
pub async fn reserved(kit: &Kit) -> Result<(), Error> {
    let mut refused = 0_u32;
    for (name, sample) in samples(kit) {
        for bit in 0..ENTRY_SIZE * 8 {
            let byte = bit / 8;
            // The tag is the entry's own.
            if (8..16).contains(&byte) {
                continue;
            }
            let mut raw = sample;
            if let Some(slot) = raw.get_mut(byte) {
                *slot ^= 1 << (bit % 8);
            }
            let Err(refusal) = Entry::decode(&raw) else { continue };
            let found = kit::status_of(&raw)?;
            kit::ensure(found == refusal.status as i32, || {
                format!("{name} with bit {bit} flipped: {} in place of {:?}", kit::words(found), refusal.status)
            })?;
            refused += 1;
        }
    }
    kit::ensure(refused > 1000, || format!("only {refused} of the entries were malformed"))?;
    kit.still_served()
}

/// Opcodes that do not exist.
pub async fn opcodes(kit: &Kit) -> Result<(), Error> {
    for opcode in 12..=u8::MAX {
        for mut raw in [kit.usage(TAG), kit::encode(TAG, Operation::Nop)] {
            if let Some(slot) = raw.get_mut(0) {
                *slot = opcode;
            }
            kit::expect(&raw, Status::BadOpcode).with_context(|| format!("opcode {opcode}"))?;
        }
    }
    kit.still_served()
}

/// Lengths and counts over their limits.
pub async fn sizes(kit: &Kit) -> Result<(), Error> {
    for length in [MAX_MESSAGE + 1, MAX_MESSAGE + 8, 1 << 24, 1 << 31, u32::MAX - 7, u32::MAX] {
        let params = patched(kit.usage(TAG), 4, u64::from(length) | TAG << 32);
        kit::expect(&params, Status::TooLarge).with_context(|| format!("{length} bytes of parameters"))?;
        let receive = patched(kit.receive(TAG), 4, u64::from(length) | TAG << 32);
        kit::expect(&receive, Status::TooLarge).with_context(|| format!("a buffer of {length} bytes"))?;
        let results = patched(kit.usage(TAG), 56, u64::from(length));
        kit::expect(&results, Status::TooLarge).with_context(|| format!("{length} bytes of results"))?;
    }
    for count in MAX_CAPS + 1..=u8::MAX {
        let entry = patched(kit.usage(TAG), 48, kit.caps);
        let sent = patched(entry, 56, 1024 | u64::from(count) << 32);
        kit::expect(&sent, Status::TooLarge).with_context(|| format!("{count} capabilities sent"))?;
        let accepted = patched(entry, 56, 1024 | u64::from(count) << 40);
        kit::expect(&accepted, Status::TooLarge).with_context(|| format!("{count} capabilities accepted"))?;
    }
    // The largest that is allowed, from memory that ends long before.
    let huge = patched(kit.usage(TAG), 4, u64::from(MAX_MESSAGE) | TAG << 32);
    let found = kit::status_of(&huge)?;
    let refused = [Status::BadAddress, Status::TooLarge].iter().any(|status| found == *status as i32);
    kit::ensure(refused, || format!("1 MiB of parameters out of 4 KiB: {}", kit::words(found)))?;
    // A receiver that has less room than the call needs keeps its place; the call is refused.
    let small = Buffer { address: kit.message, length: 48 };
    let receive =
        kit::encode(2, Operation::Recv { endpoint: kit::id(&kit.endpoint), buffer: small, caps: CapArray::default() });
    let mut answers = kit::Answers::new();
    answers.send(&[receive, kit.call(1)]);
    answers.expect(1, Status::TooLarge).context("16 bytes for a receiver with room for 8")?;
    kit::ensure(answers.get(2).is_none(), || "the receiver was disturbed by a call that did not fit".into())?;
    answers.send(&[kit::cancel(3, 2)]);
    answers.expect(3, Status::Ok)?;
    answers.expect(2, Status::Cancelled)?;
    let none = kit::encode(
        TAG,
        Operation::Recv {
            endpoint: kit::id(&kit.endpoint),
            buffer: Buffer { address: kit.message, length: 32 },
            caps: CapArray::default(),
        },
    );
    kit::expect(&none, Status::TooLarge).context("a RECV without room for a header")?;
    kit.still_served()
}

/// Messages of kernel objects that are not Cap'n Proto, or have impossible values.
pub async fn messages(kit: &Kit) -> Result<(), Error> {
    let mut random = kit::Random::new(17);
    for round in 0..2000_u64 {
        let length = random.next() % 33 * 8;
        for at in 0..length / 8 {
            // Mostly pointers with small offsets, which a parser follows.
            let word = random.next();
            let word = match random.next() % 4 {
                0 => word,
                1 => word & 0x0000_0003_0000_00ff,
                2 => word & 0x0003_0003_0000_001f,
                _ => word & 0x0000_ffff_0000_ffff | 1,
            };
            kit::write(kit.params + at * 8, word);
        }
        // Every interface that this process holds, every method; except those that would end or unmap it.
        let (cap, interface, methods) = random
            .pick(&[
                (kit::id(&kit.account), interface_of(&kit.account), 7),
                (kit::id(&kit.table), interface_of(&kit.table), 3),
                (kit::id(&kit.endpoint), interface_of(&kit.endpoint), 2),
                (kit::id(&kit.notification), interface_of(&kit.notification), 2),
            ])
            .context("a choice")?;
        let method = u16::try_from(random.next() % (methods + 1)).unwrap_or(0);
        let params =
            Buffer { address: if length == 0 { 0 } else { kit.params }, length: u32::try_from(length).unwrap_or(0) };
        let results = Buffer { address: kit.results, length: 2048 };
        let entry = kit::call(TAG + round, cap, interface, method, params, results, CapArray::default());
        kit::status_of(&entry).with_context(|| format!("round {round}"))?;
    }
    for at in 0..32 {
        kit::write(kit.params + at * 8, 0);
    }
    kit.still_served()
}

fn interface_of<C: capos_schema::cap::Client>(_: &C) -> u64 {
    C::INTERFACE_ID
}
