//! The tools of every attack: identifiers of the process's capabilities, entries, and a way to send
//! them exactly as they are.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_abi::syscall::NO_DEADLINE;
use capos_abi::{CapSlot, Completion, Entry, RawEntry, Rights, Status, TransferMode};
use capos_rt::{Context, Env, Error, raw};
use capos_schema::cap::AsCap;
use capos_schema::kernel::{
    AddressSpaceClient, CapabilityTableClient, EndpointClient, NotificationClient, ObjectClient, ResourceAccountClient,
};

/// Interface of the capabilities that attacks mint for themselves.
pub const INTERFACE: u64 = 0x1234_5678_9abc_def0;
/// How long a completion may take that must come, in nanoseconds.
const PATIENCE: u64 = 2_000_000_000;
/// Bytes of each buffer.
pub const BUFFER: usize = 4096;

/// Memory that entries name.
#[repr(C, align(4096))]
pub struct Memory(pub [u64; BUFFER / 8]);

/// A page of memory whose address entries may name for as long as the process lives.
pub fn page() -> &'static mut Memory {
    alloc::boxed::Box::leak(alloc::boxed::Box::new(Memory([0; BUFFER / 8])))
}

/// The capabilities of an attacking process, and buffers.
pub struct Kit {
    pub env: Env,
    pub account: ResourceAccountClient,
    pub space: AddressSpaceClient,
    pub table: CapabilityTableClient,
    /// An endpoint of its own.
    pub endpoint: EndpointClient,
    /// A capability to call that endpoint, with [`INTERFACE`] and badge 7.
    pub client: ObjectClient,
    pub notification: NotificationClient,
    /// Addresses of four pages: parameters, results, received messages, capability arrays.
    pub params: u64,
    pub results: u64,
    pub message: u64,
    pub caps: u64,
}

/// An identifier in this process's table.
pub fn id(cap: &impl AsCap) -> u64 {
    cap.as_cap().id()
}

fn address(memory: &'static mut Memory) -> u64 {
    core::ptr::from_mut(memory).expose_provenance() as u64
}

impl Kit {
    /// Makes an object that is not granted.
    pub async fn new(env: &Env) -> Result<Self, Error> {
        let account: ResourceAccountClient = env.cap("account")?;
        let endpoint = account.create_endpoint().await.context("an endpoint")?;
        let client = endpoint.mint(7, INTERFACE).await.context("a client")?;
        let notification = account.create_notification().await.context("a notification")?;
        Ok(Self {
            env: env.clone(),
            space: env.cap("space")?,
            table: env.cap("table")?,
            account,
            endpoint,
            client,
            notification,
            params: address(page()),
            results: address(page()),
            message: address(page()),
            caps: address(page()),
        })
    }

    /// Writes a slot of the capability array.
    pub fn put_slot(&self, index: u64, slot: CapSlot) {
        let place = self.caps + index % 64 * CapSlot::SIZE as u64;
        write(place, slot.word0);
        write(place + 8, slot.word1);
    }

    /// Writes a slot that sends a copy with all rights.
    pub fn put_copy(&self, index: u64, cap: u64) {
        self.put_slot(index, CapSlot::send(cap, Rights::ALL, TransferMode::Copy));
    }

    /// A call of the own endpoint: 16 bytes of parameters, 64 of results.
    pub fn call(&self, tag: u64) -> RawEntry {
        let params = Buffer { address: self.params, length: 16 };
        let results = Buffer { address: self.results, length: 64 };
        call(tag, id(&self.client), INTERFACE, 0, params, results, CapArray::default())
    }

    /// A receive at the own endpoint, with room for 256 bytes and no capability.
    pub fn receive(&self, tag: u64) -> RawEntry {
        let buffer = Buffer { address: self.message, length: 256 };
        encode(tag, Operation::Recv { endpoint: id(&self.endpoint), buffer, caps: CapArray::default() })
    }

    /// A receive with room for capabilities, in the second half of the array's page.
    pub fn receive_caps(&self, tag: u64, accepted: u8) -> RawEntry {
        let buffer = Buffer { address: self.message, length: 256 };
        let caps = CapArray { address: self.caps + 2048, sent: 0, accepted };
        encode(tag, Operation::Recv { endpoint: id(&self.endpoint), buffer, caps })
    }

    /// The reply capability of the message that was received last.
    pub fn reply(&self) -> u64 {
        read(self.message + 16)
    }

    /// `ResourceAccount.usage`: a call of a kernel object that changes nothing.
    pub fn usage(&self, tag: u64) -> RawEntry {
        let params = Buffer { address: self.params, length: 16 };
        let results = Buffer { address: self.results, length: 1024 };
        call(tag, id(&self.account), ResourceAccountClient::INTERFACE_ID, 6, params, results, CapArray::default())
    }

    /// Whether the kernel still answers this process as it should.
    pub fn still_served(&self) -> Result<(), Error> {
        write(self.params, 0);
        write(self.params + 8, 0);
        expect(&self.usage(0xfeed), Status::Ok).context("an honest call after the attack")
    }
}

/// Writes a word of the process's memory.
pub fn write(address: u64, value: u64) {
    let place = pointer(address).cast::<u64>();
    // SAFETY: attacks call it with addresses inside their own leaked pages, 8-byte aligned.
    unsafe { place.write_volatile(value) }
}

/// Reads a word of the process's memory.
pub fn read(address: u64) -> u64 {
    let place = pointer(address).cast::<u64>();
    // SAFETY: as in `write`.
    unsafe { place.read_volatile() }
}

