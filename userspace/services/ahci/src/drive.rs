//! A drive at a port: what it is, and its medium.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;

use capos_ahci::command::Piece;
use capos_ahci::fis::Fis;
use capos_ahci::identity::{BYTES, Disk, PacketDrive};
use capos_ahci::packet::{self, Packet};
use capos_ahci::sense::{Meaning, Sense};
use capos_block_server::{Disk as BlockDisk, Transfer};
use capos_rt::{Context, Error};
use capos_schema::cap::CallError;
use capos_schema::kernel::DmaSegment;

use crate::controller::MILLISECOND;
use crate::port::{ANSWER_BYTES, Fault, Port, Request, Signature};

/// How long a drive may take for a request: one that has to start its motor and to read a bad place again and again.
const LIMIT: u64 = 30_000 * MILLISECOND;
/// How long a drive that was late may take for one block more.
const PROBE: u64 = 5_000 * MILLISECOND;
/// How long an optical drive may take until it knows its disc, and how often it is asked.
const READY: u64 = 30_000 * MILLISECOND;
const ASK_AGAIN: u64 = 100 * MILLISECOND;
/// How often a request is sent again that the drive has not looked at, since it had something else to tell.
const ATTENTIONS: u32 = 4;

/// What a drive is.
#[derive(Debug)]
enum Kind {
    /// With sectors of its own.
    Disk(Disk),
    /// With a disc.
    Optical(Optical),
}

#[derive(Debug)]
struct Optical {
    drive: PacketDrive,
    /// Sectors of the disc when it was opened; 0 where there is none.
    sectors: Cell<u64>,
    /// Whether the disc was taken out or changed since.
    changed: Cell<bool>,
}

/// Why a packet was not followed.
enum Refusal {
    /// The drive says why.
    Sense(Sense),
    /// It does not.
    Fault(Fault),
}

/// A drive.
pub struct Drive {
    port: Rc<Port>,
    kind: Kind,
}

impl Drive {
    /// The drive that has answered at a port; none where it is no disk and no optical drive.
    ///
    /// # Errors
    /// It does not say what it is, or is of a kind that is too old.
    pub async fn identify(port: Rc<Port>, signature: Signature) -> Result<Option<Self>, Error> {
        let kind = match signature {
            Signature::Ata => {
                let identity = port.ask::<BYTES>(Fis::identify_device(), None, LIMIT).await;
                Kind::Disk(Disk::parse(&identity.context("identifying the disk")?).map_err(Error::new)?)
            }
            Signature::Atapi => {
                let identity = port.ask::<BYTES>(Fis::identify_packet_device(), None, LIMIT).await;
                let drive = PacketDrive::parse(&identity.context("identifying the drive")?);
                let drive = drive.map_err(Error::new)?;
                if !drive.optical {
                    return Ok(None);
                }
                Kind::Optical(Optical { drive, sectors: Cell::new(0), changed: Cell::new(true) })
            }
        };
        Ok(Some(Self { port, kind }))
    }

    /// Its model.
    pub fn model(&self) -> &str {
        match &self.kind {
            Kind::Disk(disk) => &disk.model,
            Kind::Optical(optical) => &optical.drive.model,
        }
    }

    /// The number of its port.
    pub fn port(&self) -> u32 {
        self.port.number()
    }

    /// Whether it is an optical one.
    pub fn is_optical(&self) -> bool {
        matches!(self.kind, Kind::Optical(_))
    }

    /// Its model and port, for messages.
    fn name(&self) -> String {
        format!("`{}` at port {}", self.model(), self.port())
    }

