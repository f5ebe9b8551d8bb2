//! The work that services are killed over: for each interface uses that ask for something and look at the answer.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_rt::memory::{Access, map};
use capos_rt::{Env, Error};
use capos_schema::audit::{AuditReaderClient, AuditWriterClient, GeneralEvent, Query};
use capos_schema::authority::{AuthorityBrokerClient, ToolPermission};
use capos_schema::cap::{AsCap, CallError, Cap, ExceptionKind, Message};
use capos_schema::hello::GreeterClient;
use capos_schema::kernel::{MemoryObjectClient, ResourceAccountClient};
use capos_schema::models::{ChatMessage, InferenceRequest, ModelCatalogClient, Role};
use capos_schema::storage::{BlockDeviceClient, DirectoryClient, DiskControllerClient, HomesClient};
use capos_schema::store::{Change, ChangeKind, NamespaceClient, StoreFault};
use capos_schema::system::{
    LogLevel, LogReaderClient, LoggerClient, PowerClient, SessionObserverClient, SystemStatusClient,
};
use capos_schema::terminal::{Span, Style, TerminalClient};

/// How many uses of a service there are.
pub const USES: usize = 10;
/// A file of the medium, and how much of it is read.
const FILE: &str = "bin/shell";
const PIECE: u32 = 32 << 10;
/// The first four bytes of a program.
const ELF: &[u8] = b"\x7fELF";
/// Where an ISO 9660 volume says that it is one, in bytes, and how.
const VOLUME: u64 = 0x8000;
const STANDARD: &[u8] = b"CD001";
/// Bytes that are read of a disk at once.
const READ: u32 = 128 << 10;
/// A number that no method has.
const NO_METHOD: u16 = 999;

/// The campaign's capabilities to the services.
#[derive(Clone)]
pub struct Uses {
    disk: BlockDeviceClient,
    drives: DiskControllerClient,
    medium: DirectoryClient,
    journal: LoggerClient,
    logs: LogReaderClient,
    terminal: TerminalClient,
    audit: AuditWriterClient,
    records: AuditReaderClient,
    home: DirectoryClient,
    homes: HomesClient,
    catalog: ModelCatalogClient,
    power: PowerClient,
    broker: AuthorityBrokerClient,
    observer: SessionObserverClient,
    greeter: GreeterClient,
    namespace: NamespaceClient,
    status: SystemStatusClient,
    account: ResourceAccountClient,
}

fn ensure(holds: bool, words: impl FnOnce() -> String) -> Result<(), CallError> {
    if holds { Ok(()) } else { Err(CallError::failed(words())) }
}

/// Calls a missing object: the service must report that. For a service whose only action is final.
async fn refused(cap: &Cap, interface: u64) -> Result<(), CallError> {
    match cap.call(interface, NO_METHOD, Message::default()).await {
        Err(CallError::Exception(exception)) if exception.kind == ExceptionKind::Unimplemented => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(CallError::failed("a method that is not there was called")),
    }
}

/// The question to the model.
fn question() -> InferenceRequest {
    let message = ChatMessage { role: Role::User, content: "Say it.".into(), ..ChatMessage::default() };
    InferenceRequest { messages: Vec::from([message]), ..InferenceRequest::default() }
}

impl Uses {
    /// # Errors
    /// The manifest does not grant one of them.
    pub fn new(env: &Env) -> Result<Self, Error> {
        Ok(Self {
            disk: env.cap("disk")?,
            drives: env.cap("drives")?,
            medium: env.cap("medium")?,
            journal: env.cap("journal")?,
            logs: env.cap("logs")?,
            terminal: env.cap("terminal")?,
            audit: env.cap("audit")?,
            records: env.cap("records")?,
            home: env.cap("home")?,
            homes: env.cap("homes")?,
            catalog: env.cap("catalog")?,
            power: env.cap("power")?,
            broker: env.cap("broker")?,
            observer: env.cap("observer")?,
            greeter: env.cap("greeter")?,
            namespace: env.cap("namespace")?,
            status: env.cap("status")?,
            account: env.cap("account")?,
        })
    }

    /// Whether there is work for this service. A service without clients is killed during its own start.
    pub fn known(service: &str) -> bool {
        matches!(
            service,
            "virtio-blk"
                | "ahci"
                | "iso9660"
                | "log"
                | "terminal"
                | "audit"
                | "files"
                | "ramfs"
                | "model-loader"
                | "power"
                | "broker"
                | "exporter"
                | "hello"
                | "store"
        )
    }

