//! One port: a command at a time, and the port restarted if one fails.

use alloc::format;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::task::{Poll, Waker};

use capos_ahci::command::{self, Kind, LIST_AT, ListError, PACKET_AT, Piece};
use capos_ahci::fis::Fis;
use capos_ahci::packet::Packet;
use capos_ahci::registers as r;
use capos_async_lock::AsyncMutex;
use capos_rt::memory::{self, Access, Mapping};
use capos_rt::{Context, Either, Error, select};
use capos_schema::kernel::{DmaDomainClient, DmaRegionClient};

use crate::controller::{Controller, MILLISECOND};

/// Memory that a port shares with the controller: the command list, what was received, short answers, and from the
/// second page on the one command table.
const SHARED: u64 = 8192;
const RECEIVED: u64 = 0x400;
const ANSWER: u64 = 0x600;
const TABLE: u64 = 0x1000;
/// Bytes of a short answer at most.
pub const ANSWER_BYTES: usize = 512;
/// Entries of the list of memory that the command table has room for.
pub const ENTRIES: u16 = ((SHARED - TABLE - LIST_AT) / command::ENTRY_BYTES as u64) as u16;

/// How long a port may take to stop (AHCI 1.3.1, section 10.1.2).
const STOP: u64 = 500 * MILLISECOND;
/// How long a drive may take to show on the line, and the line to come up then.
const SHOW: u64 = 25 * MILLISECOND;
const LINE_UP: u64 = 1000 * MILLISECOND;
/// How long the line is held in reset (section 10.4.2).
const LINE_RESET: u64 = 2 * MILLISECOND;
/// How long a drive may be busy with itself after a reset: optical ones look at their disc.
const SETTLE: u64 = 30_000 * MILLISECOND;

/// What is asked of a drive.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The command.
    pub fis: Fis,
    /// The packet that follows, for drives that take some.
    pub packet: Option<Packet>,
    /// Whether the data go to the drive.
    pub write: bool,
    /// Where the data go to or come from.
    pub pieces: &'a [Piece],
    /// Bytes of the pieces before those of the data.
    pub skip: u64,
    /// Bytes of the data.
    pub bytes: u64,
    /// How long the drive may take, in nanoseconds.
    pub limit: u64,
}

/// Why a request has failed. The port continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The drive reports an error: its status and error register.
    Drive(u32),
    /// The controller reports one: PxIS.
    Controller(u32),
    /// There is no drive any more.
    Gone,
    /// The drive did not answer in time.
    Late,
    /// The drive says that it is done, and has transferred less than was asked for.
    Short,
    /// The controller cannot be told where the data go.
    Memory(ListError),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drive(status) => {
                write!(
                    f,
                    "the drive reports an error (status {:02x}, error {:02x})",
                    status & 0xff,
                    (status >> 8) & 0xff
                )
            }
            Self::Controller(causes) => write!(f, "the controller reports an error (PxIS {causes:08x})"),
            Self::Gone => f.write_str("the drive was removed or does not answer"),
            Self::Late => f.write_str("the drive did not answer in time"),
            Self::Short => f.write_str("the drive transferred less than was requested"),
            Self::Memory(error) => error.fmt(f),
        }
    }
}

/// What kind of drive a port has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signature {
    /// A disk.
    Ata,
    /// A drive that takes packets.
    Atapi,
}

/// A port of the controller.
pub struct Port {
    number: u32,
    controller: Rc<Controller>,
    shared: Mapping,
    /// Where the controller finds that memory.
    address: u64,
    mutex: Rc<AsyncMutex>,
    /// What PxIS said since the last command was issued.
    causes: Cell<u32>,
    waker: RefCell<Option<Waker>>,
    _region: DmaRegionClient,
}

