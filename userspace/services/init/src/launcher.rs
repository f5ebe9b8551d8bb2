//! Running the programs that the manifest lists.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_process::{Granted, Image, Launch, describe_exit};
use capos_rt::{Either, Server, select};
use capos_schema::cap::{AsCap, CallContext, CallError};
use capos_schema::kernel::ProcessClient;
use capos_schema::system::{LauncherServer, ProgramResult, StandardClient, StandardServer};

use crate::system::System;

/// Output that is kept of a program, in bytes.
const MAX_OUTPUT: usize = 64 << 10;
/// Room of the answer for everything but the output.
const ANSWER_ROOM: usize = 2048;
/// How long a program may run, in nanoseconds.
const MAX_TIME: u64 = 60_000_000_000;

/// Where a program writes.
#[derive(Default)]
struct Output {
    text: RefCell<String>,
}

impl StandardServer for Output {
    async fn write(&self, _cx: &CallContext, text: String) -> Result<(), CallError> {
        let mut kept = self.text.borrow_mut();
        let room = (MAX_OUTPUT.saturating_sub(ANSWER_ROOM)).saturating_sub(kept.len());
        let mut end = text.len().min(room);
        while !text.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        kept.push_str(text.get(..end).unwrap_or_default());
        Ok(())
    }
}

/// A program that runs. It ends with this value, and where it writes with it.
struct Running<'a> {
    server: &'a Server,
    process: ProcessClient,
    out: StandardClient,
    /// Why it is ended, where it has not ended by itself.
    reason: &'static str,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.server.unexport(self.out.as_cap());
        let (process, reason) = (self.process.clone(), self.reason);
        // That it has ended already is as good.
        drop(capos_rt::spawn(async move { drop(process.kill(reason).await) }));
    }
}

/// Runs programs.
pub struct ProgramLauncher(pub Rc<System>);

impl LauncherServer for ProgramLauncher {
    async fn run(
        &self,
        _cx: &CallContext,
        program: String,
        arguments: Vec<String>,
    ) -> Result<ProgramResult, CallError> {
        let system = &self.0;
        let entry = system.programs.iter().find(|entry| entry.name == program).ok_or_else(|| {
            let names: Vec<&str> = system.programs.iter().map(|entry| entry.name.as_str()).collect();
            CallError::invalid_argument(format!("there is no program `{program}`; there are {}", names.join(", ")))
        })?;
        let image = Image::open(&system.medium, &entry.program).await?;
        let mut given = system.give(entry).await?;
        let output = Rc::new(Output::default());
        let out = StandardClient::serve(&system.server, output.clone())?;
        given.grants.push(Granted::new("out", &out));
        let mut environment = entry.environment.clone();
        environment.append(&mut given.environment);
        let mut all = entry.arguments.clone();
        all.extend(arguments);
        let started = Launch {
            name: &entry.name,
            image: &image,
            arguments: all,
            environment,
            grants: given.grants,
            limits: entry.limits.clone(),
            account: &system.account,
        }
        .start()
        .await?;
        let reason = "nobody waits for its result any more";
        let mut running = Running { server: &system.server, process: started.process, out, reason };
        let result = select(running.process.wait(), system.clock.sleep(MAX_TIME)).await;
        running.reason = "its time was over";
        drop(running);
        let (code, report) = match result {
            Either::First(Ok(exit)) => (exit.code, describe_exit(&exit)),
            Either::First(Err(error)) => return Err(error),
            Either::Second(()) => (-1, format!("it was ended after {} s", MAX_TIME / 1_000_000_000)),
        };
        let output = output.text.take();
        Ok(ProgramResult { code, report, output })
    }

    async fn programs(&self, _cx: &CallContext) -> Result<Vec<String>, CallError> {
        Ok(self.0.programs.iter().map(|entry| entry.name.clone()).collect())
    }
}
