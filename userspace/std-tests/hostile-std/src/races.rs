//! Names that change between two look-ups: a path leads where it may lead at every moment, or nowhere.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::{Outcome, c, check, refused, told};

/// Looks of each kind.
const ROUNDS: u32 = 200;

/// The permitted results of an operation while names move: that it was done, or that just then nothing fitting was
/// there.
fn moved<T>(result: io::Result<T>, what: &str) -> Result<Option<T>, String> {
    const FITTING: [i32; 5] = [libc::ENOENT, libc::ENOTDIR, libc::EISDIR, libc::EEXIST, libc::ENOTEMPTY];
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.raw_os_error().is_some_and(|number| FITTING.contains(&number)) => Ok(None),
        Err(error) => Err(format!("{what}: {error}")),
    }
}

/// Runs something again and again in parallel with something else, until that has ended.
fn beside(stirs: impl Fn() -> Outcome + Sync, looks: impl FnOnce() -> Outcome) -> Outcome {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let stirring = scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                stirs()?;
            }
            Ok(())
        });
        let looked = looks();
        over.store(true, Ordering::Release);
        let stirred = stirring.join().map_err(|_| "a thread panicked".to_owned())?;
        looked.and(stirred)
    })
}

/// Directories and files take each other's places, while others are opened through them.
pub fn renames() -> Outcome {
    let base = "/home/race";
    fs::create_dir_all(format!("{base}/a")).map_err(told("making a directory"))?;
    fs::create_dir_all(format!("{base}/b")).map_err(told("making a directory"))?;
    for name in ["a", "b"] {
        fs::write(format!("{base}/{name}/diary"), "mine").map_err(told("writing"))?;
    }
    let path = |name: &str| format!("{base}/{name}");
    let open = File::open(path("a")).map_err(told("opening a directory"))?;
    let stirs = || {
        moved(fs::rename(path("a"), path("c")), "moving away")?;
        moved(fs::write(path("a"), "a file"), "a file in its place")?;
        moved(fs::remove_file(path("a")), "removing the file")?;
        moved(fs::rename(path("b"), path("a")), "moving another there")?;
        moved(fs::rename(path("c"), path("b")), "moving back")?;
        Ok(())
    };
    let looks = || {
        for _ in 0..ROUNDS {
            if let Some(text) = moved(fs::read_to_string(path("a/diary")), "reading")? {
                check(text == "mine", || format!("a path in the race led to {text:?}"))?;
            }
            // Paths that climb lead nowhere, whatever is on the way and wherever the open directory is by then.
            let number = libc::ENOENT;
            refused(File::open(path("a/../../../other/diary")), number, "climbing in the race")?;
            refused(OpenOptions::new().write(true).open("/home/race/../../other/diary"), number, "climbing to write")?;
            refused(c::open_at(open.as_raw_fd(), "../../../other/diary", libc::O_RDONLY), number, "climbing there")?;
            let inside = c::open_at(open.as_raw_fd(), "../a/diary", libc::O_RDONLY);
            if let Some(number) = moved(inside, "through `..` of an open directory")? {
                c::close(i32::try_from(number).unwrap_or(-1)).map_err(told("closing"))?;
            }
            moved(fs::rename(path("a"), "/home/race/b/inside"), "moving into another")?;
            moved(fs::rename("/home/race/b/inside", path("a")), "moving out again")?;
            moved(fs::copy(path("a/diary"), path("copy")), "copying")?;
        }
        Ok(())
    };
    beside(stirs, looks)?;
    // And a tree that is removed while its folders move.
    let tree = || fs::create_dir_all(path("tree/x/y")).and_then(|()| fs::write(path("tree/x/y/z"), "z"));
    let stirs = || {
        moved(tree(), "growing a tree")?;
        moved(fs::rename(path("tree/x"), path("tree/w")), "moving a branch")?;
        moved(fs::rename(path("tree/w/y"), path("tree/x")), "moving another")?;
        Ok(())
    };
    let looks = || (0..ROUNDS / 4).try_for_each(|_| moved(fs::remove_dir_all(path("tree")), "felling it").map(drop));
    beside(stirs, looks)?;
    fs::remove_dir_all(base).map_err(told("removing all of it"))
}

/// A path whose bytes change while it is read.
pub fn changing_paths() -> Outcome {
    let [own, others @ ..] = ["/home/own/diary", "/home/../other/", "/other/.//diary"];
    check(others.iter().all(|other| other.len() == own.len()), || "the paths differ in length".into())?;
    fs::create_dir_all("/home/own").map_err(told("making a directory"))?;
    fs::write(own, "mine").map_err(told("writing"))?;
    let path = c::ChangingPath::new(own);
    let stirs = || {
        others.iter().for_each(|other| path.put(other));
        path.put(own);
        Ok(())
    };
    let looks = || {
        for _ in 0..ROUNDS {
            match path.open() {
                Ok(number) => {
                    let number = i32::try_from(number).map_err(told("a descriptor"))?;
                    let read = c::read(number, 16);
                    c::close(number).map_err(told("closing"))?;
                    match read {
                        Ok(count) => check(count == 4, || "a path that changed led to another file".into())?,
                        // The top, or the directory, may be what stood there.
                        Err(error) => refused(Err::<(), _>(error), libc::EISDIR, "reading what was opened")?,
                    }
                }
                Err(error) if [libc::ENOENT, libc::ENOTDIR].contains(&error.raw_os_error().unwrap_or(0)) => {}
                Err(error) => return Err(format!("opening a path that changes: {error}")),
            }
        }
        Ok(())
    };
    beside(stirs, looks)?;
    fs::remove_dir_all("/home/own").map_err(told("removing it"))
}