impl Port {
    /// The port with its memory; it does nothing yet.
    ///
    /// # Errors
    /// There is no memory, or none that the controller reaches.
    pub async fn new(number: u32, controller: &Rc<Controller>, dma: &DmaDomainClient) -> Result<Rc<Self>, Error> {
        let shared = dma.allocate(SHARED).await.context("allocating a port's memory")?;
        if !controller.is_wide() && shared.address.saturating_add(SHARED) > 1 << 32 {
            return Err(Error::new("the controller reaches the first 4 GiB of memory only, and none is free there"));
        }
        let mapping = memory::map(&shared.region, 0, SHARED, Access::ReadWrite).context("mapping a port's memory")?;
        Ok(Rc::new(Self {
            number,
            controller: controller.clone(),
            shared: mapping,
            address: shared.address,
            mutex: Rc::default(),
            causes: Cell::new(0),
            waker: RefCell::default(),
            _region: shared.region,
        }))
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The controller that it is of.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    fn read(&self, register: u64) -> u32 {
        self.controller.read(r::port(self.number).saturating_add(register))
    }

    fn write(&self, register: u64, value: u32) {
        self.controller.write(r::port(self.number).saturating_add(register), value);
    }

    fn command(&self, set: u32, clear: u32) {
        self.write(r::PX_CMD, (self.read(r::PX_CMD) & !clear) | set);
    }

    fn line(&self) -> u32 {
        self.read(r::PX_SSTS) & r::PX_SSTS_DET
    }

    fn is_up(&self) -> bool {
        self.line() == r::PX_SSTS_DET_UP
    }

    fn is_busy(&self) -> bool {
        self.read(r::PX_TFD) & (r::PX_TFD_BSY | r::PX_TFD_DRQ) != 0
    }

    async fn until(&self, nanoseconds: u64, is_so: impl Fn(&Self) -> bool) -> bool {
        self.controller.until(nanoseconds, |_| is_so(self)).await
    }

    /// Takes note of an interrupt.
    pub fn take_interrupt(&self) {
        let causes = self.read(r::PX_IS);
        if causes & (r::PX_IS_PRCS | r::PX_IS_PCS) != 0 {
            // These two stay until what they report is cleared.
            self.write(r::PX_SERR, u32::MAX);
        }
        self.write(r::PX_IS, causes);
        self.causes.set(self.causes.get() | causes);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Starts the port. What kind of drive answers there; nothing where there is none, or one of a kind that this driver
    /// does not know.
    ///
    /// # Errors
    /// The port does not obey.
    pub async fn start(&self) -> Result<Option<Signature>, Error> {
        self.stop().await.map_err(Error::new)?;
        for (register, upper, offset) in [(r::PX_CLB, r::PX_CLBU, 0), (r::PX_FB, r::PX_FBU, RECEIVED)] {
            let [low, high] = halves(self.address.saturating_add(offset));
            self.write(register, low);
            self.write(upper, high);
        }
        let spin_up = if self.controller.staggers() { r::PX_CMD_SUD } else { 0 };
        self.command(r::PX_CMD_FRE | r::PX_CMD_POD | r::PX_CMD_ICC_ACTIVE | spin_up, 0);
        let shows = self.until(SHOW, |port| port.line() != 0).await;
        if !shows || !self.until(LINE_UP, Self::is_up).await {
            return Ok(None);
        }
        self.write(r::PX_SERR, u32::MAX);
        self.write(r::PX_IS, u32::MAX);
        if !self.until(SETTLE, |port| !port.is_busy()).await {
            return Err(Error::new("the drive stays busy; turn the machine off and on"));
        }
        let signature = match self.read(r::PX_SIG) {
            r::PX_SIG_ATA => Signature::Ata,
            r::PX_SIG_ATAPI => Signature::Atapi,
            _ => return Ok(None),
        };
        let errors = r::PX_IS_TFES | r::PX_IS_FATAL | r::PX_IS_PRCS | r::PX_IS_PCS;
        self.write(r::PX_IE, errors | r::PX_IS_PROGRESS);
        self.command(r::PX_CMD_ST, 0);
        Ok(Some(signature))
    }

    /// Stops the port: it reaches no memory after that, except for what a drive sends by itself.
    async fn stop(&self) -> Result<(), &'static str> {
        self.command(0, r::PX_CMD_ST);
        match self.until(STOP, |port| port.read(r::PX_CMD) & r::PX_CMD_CR == 0).await {
            true => Ok(()),
            false => Err("the port does not stop"),
        }
    }

    /// Restarts the port after a fault (AHCI 1.3.1, section 6.2.2). Does not return where the port cannot be stopped: what a
    /// request was for must not be used otherwise as long as the device may write there.
    async fn recover(&self) {
        if let Err(words) = self.stop().await {
            self.controller.give_up(format!("port {}: {words}", self.number));
            core::future::pending::<()>().await;
        }
        if self.is_busy() && self.line() != 0 {
            // The drive is in the middle of something: the line is reset, and the drive with it.
            let control = self.read(r::PX_SCTL) & !r::PX_SCTL_DET;
            self.write(r::PX_SCTL, control | r::PX_SCTL_DET_RESET);
            self.controller.clock().sleep(LINE_RESET).await;
            self.write(r::PX_SCTL, control);
            self.until(LINE_UP, Self::is_up).await;
            self.write(r::PX_SERR, u32::MAX);
            self.until(SETTLE, |port| !port.is_busy() || !port.is_up()).await;
        }
        self.write(r::PX_SERR, u32::MAX);
        self.write(r::PX_IS, u32::MAX);
        // Without a drive, or with one that stays busy, it must not be started; the next request learns of that.
        if self.is_up() && !self.is_busy() {
            self.command(r::PX_CMD_ST, 0);
        }
    }

    /// Runs a request; requests wait for each other. When this returns the device is done with the memory, so it must
    /// not be dropped before.
    ///
    /// # Errors
    /// The request has failed.
    pub async fn run(&self, request: &Request<'_>) -> Result<(), Fault> {
        let _guard = self.mutex.lock().await;
        self.issue(request).await
    }

    /// Waits until the requests that came before have ended.
    pub async fn settled(&self) {
        drop(self.mutex.lock().await);
    }

    /// Runs a request with a short answer, of at most [`ANSWER_BYTES`], that comes into the port's own memory.
    ///
    /// # Errors
    /// The request has failed.
    pub async fn ask<const BYTES: usize>(
        &self,
        fis: Fis,
        packet: Option<Packet>,
        limit: u64,
    ) -> Result<[u8; BYTES], Fault> {
        let _guard = self.mutex.lock().await;
        let mut answer = [0; BYTES];
        let bytes = BYTES.min(ANSWER_BYTES);
        let piece = Piece { address: self.address.saturating_add(ANSWER), bytes: bytes as u64 };
        // What a drive leaves out is nothing, and not what was there.
        self.shared.clear(ANSWER, ANSWER_BYTES).map_err(|_| Fault::Short)?;
        let request = Request { fis, packet, write: false, pieces: &[piece], skip: 0, bytes: piece.bytes, limit };
        match self.issue(&request).await {
            // Drives may have less to say.
            Ok(()) | Err(Fault::Short) => {}
            Err(fault) => return Err(fault),
        }
        self.shared.read(ANSWER, answer.get_mut(..bytes).unwrap_or_default()).map_err(|_| Fault::Short)?;
        Ok(answer)
    }

    async fn issue(&self, request: &Request<'_>) -> Result<(), Fault> {
        if !self.is_up() {
            return Err(Fault::Gone);
        }
        if self.read(r::PX_CMD) & r::PX_CMD_ST == 0 {
            // It could not be started after the last fault.
            self.recover().await;
            if self.read(r::PX_CMD) & r::PX_CMD_ST == 0 {
                return Err(Fault::Late);
            }
        }
        self.write_command(request).map_err(Fault::Memory)?;
        self.write(r::PX_IS, u32::MAX);
        self.causes.set(0);
        self.write(r::PX_CI, 1);
        let answer = core::future::poll_fn(|context| match self.answer() {
            Some(answer) => Poll::Ready(answer),
            None => {
                *self.waker.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            }
        });
        let clock = self.controller.clock();
        let end = clock.now().saturating_add(request.limit);
        let answer = match select(answer, clock.sleep_until(end)).await {
            Either::First(answer) => answer,
            Either::Second(()) => self.answer().unwrap_or(Err(Fault::Late)),
        };
        match answer {
            Ok(()) if self.transferred() < request.bytes => Err(Fault::Short),
            Ok(()) => Ok(()),
            Err(fault) => {
                self.recover().await;
                Err(fault)
            }
        }
    }

    /// How the command ended, once it has.
    fn answer(&self) -> Option<Result<(), Fault>> {
        // In this order: what is read after the end says how it ended.
        let ended = self.read(r::PX_CI) & 1 == 0;
        let status = self.read(r::PX_TFD);
        let causes = self.causes.get() | self.read(r::PX_IS);
        if !self.is_up() {
            return Some(Err(Fault::Gone));
        }
        if causes & r::PX_IS_FATAL != 0 {
            return Some(Err(Fault::Controller(causes)));
        }
        let failed = ended && status & (r::PX_TFD_ERR | r::PX_TFD_DF) != 0;
        if causes & r::PX_IS_TFES != 0 || failed {
            return Some(Err(Fault::Drive(status)));
        }
        ended.then_some(Ok(()))
    }

    /// Lays the command into the first place of the command list.
    fn write_command(&self, request: &Request<'_>) -> Result<(), ListError> {
        let wide = self.controller.is_wide();
        let (list, entries) = command::list(request.pieces, request.skip, request.bytes, ENTRIES, wide)?;
        let kind = Kind { packet: request.packet.is_some(), write: request.write };
        let header = command::header(kind, entries, self.address.saturating_add(TABLE));
        let parts: [(u64, &[u8]); 4] = [
            (TABLE, &request.fis.0),
            (TABLE.saturating_add(PACKET_AT), request.packet.as_ref().map_or(&[], |packet| &packet.0)),
            (TABLE.saturating_add(LIST_AT), &list),
            (0, &header),
        ];
        for (place, bytes) in parts {
            self.shared.write(place, bytes).map_err(|_| ListError::TooMany)?;
        }
        Ok(())
    }

    /// Bytes that the controller has transferred for the command, as it says in the command's head.
    fn transferred(&self) -> u64 {
        self.shared.read_word(4).map_or(0, u64::from)
    }
}

/// The lower and the upper half of an address.
fn halves(address: u64) -> [u32; 2] {
    [u32::try_from(address & 0xffff_ffff).unwrap_or(0), u32::try_from(address >> 32).unwrap_or(0)]
}
