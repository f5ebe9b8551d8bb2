//! Budgets of long work, which is done in steps.
//!
//! Long work is what ends a process, a thread or an endpoint, revokes a capability, makes or copies a large memory object, or maps or
//! unmaps a long range. It does as much as one [`Budget`] allows: that is a step. Then others have their turn: other processors acquire the
//! kernel lock, interrupts come in, threads run. What is left continues in the name of the calling thread
//! (`Progress::Unfinished`), or of no thread (`reaper`).
//!
//! The piece of work that was begun last is finished, so a step may take more than its budget. It takes 50,000 instructions at most, which the
//! tests of bounds check.

/// The instructions that a step may still take, roughly.
#[derive(Debug)]
pub struct Budget {
    left: u32,
}

impl Budget {
    /// Those of a whole step. A piece of work that was begun is finished, so a step may take more.
    const INSTRUCTIONS: u32 = 30_000;

    /// No step takes more instructions, the piece that was begun last included.
    #[cfg(feature = "tests")]
    pub const BOUND: u64 = 50_000;

    /// That of a whole step.
    pub const fn new() -> Self {
        Self { left: Self::INSTRUCTIONS }
    }

    /// What is left of one, as a number.
    pub const fn left(&self) -> u32 {
        self.left
    }

    /// One of which this is left.
    pub const fn of(left: u32) -> Self {
        Self { left }
    }

    /// Whether one more piece of work may begin.
    pub const fn allows(&self) -> bool {
        self.left > 0
    }

    /// Nothing more is done in this step.
    pub const fn end(&mut self) {
        self.left = 0;
    }

    /// Whether nothing is done yet, so that a piece of work may begin that takes a step of its own.
    pub const fn is_whole(&self) -> bool {
        self.left == Self::INSTRUCTIONS
    }

    /// A piece of work took about that many instructions, see [`cost`].
    pub const fn spend(&mut self, instructions: u32) {
        self.left = self.left.saturating_sub(instructions);
    }
}

/// About how many instructions a piece of work takes, at most.
pub mod cost {
    /// An entry on the fast path.
    pub const SHORT_ENTRY: u32 = 600;
    /// An entry on the slow path, without what its method does.
    pub const ENTRY: u32 = 3_000;
    /// Looking at one place of a list that holds nothing.
    pub const LOOK: u32 = 30;
    /// Looking at a process.
    pub const PROCESS: u32 = 80;
    /// Looking at an account above another.
    pub const ACCOUNT: u32 = 35;
    /// A turn of what waits for others.
    pub const WAIT: u32 = 5_000;
    /// Giving back a frame.
    pub const FREE: u32 = 90;
    /// Giving back page tables, as many as are given back at once.
    pub const TABLES: u32 = 25_000;
    /// Giving back a block of frames.
    pub const BLOCK: u32 = 600;
    /// Evicting a page of the page cache.
    pub const EVICT: u32 = 2_000;
    /// Giving back a page of the page cache.
    pub const PAGE: u32 = 300;
    /// Coming to have a frame of another object, and taking the right to write it from a mapping.
    pub const SHARE: u32 = 66;
    pub const PROTECT: u32 = 25;
    /// Looking at a mapping of an object.
    pub const MAPPING: u32 = 400;
    /// Sharing frames as one piece of work, at most; and how much of a budget a step must have left for it, and for a whole block of held
    /// frames.
    pub const SHARED_PIECE: u32 = 44_000;
    pub const ALONE: u32 = 26_000;
    /// Copying a frame that cannot be shared.
    pub const COPY: u32 = 1_800;
    /// Filling a frame with zeros, and taking it before.
    pub const ZERO: u32 = 900;
    /// Making a thread of rings that are filled, and what it takes more for each page of them.
    pub const NEW_THREAD: u32 = 8_000;
    pub const RING_PAGE: u32 = 100;
    /// Giving back rings that no thread has come to have.
    pub const RINGS: u32 = 30_000;
    /// What is left of a thread that has nothing in flight.
    pub const THREAD: u32 = 5_000;
    /// Answering a call with a message of the kernel's own, or failing a request for pages.
    pub const ANSWER: u32 = 4_500;
    /// Ending an operation, and telling who waits for that.
    pub const OPERATION: u32 = 900;
    /// Handing up what derives from a capability that is revoked.
    pub const JOINT: u32 = 2_500;
    /// Telling of a capability, and looking at a place for one.
    pub const LISTED: u32 = 1_100;
    pub const LISTED_PLACE: u32 = 5;
    /// Ending a capability, with what only that kept.
    pub const CAPABILITY: u32 = 1_000;
    /// Taking a region, or the mapping that it shows, out of an address space, without its pages.
    pub const REGION: u32 = 2_000;
    /// Unmapping a page.
    pub const UNMAP: u32 = 20;
    /// Mapping a page.
    pub const MAP: u32 = 40;
    /// Making a place for an operation.
    pub const PLACE: u32 = 22;
    /// A piece of a mapping besides its pages, with the page tables that it may need.
    pub const MAP_PIECE: u32 = 3_500;
    /// Mapping a large page: its table is put aside.
    pub const LARGE_PAGE: u32 = 4_500;
}
