//! Making a process: memory, capabilities, launch record, first thread.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_abi::Rights;
use capos_abi::bootstrap::{
    FIRST_RING, FIRST_STACK_BYTES, FIRST_STACK_TOP, FIRST_THREAD_AREA, LAUNCH_RECORD, ThreadArea,
};
use capos_elf::Segment;
use capos_rt::memory::{Access, PAGE, map};
use capos_rt::{Context, Error};
use capos_schema::cap::{Cap, Client};
use capos_schema::kernel::{
    AddressSpaceAccess, AddressSpaceClient, CapabilityTableClient, LaunchRecord, Limits, MemoryObjectClient,
    NamedCapability, ProcessClient, ResourceAccountClient,
};

use crate::image::Image;

/// Entries of the first thread's rings. Places for completions bound what a program can wait for at once, so those that may
/// hold many capabilities have more.
const SUBMISSION_ENTRIES: u32 = 64;
const COMPLETION_ENTRIES: u32 = 128;
const MOST_COMPLETION_ENTRIES: u32 = 512;

/// A capability that a process is given.
#[derive(Clone, Debug)]
pub struct Granted {
    /// Its name in the process's CapSet.
    pub name: String,
    /// The capability.
    pub cap: Cap,
    /// Interface that it offers.
    pub interface: u64,
    /// The process gets at most these rights.
    pub rights: Rights,
}

impl Granted {
    /// A typed capability under a name, with the rights that it has.
    pub fn new<C: Client>(name: &str, client: &C) -> Self {
        let arg = client.as_cap().to_arg();
        Self { name: name.to_string(), cap: arg.cap, interface: C::INTERFACE_ID, rights: arg.rights }
    }
}

/// The program to start.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The process's name, for reports and logs.
    pub name: &'a str,
    /// Its program.
    pub image: &'a Image,
    /// Its arguments, without its name.
    pub arguments: Vec<String>,
    /// `KEY=VALUE` lines.
    pub environment: Vec<String>,
    /// All its grants besides its own `account`, `space` and `table`. If `limits` allow it more than
    /// one thread, it also gets `process`: itself, to start threads and no more.
    pub grants: Vec<Granted>,
    /// Its limits, carved from `account`.
    pub limits: Limits,
    /// Who pays.
    pub account: &'a ResourceAccountClient,
}

/// A process that runs.
#[derive(Clone, Debug)]
pub struct Started {
    /// The process.
    pub process: ProcessClient,
    /// The account that was carved for it.
    pub account: ResourceAccountClient,
}

struct Maker<'a> {
    account: &'a ResourceAccountClient,
    space: &'a AddressSpaceClient,
}

impl Maker<'_> {
    /// Maps new memory at `address`, with pieces of content at these offsets.
    async fn place(
        &self,
        address: u64,
        bytes: u64,
        content: &[(u64, &[u8])],
        access: &AddressSpaceAccess,
    ) -> Result<(), Error> {
        let memory: MemoryObjectClient = self.account.create_memory(bytes).await.context("its memory")?;
        if !content.is_empty() {
            let mapping = map(&memory, 0, bytes, Access::ReadWrite)?;
            for (offset, piece) in content.iter().filter(|(_, piece)| !piece.is_empty()) {
                mapping.write(*offset, piece)?;
            }
        }
        self.space.map(&memory, address, 0, bytes, access).await.context("mapping its memory")?;
        Ok(())
    }

    async fn segment(&self, image: &Image, segment: &Segment) -> Result<(), Error> {
        let access = AddressSpaceAccess { read: segment.read, write: segment.write, execute: segment.execute };
        if let Some(memory) = image.shared(segment) {
            self.space
                .map(memory, segment.address, segment.file_offset, segment.memory_bytes, &access)
                .await
                .context("mapping its file")?;
            return Ok(());
        }
        let content = image.content(segment.file_offset, segment.file_bytes).await?;
        self.place(segment.address, segment.memory_bytes, &[(0, &content)], &access).await
    }

    /// Makes the first thread's own area and gives its thread pointer; 0 for a program without thread-local storage.
    async fn thread_area(&self, image: &Image) -> Result<u64, Error> {
        let Some(own) = image.thread_local() else { return Ok(0) };
        let area = ThreadArea::new(own.memory_bytes, own.align).context("its thread-local storage is too large")?;
        let pointer = FIRST_THREAD_AREA.saturating_add(area.pointer);
        let content = image.content(own.file_offset, own.file_bytes).await?;
        // The block begins with its own address.
        let content: [(u64, &[u8]); 2] = [(area.image, &content), (area.pointer, &pointer.to_le_bytes())];
        let bytes = area.bytes.next_multiple_of(PAGE);
        let access = AddressSpaceAccess { read: true, write: true, execute: false };
        self.place(FIRST_THREAD_AREA, bytes, &content, &access).await.context("its thread-local storage")?;
        Ok(pointer)
    }
}

