//! Misbehaviour that a script may order, and that no worker should show. The system must be unaffected: the worker gets
//! nothing that it tries to reach, and harm to itself ends the process.

use capnp::Word;
use capos_schema::authority::{ApprovalClientClient, AuthorityBrokerClient, UserSessionClient};
use capos_schema::cap::{CallError, Client, Message, Status};
use capos_schema::kernel::{CapabilityTableClient, ObjectClient};
use capos_schema::storage::FileClient;
use capos_schema::system::{LauncherClient, ProcessSpawnerClient};
use capos_schema::terminal::{TerminalClient, TerminalSessionClient};
use capos_script::Crash;

/// Capabilities that a model never has: the person's terminal and session, starting programs, questions and decisions,
/// files.
const BEYOND: [(&str, u64); 8] = [
    (TerminalClient::NAME, TerminalClient::INTERFACE_ID),
    (TerminalSessionClient::NAME, TerminalSessionClient::INTERFACE_ID),
    (UserSessionClient::NAME, UserSessionClient::INTERFACE_ID),
    (LauncherClient::NAME, LauncherClient::INTERFACE_ID),
    (ProcessSpawnerClient::NAME, ProcessSpawnerClient::INTERFACE_ID),
    (ApprovalClientClient::NAME, ApprovalClientClient::INTERFACE_ID),
    (AuthorityBrokerClient::NAME, AuthorityBrokerClient::INTERFACE_ID),
    (FileClient::NAME, FileClient::INTERFACE_ID),
];
/// Places of the capability table that are guessed.
const PLACES: u64 = 64;
/// How often each place is taken to have been used before.
const GENERATIONS: u64 = 4;

/// Calls the first method of every interface that no model may have, with each capability that the process holds and
/// with every id of the first places of its table. Reports the results.
pub async fn reach(table: &CapabilityTableClient) -> Result<String, CallError> {
    let mut ids: Vec<u64> = capos_rt::capabilities(table).await?.iter().map(|entry| entry.id).collect();
    let held = ids.len();
    ids.extend((0..GENERATIONS).flat_map(|generation| (0..PLACES).map(move |place| (generation << 32) | place)));
    let mut calls = 0_usize;
    let mut answered = Vec::new();
    for (name, interface) in BEYOND {
        for id in &ids {
            let cap = capos_rt::adopt::<ObjectClient>(*id).into_cap();
            // It may be one of the process's own, which must not be released.
            cap.transport().forget();
            let arguments = Message { words: Word::allocate_zeroed_vec(1), caps: vec![] };
            calls = calls.saturating_add(1);
            match cap.call(interface, 0, arguments).await {
                Err(CallError::Transport(
                    Status::BadCapability | Status::StaleCapability | Status::WrongInterface | Status::MissingRight,
                )) => {}
                Ok(_) => answered.push(format!("{name} by {id:#x}")),
                Err(error) => answered.push(format!("{name} by {id:#x}: {error}")),
            }
        }
    }
    let names = BEYOND.map(|(name, _)| name).join(", ");
    let end = if answered.is_empty() { "all refused".to_string() } else { format!("reached {}", answered.join("; ")) };
    Ok(format!(
        "[reached for {names} by {held} capabilities and {} guesses: {calls} calls, {end}]",
        ids.len().saturating_sub(held)
    ))
}

/// Ends the process with a code.
pub fn exit(code: u32) -> ! {
    capos_rt::exit(code.cast_signed())
}

/// Answers nothing any more: the one thread that would waits for ever.
pub fn deaf() -> ! {
    loop {
        std::thread::park();
    }
}

/// Gets the process killed.
pub fn crash(how: Crash) -> ! {
    match how {
        #[expect(clippy::panic, reason = "the script asks for it")]
        Crash::Panic => panic!("the script asked for a panic"),
        // SAFETY: none is claimed; the instruction faults and the kernel ends the process. Nothing
        // in Rust's memory is touched before it.
        Crash::Null => unsafe { std::arch::asm!("mov byte ptr [{}], 1", in(reg) 0_usize) },
        // SAFETY: as above: the weights are mapped read-only.
        Crash::Weights => unsafe { std::arch::asm!("mov byte ptr [{}], 1", in(reg) crate::weights::address()) },
        // SAFETY: as above: the stack is not executable.
        Crash::Execute => unsafe { std::arch::asm!("jmp rsp") },
        // SAFETY: as above: user code may not touch ports.
        Crash::Port => unsafe { std::arch::asm!("in al, dx", in("dx") 0x60_u16, out("al") _) },
    }
    // The kernel permitted it: reports that by a code that nothing else uses.
    capos_rt::exit(86)
}
