//! Random bytes if the kernel reads: entries, and the rings themselves.

use alloc::collections::BTreeMap;
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

use crate::kit::{self, Kit, Random, collect};

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
    let operation = match random.next() % 11 {
        0 => Operation::Nop,
        1 => {
            // A message over the rings' indices would keep this process's own honest entries out of
            // its rings: `receive-into-rings` does that on its own.
            let address = if buffer.address == FIRST_RING { kit.message } else { buffer.address };
            Operation::Recv { endpoint: cap, buffer: Buffer { address, ..buffer }, caps: array(0, accepted) }
        }
        2 => Operation::Return { reply: kit.reply(), exception: 0, results: buffer, caps: array(sent, 0) },
        3 => Operation::Return { reply: cap, exception: 5, results: buffer, caps: array(sent, 0) },
        4 => Operation::Cancel { target: tag.wrapping_sub(random.next() % 64) },
        5 => Operation::Notify { notification: cap, bits: random.next() },
        6 => Operation::Wait { cap },
        7 if random.next().is_multiple_of(64) => Operation::Release { cap },
        8 => {
            // As RECV above.
            let address = if buffer.address == FIRST_RING { kit.message } else { buffer.address };
            let reply = if random.next().is_multiple_of(2) { kit.reply() } else { cap };
            let (results, buffer, caps) = (buffer, Buffer { address, ..buffer }, array(sent, accepted));
            Operation::ReturnRecv { reply, endpoint: cap, exception: 0, results, buffer, caps }
        }
        _ => Operation::Call { cap, interface, method, params: buffer, results, caps: array(sent, accepted) },
    };
    kit::encode(tag, operation)
}

/// Entries of random bytes, and nearly good ones, with everything that this process holds.
pub async fn entries(kit: &Kit, seed: u64) -> Result<(), Error> {
    let mut random = Random::new(seed);
    let caps: alloc::vec::Vec<u64> = capos_rt::capabilities(&kit.table).await?.iter().map(|info| info.id).collect();
    let mut kept = alloc::vec::Vec::new();
    let mut spare = [kit::id(&kit.endpoint), kit::id(&kit.client), kit::id(&kit.notification)];
    let mut oldest = 0;
    let mut seen = BTreeMap::new();
    let mut read = || collect().into_iter().for_each(|completion| *seen.entry(completion.status).or_insert(0_u32) += 1);
    for round in 1..=4000_u64 {
        let entry = if round % 3 == 0 {
            kit::patched(random_bytes(&mut random), 8, round | raw::TAG)
        } else {
            plausible(kit, &mut random, round, if round % 5 == 0 { &caps } else { &spare })
        };
        if kit::submit(&[entry]) == 0 {
            // No room for an answer: make some by reading, and have the entries there taken.
            read();
            raw::enter(64, 0, 0);
        }
        read();
        if round % 40 == 0 {
            while oldest < round {
                oldest += 1;
                kit::submit(&[kit::cancel(1 << 40, oldest)]);
                read();
            }
        }
        // Nothing is in flight now that could keep an honest call out of the rings.
        if round % 120 == 0
            && let Ok(endpoint) = kit.account.create_endpoint().await
            && let Ok(client) = endpoint.mint(round, kit::INTERFACE).await
            && let Ok(notification) = kit.account.create_notification().await
        {
            // Those of before may be released by now. They are not held twice.
            spare = [kit::id(&endpoint), kit::id(&client), kit::id(&notification)];
            kept.push((endpoint, client, notification));
        }
    }
    // Random entries that all fail at the same check test nothing after it.
    kit::ensure(seen.len() >= 9 && seen.get(&0).is_some_and(|ok| *ok > 200), || {
        format!("only these answers came: {seen:?}")
    })
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

/// Writes over the submission entries for ever: random bytes, and numbers that mean something in many fields.
pub fn scribble() -> ! {
    let mut random = Random::new(7);
    loop {
        let value = if random.next().is_multiple_of(2) { random.next() } else { random.next() % 64 };
        let place = random.next() as usize % (64 * ENTRY_SIZE / 8) * 8;
        let place = kit::pointer(FIRST_RING).wrapping_add(ENTRIES + place).cast::<u64>();
        // SAFETY: inside the submission entries of the first thread's rings, which are mapped, and aligned.
        unsafe { place.write_volatile(value) }
    }
}

/// Submits entries that another thread changes meanwhile. Their results are not checked, and the runtime not used any
/// more.
pub fn submit_changing() -> Result<(), Error> {
    let mut tail = get(SUBMISSION_TAIL);
    for _ in 0..20_000_u32 {
        tail = tail.wrapping_add(32);
        put(SUBMISSION_TAIL, tail);
        let mut left = 32_u32;
        while left > 0 {
            let taken = u32::try_from(raw::enter(left, 0, 0)).unwrap_or(u32::MAX);
            left = left.saturating_sub(taken);
            // Room for more answers; operations that stay in flight keep theirs.
            put(COMPLETION_HEAD, get(COMPLETION_TAIL));
            if taken == 0 {
                capos_rt::exit(0)
            }
        }
    }
    capos_rt::exit(0)
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

/// Receives a message over the rings' own indices. That harms the process only: the kernel
/// continues with its own copy of the indices.
pub async fn receive_into(kit: &Kit) -> Result<(), Error> {
    for offset in [SUBMISSION_HEAD, COMPLETION_TAIL] {
        let place = FIRST_RING + u64::try_from(offset).unwrap_or(0);
        let (receive, call, second) = (1, 2, 3);
        kit::write(kit.params, 0x4141_4141_4141_4141);
        let buffer = Buffer { address: place, length: 64 };
        let endpoint = kit::id(&kit.endpoint);
        kit::submit(&[kit::encode(receive, Operation::Recv { endpoint, buffer, caps: CapArray::default() })]);
        kit::submit(&[kit.call(call)]);
        if offset == SUBMISSION_HEAD {
            kit::ensure(get(SUBMISSION_HEAD) == 7, || format!("the message's badge is not at {place:#x}"))?;
            // The kernel publishes its own index with the next entry, for which the process needs room.
            put(SUBMISSION_HEAD, get(SUBMISSION_TAIL));
        }
        let answers = collect();
        kit::ensure(answers.len() == 1 && answers.first().is_some_and(|one| one.user_data == receive), || {
            format!("a message to {place:#x} was answered with {answers:?}")
        })?;
        kit::submit(&[kit::cancel(second, call)]);
        kit::ensure(collect().len() == 2, || "the call was not cancelled".into())?;
        kit::ensure(get(SUBMISSION_HEAD) == get(SUBMISSION_TAIL), || "the kernel lost count of entries".into())?;
    }
    kit.still_served()
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
