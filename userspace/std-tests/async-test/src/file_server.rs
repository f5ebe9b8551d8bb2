//! The fate of a program's files when their server is killed and replaced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::thread;

use capos_rt::{call, env};
use capos_schema::system::FaultInjectorClient;

use crate::{Outcome, check, io as told, joined};

/// "Input/output error: the file's server is gone or failed", by its number.
const GONE: i32 = 5;

fn gone<T>(result: io::Result<T>, what: &str) -> Outcome {
    match result {
        Ok(_) => check(false, &format!("{what} was done without a server")),
        Err(error) => check(error.raw_os_error() == Some(GONE), &format!("{what}: {error}")),
    }
}

/// Every call on a file that was open says that its server is gone: none waits, and none shows another's file.
fn lost(file: &mut File) -> Outcome {
    gone(file.read(&mut [0; 4]), "reading")?;
    gone(file.write(b"lost"), "writing")?;
    gone(file.metadata(), "asking")?;
    gone(file.seek(SeekFrom::End(0)), "looking for the end")?;
    gone(file.set_len(0), "emptying")?;
    gone(file.lock(), "locking")
}

pub fn open_files_end_with_their_server() -> Outcome {
    let path = "/store/file";
    fs::write(path, "before").map_err(told)?;
    let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(told)?;
    let mut entries = fs::read_dir("/store").map_err(told)?;
    file.lock().map_err(told)?;
    // It waits for the lock, or is about to.
    let other = File::open(path).map_err(told)?;
    let waits = thread::spawn(move || gone(other.lock(), "waiting for a lock"));
    call(env()?.cap::<FaultInjectorClient>("faults")?.kill("scratch"))?;
    joined(waits)?;
    lost(&mut file)?;
    gone(entries.next().unwrap_or_else(|| Err(io::Error::other("the listing came to its end"))), "listing")?;
    // By its path there is what the server's next life has: nothing at first.
    let none = File::open(path).err().map(|error| error.kind());
    check(none == Some(ErrorKind::NotFound), &format!("opening again: {none:?}"))?;
    fs::write(path, "after").map_err(told)?;
    check(fs::read_to_string(path).map_err(told)? == "after", "what was written is not there")?;
    lost(&mut file)?;
    drop(file);
    check(fs::read_to_string(path).map_err(told)? == "after", "an old file reached the new one")
}
