//! A program's file.

use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;

use capos_abi::bootstrap::ThreadArea;
use capos_elf::{Program, Segment, ThreadLocal};
use capos_rt::{Context, Error};
use capos_schema::kernel::MemoryObjectClient;
use capos_schema::storage::{DirectoryClient, ReadOnlyFileClient};

/// Bytes that hold all headers of a program.
const HEADERS: usize = 4096;
/// Bytes that are read from a file in one call.
const CHUNK: u64 = 48 << 10;

#[derive(Debug)]
enum Source {
    /// Bytes at hand, such as a file of the boot package.
    Bytes(Rc<[u8]>),
    /// A file of the medium: paged memory to map for the process, calls for the copied parts. The
    /// starter of a process never touches the mapping itself: a page that does not come would end
    /// it.
    File { memory: MemoryObjectClient, file: ReadOnlyFileClient },
}

/// A program that was judged and can be started any number of times.
#[derive(Debug)]
pub struct Image {
    program: Program,
    source: Source,
}

impl Image {
    /// A program whose file is these bytes.
    ///
    /// # Errors
    /// They are not a program that can be loaded.
    pub fn from_bytes(bytes: Rc<[u8]>) -> Result<Self, Error> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let program = Program::parse(bytes.get(..HEADERS).unwrap_or(&bytes), length).context("the program")?;
        Ok(Self { program, source: Source::Bytes(bytes) })
    }

    /// A program file of a directory.
    ///
    /// # Errors
    /// There is no such file, or it is not a program that can be loaded.
    pub async fn open(directory: &DirectoryClient, path: &str) -> Result<Self, Error> {
        let path = path.trim_start_matches('/');
        let file = directory.open(path).await.with_context(|| format!("opening /{path}"))?;
        let found = file.memory().await.with_context(|| format!("mapping /{path}"))?;
        let headers = read(&file, 0, HEADERS as u64).await.with_context(|| format!("reading /{path}"))?;
        let program = Program::parse(&headers, found.bytes).with_context(|| format!("/{path} is not a program"))?;
        Ok(Self { program, source: Source::File { memory: found.memory, file } })
    }

    /// Where its first thread starts.
    #[must_use]
    pub fn entry(&self) -> u64 {
        self.program.entry
    }

    /// Its segments, by rising address.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        self.program.segments()
    }

    /// Its thread-local storage.
    pub(crate) fn thread_local(&self) -> Option<&ThreadLocal> {
        self.program.thread_local.as_ref()
    }

    /// The memory that a segment can be mapped from without a copy.
    pub(crate) fn shared(&self, segment: &Segment) -> Option<&MemoryObjectClient> {
        match &self.source {
            Source::File { memory, .. } if segment.is_shared() => Some(memory),
            _ => None,
        }
    }

    /// Bytes of the file: of a segment, or of the image of thread-local storage.
    pub(crate) async fn content(&self, offset: u64, count: u64) -> Result<Vec<u8>, Error> {
        match &self.source {
            Source::Bytes(bytes) => {
                let range = usize::try_from(offset)
                    .ok()
                    .zip(usize::try_from(count).ok())
                    .and_then(|(from, length)| bytes.get(from..from.checked_add(length)?));
                Ok(range.context("the program's file is shorter than it says")?.to_vec())
            }
            Source::File { file, .. } => {
                let content = read(file, offset, count).await?;
                if content.len() as u64 != count {
                    return Err(Error::new("the program's file is shorter than it says"));
                }
                Ok(content)
            }
        }
    }

    /// 4 KiB frames that a process of it takes for its private parts.
    #[must_use]
    pub fn private_frames(&self) -> u64 {
        let private: Vec<&Segment> = self.segments().iter().filter(|segment| self.shared(segment).is_none()).collect();
        let own = self.thread_local().and_then(|own| ThreadArea::new(own.memory_bytes, own.align));
        let area = own.map_or(0, |area| area.bytes.div_ceil(4096));
        private.iter().map(|segment| segment.memory_bytes / 4096).sum::<u64>().saturating_add(area)
    }
}

/// Bytes of a file, fewer at its end.
async fn read(file: &ReadOnlyFileClient, offset: u64, count: u64) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    while (out.len() as u64) < count {
        let done = out.len() as u64;
        let want = u32::try_from(count.saturating_sub(done).min(CHUNK)).unwrap_or(u32::MAX);
        let piece = file.read(offset.saturating_add(done), want).await?;
        if piece.is_empty() {
            break;
        }
        out.extend_from_slice(&piece);
    }
    Ok(out)
}