/// An address as a pointer.
pub fn pointer(address: u64) -> *mut u8 {
    core::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0))
}

/// An entry's bytes. A bit that [`collect`] removes distinguishes its tag from the runtime's own.
pub fn encode(tag: u64, operation: Operation) -> RawEntry {
    Entry { user_data: tag | raw::TAG, operation }.encode()
}

/// A CALL's bytes.
pub fn call(
    tag: u64,
    cap: u64,
    interface: u64,
    method: u16,
    params: Buffer,
    results: Buffer,
    caps: CapArray,
) -> RawEntry {
    encode(tag, Operation::Call { cap, interface, method, params, results, caps })
}

/// A RETURN's bytes.
pub fn answer(tag: u64, reply: u64, results: Buffer, caps: CapArray) -> RawEntry {
    encode(tag, Operation::Return { reply, exception: 0, results, caps })
}

/// A CANCEL's bytes.
pub fn cancel(tag: u64, target: u64) -> RawEntry {
    encode(tag, Operation::Cancel { target: target | raw::TAG })
}

/// A RELEASE's bytes.
pub fn release(tag: u64, cap: u64) -> RawEntry {
    encode(tag, Operation::Release { cap })
}

/// An entry with eight bytes replaced.
pub fn patched(mut entry: RawEntry, at: usize, value: u64) -> RawEntry {
    for (slot, byte) in entry.iter_mut().skip(at).zip(value.to_le_bytes()) {
        *slot = byte;
    }
    entry
}

/// Queues entries and has the kernel take them, without waiting. Says how many it took.
pub fn submit(entries: &[RawEntry]) -> u64 {
    let queued = entries.iter().filter(|entry| queue(entry)).count();
    raw::enter(u32::try_from(queued).unwrap_or(u32::MAX), 0, 0)
}

/// Queues an entry; false if there is no place for it.
pub fn queue(entry: &RawEntry) -> bool {
    // SAFETY: attacks name their own leaked pages, or memory of others. The kernel's reaction is
    // what the test checks; it must not write where Rust code of this process relies on memory.
    unsafe { raw::push(entry) }
}

/// All completions that are unread.
pub fn collect() -> Vec<Completion> {
    let plain = |completion: Completion| Completion { user_data: completion.user_data & !raw::TAG, ..completion };
    core::iter::from_fn(raw::pop).map(plain).collect()
}

/// Completions by tag, in order of arrival.
#[derive(Default)]
pub struct Answers {
    by_tag: BTreeMap<u64, Completion>,
}

impl Answers {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends entries.
    pub fn send(&mut self, entries: &[RawEntry]) {
        submit(entries);
        self.look();
    }

    fn look(&mut self) {
        self.by_tag.extend(collect().into_iter().map(|completion| (completion.user_data, completion)));
    }

    /// The completion with this tag, if it has come.
    pub fn get(&mut self, tag: u64) -> Option<Completion> {
        self.look();
        self.by_tag.get(&tag).copied()
    }

    /// The completion with this tag, which must come.
    pub fn wait(&mut self, tag: u64) -> Result<Completion, Error> {
        self.look();
        let mut end = None;
        loop {
            if let Some(completion) = self.by_tag.get(&tag) {
                return Ok(*completion);
            }
            let now = capos_rt::now()?;
            let end = *end.get_or_insert(now.saturating_add(PATIENCE));
            self.look();
            if now >= end {
                return Err(Error::new(format!("entry {tag:#x} was never answered")));
            }
            if !self.by_tag.contains_key(&tag) {
                raw::enter(0, 1, end);
                self.look();
            }
        }
    }

    /// Waits for a completion, which must have this status.
    pub fn expect(&mut self, tag: u64, status: Status) -> Result<Completion, Error> {
        let completion = self.wait(tag)?;
        judge(&completion, status)?;
        Ok(completion)
    }
}

/// The text of a status.
pub fn words(status: i32) -> alloc::string::String {
    match Status::from_raw(status) {
        Some(known) => format!("{known:?}"),
        None => format!("status {status}"),
    }
}

fn judge(completion: &Completion, status: Status) -> Result<(), Error> {
    if completion.status == status as i32 {
        return Ok(());
    }
    let (found, tag) = (words(completion.status), completion.user_data);
    Err(Error::new(format!("entry {tag:#x} was answered with {found} in place of {status:?}")))
}

/// Sends one entry, waits for its answer and gives its status.
pub fn status_of(entry: &RawEntry) -> Result<i32, Error> {
    let tag = entry.get(8..16).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
        & !raw::TAG;
    let mut answers = Answers::new();
    answers.send(core::slice::from_ref(entry));
    Ok(answers.wait(tag)?.status)
}

/// Sends one entry, whose answer must have this status.
pub fn expect(entry: &RawEntry, status: Status) -> Result<(), Error> {
    let found = status_of(entry)?;
    if found == status as i32 {
        return Ok(());
    }
    Err(Error::new(format!("answered with {} in place of {status:?}", words(found))))
}

/// Waits for ever, or until the process is killed.
pub fn sleep_for_ever() -> ! {
    loop {
        raw::enter(0, u32::MAX, NO_DEADLINE);
    }
}

/// Fails with words unless `condition` holds.
pub fn ensure(condition: bool, words: impl FnOnce() -> alloc::string::String) -> Result<(), Error> {
    if condition { Ok(()) } else { Err(Error::new(words())) }
}

/// A generator of numbers that only look random: the same for the same seed.
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        let count = u64::try_from(of.len()).ok().filter(|count| *count > 0)?;
        of.get(usize::try_from(self.next() % count).ok()?).copied()
    }
}
