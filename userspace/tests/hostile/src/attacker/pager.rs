//! Pagers: one that does its work, and many that do not. The process that touches their pages must
//! get what it was promised or die with a report; no other process may notice.

use alloc::format;
use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;

use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_abi::{RawEntry, Status};
use capos_rt::memory::{self, Access, PAGE};
use capos_rt::{Context, Env, Error};
use capos_schema::cap::{AsCap, Client};
use capos_schema::kernel::{AddressSpaceAccess, EndpointClient, MemoryObjectClient, PagerClient};

use crate::kit::{self, Answers, Kit};
use crate::memory::{poke, touch};

/// The content of an honest pager's pages.
pub const CONTENT: u8 = 0xa5;
/// How long a late pager takes, in nanoseconds: longer than its client is let run.
const LATE: u64 = 90_000_000;
const RECEIVE: u64 = 1;
const RETURN: u64 = 2;

struct Request {
    reply: u64,
    window: MemoryObjectClient,
    bytes: u64,
}

struct Pager<'a> {
    kit: &'a Kit,
    endpoint: EndpointClient,
    answers: Answers,
}

impl<'a> Pager<'a> {
    fn new(kit: &'a Kit) -> Result<Self, Error> {
        Ok(Self { kit, endpoint: kit.env.cap("serve")?, answers: Answers::new() })
    }

    /// Waits, as long as it takes, for the next request.
    fn receive(&mut self) -> Result<Request, Error> {
        let kit = self.kit;
        let buffer = Buffer { address: kit.message, length: 1024 };
        let caps = CapArray { address: kit.caps + 2048, sent: 0, accepted: 1 };
        let entry = kit::encode(RECEIVE, Operation::Recv { endpoint: kit::id(&self.endpoint), buffer, caps });
        self.answers = Answers::new();
        kit::submit(&[entry]);
        while self.answers.get(RECEIVE).is_none() {
            capos_rt::raw::enter(0, 1, capos_abi::syscall::NO_DEADLINE);
        }
        self.answers.expect(RECEIVE, Status::Ok)?;
        // Header, root pointer, then offset and bytes.
        let bytes = kit::read(kit.message + 40 + 16);
        Ok(Request { reply: kit.reply(), window: capos_rt::adopt(kit::read(kit.caps + 2048)), bytes })
    }

    fn fill(&self, request: &Request) -> Result<(), Error> {
        let mapping = memory::map(&request.window, 0, request.bytes, Access::ReadWrite)?;
        for page in 0..request.bytes / PAGE {
            mapping.write(page * PAGE, &[CONTENT; 64])?;
        }
        Ok(())
    }

    fn answer(&mut self, request: &Request) -> Result<i32, Error> {
        self.answers = Answers::new();
        self.answers.send(&[kit::answer(RETURN, request.reply, Buffer::default(), CapArray::default())]);
        Ok(self.answers.wait(RETURN)?.status)
    }

    fn refuse(&mut self, request: &Request, words: &[u8]) -> Result<i32, Error> {
        let page = kit::page();
        let address = core::ptr::from_mut(page).expose_provenance() as u64;
        for (at, bytes) in (0..).zip(words.chunks(8)) {
            let mut word = [0; 8];
            for (slot, byte) in word.iter_mut().zip(bytes) {
                *slot = *byte;
            }
            kit::write(address + at * 8, u64::from_le_bytes(word));
        }
        let results = Buffer { address, length: u32::try_from(words.len()).unwrap_or(0) };
        let operation = Operation::Return { reply: request.reply, exception: 1, results, caps: CapArray::default() };
        let entry: RawEntry = kit::encode(RETURN, operation);
        self.answers = Answers::new();
        self.answers.send(&[entry]);
        Ok(self.answers.wait(RETURN)?.status)
    }
}

