//! How many blocks a large file costs.
#![allow(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use capos_files::Files;
use capos_keyspace::local::LocalKeyspace;
use capos_store::{BLOCK_BYTES, BlockError, Blocks, MemoryBlocks, Store};
use capos_tree::suite::{CREATE, done, label};
use capos_tree::{FileTree, Tree, WriteAt};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Blocks that were read and written.
#[derive(Debug, Default)]
struct Amount {
    read: AtomicU64,
    written: AtomicU64,
}

#[derive(Debug)]
struct Counted(MemoryBlocks, Arc<Amount>);

impl Counted {
    fn count(&self, blocks: impl Fn(&Amount) -> &AtomicU64, bytes: usize) {
        blocks(&self.1).fetch_add(bytes as u64 / BLOCK, Ordering::Relaxed);
    }
}

impl Blocks for Counted {
    fn blocks(&self) -> u64 {
        self.0.blocks()
    }

    fn read(&mut self, block: u64, out: &mut [u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        self.count(|amount| &amount.read, out.len());
        self.0.read(block, out)
    }

    fn write(&mut self, block: u64, data: &[u8; BLOCK_BYTES]) -> Result<(), BlockError> {
        self.count(|amount| &amount.written, data.len());
        self.0.write(block, data)
    }

    fn sync(&mut self) -> Result<(), BlockError> {
        self.0.sync()
    }

    fn settle(&mut self) -> Result<(), BlockError> {
        self.0.settle()
    }

    fn forget(&mut self) -> Result<(), BlockError> {
        self.0.forget()
    }
}

/// A program writes 64 MiB in steps of 1 MiB, which its C library divides at multiples of 240 KiB. The least is 1.14 blocks for each:
/// a chunk of 60 KiB takes a page of 64 KiB, and the chunk at the end of a step is written twice.
#[test]
fn the_database_writes_few_blocks_of_a_large_file_twice() {
    const FILE: u64 = 64 << 20;
    let amount = Arc::new(Amount::default());
    let store = Store::open(Counted(MemoryBlocks::new(FILE / BLOCK * 4), amount.clone())).unwrap();
    let space = LocalKeyspace::new(Rc::new(RefCell::new(store)), "home", FILE * 2).unwrap();
    let files = done(Files::open(space)).unwrap();
    let (id, _) = done(files.open_at(Tree::ROOT, "large", CREATE, 0)).unwrap();
    let mut at = 0;
    while at < FILE {
        let end = (at + 1).next_multiple_of(1 << 20).min((at + 1).next_multiple_of(240 << 10));
        let piece = vec![7; (end - at).try_into().unwrap()];
        done(files.write(id, WriteAt::Offset(at), &piece, &label(&[]), 0)).unwrap();
        at = end;
    }
    done(files.sync(files.losses())).unwrap();
    let of = |blocks: &AtomicU64| blocks.load(Ordering::Relaxed) as f64 / (FILE / BLOCK) as f64;
    let (written, read) = (of(&amount.written), of(&amount.read));
    println!("{written:.3} blocks written and {read:.3} read for each");
    assert!(written < 1.25 && read < 0.06, "{written:.3} blocks written and {read:.3} read for each");
}
