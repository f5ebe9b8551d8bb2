//! PartialCopy: a copy of memory that is being made.
//!
//! It is made in steps. The source may be written between two of them: the copy has of each page what was there at some time of the
//! call. The pages that it has are those that nothing writes any more: of each piece, the right to write is taken where its frames
//! come to be shared. A page of paged memory that is not in is asked of its pager, and the call continues when it has come. What was copied
//! stays copied meanwhile, whatever becomes of the cache: so a copy ends, also where it is larger than free memory.

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt::{self, Write};

use capos_abi::{ExceptionKind, Status};
use capos_paging::PAGE;
use capos_schema::kernel_capnp::memory_object::copy_results;
use capos_schema::sync::{Completion, capability};
use spin::Mutex;

use super::{Content, CopyError, MemoryObject, Owned};
use crate::cpu::budget::{Budget, cost};
use crate::cpu::kernel_lock::Exclusive;
use crate::memory::frames::{self, Frame};
use crate::object::account::{Account, Charge, Resource};
use crate::object::capability::Object;
use crate::object::invocation;
use crate::object::memory::emptying::Remains;
use crate::object::memory::page_request::{self, PageIn};
use crate::object::memory::{cache, emptying, user_memory};
use crate::object::operation::{Kind, OperationRef};

/// A copy of pages, as far as it is made. It is paid for as a whole.
#[derive(Debug)]
pub struct PartialCopy {
    first: u64,
    count: usize,
    /// Pages before this one are all there.
    done: usize,
    frames: Taken,
    object: Charge,
}

/// The frames of a copy, [`ABSENT`] where a page is not there yet. Given back on drop, and what is paid for
/// them once that is done.
#[derive(Debug)]
struct Taken(Vec<Frame>, Option<Box<Remains>>, Option<Charge>);

/// Most pages that come to be shared as one piece of work: those of a large page.
const PIECE: u64 = 512;

/// In place of a frame; as one it is never handed out, nor given back.
const ABSENT: Frame = Frame::FIRST;

impl Drop for Taken {
    fn drop(&mut self) {
        let owned = Owned::single(core::mem::take(&mut self.0));
        if let Some(remains) = self.1.take()
            && !owned.frames.is_empty()
        {
            emptying::begin(remains, 0, Content::Anonymous(Mutex::new(owned)), self.2.take());
        }
    }
}

impl PartialCopy {
    /// A copy of `count` pages of `source` from `first` on, with none of them yet.
    ///
    /// # Errors
    /// Not pages of `source`; quota; no memory.
    #[inline(never)]
    pub fn new(source: &MemoryObject, account: &Arc<Account>, first: u64, count: u64) -> Result<Self, Status> {
        let end = first.checked_add(count).filter(|end| count > 0 && *end <= source.bytes / PAGE);
        end.ok_or(Status::InvalidArgument)?;
        let object = account.hold(Resource::Objects, 1)?;
        // Each of the two may come to have frames of its own for all of its pages. That this one can is paid for now, so that
        // no write is refused later for want of quota.
        let charge = account.hold(Resource::Frames, count)?;
        let mut frames = Taken(Vec::new(), emptying::prepare(count), Some(charge));
        let count = usize::try_from(count).map_err(|_| Status::OutOfMemory)?;
        frames.0.try_reserve_exact(count).map_err(|_| Status::OutOfMemory)?;
        Ok(Self { first, count, done: 0, frames, object })
    }

    /// Takes what is in, as far as the budget allows. Whether all of that is taken. What comes in later is taken in the time of its
    /// pager, by [`advance`](Self::advance).
    ///
    /// # Errors
    /// No memory.
    pub fn go_on(&mut self, lock: &mut Exclusive, source: &MemoryObject, budget: &mut Budget) -> Result<bool, Status> {
        while self.frames.0.len() < self.count {
            if !budget.allows() {
                return Ok(false);
            }
            let left = budget.left();
            let spent = cache::spending(budget, || self.take_piece(lock, source, left))?;
            budget.spend(spent);
        }
        // Some that were not in may have come since.
        match self.advance(lock, source, budget) {
            Err(CopyError::Absent(_)) => Ok(true),
            Err(CopyError::Status(status)) => Err(status),
            Ok(done) => Ok(done),
        }
    }