/// Serves pages in one of many ways.
pub async fn serve(kit: &Kit, way: &str) -> Result<(), Error> {
    let mut pager = Pager::new(kit)?;
    loop {
        let request = pager.receive()?;
        match way {
            "honest" => {
                pager.fill(&request)?;
                pager.answer(&request)?;
            }
            "empty" => {
                pager.answer(&request)?;
            }
            "exception" => {
                pager.refuse(&request, b"the disk is on fire")?;
            }
            "forged-words" => {
                pager.refuse(&request, b"x\ninit: FAILED forged: by a pager\x1b[2J\r\n")?;
            }
            "binary-words" => {
                pager.refuse(&request, &[0xff, 0xfe, 0, 1, 2, 3])?;
            }
            "never" => kit::sleep_for_ever(),
            "late" => {
                // The requester is gone by now.
                capos_rt::sleep(LATE).await?;
                pager.fill(&request)?;
                pager.answer(&request)?;
            }
            "late-exception" => {
                capos_rt::sleep(LATE).await?;
                pager.refuse(&request, b"too late")?;
            }
            "dies" => capos_rt::exit(0),
            "drops" => {
                kit::expect(&kit::release(7, request.reply), Status::Ok)?;
            }
            "twice" => {
                pager.fill(&request)?;
                pager.answer(&request)?;
                let again = pager.answer(&request)?;
                kit::ensure(again == Status::StaleCapability as i32, || {
                    format!("the second answer: {}", kit::words(again))
                })?;
            }
            "no-window" => {
                let id = request.window.as_cap().id();
                kit::expect(&kit::release(7, id), Status::Ok)?;
                pager.answer(&request)?;
            }
            "unmaps" => {
                pager.fill(&request)?;
                let access = AddressSpaceAccess { read: true, write: true, execute: false };
                let window = request.window.as_cap();
                kit.space.map(window, 0x6000_0000_0000, 0, request.bytes, &access).await?;
                kit.space.map(window, 0x6100_0000_0000, 0, request.bytes, &access).await?;
                kit.space.unmap(0x6100_0000_0000, PAGE).await?;
                pager.answer(&request)?;
                kit.space.unmap(0x6000_0000_0000, request.bytes).await?;
            }
            "keeps-mapping" => {
                pager.fill(&request)?;
                let access = AddressSpaceAccess { read: true, write: true, execute: false };
                kit.space.map(request.window.as_cap(), 0x6000_0000_0000, 0, request.bytes, &access).await?;
                pager.answer(&request)?;
                // Not its memory any more: it must not be able to change what others read.
                poke(0x6000_0000_0000);
                return Err(Error::new("a pager wrote to a page that it had given away"));
            }
            "keeps-capability" => {
                pager.fill(&request)?;
                let copy = kit.table.derive(request.window.as_cap().id(), u32::MAX).await?;
                pager.answer(&request)?;
                for id in [request.window.as_cap().id(), copy] {
                    kit::expect(&kit::release(7, id), Status::StaleCapability)?;
                }
            }
            "copies-window" => {
                // What it writes to its copy afterwards stays in the copy.
                pager.fill(&request)?;
                let copy = request.window.copy(&kit.account, 0, request.bytes).await?;
                let mapping = memory::map(&copy, 0, request.bytes, Access::ReadWrite)?;
                pager.answer(&request)?;
                (0..request.bytes / PAGE).for_each(|page| poke(mapping.address() + page * PAGE));
            }
            "code" => {
                let access = AddressSpaceAccess { read: true, write: false, execute: true };
                let result = kit.space.map(request.window.as_cap(), 0x6000_0000_0000, 0, PAGE, &access).await;
                kit::ensure(result.is_err(), || "a window was mapped executable".into())?;
                pager.fill(&request)?;
                pager.answer(&request)?;
            }
            "bad-pointer" => {
                pager.fill(&request)?;
                let results = Buffer { address: 0xffff_8000_0000_0000, length: 64 };
                let operation =
                    Operation::Return { reply: request.reply, exception: 1, results, caps: CapArray::default() };
                kit::expect(&kit::encode(9, operation), Status::BadAddress)?;
                pager.answer(&request)?;
            }
            "touches-itself" => {
                // Its own paged memory, while it should fill it: it waits for itself.
                let weights: MemoryObjectClient = kit.env.cap("weights")?;
                let mapping = memory::map(&weights, 0, PAGE, Access::Read)?;
                touch(mapping.address());
                return Err(Error::new("a pager read what it had not supplied"));
            }
            _ => return Err(Error::new(format!("there is no pager `{way}`"))),
        }
    }
}

