//! Random operations on everything that a process can hold: entries of every opcode, and calls of every method that
//! the schema gives the objects, with parameters made from it.
//!
//! Each entry that the kernel takes must be answered exactly once, and all objects must be gone with the process: the
//! runner checks that. Random entries name neither this process nor its address space, and its pager is another
//! process, so that the process lives until all operations are done.

mod messages;
mod values;
mod victims;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use capos_abi::entry::{Buffer, CapArray, ENTRY_SIZE, Operation};
use capos_abi::{CapSlot, Completion, RawEntry, Rights, TransferMode};
use capos_rt::memory::{self, PAGE};
use capos_rt::{Context, Error, log, raw};
use capos_schema::cap::AsCap;
use capos_schema::kernel::{
    AddressSpaceAccess, AddressSpaceClient, EndpointClient, MemoryObjectClient, NotificationClient, ProcessClient,
    ResourceAccountClient,
};

use crate::kit::{self, Kit, Random};
use messages::Method;
use values::{Hint, Values};
use victims::Safe;

/// Operations of one process.
pub const OPERATIONS: u32 = 50_000;
/// Operations after which everything is made again.
const EPOCH: u32 = 2_500;
/// Operations in flight at once; each has its own memory.
const SLOTS: usize = 64;
/// In flight, at most, before some are cancelled.
const CROWD: usize = 44;
/// Bytes of a slot: parameters, then results or a message, then capabilities.
const SLOT: u64 = 4096;
const PARAMS: u64 = 1024;
const CAPS: u64 = 3072;
/// Capabilities held, at most, before some are released.
const FULL: usize = 110;
/// Where the slots are: far from all else, so that data longer than a slot reaches no memory that Rust code relies on.
const MEMORY: u64 = 0x6100_0000_0000;
/// Where memory is mapped into this process.
const MAPS: u64 = 0x6200_0000_0000;
/// A reply, which has no interface.
const REPLY: u64 = 0;

/// A capability that the process holds, or held.
#[derive(Clone, Copy)]
pub struct Held {
    pub id: u64,
    pub interface: u64,
}

impl Held {
    /// Whether it may be released. A process without a holder lives on, and its account would pay for it to the end.
    fn loseable(self) -> bool {
        self.interface != ProcessClient::INTERFACE_ID
    }
}

/// An operation that was not answered yet.
#[derive(Clone, Copy)]
struct Flight {
    tag: u64,
    /// The method that it calls, if it calls one of the schema.
    method: Option<usize>,
    receives: bool,
}

struct World<'a> {
    kit: &'a Kit,
    random: Random,
    methods: Vec<Method>,
    held: Vec<Held>,
    /// Identifiers that random values may be.
    ids: Vec<u64>,
    /// The process's own capabilities, which it works with: random operations have copies of them.
    own: Vec<Held>,
    safe: Safe,
    flights: [Option<Flight>; SLOTS],
    flying: usize,
    sequence: u64,
    words: Vec<u64>,
    /// How often each status came.
    statuses: BTreeMap<i32, u32>,
    /// How often each method succeeded.
    successes: Vec<u32>,
}

/// Does [`OPERATIONS`] of them.
pub async fn run(kit: &Kit, seed: u64) -> Result<(), Error> {
    let mut world = World::new(kit, seed).await?;
    let mut done = 0;
    while done < OPERATIONS {
        if done.is_multiple_of(EPOCH) {
            world.settle()?;
            world.renew().await.with_context(|| format!("after {done} operations"))?;
        }
        let count = u32::try_from(1 + world.random.next() % 16).unwrap_or(1).min(EPOCH - done % EPOCH);
        world.batch(count).with_context(|| format!("after {done} operations"))?;
        done += count;
    }
    world.settle()?;
    world.judge()?;
    kit.still_served()
}

