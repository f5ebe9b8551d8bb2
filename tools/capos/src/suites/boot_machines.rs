//! The kinds of machine on which the boot scenario runs.

use crate::scenario::Scenario;
use capos_vm::qemu::{Board, Firmware, Medium};

/// A machine on which the boot scenario runs.
struct Kind {
    /// Its subject, after the common part of the name.
    about: &'static str,
    board: Board,
    firmware: Firmware,
    memory: u32,
    cpus: u32,
    medium: Medium,
    /// Further properties of the medium's device.
    medium_device: &'static str,
    /// QEMU's words for the devices before it.
    devices: &'static [&'static str],
    /// The log's name for the drive with the medium.
    drive: &'static str,
}

/// An empty virtio disk.
const EMPTY_DISK: [&str; 4] = [
    "-blockdev",
    "driver=null-co,node-name=empty,size=1048576,read-zeroes=on",
    "-device",
    "virtio-blk-pci,drive=empty",
];

/// Both boards, both firmwares, each kind of drive that has a driver, 256 MiB to 8 GiB, one processor to eight. Disk
/// queues are as small as devices offer, and larger than the driver uses. A medium is neither the first device of its
/// kind nor on the first root bus.
const KINDS: [Kind; 7] = [
    Kind {
        about: "",
        board: Board::Pc,
        firmware: Firmware::Bios,
        memory: 256,
        cpus: 1,
        medium: Medium::Virtio,
        medium_device: "queue-size=4",
        devices: &[],
        drive: "the virtio disk",
    },
    Kind {
        about: "",
        board: Board::Pc,
        firmware: Firmware::Uefi,
        memory: 512,
        cpus: 8,
        medium: Medium::Virtio,
        medium_device: "queue-size=1024",
        devices: &[],
        drive: "the virtio disk",
    },
    Kind {
        about: "",
        board: Board::Q35,
        firmware: Firmware::Bios,
        memory: 8192,
        cpus: 4,
        medium: Medium::Cdrom,
        medium_device: "",
        devices: &[],
        drive: "`QEMU DVD-ROM` at SATA port 2",
    },
    Kind {
        about: "",
        board: Board::Q35,
        firmware: Firmware::Uefi,
        memory: 256,
        cpus: 2,
        medium: Medium::Sata,
        medium_device: "",
        devices: &[],
        drive: "`QEMU HARDDISK` at SATA port 0",
    },
    Kind {
        about: "",
        board: Board::Q35,
        firmware: Firmware::Uefi,
        memory: 4096,
        cpus: 3,
        medium: Medium::Virtio,
        medium_device: "",
        devices: &[],
        drive: "the virtio disk",
    },
    Kind {
        about: "-second-root",
        board: Board::Q35,
        firmware: Firmware::Bios,
        memory: 512,
        cpus: 1,
        medium: Medium::Virtio,
        medium_device: "bus=behind,queue-size=64",
        devices: &[
            EMPTY_DISK[0],
            EMPTY_DISK[1],
            EMPTY_DISK[2],
            EMPTY_DISK[3],
            "-device",
            "pxb-pcie,id=root,bus_nr=128,bus=pcie.0",
            "-device",
            "pcie-root-port,id=behind,bus=root,chassis=1",
        ],
        drive: "virtio disk 2 of 2",
    },
    Kind {
        about: "-third-controller",
        board: Board::Pc,
        firmware: Firmware::Bios,
        memory: 512,
        cpus: 1,
        medium: Medium::Sata,
        medium_device: "bus=third.0",
        devices: &["-device", "ahci,id=first", "-device", "ahci,id=second", "-device", "ahci,id=third"],
        drive: "`QEMU HARDDISK` at port 0 of SATA controller 3 of 3",
    },
];

/// The boot scenario on every kind of machine, each with the name of its run.
pub fn all(scenario: &Scenario) -> impl Iterator<Item = (String, Scenario)> {
    let run = move |kind: Kind| {
        let mut scenario = scenario.clone();
        scenario.settings.board = kind.board;
        scenario.settings.firmware = kind.firmware;
        scenario.settings.memory = kind.memory;
        scenario.settings.cpus = kind.cpus;
        scenario.settings.medium = kind.medium;
        scenario.settings.medium_device = kind.medium_device.into();
        scenario.settings.devices = kind.devices.iter().map(|word| (*word).to_owned()).collect();
        scenario.checks.log.contains.push(format!("; processors: {}\r\n", kind.cpus));
        scenario.checks.log.contains.push("warning: no IOMMU is used".into());
        scenario.checks.log.contains.push(format!("iso9660: the boot medium is {}\r\n", kind.drive));
        let Kind { about, board, firmware, memory, medium, .. } = kind;
        let name = format!("boot/{board:?}-{firmware:?}-{memory}-{medium:?}{about}").to_lowercase();
        (name, scenario)
    };
    KINDS.into_iter().map(run)
}
