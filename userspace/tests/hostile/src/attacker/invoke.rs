//! Calls in registers, by INVOKE: its results and errors, and that it never does more than a call by the rings would.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;
use core::arch::asm;

use capos_abi::Rights;
use capos_abi::syscall::{INVOKE, INVOKE_DONE, INVOKE_NOT};
use capos_rt::{Context, Error, notify, raw};
use capos_schema::kernel::{EndpointClient, NotificationClient, ResourceAccountClient, TimerClient};

use crate::kit::{self, Kit, Random};

/// The ordinal of Notification.poll.
const POLL: u16 = 0;
/// Bits that are there to be polled.
const BITS: u64 = 0x8000_0001_0000_5a5a;

/// The registers after an INVOKE with values of its own in those that it must preserve: `rax` and `rdx`, those that it
/// clears, and differences in the others.
struct After {
    outcome: u64,
    number: u64,
    cleared: u64,
    differs: u64,
}

/// INVOKE with this stack pointer and these flags added to the usual ones.
fn invoke([cap, interface, method]: [u64; 3], stack: u64, flags: u64) -> After {
    let (outcome, number, cleared, differs): (u64, u64, u64, u64);
    // SAFETY: INVOKE touches no memory; the registers that the compiler may not release, and the stack pointer, are
    // saved in a vector register each and restored before anything uses them.
    unsafe {
        asm!(
            "movq xmm0, rbx", "movq xmm1, rbp",
            "mov rbx, 0x1001", "mov rbp, 0x1002", "mov r8, 0x1003", "mov r9, 0x1004", "mov r10, 0x1005",
            "mov r13, 0x1007", "mov r14, 0x1008", "mov r15, 0x1009",
            "movq xmm7, rbx", "movq xmm15, r15",
            "pushfq", "or [rsp], rcx", "popfq",
            "movq xmm2, rsp", "mov rsp, r12", "movq xmm3, r12",
            "syscall",
            // Neither changes the flags.
            "mov r11, rsp", "movq rsp, xmm2",
            "pushfq", "pop rcx", "push rcx", "and qword ptr [rsp], {clear}", "popfq",
            "movq xmm4, rcx",
            "movq rcx, xmm3", "sub r11, rcx", "sub r12, rcx", "or r11, r12",
            "sub rbx, 0x1001", "or r11, rbx", "sub rbp, 0x1002", "or r11, rbp",
            "sub r13, 0x1007", "or r11, r13", "sub r14, 0x1008", "or r11, r14",
            "movq rcx, xmm15", "sub rcx, r15", "or r11, rcx", "sub r15, 0x1009", "or r11, r15",
            "movq rcx, xmm7", "sub rcx, 0x1001", "or r11, rcx",
            "or rdi, rsi", "or rdi, r8", "or rdi, r9", "or rdi, r10",
            "movq rbx, xmm0", "movq rbp, xmm1", "movq rcx, xmm4",
            clear = const !0x24_4500_i32,
            inout("rax") INVOKE => outcome, inout("rdi") cap => cleared, inout("rsi") interface => _,
            inout("rdx") method => number, inout("rcx") flags => _, inout("r12") stack => _,
            out("r8") _, out("r9") _, out("r10") _, out("r11") differs, out("r13") _, out("r14") _, out("r15") _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm7") _, out("xmm15") _,
        );
    }
    After { outcome, number, cleared, differs }
}

fn whole(after: &After, what: &str) -> Result<(), Error> {
    kit::ensure(after.differs == 0, || format!("{what}: a register that INVOKE must preserve is another"))?;
    kit::ensure(after.cleared == 0, || format!("{what}: a register shows {:#x} of the kernel's", after.cleared))
}

/// Every register is unchanged or cleared, whatever stack pointer and flags there are, whether the call is answered or
/// not.
pub async fn registers(kit: &Kit) -> Result<(), Error> {
    let good = [kit::id(&kit.notification), NotificationClient::INTERFACE_ID, u64::from(POLL)];
    let stacks = [0, 8, 0x40_0000, 0x7fff_ffff_fff8, 0x8000_0000_0000, 0xffff_8000_0010_0000, u64::MAX - 7];
    // None; direction; alignment check; nested task; identification; all of them.
    let flags = [0, 0x400, 0x4_0000, 0x4000, 0x20_0000, 0x24_4400];
    for (stack, flags) in stacks.into_iter().flat_map(|stack| flags.map(|flags| (stack, flags))) {
        let what = format!("stack pointer {stack:#x}, flags {flags:#x}");
        notify(&kit.notification, BITS).await.map_err(|status| Error::new(format!("{what}: {status}")))?;
        let [cap, interface, method] = good;
        let not = invoke([cap, !interface, method], stack, flags);
        whole(&not, &what)?;
        let done = invoke(good, stack, flags);
        whole(&done, &what)?;
        let seen = [(not.outcome, not.number), (done.outcome, done.number)];
        kit::ensure(seen == [(INVOKE_NOT, 0), (INVOKE_DONE, BITS)], || format!("{what}: {seen:x?}"))?;
    }
    kit.still_served()
}