impl<'a> World<'a> {
    async fn new(kit: &'a Kit, seed: u64) -> Result<Self, Error> {
        let memory = memory::create(SLOTS as u64 * SLOT)?;
        let access = AddressSpaceAccess { read: true, write: true, execute: false };
        kit.space.map(memory.as_cap(), MEMORY, 0, SLOTS as u64 * SLOT, &access).await.context("memory for entries")?;
        drop(memory);
        capos_rt::yield_now().await;
        let list = capos_rt::capabilities(&kit.table).await?;
        let own: Vec<Held> = list.iter().map(|info| Held { id: info.id, interface: info.interface }).collect();
        let mut interfaces: Vec<u64> = own.iter().map(|one| one.interface).collect();
        let mut world = Self {
            kit,
            random: Random::new(seed),
            methods: Vec::new(),
            held: Vec::new(),
            ids: Vec::new(),
            own,
            safe: Safe(Vec::new()),
            flights: [None; SLOTS],
            flying: 0,
            sequence: 0,
            words: Vec::new(),
            statuses: BTreeMap::new(),
            successes: Vec::new(),
        };
        // Everything once, so that every interface is known.
        world.renew().await?;
        interfaces.extend(world.held.iter().map(|one| one.interface));
        interfaces.sort_unstable();
        interfaces.dedup();
        world.methods = messages::methods(&interfaces);
        world.successes = alloc::vec![0; world.methods.len()];
        Ok(world)
    }

    /// Releases all but the process's own capabilities, and makes new ones.
    async fn renew(&mut self) -> Result<(), Error> {
        for info in capos_rt::capabilities(&self.kit.table).await.context("listing what is held")? {
            if !self.is_own(info.id) {
                if info.interface == ProcessClient::INTERFACE_ID {
                    let process: ProcessClient = capos_rt::adopt(info.id);
                    // It may lack the right, or be dead already.
                    drop(process.kill("it is to be made anew").await);
                    core::mem::forget(process);
                }
                kit::status_of(&kit::release(1, info.id))?;
            }
        }
        for place in 0..8 {
            // Nothing may be mapped there, and reading that is not an error.
            drop(self.kit.space.unmap(MAPS + place * 4 * PAGE, 4 * PAGE).await);
        }
        self.held.clear();
        for one in &self.own {
            if ![ProcessClient::INTERFACE_ID, AddressSpaceClient::INTERFACE_ID].contains(&one.interface) {
                // With the right to cut its own account it would leave itself no time.
                let rights = match one.interface {
                    ResourceAccountClient::INTERFACE_ID => Rights(!Rights::MANAGE.0),
                    _ => Rights(u32::MAX),
                };
                let id = self.kit.table.derive(one.id, rights.0).await.context("a copy of what it has")?;
                self.held.push(Held { id, interface: one.interface });
            }
        }
        let weights = self.held.iter().find(|one| one.interface == MemoryObjectClient::INTERFACE_ID).map(|one| one.id);
        self.safe = victims::make(self.kit, &mut self.held).await?;
        self.safe.0.extend(weights);
        self.ids = self.held.iter().map(|one| one.id).collect();
        Ok(())
    }

    fn is_own(&self, id: u64) -> bool {
        self.own.iter().any(|one| one.id == id)
    }

