//! System calls, calls of kernel objects, and calls of another process.

use alloc::format;

use capos_abi::Rights;
use capos_measure::{Samples, count, overhead};
use capos_rt::{Error, notify, raw};
use capos_schema::cap::{AsCap, Client};
use capos_schema::hello::GreeterClient;
use capos_schema::kernel::NotificationClient;

use crate::entries::{self, CAPS};
use crate::series::Series;
use crate::{BATCHES, Bench};

/// The 64 bytes of a message, in a page of their own.
pub fn message() -> u64 {
    let memory = entries::page();
    for at in 0..8 {
        entries::write(memory + at * 8, at);
    }
    memory
}

impl Bench {
    /// One NOP, and one call of a kernel object.
    pub async fn null(&self, series: &Series) -> Result<(), Error> {
        series.enter("null_entry", (&entries::nothing(), 1), "one NOP, from ENTER to its return")?;
        self.null_call(series).await
    }

    /// One call of a kernel object.
    pub async fn null_call(&self, series: &Series) -> Result<(), Error> {
        let notification: NotificationClient = self.account.create_notification().await?;
        let poll = poll(&notification);
        series.enter("ring_call", (&poll, 1), "Notification.poll of a kernel object, from ENTER to its return")?;
        let cap = notification.as_cap().id();
        let (mut samples, overhead) = (series.begin("null_call"), overhead());
        for round in 0..series.rounds {
            notify(&notification, round as u64).await.map_err(|status| Error::new(format!("signalling: {status}")))?;
            let from = count();
            let number = raw::invoke(cap, NotificationClient::INTERFACE_ID, POLL);
            samples.add(from, count(), overhead);
            if number != Some(round as u64) {
                return Err(Error::new(format!("measuring null_call: {number:?} in round {round}")));
            }
        }
        series.tell("null_call", samples, 1, "Notification.poll of a kernel object, from INVOKE to its return");
        Ok(())
    }

    /// The same through its generated client.
    pub async fn null_call_typed(&self, series: &Series) -> Result<(), Error> {
        let notification: NotificationClient = self.account.create_notification().await?;
        let (mut samples, overhead) = (series.begin("null_call_typed"), overhead());
        for _ in 0..series.rounds {
            let from = count();
            let bits = notification.poll().await?;
            samples.add(from, count(), overhead);
            if bits != 0 {
                return Err(Error::new(format!("measuring null_call_typed: bits {bits:#x}")));
            }
        }
        series.tell("null_call_typed", samples, 1, "Notification.poll through its generated client");
        Ok(())
    }

    /// An entry of the ring, of 32 that come together.
    pub fn ring_operation(&self, series: &Series) -> Result<(), Error> {
        let how = "one NOP of 32 in one ENTER, from that to its return: entry taken, judged, done, completion written";
        series.enter("ring_op_batch32", (&entries::nothing(), 32), how)
    }

    /// 64 bytes to another process and 64 back.
    pub async fn call_reply(&self, series: &Series) -> Result<(), Error> {
        let echo = self.partner("echo", 0, entries::INTERFACE).await?;
        let call =
            entries::call(echo.client.as_cap().id(), (entries::INTERFACE, 0), entries::MESSAGE, message(), (0, 0));
        let how = "64 bytes to another process and 64 back, from ENTER to its return, both sides by hand";
        series.enter("call_reply_64", (&call, 1), how)?;
        echo.end().await
    }

    /// The same, to two processes in turns, so that no call repeats.
    pub async fn call_reply_in_turns(&self, series: &Series) -> Result<(), Error> {
        let (first, second) =
            (self.partner("echo", 0, entries::INTERFACE).await?, self.partner("echo", 0, entries::INTERFACE).await?);
        let calls = [&first, &second].map(|echo| {
            let method = (entries::INTERFACE, 0);
            entries::call(echo.client.as_cap().id(), method, entries::MESSAGE, message(), (0, 0))
        });
        let how = "call_reply_64 where two other processes are called in turns, so that no call repeats";
        series.enter_in_turns("call_reply_64_in_turns", (&calls, 1), how)?;
        first.end().await?;
        second.end().await
    }

    /// The same with a capability in the call.
    pub async fn call_reply_cap(&self, series: &Series) -> Result<(), Error> {
        for (name, part, how) in [
            (
                "call_reply_cap",
                "echo-keep",
                "call_reply_64 with a copy of a capability in the call, which the other process keeps",
            ),
            (
                "call_reply_cap_released",
                "echo-release",
                "the same, where the other process also gives it back, with its answer",
            ),
        ] {
            let echo = self.partner(part, 0, entries::INTERFACE).await?;
            let (memory, sent) = (message(), &self.given);
            entries::write(memory + CAPS, sent.as_cap().id());
            entries::write(memory + CAPS + 8, u64::from(Rights::ALL.0));
            let method = (entries::INTERFACE, 0);
            let call = entries::call(echo.client.as_cap().id(), method, entries::MESSAGE, memory, (1, 0));
            series.enter(name, (&call, 1), how)?;
            echo.end().await?;
        }
        Ok(())
    }

    /// The cost of one operation among many that one ENTER submits.
    pub async fn batches(&self, rounds: usize) -> Result<(), Error> {
        let notification: NotificationClient = self.account.create_notification().await?;
        for batch in BATCHES {
            let series = Series::at("batch", u64::from(batch), rounds);
            let how = format!("for each of {batch} in one ENTER");
            series.enter("ring_op", (&entries::nothing(), batch), &format!("NOP, {how}"))?;
            series.enter("ring_call", (&poll(&notification), batch), &format!("Notification.poll, {how}"))?;
            let echo = self.partner(&format!("echo-{batch}"), 0, entries::INTERFACE).await?;
            let method = (entries::INTERFACE, 0);
            let call = entries::call(echo.client.as_cap().id(), method, entries::MESSAGE, message(), (0, 0));
            let how = format!("{how}, answered with as many answers in one");
            series.enter("call_reply_64", (&call, batch), &how)?;
            echo.end().await?;
        }
        Ok(())
    }

    /// Calls and answers through generated code and the executor, on both sides.
    pub async fn typed_calls(&self, series: &Series) -> Result<(), Error> {
        // Ordinal 0, client 1. Root, list pointer and 48 bytes of text are 64 bytes.
        let partner = self.partner("greeter", 1 << 16, GreeterClient::INTERFACE_ID).await?;
        let greeter: GreeterClient = partner.client.clone().cast();
        let (name, overhead) = ("x".repeat(47), overhead());
        let mut samples: Samples = series.begin("call_reply_64_typed");
        for _ in 0..series.rounds {
            let from = count();
            let answer = greeter.greet(&name).await?;
            samples.add(from, count(), overhead);
            drop(answer);
        }
        let how = "the same with generated client and server and their executors";
        series.tell("call_reply_64_typed", samples, 1, how);
        partner.end().await
    }
}

/// The ordinal of Notification.poll.
pub const POLL: u16 = 0;

/// Notification.poll.
pub fn poll(notification: &NotificationClient) -> capos_abi::RawEntry {
    let method = (NotificationClient::INTERFACE_ID, POLL);
    entries::call(notification.as_cap().id(), method, 8, entries::page(), (0, 0))
}
