//! A scratch file system in memory.
//!
//! Provides: `Directory` (0). Its argument is the budget in bytes. Where it is given a `source` directory, it
//! begins as a copy of it.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod locks;
mod server;

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use capos_plural::count;
use capos_rt::{Context, Env, Error, ServeOptions, log};
use capos_schema::cap::Dispatch;
use capos_schema::kernel::TimerClient;
use capos_schema::storage::{DirectoryClient, DirectoryService, EntryInfo, EntryKind};
use capos_tree::Tree;
use server::{DirectoryObject, Volume};

/// A write carries up to 256 KiB.
const OPTIONS: ServeOptions = ServeOptions { buffers: 2, message_bytes: 320 << 10, concurrent: 32 };
/// Bytes of one read of the source.
const PIECE: u32 = 32 * 1024;

/// The tree's times are in milliseconds.
fn milliseconds(entry: &EntryInfo) -> i64 {
    entry.modified_unix.saturating_mul(1000)
}

/// Copies a directory of the boot medium into the volume.
async fn fill(volume: &Volume, source: &DirectoryClient, top: &str) -> Result<usize, Error> {
    let mut count = 0_usize;
    let mut folders: Vec<String> = alloc::vec![String::new()];
    while let Some(folder) = folders.pop() {
        let from = format!("{top}{folder}");
        for entry in source.list(&from).await.with_context(|| format!("listing {from}"))? {
            let path = if folder.is_empty() { entry.name.clone() } else { format!("{folder}/{}", entry.name) };
            let from = format!("{top}{path}");
            match entry.kind {
                EntryKind::Directory => {
                    volume
                        .tree()
                        .borrow_mut()
                        .make_directory(Tree::ROOT, &path, milliseconds(&entry))
                        .context(&path)?;
                    folders.push(path);
                }
                EntryKind::File => {
                    let file = source.open(&from).await.with_context(|| format!("opening {from}"))?;
                    let mut data = Vec::new();
                    loop {
                        let piece =
                            file.read(data.len() as u64, PIECE).await.with_context(|| format!("reading {from}"))?;
                        if piece.is_empty() {
                            break;
                        }
                        data.extend_from_slice(&piece);
                    }
                    volume
                        .tree()
                        .borrow_mut()
                        .replace(Tree::ROOT, &path, &data, milliseconds(&entry))
                        .context(&path)?;
                    count = count.saturating_add(1);
                }
                EntryKind::Link => log::warning!("{from} is a link and is left out"),
            }
        }
    }
    Ok(count)
}

async fn run(env: Env) -> Result<(), Error> {
    let budget: u64 =
        env.arguments().first().and_then(|text| text.parse().ok()).context("argument 0 must be the budget in bytes")?;
    let volume = Volume::new(budget, env.cap::<TimerClient>("timer")?, env.server().clone(), env.clock()?.now());
    if let Some(medium) = env.optional::<DirectoryClient>("medium")? {
        // The first of these folders that the medium has becomes the home.
        for top in env.arguments().iter().skip(1) {
            if medium.stat(top).await.is_ok() {
                let files = fill(&volume, &medium, &format!("{top}/")).await?;
                log::info!("{} from {top}", count(files, "file"));
                break;
            }
        }
    }
    let found = volume.clone();
    env.server().serve_durable(move |key| {
        let root: Rc<dyn Dispatch> = Rc::new(DirectoryService(Rc::new(found.durable(key))));
        Some(root)
    });
    env.serve(0, Rc::new(DirectoryService(DirectoryObject::root(&volume, true))));
    env.run_with(OPTIONS).await
}
capos_rt::program!(run);