/// Reads the pages of `weights`; each must hold `content`.
pub async fn read_pages(env: &Env, content: u8) -> Result<(), Error> {
    let weights: MemoryObjectClient = env.cap("weights")?;
    let info = weights.info().await?;
    let mapping = memory::map(&weights, 0, info.bytes, Access::Read)?;
    for page in 0..info.bytes / PAGE {
        let found = touch(mapping.address() + page * PAGE);
        kit::ensure(found == content, || format!("page {page} holds {found:#x} in place of {content:#x}"))?;
    }
    Ok(())
}

/// Copies `weights`, none of whose pages is present. Either the copy has the content and is independent, or the copy is
/// rejected with a message that contains `refusal`.
pub async fn copy_pages(kit: &Kit, refusal: &str) -> Result<(), Error> {
    let weights: MemoryObjectClient = kit.env.cap("weights")?;
    let info = weights.info().await?;
    // Two at once wait for the same pages.
    let mut part = pin!(weights.copy(&kit.account, PAGE, 2 * PAGE));
    // It is polled once, so that it has begun.
    let done = poll_fn(|context| Poll::Ready(part.as_mut().poll(context).is_ready())).await;
    kit::ensure(!done, || "a copy was there at once".into())?;
    let copy = match weights.copy(&kit.account, 0, info.bytes).await {
        Ok(copy) if refusal.is_empty() => copy,
        Ok(_) => return Err(Error::new("pages that there are not were copied")),
        Err(error) => {
            let words = format!("{error}");
            kit::ensure(!refusal.is_empty() && words.contains(refusal), || format!("the copy was refused: {words}"))?;
            kit::ensure(part.await.is_err(), || "a part was copied".into())?;
            return kit.still_served();
        }
    };
    let part = part.await.context("copying a part")?;
    let shown = memory::map(&weights, 0, info.bytes, Access::Read)?;
    for (copy, pages) in [(copy, info.bytes / PAGE), (part, 2)] {
        let mapping = memory::map(&copy, 0, pages * PAGE, Access::ReadWrite)?;
        for page in 0..pages {
            let found = touch(mapping.address() + page * PAGE);
            kit::ensure(found == CONTENT, || format!("page {page} of a copy holds {found:#x}"))?;
            poke(mapping.address() + page * PAGE);
            let found = touch(shown.address() + page * PAGE);
            kit::ensure(found == CONTENT, || format!("page {page} holds {found:#x} once its copy was written"))?;
        }
    }
    kit.still_served()
}

/// Has the kernel read its parameters from `weights`, so that the page comes in for a system call.
pub async fn read_by_kernel(kit: &Kit) -> Result<(), Error> {
    let weights: MemoryObjectClient = kit.env.cap("weights")?;
    let mapping = memory::map(&weights, 0, PAGE, Access::Read)?;
    let entry = kit::patched(kit.usage(5), 32, mapping.address());
    // The data there is no Cap'n Proto message; the test is that there is an answer at all.
    let status = kit::status_of(&entry)?;
    kit::ensure(status >= 0, || format!("parameters in paged memory: {}", kit::words(status)))?;
    kit.still_served()
}

/// Answers a call out of memory that is not in yet: the pages come in while the kernel copies.
pub async fn answer_from_weights(kit: &Kit) -> Result<(), Error> {
    let weights: MemoryObjectClient = kit.env.cap("weights")?;
    let bytes = 40 * PAGE;
    let mapping = memory::map(&weights, 0, bytes, Access::Read)?;
    let target = memory::map(&memory::create(bytes)?, 0, bytes, Access::ReadWrite)?;
    let length = u32::try_from(bytes).unwrap_or(0);
    let params = Buffer { address: kit.params, length: 16 };
    let results = Buffer { address: target.address(), length };
    let call = kit::call(10, kit::id(&kit.client), kit::INTERFACE, 0, params, results, CapArray::default());
    let mut answers = Answers::new();
    answers.send(&[kit.receive(11), call]);
    answers.expect(11, Status::Ok)?;
    let from = Buffer { address: mapping.address(), length };
    answers.send(&[kit::answer(12, kit.reply(), from, CapArray::default())]);
    answers.expect(12, Status::Ok)?;
    answers.expect(10, Status::Ok)?;
    for page in 0..bytes / PAGE {
        let found = touch(target.address() + page * PAGE);
        kit::ensure(found == CONTENT, || format!("page {page} arrived as {found:#x}"))?;
    }
    // As parameters of a call, received and not.
    for queued in [false, true] {
        let again = memory::map(&weights, 0, bytes, Access::Read)?;
        let params = Buffer { address: again.address() + 8 * PAGE, length: 128 };
        let results = Buffer { address: kit.results, length: 64 };
        let call = kit::call(20, kit::id(&kit.client), kit::INTERFACE, 0, params, results, CapArray::default());
        let mut answers = Answers::new();
        if queued {
            answers.send(&[call]);
            answers.send(&[kit.receive(21)]);
        } else {
            answers.send(&[kit.receive(21), call]);
        }
        // A call that waits in line with parameters that are not in may be refused; nothing else.
        if answers.get(21).is_some_and(|received| received.status == 0) {
            answers.send(&[kit::release(22, kit.reply())]);
            answers.expect(20, Status::Disconnected)?;
        } else {
            answers.expect(20, Status::BadAddress)?;
            answers.send(&[kit::cancel(23, 21)]);
            answers.expect(21, Status::Cancelled)?;
        }
    }
    kit.still_served()
}

