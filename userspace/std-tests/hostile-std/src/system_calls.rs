//! Signals, processes, users and system calls: missing functions report that they are missing.

use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Outcome, c, check, refused};

static HANDLED: AtomicBool = AtomicBool::new(false);

extern "C" fn handler(_signal: i32) {
    HANDLED.store(true, Ordering::Release);
}

/// Signals: none is ever sent, and no handler can be set.
pub fn signals() -> Outcome {
    for signal in [libc::SIGUSR1, libc::SIGSEGV, libc::SIGKILL, 0, -1, 1000] {
        for process in [0, 1, -1, 2, i32::MAX, i32::MIN] {
            refused(c::kill(process, signal), libc::ENOSYS, &format!("signal {signal} to {process}"))?;
        }
        refused(c::handle(signal, handler), libc::ENOSYS, &format!("a handler of signal {signal}"))?;
        refused(c::raise(signal), libc::ENOSYS, &format!("raising {signal}"))?;
    }
    for number in [libc::SYS_kill, libc::SYS_tkill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo] {
        refused(c::system_call(number), libc::ENOSYS, &format!("system call {number}"))?;
    }
    check(!HANDLED.load(Ordering::Acquire), || "a signal came".into())
}

/// Processes, users and other foreign objects.
pub fn processes() -> Outcome {
    refused(c::fork(), libc::ENOSYS, "becoming two")?;
    for program in [c"/bin/hostile-std", c"/home/mine", c"/other/diary", c"sh"] {
        refused(c::execute(program), libc::ENOSYS, &format!("becoming {program:?}"))?;
    }
    for program in ["/bin/hostile-std", "sh", "/home/mine"] {
        refused(Command::new(program).arg("x".repeat(1 << 20)).spawn(), libc::ENOSYS, &format!("starting {program}"))?;
    }
    refused(c::wait_for(-1), libc::ENOSYS, "waiting for a process")?;
    refused(c::become_user(1000), libc::ENOSYS, "becoming another user")?;
    refused(c::become_group(1000), libc::ENOSYS, "becoming another group")?;
    refused(c::new_session(), libc::ENOSYS, "a session of its own")?;
    for path in ["/", "/home", "/home/..", "/other"] {
        refused(c::change_root(path), libc::ENOSYS, &format!("another top: {path}"))?;
    }
    Ok(())
}

/// Numbers that the library answers to: those of `getrandom`, `futex`, `statx` and `gettid`.
const KNOWN: [i64; 4] = [libc::SYS_getrandom, libc::SYS_futex, libc::SYS_statx, libc::SYS_gettid];

/// Every other number of a system call, and some that exist nowhere.
pub fn missing() -> Outcome {
    let high = [i64::MIN, i64::MAX, 1 << 32, (1 << 32) | libc::SYS_futex, (1 << 63) | libc::SYS_getrandom, 0x4000_0001];
    for number in (-10..1024).chain(high).filter(|number| !KNOWN.contains(number)) {
        refused(c::system_call(number), libc::ENOSYS, &format!("system call {number}"))?;
    }
    let random = io::Error::from_raw_os_error(libc::ENOSYS);
    let mut bytes = [0_u8; 16];
    // Without entropy there are no random bytes, and none are invented.
    let answered = c::random(&mut bytes);
    check(answered.is_err_and(|error| error.raw_os_error() == random.raw_os_error()) && bytes == [0; 16], || {
        "random bytes came from nowhere".into()
    })
}

/// `futex`, whose words are named to the kernel as they are.
pub fn futex() -> Outcome {
    let (wait, wake) = (libc::FUTEX_WAIT, libc::FUTEX_WAKE);
    for address in [0, 1 << 47, 0xffff_8000_0000_0000, usize::MAX - 3, 0x5000_0000_0000] {
        refused(c::futex(address, wait, 0), libc::EFAULT, &format!("waiting for a word at {address:#x}"))?;
    }
    let word = [0_u32; 2];
    let address = word.as_ptr().addr();
    for odd in 1..4 {
        refused(c::futex(address + odd, wait, 0), libc::EFAULT, "waiting for half a word")?;
    }
    refused(c::futex(address, wait, 1), libc::EAGAIN, "waiting for what is not there")?;
    check(c::futex(address, wake, u32::MAX).is_ok_and(|woken| woken == 0), || "somebody was woken".into())?;
    for operation in [libc::FUTEX_FD, libc::FUTEX_REQUEUE, libc::FUTEX_CMP_REQUEUE, libc::FUTEX_LOCK_PI, 100, -1] {
        refused(c::futex(address, operation, 0), libc::ENOSYS, &format!("operation {operation}"))?;
    }
    Ok(())
}
