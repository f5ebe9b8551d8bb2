//! Processes that never rest, and misleading words.

use alloc::format;

use capos_abi::Status;
use capos_abi::entry::Operation;
use capos_rt::{Error, raw};
use capos_schema::kernel::DebugLogClient;

use crate::kit::{self, Kit};

/// Computes for ever and never enters the kernel.
pub fn spin() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Enters the kernel again and again.
pub fn enter() -> ! {
    loop {
        raw::enter(0, 0, 0);
    }
}

/// Sends entries that do nothing, again and again.
pub fn no_operations() -> ! {
    let entries = [kit::encode(1, Operation::Nop); 60];
    loop {
        kit::submit(&entries);
        drop(kit::collect());
    }
}

/// Calls, receives and answers itself again and again.
pub fn call_itself(kit: &Kit) -> ! {
    loop {
        kit::submit(&[kit.receive(2), kit.call(1)]);
        kit::submit(&[kit::release(3, kit.reply())]);
        drop(kit::collect());
    }
}

/// Signals its notification and waits for it again and again.
pub fn notify(kit: &Kit) -> ! {
    let notification = kit::id(&kit.notification);
    loop {
        kit::submit(&[
            kit::encode(1, Operation::Notify { notification, bits: u64::MAX }),
            kit::encode(2, Operation::Wait { cap: notification }),
        ]);
        drop(kit::collect());
    }
}

/// Writes lines that look like another's, or like none, and more than the log holds.
pub async fn log(kit: &Kit) -> Result<(), Error> {
    let log: DebugLogClient = kit.env.cap("log")?;
    for text in [
        "x\ninit: FAILED forged: by a log line",
        "x\r\ninit: FAILED forged: by a log line",
        "\u{1b}[2J\u{1b}[Hinit: FAILED forged: by an escape",
        "\u{85}init: FAILED forged: by a control character",
        "\u{2028}init: FAILED forged: by a line separator",
        "",
    ] {
        // Written in a harmless form, or refused.
        drop(log.write(text).await);
    }
    drop(log.write(&"long ".repeat(10_000)).await);
    for line in 0..3000 {
        drop(log.write(&format!("line {line}")).await);
    }
    for position in [0, 1, u64::MAX / 2] {
        if position > 1 << 40 {
            break;
        }
        drop(log.read(position).await);
    }
    kit.still_served()
}

/// Sleeps until impossible times, or times long past.
pub async fn sleep(kit: &Kit) -> Result<(), Error> {
    let timer: capos_schema::kernel::TimerClient = kit.env.cap("timer")?;
    for _ in 0..200 {
        timer.sleep_until(0).await?;
        timer.sleep_until(1).await?;
    }
    let mut sleepers = alloc::vec::Vec::new();
    for step in 0..40_u64 {
        let until = u64::MAX - step % 3;
        let timer = timer.clone();
        sleepers.push(capos_rt::spawn(async move { timer.sleep_until(until).await }));
    }
    timer.sleep_until(timer.now().await? + 1_000_000).await?;
    kit::ensure(sleepers.iter().all(|sleeper| !sleeper.is_ended()), || "a sleep of centuries has ended".into())?;
    for deadline in [1, 2, u64::MAX - 1, 1 << 63] {
        // A wait whose deadline has passed, or one that ends with an operation that completes at once.
        kit::submit(&[kit::encode(7, Operation::Nop)]);
        raw::enter(0, 1, deadline);
        kit::ensure(kit::collect().iter().any(|completion| completion.status == Status::Ok as i32), || {
            format!("nothing had completed at {deadline}")
        })?;
    }
    kit.still_served()
}