    /// Takes some pages. From then on nothing writes those that both have. About how many instructions it took of those that are left.
    fn take_piece(&mut self, lock: &mut Exclusive, source: &MemoryObject, budget: u32) -> Result<u32, Status> {
        let seen = self.frames.0.len();
        let first = self.first.saturating_add(seen as u64);
        let left = self.count.saturating_sub(seen) as u64;
        let shares = source.can_share();
        let (whole, each) = piece_cost(source.writer_count());
        let count = if shares { left.min(piece(first, (whole, each), budget)) } else { 1 };
        // Before any frame has two owners, also if the rest of the piece fails.
        source.share(lock, first.saturating_mul(PAGE), count.saturating_mul(PAGE));
        let (mut copied, mut absent) = (0, None);
        for page in first..first.saturating_add(count) {
            match frame_of(lock, source, page, shares) {
                Ok((frame, false)) => self.frames.0.push(frame),
                // A frame with too many owners is copied, and so may be those behind it.
                Ok((frame, true)) => {
                    self.frames.0.push(frame);
                    copied = cost::COPY;
                    break;
                }
                Err(CopyError::Absent(_)) => {
                    absent = absent.or(Some(self.frames.0.len()));
                    self.frames.0.push(ABSENT);
                }
                Err(CopyError::Status(status)) => return Err(status),
            }
        }
        let pages = self.frames.0.len().saturating_sub(seen) as u32;
        let spent = if shares { whole.saturating_add(each.saturating_mul(pages)) } else { cost::LOOK };
        let spent = spent.saturating_add(copied);
        if self.done == seen {
            self.done = absent.unwrap_or(self.frames.0.len());
        }
        Ok(spent)
    }

    /// Whether all pages are there.
    pub fn is_whole(&self) -> bool {
        self.done == self.count
    }

    /// Takes the pages that have come in, as far as the budget allows. Whether all are there.
    ///
    /// # Errors
    /// The first page that is not in; no memory.
    pub fn advance(
        &mut self,
        lock: &mut Exclusive,
        source: &MemoryObject,
        budget: &mut Budget,
    ) -> Result<bool, CopyError> {
        while let Some(place) = self.frames.0.get(self.done) {
            if !budget.allows() {
                return Ok(false);
            }
            budget.spend(cost::LOOK);
            if *place == ABSENT {
                let page = self.first.saturating_add(self.done as u64);
                let (frame, _) = frame_of(lock, source, page, source.can_share())?;
                self.frames.0.get_mut(self.done).into_iter().for_each(|place| *place = frame);
                budget.spend(cost::COPY);
            }
            self.done = self.done.saturating_add(1);
        }
        Ok(true)
    }

    /// How many pages in a row are not there yet.
    fn wanted(&self) -> u64 {
        let rest = self.frames.0.get(self.done..).unwrap_or_default();
        rest.iter().take_while(|frame| **frame == ABSENT).count() as u64
    }

    /// The copy, of which all is there.
    pub fn finish(mut self) -> Arc<MemoryObject> {
        let frames = core::mem::take(&mut self.frames.0);
        let bytes = (frames.len() as u64).saturating_mul(PAGE);
        let mut owned = Owned::single(frames);
        owned.shared = true;
        let content = Content::Anonymous(Mutex::new(owned));
        MemoryObject::new(bytes, content, self.frames.2.take(), Some(self.object))
    }
}

/// About how many instructions it takes to share a piece of an object with this number of mappings that could write, and each page of it.
fn piece_cost(writers: usize) -> (u32, u32) {
    let writers = u32::try_from(writers).unwrap_or(u32::MAX);
    (cost::MAPPING.saturating_mul(writers), cost::PROTECT.saturating_mul(writers).saturating_add(cost::SHARE))
}

/// How many pages are shared as one piece, from this one on: not beyond a large page, whose mapping then stays whole. A step that has done
/// nothing else may share all of one; if the mappings alone take a step, fewer pages would not help.
fn piece(first: u64, (whole, each): (u32, u32), budget: u32) -> u64 {
    let most = if budget >= cost::ALONE { cost::SHARED_PIECE } else { budget };
    let fits = match most.checked_sub(whole) {
        Some(rest) => rest.checked_div(each).unwrap_or_default().into(),
        None if whole > cost::SHARED_PIECE => PIECE,
        None => 1,
    };
    PIECE.saturating_sub(first % PIECE).min(fits).max(1)
}

/// The frame that a copy has for a page: that of the source, where it `shares` them and this one can be, or one with the same
/// content; and whether it is the latter.
#[inline]
fn frame_of(lock: &mut Exclusive, source: &MemoryObject, page: u64, shares: bool) -> Result<(Frame, bool), CopyError> {
    let frame = source.resident_frame(page).ok_or(CopyError::Absent(page))?;
    if shares && frames::share(frame) { Ok((frame, false)) } else { Ok((own_frame(lock, source, page)?, true)) }
}