/// A process that is being made. A caller that gives up its start, by dropping the future, never
/// learns whether its first thread already ran: it is ended.
struct Unfinished(Option<ProcessClient>);

impl Unfinished {
    /// The start came to its end; the process is its starter's.
    fn finish(mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(process) = self.0.take() {
            // If it cannot be ended it has ended.
            drop(capos_rt::spawn(async move { drop(process.kill("its start was given up").await) }));
        }
    }
}

/// Which of the texts that a process begins with contains a zero byte: C's texts end at one.
fn with_zero(arguments: &[String], environment: &[String]) -> Option<String> {
    let of = |what: &str, texts: &[String]| {
        let at = texts.iter().position(|text| text.contains('\0'))?;
        Some(format!("{what} {}", at.saturating_add(1)))
    };
    of("argument", arguments).or_else(|| of("line of its environment", environment))
}

impl Launch<'_> {
    /// Makes the process and starts its first thread.
    ///
    /// # Errors
    /// The step that failed, and why. The process is then removed completely.
    pub async fn start(self) -> Result<Started, Error> {
        let name = self.name;
        if let Some(which) = with_zero(&self.arguments, &self.environment) {
            return Err(Error::new(format!("starting `{name}`: {which} has a zero byte in it; texts of C end there")));
        }
        let process = self
            .account
            .create_process(name, &self.limits)
            .await
            .with_context(|| format!("making process `{name}`"))?;
        let unfinished = Unfinished(Some(process.clone()));
        match self.fill(&process).await {
            Ok(account) => {
                unfinished.finish();
                Ok(Started { process, account })
            }
            Err(error) => {
                unfinished.finish();
                // The reason is the error's; that a half-made process cannot be ended changes nothing.
                let _ = process.kill("it could not be started").await;
                Err(Error::new(format!("starting `{name}`: {error}")))
            }
        }
    }

    async fn fill(self, process: &ProcessClient) -> Result<ResourceAccountClient, Error> {
        let space = process.address_space().await?;
        let account = process.account().await?;
        let maker = Maker { account: &account, space: &space };
        for segment in self.image.segments() {
            maker.segment(self.image, segment).await?;
        }
        let read_write = AddressSpaceAccess { read: true, write: true, execute: false };
        let stack = FIRST_STACK_TOP.saturating_sub(FIRST_STACK_BYTES);
        maker.place(stack, FIRST_STACK_BYTES, &[], &read_write).await.context("its stack")?;

        let thread_pointer = maker.thread_area(self.image).await?;

        let mut capabilities = Vec::new();
        let table: CapabilityTableClient = process.table().await?;
        let mut own = Vec::from([
            Granted::new("account", &account),
            Granted::new("space", &space),
            Granted::new("table", &table),
        ]);
        if self.limits.threads > 1 {
            // Not MANAGE, which would let it grant and end itself, nor GRANT: no other process is to
            // start threads in it.
            let rights = Rights::CALL.union(Rights::EXECUTE);
            own.push(Granted { rights, ..Granted::new("process", process) });
        }
        for granted in own.iter().chain(&self.grants) {
            let id = process
                .grant(&granted.cap, granted.rights.0)
                .await
                .with_context(|| format!("granting `{}`", granted.name))?;
            capabilities.push(NamedCapability { name: granted.name.clone(), id, interface: granted.interface });
        }
        let record = LaunchRecord {
            name: self.name.to_string(),
            arguments: self.arguments,
            environment: self.environment,
            capabilities,
            processors: capos_rt::processors(),
        };
        let record = capos_schema::wire::to_bytes(&record)?;
        let length = u64::try_from(record.len()).unwrap_or(u64::MAX);
        let read_only = AddressSpaceAccess { read: true, write: false, execute: false };
        maker
            .place(LAUNCH_RECORD, length.next_multiple_of(PAGE), &[(0, &record)], &read_only)
            .await
            .context("its launch record")?;
        process
            .create_thread(
                self.image.entry(),
                FIRST_STACK_TOP,
                LAUNCH_RECORD,
                length,
                FIRST_RING,
                SUBMISSION_ENTRIES,
                completion_entries(self.limits.capabilities),
                thread_pointer,
            )
            .await
            .context("its first thread")?;
        Ok(account)
    }
}

/// Completion entries of a program that may hold this many capabilities.
fn completion_entries(capabilities: u32) -> u32 {
    (capabilities / 2).clamp(COMPLETION_ENTRIES, MOST_COMPLETION_ENTRIES).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_a_zero_byte_are_found() {
        let texts = |texts: &[&str]| texts.iter().map(|text| String::from(*text)).collect::<Vec<_>>();
        assert_eq!(with_zero(&texts(&["a", "b"]), &texts(&["C=d"])), None);
        assert_eq!(with_zero(&texts(&["a", "b\0c"]), &texts(&["C=d"])).as_deref(), Some("argument 2"));
        assert_eq!(with_zero(&texts(&["a"]), &texts(&["C=\0"])).as_deref(), Some("line of its environment 1"));
    }
}