    /// One use of a service by a client of this number.
    ///
    /// # Errors
    /// As the service's; another kind than `disconnected` if the answer is wrong.
    pub async fn one(&self, service: &str, number: usize, client: usize) -> Result<(), CallError> {
        let odd = !number.is_multiple_of(2);
        match service {
            "virtio-blk" if number.is_multiple_of(5) => self.disk_info(&self.disk).await,
            "virtio-blk" => self.disk_read(&self.disk).await,
            "ahci" => self.drives(number).await,
            "iso9660" => self.medium(number).await,
            "log" if odd => self.journal.write(LogLevel::Info, &format!("use {number}")).await,
            "log" => self.log_is_read().await,
            "terminal" => self.screen(odd).await,
            "audit" => self.records(number).await,
            "files" => self.files(&self.homes.of(&format!("client {client}"), "none").await?, number, client).await,
            "ramfs" => self.files(&self.home, number, client).await,
            "model-loader" => self.model(odd).await,
            "power" => refused(self.power.as_cap(), PowerClient::INTERFACE_ID).await,
            "broker" => self.session(odd).await,
            "exporter" if odd => self.observer.ended("campaign", None).await,
            "exporter" => refused(self.observer.as_cap(), SessionObserverClient::INTERFACE_ID).await,
            "store" => self.kept(number, client).await,
            "hello" => {
                let greeting = self.greeter.greet("campaign").await?;
                ensure(greeting == "Hello, campaign!", || format!("it greets {greeting:?}"))
            }
            _ => Ok(()),
        }
    }

    /// The machine has no data disk, so a restart of the store forgets what it has.
    async fn kept(&self, number: usize, client: usize) -> Result<(), CallError> {
        if number.is_multiple_of(3) {
            let answer = self.namespace.info().await?;
            return ensure(answer.fault == StoreFault::None && answer.info.limit > 0, || answer.why);
        }
        let key = format!("{client}").into_bytes();
        let change = Change { table: "t".into(), kind: ChangeKind::Put, key, value: ELF.to_vec() };
        let durable = number % 3 == 1;
        let answer = self.namespace.commit(&[change], durable, 0).await?;
        ensure(answer.fault == StoreFault::None && answer.version > 0, || answer.why)
    }

    async fn disk_info(&self, disk: &BlockDeviceClient) -> Result<(), CallError> {
        let info = disk.info().await?;
        ensure(info.blocks > 0 && info.block_bytes > 0, || format!("a disk of {} blocks", info.blocks))
    }

    /// The volume's descriptor and the sectors after it.
    async fn disk_read(&self, disk: &BlockDeviceClient) -> Result<(), CallError> {
        let memory = self.account.create_memory(READ.into()).await?;
        let block_bytes = disk.info().await?.block_bytes.max(1);
        disk.read(VOLUME / u64::from(block_bytes), READ / block_bytes, &memory, 0).await?;
        holds(&memory, 1, STANDARD)
    }

    /// The machine has an optical drive, which comes first, and a disk.
    async fn drives(&self, number: usize) -> Result<(), CallError> {
        let drives = self.drives.drives().await?;
        let [disc, disk] = drives.as_slice() else {
            return Err(CallError::failed(format!("{} drives in place of two", drives.len())));
        };
        ensure(disc.optical && !disk.optical, || "the optical drive is not the first".into())?;
        let drive = match number % 3 {
            0 => return self.no_drive(disk.port.saturating_add(1)).await,
            1 => disc,
            _ => disk,
        };
        let disk = self.drives.open(drive.port).await?;
        self.disk_read(&disk).await
    }

    /// It reports a port without a drive.
    async fn no_drive(&self, port: u32) -> Result<(), CallError> {
        match self.drives.open(port).await {
            Err(CallError::Exception(exception)) if exception.kind == ExceptionKind::InvalidArgument => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(CallError::failed("it opens a drive that is not there")),
        }
    }

    async fn medium(&self, number: usize) -> Result<(), CallError> {
        match number % 5 {
            0 => {
                let entries = self.medium.list("bin").await?.entries;
                ensure(entries.iter().any(|entry| entry.name == "shell"), || "bin lacks `shell`".into())
            }
            1 => {
                let info = self.medium.stat(FILE).await?;
                ensure(info.bytes > u64::from(PIECE), || format!("{FILE} has {} bytes", info.bytes))
            }
            2 => {
                let data = self.medium.open(FILE).await?.read(0, PIECE).await?;
                ensure(data.starts_with(ELF) && data.len() == PIECE as usize, || format!("{FILE} reads otherwise"))
            }
            3 => {
                let memory = self.account.create_memory(PIECE.into()).await?;
                self.medium.open(FILE).await?.read_into(0, PIECE.into(), &memory, 0).await?;
                holds(&memory, 0, ELF)
            }
            _ => {
                let paged = self.medium.open(FILE).await?.memory().await?;
                ensure(paged.bytes > u64::from(PIECE), || format!("{FILE} maps {} bytes", paged.bytes))
            }
        }
    }