    /// Takes the medium that is in it now for the one that requests are about.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub async fn open(&self) -> Result<(), CallError> {
        let Kind::Optical(optical) = &self.kind else { return Ok(()) };
        optical.changed.set(true);
        optical.sectors.set(0);
        let clock = self.port.controller().clock();
        let end = clock.now().saturating_add(READY);
        loop {
            let late = clock.now() >= end;
            match self.packet(optical, Packet::test_unit_ready()).await {
                Ok(()) => break,
                Err(Refusal::Sense(sense)) => match sense.meaning() {
                    Meaning::Changed | Meaning::Attention if !late => {}
                    Meaning::NotYet if !late => clock.sleep(ASK_AGAIN).await,
                    _ => return Err(self.refused(&Refusal::Sense(sense))),
                },
                Err(refusal) => return Err(self.refused(&refusal)),
            }
        }
        let answer = self.answer::<{ packet::CAPACITY_BYTES }>(optical, Packet::read_capacity()).await;
        let answer = answer.map_err(|refusal| self.refused(&refusal))?;
        let sectors = packet::capacity(&answer);
        optical.sectors.set(sectors.ok_or_else(|| {
            CallError::failed(format!("the disc in {} does not have sectors of 2048 bytes", self.name()))
        })?);
        // The button would take the system's programs away. A drive that cannot lock it is used all the same.
        let _ = self.packet(optical, Packet::lock(true)).await;
        optical.changed.set(false);
        Ok(())
    }

    async fn packet(&self, optical: &Optical, packet: Packet) -> Result<(), Refusal> {
        let fis = Fis::packet(false, false);
        let packet = Some(packet);
        let request = Request { fis, packet, write: false, pieces: &[], skip: 0, bytes: 0, limit: LIMIT };
        match self.port.run(&request).await {
            Ok(()) => Ok(()),
            Err(fault) => Err(self.explain(optical, fault).await),
        }
    }

    async fn answer<const LENGTH: usize>(&self, optical: &Optical, packet: Packet) -> Result<[u8; LENGTH], Refusal> {
        let fis = Fis::packet(true, optical.drive.wants_direction);
        match self.port.ask(fis, Some(packet), LIMIT).await {
            Ok(answer) => Ok(answer),
            Err(fault) => Err(self.explain(optical, fault).await),
        }
    }

    /// Asks the drive why it has failed, where it is the drive that did.
    async fn explain(&self, optical: &Optical, fault: Fault) -> Refusal {
        if !matches!(fault, Fault::Drive(_)) {
            return Refusal::Fault(fault);
        }
        let fis = Fis::packet(true, optical.drive.wants_direction);
        let packet = Some(Packet::request_sense());
        match self.port.ask::<{ packet::SENSE_BYTES as usize }>(fis, packet, LIMIT).await {
            Ok(answer) => Sense::parse(&answer).map_or(Refusal::Fault(fault), Refusal::Sense),
            Err(_) => Refusal::Fault(fault),
        }
    }

    fn refused(&self, refusal: &Refusal) -> CallError {
        match refusal {
            Refusal::Sense(sense) => CallError::failed(format!("{}: {sense}", self.name())),
            Refusal::Fault(fault) => CallError::failed(format!("{}: {fault}", self.name())),
        }
    }

    /// Runs a request of a disk; `what` says what has failed. Of a drive that is away a client hears `disconnected`: `failed` would
    /// look like a bad block. A drive that was late may have read a bad block again and again; then it answers another request.
    async fn run(
        &self,
        request: &Request<'_>,
        what: impl FnOnce(&dyn fmt::Display) -> String,
    ) -> Result<(), CallError> {
        let Err(fault) = self.port.run(request).await else { return Ok(()) };
        let sentence = what(&fault);
        Err(match is_away(fault) && self.is_silent().await {
            true => CallError::disconnected(sentence),
            false => CallError::failed(sentence),
        })
    }

    /// Whether not even the disk's first block can be asked for.
    async fn is_silent(&self) -> bool {
        let Some(first) = Fis::read(0, 1) else { return true };
        self.port.ask::<ANSWER_BYTES>(first, None, PROBE).await.is_err_and(is_away)
    }

    fn changed(&self) -> CallError {
        CallError::failed(format!(
            "the disc in {} was taken out or changed while it was in use; put the disc of this boot back and restart the \
             service that reads it",
            self.name()
        ))
    }
}