    fn values(&mut self) -> Values<'_> {
        Values { random: &mut self.random, ids: &self.ids }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next() % bound.max(1)
    }

    /// An identifier: of a capability that is held, mostly, and never of the process's own.
    fn any_id(&mut self) -> u64 {
        let id = match self.below(16) {
            0 => {
                let near = self.random.pick(&self.ids).unwrap_or(0);
                near ^ 1 << self.below(64)
            }
            1 => self.random.pick(&self.ids).unwrap_or(0),
            2 => self.below(64) | 1 << 32,
            _ => self.random.pick(&self.held).map_or(0, |one| one.id),
        };
        if self.is_own(id) { 0 } else { id }
    }

    /// An identifier of a capability with this interface, if there is one.
    fn id_of(&mut self, interface: u64) -> u64 {
        let start = usize::try_from(self.below(self.held.len() as u64)).unwrap_or(0);
        let (before, after) = self.held.split_at(start.min(self.held.len()));
        let found = after.iter().chain(before).find(|one| one.interface == interface);
        found.map_or(0, |one| one.id)
    }

    /// An address that an entry may name: the kernel may read and write there.
    fn address(&mut self) -> u64 {
        let slot = self.below(SLOTS as u64) * SLOT;
        match self.below(16) {
            0..=6 => MEMORY + slot + self.below(500) * 8,
            7..=9 => MAPS + self.below(64) * PAGE,
            10 => MAPS + self.below(64) * PAGE - 8,
            11 => MEMORY + slot + self.below(SLOT),
            12 => 0x5000_0000_0000,
            13 => self.random.pick(&[0, 8, PAGE, 0xffff_8000_0010_0000, 0xffff_ffff_8000_0000, 1 << 47]).unwrap_or(0),
            14 => self.random.pick(&[(1 << 47) - 8, (1 << 47) - PAGE, u64::MAX - 7, 1 << 63]).unwrap_or(0),
            _ => MAPS + self.below(8) * 4 * PAGE,
        }
    }

    fn in_slot(&self, slot: usize, offset: u64) -> u64 {
        MEMORY + slot as u64 * SLOT + offset
    }

    /// Writes a slot's data: copies, and moves of unneeded capabilities.
    fn offers(&mut self, slot: usize, count: u8) {
        for index in 0..u64::from(count) {
            let mut one = self.random.pick(&self.held).unwrap_or(Held { id: 0, interface: 0 });
            if self.below(2) == 0
                && let Some(id) = self.random.pick(&self.safe.0)
            {
                // The parameters of most methods.
                one = Held { id, interface: MemoryObjectClient::INTERFACE_ID };
            }
            let moved = one.loseable() && self.below(6) == 0;
            let mode = if moved { TransferMode::Move } else { TransferMode::Copy };
            let rights = if self.below(4) == 0 { Rights(self.random.next() as u32) } else { Rights::ALL };
            let sent = CapSlot::send(one.id, rights, mode);
            let place = self.in_slot(slot, CAPS + index * CapSlot::SIZE as u64);
            kit::write(place, sent.word0);
            kit::write(place + 8, sent.word1);
        }
    }

    fn caps(&self, slot: usize, sent: u8, accepted: u8) -> CapArray {
        let address = if sent == 0 && accepted == 0 { 0 } else { self.in_slot(slot, CAPS) };
        CapArray { address, sent, accepted }
    }

    fn small(&mut self, bound: u64) -> u8 {
        u8::try_from(self.below(bound)).unwrap_or(0)
    }

    /// A call of one of the schema's methods.
    fn call(&mut self, slot: usize) -> (Operation, Option<usize>) {
        let at = usize::try_from(self.below(self.methods.len() as u64)).unwrap_or(0);
        let Some(method) = self.methods.get(at) else { return (Operation::Nop, None) };
        if method.ends && !self.random.next().is_multiple_of(8) {
            // Otherwise there would soon be nothing left to try anything on.
            return self.call(slot);
        }
        let (interface, ordinal, sent) = (method.interface, method.ordinal, method.caps);
        let mut words = core::mem::take(&mut self.words);
        let mut values = Values { random: &mut self.random, ids: &self.ids };
        messages::fill(method, &mut words, &mut values);
        if values.below(8) == 0 {
            messages::corrupt(&mut words, &mut values);
        }
        let room = words.iter().take(PARAMS as usize / 8);
        for (place, word) in (0..).zip(room) {
            kit::write(self.in_slot(slot, place * 8), *word);
        }
        let length = u32::try_from(words.len().min(PARAMS as usize / 8) * 8).unwrap_or(0);
        self.words = words;
        let sent = if self.below(16) == 0 { self.small(4) } else { sent };
        self.offers(slot, sent);
        let cap = if self.below(16) == 0 { self.any_id() } else { self.id_of(interface) };
        let mut params = Buffer { address: self.in_slot(slot, 0), length };
        let mut results = Buffer { address: self.in_slot(slot, PARAMS), length: 2048 };
        match self.below(40) {
            0 => params.address = self.address(),
            1 => results.address = self.address(),
            2 => params.length = self.below(2048) as u32,
            3 => results.length = self.below(64) as u32,
            _ => {}
        }
        let accepted = if self.below(16) == 0 { self.small(5) } else { 2 };
        let caps = self.caps(slot, sent, accepted);
        (Operation::Call { cap, interface, method: ordinal, params, results, caps }, Some(at))
    }

    /// A mapping or its end in this process's own address space, at places without memory of its own.
    fn map(&mut self, slot: usize) -> Operation {
        let address = MAPS + self.below(32) * PAGE;
        let length = self.below(4) * PAGE + PAGE;
        let unmap = self.below(3) == 0;
        let words = if unmap {
            alloc::vec![2 << 32, address, length]
        } else {
            let offset = self.below(3) * PAGE;
            alloc::vec![3 << 32 | 2 << 48, address, offset, length, 3, 1 << 32, self.below(8)]
        };
        for (place, word) in (0..).zip(&words) {
            kit::write(self.in_slot(slot, place * 8), *word);
        }
        let memory = self.random.pick(&self.safe.0).unwrap_or(0);
        let sent = CapSlot::send(memory, Rights::ALL, TransferMode::Copy);
        kit::write(self.in_slot(slot, CAPS), sent.word0);
        kit::write(self.in_slot(slot, CAPS + 8), sent.word1);
        Operation::Call {
            cap: kit::id(&self.kit.space),
            interface: AddressSpaceClient::INTERFACE_ID,
            method: u16::from(unmap),
            params: Buffer { address: self.in_slot(slot, 0), length: words.len() as u32 * 8 },
            results: Buffer { address: self.in_slot(slot, PARAMS), length: 512 },
            caps: self.caps(slot, u8::from(!unmap), 0),
        }
    }

    /// A call of the process's own endpoint, and its server's actions.
    fn message(&mut self, slot: usize) -> Operation {
        let (sent, accepted) = (self.small(4), self.small(4));
        self.offers(slot, sent);
        let length = self.random.pick(&[0, 8, 16, 64, 256, 1000, 1024]).unwrap_or(0);
        let at = |address: u64, length: u32| Buffer { address: if length == 0 { 0 } else { address }, length };
        match self.below(9) {
            0..=2 => Operation::Call {
                cap: self.id_of(kit::INTERFACE),
                interface: kit::INTERFACE,
                method: self.below(4) as u16,
                params: at(self.in_slot(slot, 0), length),
                results: at(self.in_slot(slot, PARAMS), 1024),
                caps: self.caps(slot, sent, accepted),
            },
            3..=5 => Operation::Recv {
                endpoint: self.id_of(EndpointClient::INTERFACE_ID),
                buffer: Buffer { address: self.in_slot(slot, PARAMS), length: length + 40 },
                caps: self.caps(slot, 0, accepted),
            },
            way => {
                let reply = self.id_of(REPLY);
                self.held.retain(|one| one.id != reply);
                let exception = if self.below(3) == 0 { self.small(7) } else { 0 };
                let results = at(self.in_slot(slot, 0), length);
                if way < 8 {
                    return Operation::Return { reply, exception, results, caps: self.caps(slot, sent, 0) };
                }
                let endpoint = self.id_of(EndpointClient::INTERFACE_ID);
                let buffer = Buffer { address: self.in_slot(slot, PARAMS), length: length + 40 };
                let caps = self.caps(slot, sent, accepted);
                Operation::ReturnRecv { reply, endpoint, exception, results, buffer, caps }
            }
        }
    }

    /// Any other operation.
    fn other(&mut self) -> Operation {
        match self.below(16) {
            0 => Operation::Nop,
            1 => Operation::Cancel { target: self.random.next() },
            2 => Operation::Cancel { target: self.flight() | raw::TAG },
            3 | 4 => Operation::Notify {
                notification: self.id_of(NotificationClient::INTERFACE_ID),
                bits: self.random.next(),
            },
            5 => Operation::Notify { notification: self.any_id(), bits: 1 },
            6 => Operation::Wait { cap: self.id_of(NotificationClient::INTERFACE_ID) },
            7 => Operation::Wait { cap: self.id_of(REPLY) },
            8 => Operation::Wait { cap: self.any_id() },
            9 | 10 => Operation::WaitWord {
                address: self.address() & !3,
                expected: self.values().number(32, Hint::Any) as u32,
            },
            11 | 12 => {
                Operation::WakeWord { address: self.address() & !3, count: self.values().number(32, Hint::Any) as u32 }
            }
            13 => Operation::ThreadPointer { address: self.values().number(64, Hint::Any) },
            _ => self.release(),
        }
    }

    /// Releases what is not needed.
    fn release(&mut self) -> Operation {
        let at = usize::try_from(self.below(self.held.len() as u64)).unwrap_or(0);
        match self.held.get(at).copied() {
            Some(one) if one.loseable() => {
                self.held.swap_remove(at);
                Operation::Release { cap: one.id }
            }
            _ => Operation::Nop,
        }
    }

    /// The tag of an operation in flight, or one that never was.
    fn flight(&mut self) -> u64 {
        let at = usize::try_from(self.below(SLOTS as u64)).unwrap_or(0);
        let (before, after) = self.flights.split_at(at);
        after.iter().chain(before).flatten().next().map_or(1, |flight| flight.tag)
    }

    /// An entry for this slot.
    fn entry(&mut self, slot: usize, tag: u64) -> (RawEntry, Option<usize>) {
        let (operation, method) = match self.below(32) {
            _ if self.flying > CROWD => (Operation::Cancel { target: self.flight() | raw::TAG }, None),
            _ if self.held.len() > FULL => (self.release(), None),
            0..=18 => self.call(slot),
            19..=24 => (self.message(slot), None),
            25 => (self.map(slot), None),
            _ => (self.other(), None),
        };
        let mut entry = kit::encode(tag, operation);
        match self.below(24) {
            // One field is something else. Addresses must stay where the kernel may write.
            0 => {
                let at = self.random.pick(&[0, 16, 24, 56]).unwrap_or(0);
                let value = if at == 16 { self.any_id() } else { self.values().number(64, Hint::Any) };
                entry = kit::patched(entry, at, value);
            }
            1 => {
                let at = self.random.pick(&[32, 40, 48]).unwrap_or(32);
                let address = self.address();
                entry = kit::patched(entry, at, address);
            }
            2 => entry = self.bytes(tag),
            _ => return (entry, method),
        }
        (entry, None)
    }

    /// Random bytes after an opcode.
    fn bytes(&mut self, tag: u64) -> RawEntry {
        let mut entry = [0; ENTRY_SIZE];
        for word in entry.chunks_exact_mut(8) {
            if self.random.next().is_multiple_of(2) {
                word.copy_from_slice(&self.random.next().to_le_bytes());
            }
        }
        if let Some(opcode) = entry.first_mut() {
            *opcode %= 14;
        }
        kit::patched(entry, 8, tag | raw::TAG)
    }

    /// Submits `count` entries and checks the answers.
    fn batch(&mut self, count: u32) -> Result<(), Error> {
        let mut queued = 0;
        for _ in 0..count {
            let free = self.flights.iter().position(Option::is_none);
            let slot = free.context("a place for an operation")?;
            self.sequence += 1;
            let tag = self.sequence << 8 | slot as u64;
            let (entry, method) = self.entry(slot, tag);
            kit::ensure(kit::queue(&entry), || "the ring has no place for an entry".into())?;
            let receives = entry.first() == Some(&2);
            if let Some(flight) = self.flights.get_mut(slot) {
                *flight = Some(Flight { tag, method, receives });
                self.flying += 1;
            }
            queued += 1;
        }
        self.enter(queued)
    }

    fn enter(&mut self, mut queued: u64) -> Result<(), Error> {
        while queued > 0 {
            let taken = raw::enter(u32::try_from(queued).unwrap_or(1), 0, 0);
            kit::ensure(taken > 0 && taken <= queued, || format!("{taken} of {queued} entries were taken"))?;
            queued -= taken;
        }
        // Others run: their effects change the following ones.
        if self.below(32) == 0 {
            raw::enter(0, 1, capos_rt::now()?.saturating_add(20_000));
        }
        for completion in kit::collect() {
            self.answered(&completion)?;
        }
        Ok(())
    }

    /// Looks at an answer.
    fn answered(&mut self, completion: &Completion) -> Result<(), Error> {
        let slot = usize::try_from(completion.user_data & 0xff).unwrap_or(SLOTS);
        let flight =
            self.flights.get_mut(slot).and_then(|flight| flight.take_if(|one| one.tag == completion.user_data));
        let flight = flight.with_context(|| format!("{completion:?} answers nothing that was asked"))?;
        self.flying -= 1;
        *self.statuses.entry(completion.status).or_insert(0) += 1;
        if completion.status != 0 {
            return Ok(());
        }
        if let Some(count) = flight.method.and_then(|method| self.successes.get_mut(method)) {
            *count += 1;
        }
        if flight.receives {
            self.learn(kit::read(self.in_slot(slot, PARAMS + 16)), REPLY);
        }
        for index in 0..u64::from(completion.caps) {
            let place = self.in_slot(slot, CAPS + index * CapSlot::SIZE as u64);
            self.learn(kit::read(place), kit::read(place + 8));
        }
        Ok(())
    }

    fn learn(&mut self, id: u64, interface: u64) {
        if id == 0 {
            return;
        }
        self.held.push(Held { id, interface });
        if self.ids.len() < 256 {
            self.ids.push(id);
        }
    }

    /// Takes back all that is in flight: each operation must have been answered then.
    fn settle(&mut self) -> Result<(), Error> {
        let tags: Vec<u64> = self.flights.iter().flatten().map(|flight| flight.tag).collect();
        for tag in tags {
            let entry = kit::cancel(0xff, tag);
            kit::ensure(kit::queue(&entry), || "the ring has no place for a cancel".into())?;
            kit::ensure(raw::enter(1, 0, 0) == 1, || "a cancel was not taken".into())?;
            for completion in kit::collect() {
                // The cancel's own answer has no slot.
                if completion.user_data != 0xff {
                    self.answered(&completion)?;
                }
            }
        }
        match self.flights.iter().flatten().next() {
            None => Ok(()),
            Some(flight) => Err(Error::new(format!("operation {:#x} was cancelled and never answered", flight.tag))),
        }
    }

    /// Operations that all fail at the same check test nothing after it.
    fn judge(&self) -> Result<(), Error> {
        let total: u32 = self.statuses.values().sum();
        let good = self.statuses.get(&0).copied().unwrap_or(0);
        let never: Vec<_> = (self.methods.iter().zip(&self.successes))
            .filter(|(_, count)| **count == 0)
            .filter_map(|(method, _)| {
                let interface = capos_schema::reflection::interface(method.interface)?;
                let name = interface.methods.get(usize::from(method.ordinal))?.name;
                Some(format!("{}.{name}", interface.name))
            })
            .collect();
        log::info!(
            "{total} operations, {good} of them done; {} statuses; never done: {}",
            self.statuses.len(),
            never.join(" ")
        );
        kit::ensure(total >= OPERATIONS && good > OPERATIONS / 5 && self.statuses.len() >= 14, || {
            format!("only these answers came: {:?}", self.statuses)
        })?;
        // Which ones never succeed is chance, and depends on concurrent events: one to eight were seen.
        kit::ensure(never.len() < 16, || format!("methods that never did anything: {never:?}"))
    }
}
