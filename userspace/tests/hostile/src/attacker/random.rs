//! Random bytes where the kernel reads: entries, and the rings themselves.

use alloc::format;
use alloc::string::String;

use capos_abi::RawEntry;
use capos_abi::bootstrap::FIRST_RING;
use capos_abi::entry::{Buffer, CapArray, ENTRY_SIZE, Operation};
use capos_abi::ring::{
    COMPLETION_ENTRIES, COMPLETION_HEAD, COMPLETION_TAIL, ENTRIES, SUBMISSION_ENTRIES, SUBMISSION_HEAD, SUBMISSION_TAIL,
};
use capos_rt::{Error, raw};
use capos_schema::kernel::{
    AddressSpaceClient, CapabilityTableClient, EndpointClient, NotificationClient, ResourceAccountClient,
};

use crate::kit::{self, Kit, Random};

fn random_bytes(random: &mut Random) -> RawEntry {
    let mut entry = [0; ENTRY_SIZE];
    for slot in entry.chunks_exact_mut(8) {
        slot.copy_from_slice(&random.next().to_le_bytes());
    }
    entry
}

/// An entry that is nearly good: right shape, and in each field something that means something.
fn plausible(kit: &Kit, random: &mut Random, tag: u64, caps: &[u64]) -> RawEntry {
    let address = random
        .pick(&[
            kit.params,
            kit.results,
            kit.message,
            kit.caps,
            kit.params + 8,
            FIRST_RING,
            FIRST_RING + 4096,
            0,
            0x5000_0000_0000,
        ])
        .unwrap_or(0);
    let second = random.pick(&[kit.results, kit.message, kit.params, FIRST_RING + 8192, 0]).unwrap_or(0);
    let length = random.pick(&[0_u32, 8, 16, 64, 256, 2048, 1 << 16]).unwrap_or(0);
    let buffer = Buffer { address: if length == 0 { 0 } else { address }, length };
    let results = Buffer { address: second, length: if second == 0 { 0 } else { 1024 } };
    let sent = u8::try_from(random.next() % 4).unwrap_or(0);
    let accepted = u8::try_from(random.next() % 4).unwrap_or(0);
    let array = |sent: u8, accepted: u8| CapArray {
        address: if sent == 0 && accepted == 0 { 0 } else { kit.caps },
        sent,
        accepted,
    };
    for slot in 0..4 {
        kit.put_copy(slot, random.pick(caps).unwrap_or(0));
    }
    let cap = random.pick(caps).unwrap_or(0);
    let interface = random
        .pick(&[
            kit::INTERFACE,
            ResourceAccountClient::INTERFACE_ID,
            CapabilityTableClient::INTERFACE_ID,
            EndpointClient::INTERFACE_ID,
            NotificationClient::INTERFACE_ID,
            AddressSpaceClient::INTERFACE_ID,
        ])
        .unwrap_or(0);
    let method = u16::try_from(random.next() % 9).unwrap_or(0);
    let operation = match random.next() % 10 {
        0 => Operation::Nop,
        1 => Operation::Recv { endpoint: cap, buffer, caps: array(0, accepted) },
        2 => Operation::Return { reply: kit.reply(), exception: 0, results: buffer, caps: array(sent, 0) },
        3 => Operation::Return { reply: cap, exception: 5, results: buffer, caps: array(sent, 0) },
        4 => Operation::Cancel { target: tag.wrapping_sub(random.next() % 64) },
        5 => Operation::Notify { notification: cap, bits: random.next() },
        6 => Operation::Wait { notification: cap },
        7 if random.next().is_multiple_of(16) => Operation::Release { cap },
        _ => Operation::Call { cap, interface, method, params: buffer, results, caps: array(sent, accepted) },
    };
    kit::encode(tag, operation)
}

/// Entries of random bytes, and nearly good ones, with everything that this process holds.
pub async fn entries(kit: &Kit, seed: u64) -> Result<(), Error> {
    let mut random = Random::new(seed);
    let caps: alloc::vec::Vec<u64> = kit.table.list().await?.iter().map(|info| info.id).collect();
    let spare = [kit::id(&kit.endpoint), kit::id(&kit.client), kit::id(&kit.notification)];
    let mut oldest = 0;
    for round in 1..=4000_u64 {
        let entry = if round % 3 == 0 {
            random_bytes(&mut random)
        } else {
            plausible(kit, &mut random, round, if round % 5 == 0 { &caps } else { &spare })
        };
        if kit::submit(&[entry]) == 0 {
            // No room for an answer: make some by reading, and end what is in flight.
            while raw::pop().is_some() {}
            raw::enter(64, 0, 0);
        }
        while raw::pop().is_some() {}
        if round % 40 == 0 {
            while oldest < round {
                oldest += 1;
                kit::submit(&[kit::cancel(u64::MAX - 1, oldest)]);
                while raw::pop().is_some() {}
            }
        }
    }
    Ok(())
}

fn put(offset: usize, value: u32) {
    let place = kit::pointer(FIRST_RING).wrapping_add(offset).cast::<u32>();
    // SAFETY: inside the header page of the thread's rings, which is mapped; the runtime's own
    // view of the rings is not used again by the attacks that call this.
    unsafe { place.write_volatile(value) }
}

