//! A disk as the FAT driver reads and writes it.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use hadris_io::{Error, ErrorKind, ErrorType};
use hadris_storage::async_::BlockDevice;
use hadris_storage::{BlockIndex, BlockSize};

use crate::cached::Cached;
use crate::{Disk, Fault};

type Work = Pin<Box<dyn Future<Output = Result<Vec<u8>, Fault>>>>;

/// One operation of the disk under way. It owns its bytes, so that the driver may drop it at any time.
#[derive(Default)]
pub struct Operation(Option<Work>);

impl Operation {
    fn poll(&mut self, cx: &mut Context<'_>, begin: impl FnOnce() -> Work) -> Poll<Result<Vec<u8>, Error<Fault>>> {
        let work = self.0.get_or_insert_with(begin);
        work.as_mut().poll(cx).map_err(refused)
    }
}

/// A write-protected medium is one kind of error to the driver, and every other fault another.
fn refused(fault: Fault) -> Error<Fault> {
    let kind = if fault == Fault::ReadOnly { ErrorKind::ReadOnly } else { ErrorKind::Io };
    Error::device(fault, "the disk failed").with_kind(kind)
}

/// The disk.
pub struct Device<D> {
    disk: Rc<Cached<D>>,
    block: BlockSize,
    writable: bool,
}

impl<D: Disk> Device<D> {
    /// None if the disk's blocks have a size that FAT does not know.
    pub fn new(disk: &Rc<Cached<D>>, writable: bool) -> Option<Self> {
        let bytes = disk.disk().block_bytes();
        let block = BlockSize::new(bytes).filter(|_| (512..=4096).contains(&bytes))?;
        Some(Self { disk: disk.clone(), block, writable: writable && disk.disk().is_writable() })
    }
}

impl<D> ErrorType for Device<D> {
    type Error = Fault;
}

impl<D: Disk> BlockDevice for Device<D> {
    type State = Operation;

    fn block_size(&self) -> BlockSize {
        self.block
    }

    fn block_count(&self) -> u64 {
        self.disk.disk().blocks()
    }

    fn writable(&self) -> bool {
        self.writable
    }

    fn poll_read_blocks(
        &mut self,
        state: &mut Operation,
        cx: &mut Context<'_>,
        first: BlockIndex,
        buf: &mut [u8],
    ) -> Poll<Result<(), Error<Fault>>> {
        let (disk, bytes) = (&self.disk, buf.len());
        let read = state.poll(cx, || {
            let disk = disk.clone();
            Box::pin(async move {
                let mut out = vec![0; bytes];
                disk.read(first.get(), &mut out).await?;
                Ok(out)
            })
        });
        read.map_ok(|bytes| {
            for (to, from) in buf.iter_mut().zip(bytes) {
                *to = from;
            }
        })
    }

    fn poll_write_blocks(
        &mut self,
        state: &mut Operation,
        cx: &mut Context<'_>,
        first: BlockIndex,
        buf: &[u8],
    ) -> Poll<Result<(), Error<Fault>>> {
        if !self.writable {
            return Poll::Ready(Err(Error::new(ErrorKind::ReadOnly, "the medium is read-only")));
        }
        let disk = &self.disk;
        let written = state.poll(cx, || {
            let (disk, bytes) = (disk.clone(), buf.to_vec());
            Box::pin(async move { disk.write(first.get(), bytes).await.map(|()| Vec::new()) })
        });
        written.map_ok(drop)
    }

    fn cancel(&mut self, state: &mut Operation) {
        state.0 = None;
    }
}