/// A call that the rings would reject is not done, and one that they would do is done once.
pub async fn refusals(kit: &Kit) -> Result<(), Error> {
    let own = kit::id(&kit.notification);
    let without = |right: Rights| Rights(!right.0).0;
    let deaf = kit.table.derive(own, without(Rights::RECEIVE)).await?;
    let mute = kit.table.derive(own, without(Rights::CALL)).await?;
    let lent = kit.table.derive(own, Rights::ALL.0).await?;
    let other = kit.account.create_notification().await?;
    let gone = kit.table.derive(kit::id(&other), Rights::ALL.0).await?;
    kit.table.revoke(kit::id(&other)).await?;
    let interface = NotificationClient::INTERFACE_ID;
    let poll = |cap: u64| raw::invoke(cap, interface, POLL);
    notify(&kit.notification, BITS).await.map_err(|status| Error::new(format!("signalling: {status}")))?;
    for (what, cap) in [
        ("without the right to receive", deaf),
        ("without the right to call", mute),
        ("revoked", gone),
        ("none", 0),
        ("of another generation", own ^ 1 << 32),
        ("beyond the table", own | 0xffff_ffff),
        ("no number", u64::MAX),
    ] {
        kit::ensure(poll(cap).is_none(), || format!("a capability {what} was called"))?;
    }
    for (what, number) in [
        ("an account", raw::invoke(kit::id(&kit.account), ResourceAccountClient::INTERFACE_ID, POLL)),
        ("an endpoint", raw::invoke(kit::id(&kit.endpoint), EndpointClient::INTERFACE_ID, POLL)),
        ("a client", raw::invoke(kit::id(&kit.client), kit::INTERFACE, POLL)),
        ("another interface", raw::invoke(own, TimerClient::INTERFACE_ID, POLL)),
        ("no method", raw::invoke(own, interface, 1)),
        ("the last method", raw::invoke(own, interface, u16::MAX)),
    ] {
        kit::ensure(number.is_none(), || format!("{what} answered {number:x?}"))?;
    }
    for method in [1 << 16, 1 << 32, u64::MAX] {
        let wide = invoke([own, interface, method], 0x1000, 0);
        kit::ensure(wide.outcome == INVOKE_NOT, || format!("method {method:#x} was called"))?;
    }
    // Nothing of that took the bits; the poller takes them, and finds none then.
    let seen = [poll(lent), poll(own)];
    kit::ensure(seen == [Some(BITS), Some(0)], || format!("polled {seen:x?}"))?;
    kit.table.revoke(own).await?;
    kit::ensure(poll(lent).is_none(), || "a revoked capability was called".into())?;
    kit.still_served()
}

/// Anything in the registers, together with all that this process holds.
pub async fn random(kit: &Kit, seed: u64) -> Result<(), Error> {
    let mut random = Random::new(seed);
    let caps: Vec<u64> =
        capos_rt::capabilities(&kit.table).await.context("its capabilities")?.iter().map(|info| info.id).collect();
    let mut answered = BTreeSet::new();
    for _ in 0..20_000 {
        let noise = random.next();
        let cap =
            random.pick(&caps).map_or(noise, |cap| if noise.is_multiple_of(4) { cap ^ (noise >> 32) } else { cap });
        let interface = random
            .pick(&[
                NotificationClient::INTERFACE_ID,
                TimerClient::INTERFACE_ID,
                ResourceAccountClient::INTERFACE_ID,
                kit::INTERFACE,
                noise,
            ])
            .unwrap_or(noise);
        let method = if random.next().is_multiple_of(8) { random.next() } else { random.next() % 4 };
        let after = invoke([cap, interface, method], random.next() & !7, random.next() & 0x24_4400);
        whole(&after, "random registers")?;
        match after.outcome {
            INVOKE_DONE => {
                answered.insert((cap, interface, method));
            }
            INVOKE_NOT => kit::ensure(after.number == 0, || format!("a refusal shows {:#x}", after.number))?,
            other => return Err(Error::new(format!("INVOKE gave {other:#x}"))),
        }
    }
    let may = |interface: u64, method: u64| match interface {
        NotificationClient::INTERFACE_ID => method == u64::from(POLL),
        TimerClient::INTERFACE_ID => method == 0 || method == 2,
        _ => false,
    };
    let strange: Vec<_> =
        answered.iter().filter(|(cap, interface, method)| !caps.contains(cap) || !may(*interface, *method)).collect();
    kit::ensure(strange.is_empty(), || format!("answered {strange:x?}"))?;
    kit::ensure(!answered.is_empty(), || "nothing was ever answered".into())?;
    kit.still_served()
}
