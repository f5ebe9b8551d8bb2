//! Which of the machine's disks is the data disk: their content alone decides.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_schema::storage::{DiskContent, DiskInfo};
use capos_schema::store::VolumeState;
use capos_volume::{Disk, Error, Locked};

/// Bytes of a blank disk at least, so that something fits on it.
pub const LEAST_BYTES: u64 = 8 << 20;

/// What the headers of a disk say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It holds no volume.
    None,
    /// A volume of this system's format.
    Volume,
    /// A volume of another format.
    Version(u32),
    /// A volume that cannot be opened; the text says why.
    Damaged(String),
    /// It could not be read.
    Unreadable(String),
}

impl Mark {
    /// Reads the headers of a disk.
    pub fn read<D: Disk>(disk: D) -> (Self, Option<Locked<D>>) {
        match Locked::read(disk) {
            Ok(locked) => (Self::Volume, Some(locked)),
            Err(Error::NotAVolume) => (Self::None, None),
            Err(Error::Version { found }) => (Self::Version(found), None),
            Err(error @ Error::Disk { .. }) => (Self::Unreadable(error.to_string()), None),
            Err(error) => (Self::Damaged(error.to_string()), None),
        }
    }
}

/// A disk that was looked at.
#[derive(Clone, Debug)]
pub struct Seen {
    pub info: DiskInfo,
    pub mark: Mark,
}

/// What there is to do with the disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub state: VolumeState,
    /// The disk that it is about, by its number among those seen.
    pub disk: Option<usize>,
    /// State and way out, as a sentence.
    pub details: String,
}

/// Bytes of a disk.
#[must_use]
pub fn bytes(info: &DiskInfo) -> u64 {
    info.blocks.saturating_mul(info.block_bytes.into())
}

/// Whether a volume can be made on a disk.
#[must_use]
pub fn is_usable(seen: &Seen) -> bool {
    is_candidate(seen)
        && seen.info.content == DiskContent::Blank
        && seen.mark == Mark::None
        && !seen.info.read_only
        && bytes(&seen.info) >= LEAST_BYTES
}

/// Whether a disk may be a data disk, from where it is.
fn is_candidate(seen: &Seen) -> bool {
    !seen.info.optical && seen.info.content != DiskContent::BootMedium
}

const NOTHING_KEPT: &str = "nothing is kept when the machine is turned off";
const ATTACH: &str = "attach a blank disk and start the machine again to keep things";

/// Decides. The boot medium and optical discs do not count.
#[must_use]
pub fn decide(seen: &[Seen]) -> Decision {
    let all: Vec<(usize, &Seen)> = seen.iter().enumerate().filter(|(_, seen)| is_candidate(seen)).collect();
    let is_volume = |seen: &Seen| matches!(seen.mark, Mark::Volume | Mark::Version(_) | Mark::Damaged(_));
    let volumes: Vec<(usize, &Seen)> = all.iter().copied().filter(|(_, seen)| is_volume(seen)).collect();
    match volumes.as_slice() {
        [] => without_volume(&all),
        [(disk, one)] => {
            let place = &one.info.place;
            let (state, details) = match &one.mark {
                Mark::Version(found) => (
                    VolumeState::OtherVersion,
                    format!(
                        "the data volume on {place} has format {found}, which this version of capOS does not know; start \
                         the capOS that made it; until then {NOTHING_KEPT}"
                    ),
                ),
                Mark::Damaged(why) => (
                    VolumeState::Damaged,
                    format!("the data volume on {place} cannot be opened: {why}; until then {NOTHING_KEPT}"),
                ),
                _ => (VolumeState::Locked, format!("the data volume on {place} is locked; a key opens it")),
            };
            Decision { state, disk: Some(*disk), details }
        }
        several => {
            let places: Vec<&str> = several.iter().map(|(_, seen)| seen.info.place.as_str()).collect();
            let details = format!(
                "there are {} data volumes, on {}; turn the machine off and leave one of these disks attached; until then \
                 {NOTHING_KEPT}",
                several.len(),
                places.join(" and ")
            );
            Decision { state: VolumeState::Several, disk: None, details }
        }
    }
}

fn without_volume(all: &[(usize, &Seen)]) -> Decision {
    let blank: Vec<(usize, &Seen)> = all.iter().copied().filter(|(_, seen)| is_usable(seen)).collect();
    if let Some((disk, first)) = blank.first() {
        let others: Vec<&str> = blank.iter().skip(1).map(|(_, seen)| seen.info.place.as_str()).collect();
        let more = if others.is_empty() { String::new() } else { format!(", and so can {}", others.join(" and ")) };
        let details = format!("{} is blank and can be set up to keep things{more}", first.info.place);
        return Decision { state: VolumeState::Blank, disk: Some(*disk), details };
    }
    let told: Vec<String> = all.iter().map(|(_, seen)| format!("{} {}", seen.info.place, reason(seen))).collect();
    let foreign = all.iter().find(|(_, seen)| is_foreign(seen)).map(|(disk, _)| *disk);
    let failing = all.iter().find(|(_, seen)| is_unreadable(seen));
    if let (Some((disk, seen)), None) = (failing, foreign) {
        let details = format!(
            "{} {}; check its cable, or replace it and restore a backup; until then {NOTHING_KEPT}",
            seen.info.place,
            reason(seen)
        );
        return Decision { state: VolumeState::Damaged, disk: Some(*disk), details };
    }
    let state = if foreign.is_some() { VolumeState::Foreign } else { VolumeState::None };
    let what = if told.is_empty() { "no disk is attached that can be written".into() } else { told.join("; ") };
    Decision { state, disk: foreign, details: format!("{what}; {NOTHING_KEPT}; {ATTACH}") }
}