    async fn log_is_read(&self) -> Result<(), CallError> {
        self.logs.read("", LogLevel::Info, 3600, 10).await.map(drop)
    }

    async fn screen(&self, clears: bool) -> Result<(), CallError> {
        let session = self.terminal.open("campaign").await?;
        session.write(&[Span { text: ".".into(), style: Style::Dim }]).await?;
        if clears {
            let size = session.size().await?;
            ensure(size.columns > 0, || "the screen has no columns".into())?;
        }
        Ok(())
    }

    async fn records(&self, number: usize) -> Result<(), CallError> {
        match number % 3 {
            0 => self.record().await.map(drop),
            1 => {
                let found = self.records.query(&Query { kind: "log.start".into(), ..Query::default() }).await?;
                // The chain continues over the ends of its keeper, each of which has a beginning after it.
                ensure(!found.records.is_empty(), || "no record of a beginning".to_string())
            }
            _ => {
                let verified = self.records.verify().await?;
                ensure(verified.ok, || verified.reason)
            }
        }
    }

    async fn files(&self, home: &DirectoryClient, number: usize, client: usize) -> Result<(), CallError> {
        let path = format!("client-{client}.txt");
        match number % 3 {
            0 => {
                home.write_text(&path, "written", false, None, None).await?;
                ensure(home.stat(&path).await?.bytes == 7, || format!("{path} has another length"))
            }
            1 => {
                let file = home.create(&path).await?;
                file.truncate(0).await?;
                file.write(0, b"a line\n").await?;
                let data = file.read(0, 100).await?;
                ensure(data == b"a line\n", || format!("{path} holds {data:?}"))
            }
            _ => {
                let entries = home.entries(".", "").await?;
                ensure(!entries.more, || "a folder without end".into())
            }
        }
    }

    async fn model(&self, asked: bool) -> Result<(), CallError> {
        let models = self.catalog.list().await?;
        let Some(model) = models.iter().find(|model| model.backend == "local-scripted") else {
            return Err(CallError::failed("there is no scripted model"));
        };
        let client = self.catalog.open_language_model(&model.id).await?;
        if !asked {
            return client.info().await.map(drop);
        }
        let response = client.complete(&question()).await?;
        ensure(response.message.content == "It is said.", || format!("the model said {:?}", response.message.content))
    }

    async fn session(&self, decides: bool) -> Result<(), CallError> {
        let initial = self.broker.profiles().await?.initial;
        let session = self.broker.login(initial, "campaign", "").await?;
        let held = session.bundle(0).await?.grants;
        ensure(!held.is_empty(), || "a session that holds nothing".into())?;
        if decides {
            let tool = ToolPermission {
                category: "readOnly".to_string(),
                method_name: "summary".to_string(),
                tool: "system_status".to_string(),
                ..ToolPermission::default()
            };
            session.permissions(&[tool]).await?;
        } else {
            // The broker has an answer in flight then, which its worker continues.
            let model = session.model("").await?.model;
            let answer = model.stream(&question()).await?;
            while !answer.next().await?.done {}
        }
        session.end().await
    }

    /// Puts a record into the audit log; gives its sequence.
    ///
    /// # Errors
    /// The log's.
    pub async fn record(&self) -> Result<u64, CallError> {
        let event = GeneralEvent { kind: "campaign.use".into(), ..GeneralEvent::default() };
        Ok(self.audit.general(&event).await?.sequence)
    }

    /// Whether the shell has opened a session from the record of this sequence on.
    ///
    /// # Errors
    /// The log's.
    pub async fn session_opened_since(&self, from: u64) -> Result<bool, CallError> {
        let query = Query { kind: "session.opened".into(), from, max: 1, ..Query::default() };
        Ok(!self.records.query(&query).await?.records.is_empty())
    }

    /// The system's status.
    pub fn status(&self) -> &SystemStatusClient {
        &self.status
    }

    /// The disk that the system is on.
    pub fn disk(&self) -> &BlockDeviceClient {
        &self.disk
    }
}

/// Whether memory holds these bytes there.
fn holds(memory: &MemoryObjectClient, at: u64, wanted: &[u8]) -> Result<(), CallError> {
    let mut bytes = [0_u8; 5];
    let Some(bytes) = bytes.get_mut(..wanted.len()) else { return Err(CallError::failed("too much to compare")) };
    map(memory, 0, 4096, Access::Read)?.read(at, bytes)?;
    ensure(bytes == wanted, || format!("memory holds {bytes:?} in place of {wanted:?}"))
}