impl BlockDisk for Drive {
    fn block_bytes(&self) -> u32 {
        match &self.kind {
            Kind::Disk(disk) => disk.sector_bytes,
            Kind::Optical(_) => packet::SECTOR,
        }
    }

    fn blocks(&self) -> u64 {
        match &self.kind {
            Kind::Disk(disk) => disk.sectors,
            Kind::Optical(optical) => optical.sectors.get(),
        }
    }

    fn read_only(&self) -> bool {
        self.is_optical()
    }

    fn forces_writes(&self) -> bool {
        matches!(&self.kind, Kind::Disk(disk) if disk.forces_writes)
    }

    async fn transfer(
        &self,
        transfer: Transfer,
        sector: u64,
        count: u32,
        memory: &[DmaSegment],
        skip: u64,
    ) -> Result<(), CallError> {
        let pieces: Vec<Piece> = memory.iter().map(|part| Piece { address: part.address, bytes: part.bytes }).collect();
        let pieces = pieces.as_slice();
        let write = transfer != Transfer::Read;
        let bytes = u64::from(count).saturating_mul(u64::from(self.block_bytes()));
        let named = |error: &dyn fmt::Display| {
            let verb = if write { "written" } else { "read" };
            format!("block {sector} of {} cannot be {verb}: {error}", self.name())
        };
        let lies_outside = || CallError::invalid_argument("the sectors are past the last one that a request can name");
        match &self.kind {
            Kind::Disk(_) => {
                let fis = match transfer {
                    Transfer::Read => Fis::read(sector, count),
                    Transfer::Write => Fis::write(sector, count),
                    Transfer::DurableWrite => Fis::write_durably(sector, count),
                };
                let fis = fis.ok_or_else(lies_outside)?;
                let request = Request { fis, packet: None, write, pieces, skip, bytes, limit: LIMIT };
                self.run(&request, named).await
            }
            Kind::Optical(optical) => {
                let packet = Packet::read(u32::try_from(sector).map_err(|_| lies_outside())?, count);
                let fis = Fis::packet(true, optical.drive.wants_direction);
                let request = Request { fis, packet: Some(packet), write, pieces, skip, bytes, limit: LIMIT };
                let mut attentions = ATTENTIONS;
                loop {
                    if optical.changed.get() {
                        return Err(self.changed());
                    }
                    let refusal = match self.port.run(&request).await {
                        // A request before this one may have met another disc: then this is what lies on that.
                        Ok(()) if optical.changed.get() => return Err(self.changed()),
                        Ok(()) => return Ok(()),
                        Err(fault) => self.explain(optical, fault).await,
                    };
                    match refusal {
                        Refusal::Sense(sense) if sense.meaning() == Meaning::Attention && attentions > 0 => {
                            attentions = attentions.saturating_sub(1);
                        }
                        Refusal::Sense(sense) if matches!(sense.meaning(), Meaning::NoMedium | Meaning::Changed) => {
                            optical.changed.set(true);
                        }
                        Refusal::Sense(sense) => return Err(CallError::failed(named(&sense))),
                        Refusal::Fault(fault) => return Err(CallError::failed(named(&fault))),
                    }
                }
            }
        }
    }

    async fn flush(&self) -> Result<(), CallError> {
        if self.is_optical() {
            self.port.settled().await;
            return Ok(());
        }
        let fis = Fis::flush();
        let request = Request { fis, packet: None, write: false, pieces: &[], skip: 0, bytes: 0, limit: LIMIT };
        self.run(&request, |fault| format!("{} cannot be flushed: {fault}", self.name())).await
    }
}

/// Whether a fault says that the drive does not answer.
fn is_away(fault: Fault) -> bool {
    matches!(fault, Fault::Gone | Fault::Late)
}