/// Is its own pager, with one thread: it waits for itself for ever.
pub async fn own_pager(kit: &Kit, by_kernel: bool) -> Result<(), Error> {
    let client: PagerClient = kit.endpoint.mint(0, PagerClient::INTERFACE_ID).await.context("a pager")?.cast();
    let memory = kit.account.create_paged_memory(16 * PAGE, &client).await?;
    let mapping = memory::map(&memory, 0, 16 * PAGE, Access::Read)?;
    if by_kernel {
        kit::submit(&[kit::patched(kit.usage(5), 32, mapping.address())]);
    } else {
        touch(mapping.address());
    }
    Err(Error::new("a page that nobody supplied was read"))
}

/// Revokes the capability by which it named its pager, and touches the memory.
pub async fn revoked_pager(kit: &Kit, by_kernel: bool) -> Result<(), Error> {
    let client: PagerClient = kit.endpoint.mint(0, PagerClient::INTERFACE_ID).await?.cast();
    let memory = kit.account.create_paged_memory(16 * PAGE, &client).await?;
    let mapping = memory::map(&memory, 0, 16 * PAGE, Access::Read)?;
    kit::ensure(kit.table.revoke(kit::id(&kit.endpoint)).await? > 0, || "nothing was revoked".into())?;
    kit::ensure(kit.account.create_paged_memory(PAGE, &client).await.is_err(), || "it still names a pager".into())?;
    if by_kernel {
        kit::submit(&[kit::patched(kit.usage(5), 32, mapping.address())]);
    } else {
        touch(mapping.address());
    }
    Err(Error::new("a page that nobody supplied was read"))
}

/// Asks for impossible paged memory.
pub async fn bad_objects(kit: &Kit) -> Result<(), Error> {
    let client: PagerClient = kit.endpoint.mint(0, PagerClient::INTERFACE_ID).await?.cast();
    for bytes in [u64::MAX, 1 << 63, 1 << 47] {
        let made = kit.account.create_paged_memory(bytes, &client).await;
        kit::ensure(made.is_err(), || format!("{bytes:#x} bytes of paged memory were made"))?;
    }
    let wrong: PagerClient = kit.client.clone().cast();
    kit::ensure(kit.account.create_paged_memory(PAGE, &wrong).await.is_err(), || {
        "a capability of another interface became a pager".into()
    })?;
    let wrong: PagerClient = kit.account.clone().cast();
    kit::ensure(kit.account.create_paged_memory(PAGE, &wrong).await.is_err(), || "an account became a pager".into())?;
    let memory = kit.account.create_paged_memory(1 << 40, &client).await.context("a terabyte that is never touched")?;
    kit::ensure(memory.evict().await? == 0, || "pages that were never there were evicted".into())?;
    let ids = memory.frames(1 << 39, 100).await?;
    kit::ensure(ids.iter().all(|id| *id == 0), || "pages that were never there have frames".into())?;
    for (offset, count) in [(u64::MAX, 1), (u64::MAX - 4095, u32::MAX), (1 << 40, 1), (0, u32::MAX)] {
        // Refused, or absent; never a crash.
        if let Ok(ids) = memory.frames(offset, count).await {
            kit::ensure(ids.iter().all(|id| *id == 0), || format!("frames at {offset:#x}"))?;
        }
    }
    kit.still_served()
}