/// Whether a disk holds something that is somebody's.
fn is_foreign(seen: &Seen) -> bool {
    seen.mark == Mark::None && !matches!(seen.info.content, DiskContent::Blank | DiskContent::Unreadable)
}

/// Whether a disk cannot be read, so that nobody knows what it holds.
fn is_unreadable(seen: &Seen) -> bool {
    seen.info.content == DiskContent::Unreadable || matches!(seen.mark, Mark::Unreadable(_))
}

/// Why a disk is not used.
fn reason(seen: &Seen) -> String {
    let content = match seen.info.content {
        DiskContent::Iso9660 => "an ISO 9660 volume",
        DiskContent::Fat => "a FAT volume",
        DiskContent::PartitionTable => "a partition table",
        _ => "unknown content",
    };
    match (&seen.mark, seen.info.content) {
        (Mark::Unreadable(why), _) => format!("cannot be read ({why})"),
        (_, DiskContent::Unreadable) => format!("cannot be read ({})", seen.info.problem),
        (_, DiskContent::Blank) if seen.info.read_only => "is blank and cannot be written".into(),
        (_, DiskContent::Blank) => format!("is blank and has less than {} MiB", LEAST_BYTES >> 20),
        _ => format!("holds {content} and is left alone"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(place: &str, content: DiskContent, mark: Mark) -> Seen {
        let info = DiskInfo { place: place.into(), content, block_bytes: 512, blocks: 1 << 17, ..DiskInfo::default() };
        Seen { info, mark }
    }

    fn medium() -> Seen {
        disk("the medium", DiskContent::BootMedium, Mark::None)
    }

    fn blank(place: &str) -> Seen {
        disk(place, DiskContent::Blank, Mark::None)
    }

    fn volume(place: &str) -> Seen {
        disk(place, DiskContent::DataDisk, Mark::Volume)
    }

    #[test]
    fn content_decides() {
        let with = |seen: Seen, change: fn(&mut DiskInfo)| {
            let mut seen = seen;
            change(&mut seen.info);
            seen
        };
        let unreadable = with(disk("u", DiskContent::Unreadable, Mark::None), |info| info.problem = "no answer".into());
        let fat = disk("f", DiskContent::Fat, Mark::None);
        let newer = disk("v", DiskContent::DataDisk, Mark::Version(2));
        let damaged = disk("d", DiskContent::Unknown, Mark::Damaged("all copies are damaged".into()));
        let bad = disk("s", DiskContent::Blank, Mark::Unreadable("reading disk block 0".into()));
        let disc = with(blank("disc"), |info| info.optical = true);
        let small = with(blank("small"), |info| info.blocks = 100);
        let fixed = with(blank("fixed"), |info| info.read_only = true);
        use VolumeState::{Blank, Damaged, Foreign, Locked, None as No, OtherVersion, Several};
        let table: &[(&[Seen], VolumeState, Option<usize>, &str)] = &[
            (&[], No, None, "no disk is attached"),
            (&[medium()], No, None, "no disk is attached"),
            (&[medium(), disc], No, None, "no disk is attached"),
            (&[medium(), blank("b")], Blank, Some(1), "b is blank and can be set up"),
            (&[blank("b"), medium(), blank("c")], Blank, Some(0), "and so can c"),
            (&[medium(), fat.clone(), blank("b")], Blank, Some(2), "b is blank"),
            (&[medium(), fat.clone()], Foreign, Some(1), "f holds a FAT volume and is left alone"),
            (&[medium(), small], No, None, "has less than 8 MiB"),
            (&[medium(), fixed], No, None, "cannot be written"),
            (&[medium(), unreadable], Damaged, Some(1), "u cannot be read (no answer)"),
            (&[medium(), bad], Damaged, Some(1), "s cannot be read (reading disk block 0)"),
            (&[medium(), blank("b"), volume("a")], Locked, Some(2), "on a is locked"),
            (&[volume("a"), fat], Locked, Some(0), "on a is locked"),
            (&[medium(), newer.clone()], OtherVersion, Some(1), "has format 2"),
            (&[medium(), damaged.clone(), blank("b")], Damaged, Some(1), "all copies are damaged"),
            (&[volume("a"), volume("b")], Several, None, "2 data volumes, on a and b"),
            (&[volume("a"), newer, damaged], Several, None, "3 data volumes, on a and v and d"),
        ];
        for (number, (seen, state, disk, told)) in table.iter().enumerate() {
            let decision = decide(seen);
            assert_eq!((decision.state, decision.disk), (*state, *disk), "row {number}: {}", decision.details);
            assert!(decision.details.contains(told), "row {number}: {}", decision.details);
        }
    }
}