fn get(offset: usize) -> u32 {
    let place = kit::pointer(FIRST_RING).wrapping_add(offset).cast::<u32>();
    // SAFETY: as in `put`.
    unsafe { place.read_volatile() }
}

fn put_entry(index: u32, entry: &RawEntry) {
    let place = kit::pointer(FIRST_RING).wrapping_add(ENTRIES + (index as usize % 64) * ENTRY_SIZE);
    // SAFETY: inside the submission entries of the thread's rings, which are mapped.
    unsafe { place.cast::<RawEntry>().write_volatile(*entry) }
}

/// Overwrites what only the kernel writes: it must not believe any of it.
pub async fn kernel_words(kit: &Kit, seed: u64) -> Result<(), Error> {
    let mut random = Random::new(seed);
    let (mut tail, mut head) = (get(SUBMISSION_TAIL), get(COMPLETION_TAIL));
    put(COMPLETION_HEAD, head);
    let wrong = |what: &str, found: u32, wanted: u32| -> Result<(), String> {
        if found == wanted { Ok(()) } else { Err(format!("{what} is {found} in place of {wanted}")) }
    };
    for round in 0..500_u64 {
        for offset in [SUBMISSION_HEAD, COMPLETION_TAIL, SUBMISSION_ENTRIES, COMPLETION_ENTRIES] {
            let value = random.next() >> (random.next() % 60 + 4);
            put(offset, u32::try_from(value & 0xffff_ffff).unwrap_or(0));
        }
        put_entry(tail, &kit::encode(round, Operation::Nop));
        tail = tail.wrapping_add(1);
        put(SUBMISSION_TAIL, tail);
        let taken = raw::enter(1, 1, 0);
        head = head.wrapping_add(1);
        kit::ensure(taken == 1, || format!("{taken} entries taken in round {round}"))?;
        wrong("the submission head", get(SUBMISSION_HEAD), tail).map_err(Error::new)?;
        wrong("the completion tail", get(COMPLETION_TAIL), head).map_err(Error::new)?;
        put(COMPLETION_HEAD, head);
    }
    put(SUBMISSION_ENTRIES, 64);
    put(COMPLETION_ENTRIES, 128);
    drop(kit.env.clone());
    capos_rt::exit(0)
}

/// Whole rings of random bytes, taken 64 entries at a time.
pub async fn rings(kit: &Kit, seed: u64) -> Result<(), Error> {
    let mut random = Random::new(seed);
    let mut tail = get(SUBMISSION_TAIL);
    for _ in 0..300 {
        for index in 0..64 {
            let mut entry = random_bytes(&mut random);
            if random.next().is_multiple_of(2) {
                // Opcodes that exist get further.
                entry.fill(0);
                for (slot, byte) in
                    entry.iter_mut().step_by(1 + (random.next() % 7) as usize).zip(random.next().to_le_bytes())
                {
                    *slot = byte & 0x1f;
                }
            }
            if let Some(opcode) = entry.get_mut(0) {
                *opcode &= 7;
            }
            put_entry(tail.wrapping_add(index), &entry);
        }
        tail = tail.wrapping_add(64);
        put(SUBMISSION_TAIL, tail);
        let mut left = 64_u64;
        for _ in 0..4 {
            left = left.saturating_sub(raw::enter(64, 0, 0));
            put(COMPLETION_HEAD, get(COMPLETION_TAIL));
        }
        if left > 0 {
            // Operations that never end have filled the ring: that is the attacker's own loss.
            break;
        }
    }
    drop(kit.env.clone());
    capos_rt::exit(0)
}

/// An impossible submission tail: the process must die of it.
pub async fn tail(kit: &Kit, seed: u64) -> Result<(), Error> {
    let far = [65, 66, 128, 4096, 0x7fff_ffff, 0x8000_0000, u32::MAX - 64, u32::MAX];
    let distance = far.get(usize::try_from(seed % 8).unwrap_or(0)).copied().unwrap_or(65);
    put(SUBMISSION_TAIL, get(SUBMISSION_HEAD).wrapping_add(distance));
    raw::enter(1, 0, 0);
    drop(kit.env.clone());
    Err(Error::new(format!("a submission tail {distance} ahead was accepted")))
}

/// An impossible completion head: the process must die of it.
pub async fn head(kit: &Kit, seed: u64) -> Result<(), Error> {
    kit::submit(&[kit::encode(1, Operation::Nop)]);
    let far = [1, 2, 128, 4096, 0x7fff_ffff, 0x8000_0000, u32::MAX - 129, u32::MAX - 200];
    let distance = far.get(usize::try_from(seed % 8).unwrap_or(0)).copied().unwrap_or(1);
    put(COMPLETION_HEAD, get(COMPLETION_TAIL).wrapping_add(distance));
    // With an entry to take, and with a wait: both look at the head.
    let tail = get(SUBMISSION_TAIL);
    put_entry(tail, &kit::encode(2, Operation::Nop));
    put(SUBMISSION_TAIL, tail.wrapping_add(1));
    raw::enter(u32::from(seed.is_multiple_of(2)), 1, capos_abi::syscall::NO_DEADLINE);
    drop(kit.env.clone());
    Err(Error::new(format!("a completion head {distance} ahead was accepted")))
}
