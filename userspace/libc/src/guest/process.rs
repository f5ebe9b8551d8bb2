//! The process itself: its end, and C's questions about it.

use core::ffi::{c_int, c_void};

use crate::guest::errno::unsupported;
use crate::guest::output;

/// Exit code of a process whose start failed before it could log anything.
pub const BROKEN: i32 = 120;
/// Exit code of `abort`, as on Linux in a shell.
const ABORTED: i32 = 134;

/// Ends the process at once.
pub fn end(code: i32) -> ! {
    capos_ring::exit(code)
}

/// Ends the process after its output was passed on.
pub fn exit_process(code: i32) -> ! {
    output::flush();
    end(code)
}

#[unsafe(no_mangle)]
extern "C" fn exit(code: c_int) -> ! {
    exit_process(code)
}

#[unsafe(no_mangle)]
extern "C" fn _exit(code: c_int) -> ! {
    exit_process(code)
}

#[unsafe(no_mangle)]
extern "C" fn abort() -> ! {
    exit_process(ABORTED)
}

#[unsafe(no_mangle)]
extern "C" fn getpid() -> c_int {
    // Processes have no numbers among themselves; a program may want one to make names with.
    1
}

/// None: a process does not learn which process started it.
#[unsafe(no_mangle)]
extern "C" fn getppid() -> c_int {
    0
}

/// A process never becomes two, so the functions that are to run then never do.
#[unsafe(no_mangle)]
extern "C" fn pthread_atfork(_prepare: *const c_void, _parent: *const c_void, _child: *const c_void) -> c_int {
    0
}

macro_rules! owner {
    ($($name:ident),* $(,)?) => {
        $(
            /// There are no users: all files are number 0's, and every process is.
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> libc::uid_t {
                0
            }
        )*
    };
}

owner!(getuid, geteuid, getgid, getegid);

macro_rules! unsupported {
    ($($name:ident),* $(,)?) => {
        $(
            /// capOS has nothing for it: fails with `ENOSYS`.
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> c_int {
                unsupported()
            }
        )*
    };
}

unsupported!(
    fork,
    execvp,
    waitid,
    waitpid,
    kill,
    chroot,
    setuid,
    setgid,
    setgroups,
    setsid,
    setpgid,
    gethostname,
    sched_getaffinity,
    sched_setaffinity,
);

macro_rules! unsupported_by_answer {
    ($($name:ident),* $(,)?) => {
        $(
            /// capOS has nothing for it: answers `ENOSYS`, as C has it for functions that answer with the error itself.
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> c_int {
                libc::ENOSYS
            }
        )*
    };
}

unsupported_by_answer!(
    posix_spawnp,
    posix_spawn_file_actions_adddup2,
    posix_spawn_file_actions_destroy,
    posix_spawn_file_actions_init,
    posix_spawnattr_destroy,
    posix_spawnattr_init,
    posix_spawnattr_setflags,
    posix_spawnattr_setpgroup,
    posix_spawnattr_setsigdefault,
    getpwuid_r,
);