/// A frame with the content of a page.
#[cold]
#[inline(never)]
fn own_frame(lock: &mut Exclusive, source: &MemoryObject, page: u64) -> Result<Frame, CopyError> {
    cache::make_room(lock, 1);
    let own = frames::allocate_dirty().ok_or(Status::OutOfMemory)?;
    // What gave way may be this very page.
    let Some(frame) = source.resident_frame(page) else {
        frames::free(own);
        return Err(CopyError::Absent(page));
    };
    user_memory::copy_frame(frame, own);
    Ok(own)
}

/// A copy of paged memory whose call waits for pages.
#[derive(Debug)]
pub struct Copying {
    source: Arc<MemoryObject>,
    /// Taken out while pages are copied, and when the call ends.
    copy: Mutex<Option<PartialCopy>>,
    /// The request for pages that it waits for, or waited for last.
    request: Mutex<Weak<PageIn>>,
}

impl Copying {
    /// One that is yet to wait.
    pub fn new(source: &Arc<MemoryObject>, copy: PartialCopy) -> Arc<Self> {
        Arc::new(Self { source: Arc::clone(source), copy: Mutex::new(Some(copy)), request: Mutex::default() })
    }

    /// Notes the request that it waits for.
    pub fn await_page(&self, request: &Arc<PageIn>) {
        *self.request.lock() = Arc::downgrade(request);
    }

    /// Its call has ended before the copy was made.
    pub fn cancel(&self, lock: &mut Exclusive, operation: &OperationRef) {
        let copy = self.copy.lock().take();
        let request = core::mem::take(&mut *self.request.lock()).upgrade();
        if let Some(request) = request {
            request.forget_copy(lock, operation);
        }
        drop(copy);
    }
}

fn copying(operation: &OperationRef) -> Option<Arc<Copying>> {
    match operation.peek()?.kind {
        Kind::Copy { copying, .. } => Some(copying),
        _ => None,
    }
}

/// Continues with the copy that an operation makes, as far as it can: to its answer, or until it waits for pages. No other
/// lock may be held.
pub fn go_on(lock: &mut Exclusive, operation: &OperationRef) {
    let Some(copying) = copying(operation) else { return };
    loop {
        let taken = copying.copy.lock().take();
        let Some(mut copy) = taken else { return };
        let (page, status) = match copy.advance(lock, &copying.source, &mut Budget::new()) {
            Ok(false) => {
                *copying.copy.lock() = Some(copy);
                continue;
            }
            Ok(true) if cache::is_reserve_whole(lock) => {
                let memory = copy.finish();
                return answer(lock, operation, memory);
            }
            // The answer may make the heap larger.
            Ok(true) => (copy.first, Status::OutOfMemory),
            Err(CopyError::Absent(page)) => {
                let most = copy.wanted();
                *copying.copy.lock() = Some(copy);
                match page_request::bring_for_copy(lock, operation, &copying, &copying.source, page, most) {
                    Ok(true) => return,
                    Ok(false) => continue,
                    Err(status) => (page, status),
                }
            }
            Err(CopyError::Status(status)) => (copy.first.saturating_add(copy.done as u64), status),
        };
        return refuse(lock, operation, page, invocation::refused(status).kind, status.words());
    }
}

/// A page that an operation's copy needs cannot be had.
pub fn fail(lock: &mut Exclusive, operation: &OperationRef, page: u64, reason: &str) {
    refuse(lock, operation, page, ExceptionKind::Failed, reason);
}

fn answer(lock: &mut Exclusive, operation: &OperationRef, memory: Arc<MemoryObject>) {
    invocation::give_later(lock, operation, Object::Memory(memory), |results| {
        results.init_as::<copy_results::Builder<'_>>().set_memory(capability());
        Ok(Completion::Done)
    });
}

/// Ends the call with an exception. It takes no memory: the heap may be full where a pager ends.
fn refuse(lock: &mut Exclusive, operation: &OperationRef, page: u64, kind: ExceptionKind, reason: &str) {
    let mut text = Text { bytes: [0; 320], length: 0 };
    // What does not fit is left out.
    let _ = write!(text, "page {page} of the paged memory cannot be copied: {reason}");
    invocation::except_later(lock, operation, kind, text.bytes.get(..text.length).unwrap_or_default());
}

/// A short text without memory of the heap.
struct Text {
    bytes: [u8; 320],
    length: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let rest = self.bytes.get_mut(self.length..).unwrap_or_default();
        let mut fits = text.len().min(rest.len());
        while !text.is_char_boundary(fits) {
            fits = fits.saturating_sub(1);
        }
        let (to, from) = (rest.get_mut(..fits), text.as_bytes().get(..fits));
        to.zip(from).into_iter().for_each(|(to, from)| to.copy_from_slice(from));
        self.length = self.length.saturating_add(fits);
        if fits == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}
