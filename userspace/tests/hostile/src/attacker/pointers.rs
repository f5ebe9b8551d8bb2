//! Bad addresses in every field that holds one, of every opcode.

use alloc::format;
use alloc::vec::Vec;

use capos_abi::bootstrap::{LAUNCH_RECORD, PROGRAM_BASE, USER_END};
use capos_abi::entry::{Buffer, CapArray, Operation};
use capos_abi::{Entry, RawEntry, Status};
use capos_rt::memory::{self, Access};
use capos_rt::{Context, Error};
use capos_schema::kernel::ResourceAccountClient;

use crate::kit::{self, Answers, Kit, patched};

/// Offsets of the three address fields of an entry.
const FIRST: usize = 32;
const SECOND: usize = 40;
const CAPS: usize = 48;

const CALL: u64 = 1;
const RECEIVE: u64 = 2;
const RETURN: u64 = 3;

/// An address and its fault.
type Bad = (&'static str, u64);

/// Addresses that no process may read or write through.
fn unreadable(kit: &Kit, page_end: u64) -> Vec<Bad> {
    alloc::vec![
        ("null", 0),
        ("address 8, in the first page", 8),
        ("the last byte below user memory", 0xfff8),
        ("unaligned by 1", kit.params + 1),
        ("unaligned by 4", kit.params + 4),
        ("unmapped", 0x5000_0000_0000),
        ("the last 8 bytes of a page before an unmapped one", page_end - 8),
        ("the last user page's end", USER_END - 8),
        ("the end of user memory", USER_END),
        ("the last lower-half page", 0x7fff_ffff_fff8),
        ("the first address that is not canonical", 0x8000_0000_0000),
        ("the last address that is not canonical", 0xffff_7fff_ffff_fff8),
        ("the kernel's direct map", 0xffff_8000_0000_0000),
        ("the kernel's direct map, 1 MiB in", 0xffff_8000_0010_0000),
        ("the kernel's image", 0xffff_ffff_8000_0000),
        ("the last address", u64::MAX - 7),
    ]
}

/// Addresses that no process may write through, besides the unreadable ones.
fn read_only() -> [Bad; 2] {
    [("the launch record", LAUNCH_RECORD), ("the program's constants", PROGRAM_BASE)]
}

/// A conversation with the own endpoint: CALL, RECV and RETURN, one of which is bad. The answer to
/// each; `None` if it was not sent or had to be cancelled.
struct Conversation {
    call: Option<i32>,
    receive: Option<i32>,
    answer: Option<i32>,
}

fn converse(
    kit: &Kit,
    call: RawEntry,
    receive: RawEntry,
    patch: impl Fn(RawEntry) -> RawEntry,
    sent: u8,
) -> Result<Conversation, Error> {
    let mut answers = Answers::new();
    answers.send(&[receive, call]);
    let mut result = Conversation { call: None, receive: None, answer: None };
    if let Some(received) = answers.get(RECEIVE) {
        result.receive = Some(received.status);
        if received.status == 0 {
            let results = Buffer { address: kit.params, length: 16 };
            let caps = if sent > 0 { CapArray { address: kit.caps, sent, accepted: 0 } } else { CapArray::default() };
            kit.put_copy(0, kit::id(&kit.notification));
            let good = kit::answer(RETURN, kit.reply(), results, caps);
            answers.send(&[patch(good)]);
            let status = answers.wait(RETURN)?.status;
            result.answer = Some(status);
            if status != 0 {
                // The call continues: it must still be possible to answer it.
                answers = Answers::new();
                answers.send(&[kit::answer(RETURN + 1, kit.reply(), results, CapArray::default())]);
                answers.expect(RETURN + 1, Status::Ok).context("an honest RETURN after a bad one")?;
            }
        }
    }
    result.call = answers.get(CALL).map(|completion| completion.status);
    for (tag, open) in [(CALL, result.call.is_none()), (RECEIVE, result.receive.is_none())] {
        if open {
            answers.send(&[kit::cancel(0x100 + tag, tag)]);
            let status = answers.wait(0x100 + tag)?.status;
            kit::ensure(status == 0 || status == Status::NotFound as i32, || {
                format!("cancelling entry {tag} was answered with {}", kit::words(status))
            })?;
        }
    }
    Ok(result)
}

/// The RETURN_RECV that a RETURN and an honest RECV are together.
pub fn and_receive(kit: &Kit, answer: RawEntry) -> RawEntry {
    let both = (Entry::decode(&answer), Entry::decode(&kit.receive(RECEIVE)));
    let (Ok(Entry { user_data, operation: Operation::Return { reply, exception, results, .. } }), Ok(receive)) = both
    else {
        return answer;
    };
    let Operation::Recv { endpoint, buffer, caps } = receive.operation else { return answer };
    let operation = Operation::ReturnRecv { reply, endpoint, exception, results, buffer, caps };
    Entry { user_data, operation }.encode()
}

fn must_be_bad(what: &str, why: &str, found: Option<i32>) -> Result<(), Error> {
    kit::ensure(found == Some(Status::BadAddress as i32), || {
        let found = found.map_or_else(|| "no answer".into(), kit::words);
        format!("{what} {why}: {found} in place of BadAddress")
    })
}

fn calls_of_kernel_objects(kit: &Kit, bad: &[Bad], constant: &[Bad]) -> Result<(), Error> {
    let usage = kit.usage(CALL);
    let account = ResourceAccountClient::INTERFACE_ID;
    let (params, results) = (Buffer { address: kit.params, length: 16 }, Buffer { address: kit.results, length: 256 });
    kit.put_copy(0, kit::id(&kit.notification));
    let send = CapArray { address: kit.caps, sent: 1, accepted: 0 };
    let sends = kit::call(CALL, kit::id(&kit.account), account, 6, params, results, send);
    let accept = CapArray { address: kit.caps, sent: 0, accepted: 1 };
    let accepts = kit::call(CALL, kit::id(&kit.account), account, 2, params, results, accept);
    for (why, address) in bad {
        must_be_bad("parameters for a kernel object at", why, Some(kit::status_of(&patched(usage, FIRST, *address))?))?;
        must_be_bad("results of a kernel object at", why, Some(kit::status_of(&patched(usage, SECOND, *address))?))?;
        must_be_bad(
            "capabilities for a kernel object at",
            why,
            Some(kit::status_of(&patched(sends, CAPS, *address))?),
        )?;
        must_be_bad(
            "capabilities from a kernel object at",
            why,
            Some(kit::status_of(&patched(accepts, CAPS, *address))?),
        )?;
    }
    for (why, address) in constant {
        must_be_bad("results of a kernel object at", why, Some(kit::status_of(&patched(usage, SECOND, *address))?))?;
        must_be_bad(
            "capabilities from a kernel object at",
            why,
            Some(kit::status_of(&patched(accepts, CAPS, *address))?),
        )?;
    }
    Ok(())
}

/// The attack.
pub async fn run(kit: &Kit) -> Result<(), Error> {
    let object = memory::create(memory::PAGE)?;
    let mapping = memory::map(&object, 0, memory::PAGE, Access::ReadWrite)?;
    let bad = unreadable(kit, mapping.address() + memory::PAGE);
    let constant = read_only();
    calls_of_kernel_objects(kit, &bad, &constant)?;

    let results = Buffer { address: kit.results, length: 64 };
    let params = Buffer { address: kit.params, length: 16 };
    let with_caps = |caps| kit::call(CALL, kit::id(&kit.client), kit::INTERFACE, 0, params, results, caps);
    let sends = with_caps(CapArray { address: kit.caps, sent: 1, accepted: 0 });
    let accepts = with_caps(CapArray { address: kit.caps + 1024, sent: 0, accepted: 1 });
    let same = |entry| entry;
    for (why, address) in &bad {
        kit.put_copy(0, kit::id(&kit.notification));
        let call = patched(kit.call(CALL), FIRST, *address);
        must_be_bad("CALL with parameters at", why, converse(kit, call, kit.receive(RECEIVE), same, 0)?.call)?;
        let call = patched(sends, CAPS, *address);
        must_be_bad(
            "CALL with capabilities at",
            why,
            converse(kit, call, kit.receive_caps(RECEIVE, 1), same, 0)?.call,
        )?;
        let bad_return = |entry| patched(entry, FIRST, *address);
        must_be_bad(
            "RETURN with results at",
            why,
            converse(kit, kit.call(CALL), kit.receive(RECEIVE), bad_return, 0)?.answer,
        )?;
        let bad_both = |entry| patched(and_receive(kit, entry), FIRST, *address);
        must_be_bad(
            "RETURN_RECV with results at",
            why,
            converse(kit, kit.call(CALL), kit.receive(RECEIVE), bad_both, 0)?.answer,
        )?;
        let bad_caps = |entry| patched(entry, CAPS, *address);
        must_be_bad(
            "RETURN with capabilities at",
            why,
            converse(kit, accepts, kit.receive(RECEIVE), bad_caps, 1)?.answer,
        )?;
    }
    for (why, address) in bad.iter().chain(&constant) {
        kit.put_copy(0, kit::id(&kit.notification));
        let call = patched(kit.call(CALL), SECOND, *address);
        must_be_bad("CALL with results at", why, converse(kit, call, kit.receive(RECEIVE), same, 0)?.call)?;
        let call = patched(accepts, CAPS, *address);
        must_be_bad(
            "CALL that accepts capabilities at",
            why,
            converse(kit, call, kit.receive(RECEIVE), same, 1)?.call,
        )?;
        let receive = patched(kit.receive(RECEIVE), FIRST, *address);
        must_be_bad("RECV with a buffer at", why, converse(kit, kit.call(CALL), receive, same, 0)?.receive)?;
        kit.put_copy(0, kit::id(&kit.notification));
        let receive = patched(kit.receive_caps(RECEIVE, 1), CAPS, *address);
        must_be_bad("RECV with capabilities at", why, converse(kit, sends, receive, same, 0)?.receive)?;
    }
    kit.still_served()
}

/// Buffers that are user memory, but the rings themselves, or each other.
pub async fn overlapping(kit: &Kit) -> Result<(), Error> {
    let ring = capos_abi::bootstrap::FIRST_RING;
    let sources = [ring, ring + 64, ring + 128, ring + 4096, ring + 8192];
    for address in sources {
        // Reading the rings as parameters is safe: whatever they contain, an answer comes.
        kit::status_of(&patched(kit.usage(CALL), FIRST, address))?;
        let found = converse(kit, patched(kit.call(CALL), FIRST, address), kit.receive(RECEIVE), |entry| entry, 0)?;
        kit::ensure(found.call.is_some(), || format!("a CALL with parameters at {address:#x} was not answered"))?;
    }
    // Parameters, results, message and capabilities all in one place.
    let one = Buffer { address: kit.message, length: 256 };
    let caps = CapArray { address: kit.message, sent: 0, accepted: 2 };
    let call = kit::call(CALL, kit::id(&kit.client), kit::INTERFACE, 0, Buffer { length: 128, ..one }, one, caps);
    let receive = kit::encode(RECEIVE, Operation::Recv { endpoint: kit::id(&kit.endpoint), buffer: one, caps });
    let mut answers = Answers::new();
    answers.send(&[receive, call]);
    answers.expect(RECEIVE, Status::Ok)?;
    answers.send(&[kit::answer(RETURN, kit.reply(), one, CapArray::default())]);
    answers.expect(RETURN, Status::Ok)?;
    answers.expect(CALL, Status::Ok)?;
    kit.still_served()
}
