//! The handover from the boot loader, by the Limine protocol: what the kernel asks for, and the
//! answers copied out of the loader's memory.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ffi::CStr;

use capos_machine::page_entry::PAGE;
use capos_machine::range::Range;
use limine::BaseRevision;
use limine::firmware_type::FirmwareType;
use limine::memory_map::EntryType;
use limine::request::{
    BootloaderInfoRequest, ExecutableAddressRequest, ExecutableCmdlineRequest, ExecutableFileRequest,
    FirmwareTypeRequest, FramebufferRequest, HhdmRequest, MemoryMapRequest, ModuleRequest, RequestsEndMarker,
    RequestsStartMarker, RsdpRequest,
};

use crate::arch::exit::PowerOff;
use crate::memory::frames::Frame;
use crate::memory::hhdm;

#[used]
#[unsafe(link_section = ".limine_requests_start")]
static START: RequestsStartMarker = RequestsStartMarker::new();
#[used]
#[unsafe(link_section = ".limine_requests_end")]
static END: RequestsEndMarker = RequestsEndMarker::new();

#[used]
#[unsafe(link_section = ".limine_requests")]
static REVISION: BaseRevision = BaseRevision::with_revision(3);
#[used]
#[unsafe(link_section = ".limine_requests")]
static HHDM: HhdmRequest = HhdmRequest::new();
#[used]
#[unsafe(link_section = ".limine_requests")]
static MEMORY_MAP: MemoryMapRequest = MemoryMapRequest::new();
#[used]
#[unsafe(link_section = ".limine_requests")]
static ADDRESS: ExecutableAddressRequest = ExecutableAddressRequest::new();
#[used]
#[unsafe(link_section = ".limine_requests")]
static FILE: ExecutableFileRequest = ExecutableFileRequest::new();
#[used]
#[unsafe(link_section = ".limine_requests")]
static COMMAND_LINE: ExecutableCmdlineRequest = ExecutableCmdlineRequest::new();
#[used]
#[unsafe(link_section = ".limine_requests")]
static MODULES: ModuleRequest = ModuleRequest::new();
#[used]
#[unsafe(link_section = ".limine_requests")]
static RSDP: RsdpRequest = RsdpRequest::new();
#[used]
#[unsafe(link_section = ".limine_requests")]
static FRAMEBUFFER: FramebufferRequest = FramebufferRequest::new();
#[used]
#[unsafe(link_section = ".limine_requests")]
static LOADER: BootloaderInfoRequest = BootloaderInfoRequest::new();
#[used]
#[unsafe(link_section = ".limine_requests")]
static FIRMWARE: FirmwareTypeRequest = FirmwareTypeRequest::new();

/// What the machine is and what was loaded with the kernel.
#[derive(Debug)]
pub struct BootInfo {
    pub command_line: String,
    /// Name and version of the loader.
    pub boot_loader: String,
    /// `bios` or `uefi`.
    pub firmware: &'static str,
    /// Bytes of RAM that the kernel can use.
    pub memory_bytes: u64,
    /// All RAM, whoever uses it: what no process may map as a device.
    pub ram: Vec<Range>,
    pub modules: Vec<Module>,
    pub framebuffer: Option<Framebuffer>,
    pub power_off: PowerOff,
    /// Physical address of PCI configuration space (bus 0), 0 where it is not mapped.
    pub pci_config_base: u64,
    pub processors: u32,
}

/// A file that the loader read into memory.
#[derive(Debug)]
pub struct Module {
    /// Its path as the loader knows it.
    pub path: String,
    /// What the boot configuration says behind the path.
    pub command_line: String,
    pub bytes: &'static [u8],
    /// The frames that hold it, where it begins at one; nothing else lies in them.
    pub frames: Option<(Frame, usize)>,
}

/// A linear framebuffer.
#[derive(Clone, Copy, Debug)]
pub struct Framebuffer {
    pub physical: u64,
    pub width: u32,
    pub height: u32,
    /// Bytes from line to line.
    pub pitch: u32,
    pub bits_per_pixel: u16,
}

/// What is needed before anything can be allocated. Everything here lies in the loader's memory.
pub struct Handover {
    pub hhdm_offset: u64,
    /// Physical address of the kernel's image.
    pub image: u64,
    /// Physical address of the firmware's root pointer.
    pub rsdp: Option<u64>,
    map: &'static [&'static limine::memory_map::Entry],
}

/// Reads the handover.
///
/// # Errors
/// The sentence to print where the loader did not answer what the kernel cannot do without.
pub fn handover() -> Result<Handover, &'static str> {
    // The base revision's answer is not looked at: releases of Limine before revision 3 leave the tag unanswered and
    // use revision 2, whose only difference in what is asked for here is where the root pointer's address points.
    let hhdm = HHDM.get_response().ok_or("the boot loader gave no direct map")?;
    let map = MEMORY_MAP.get_response().ok_or("the boot loader gave no memory map")?;
    let address = ADDRESS.get_response().ok_or("the boot loader did not say where it put the kernel")?;
    let rsdp = RSDP.get_response().map(|response| response.address() as u64);
    let rsdp = rsdp.map(|address| address.checked_sub(hhdm.offset()).unwrap_or(address));
    Ok(Handover { hhdm_offset: hhdm.offset(), image: address.physical_base(), rsdp, map: map.entries() })
}

/// Whether a word is on the kernel's command line, as the loader left it.
#[cfg(feature = "tests")]
pub fn is_asked_for(wanted: &str) -> bool {
    let line = command_line().and_then(|line| line.to_str().ok());
    line.is_some_and(|line| line.split_whitespace().any(|word| word == wanted))
}

fn command_line() -> Option<&'static CStr> {
    let from_file = || FILE.get_response().map(|response| response.file().string());
    COMMAND_LINE.get_response().map(|response| response.cmdline()).or_else(from_file)
}

impl Handover {
    fn ranges(&self, kinds: &'static [EntryType]) -> impl Iterator<Item = Range> + Clone {
        self.map
            .iter()
            .filter(move |entry| kinds.contains(&entry.entry_type))
            .map(|entry| Range::new(entry.base, entry.length))
    }

    /// RAM that nothing uses.
    pub fn usable(&self) -> impl Iterator<Item = Range> + Clone {
        self.ranges(&[EntryType::USABLE])
    }

    /// RAM that the loader uses, until its answers have been copied.
    pub fn reclaimable(&self) -> impl Iterator<Item = Range> + Clone {
        self.ranges(&[EntryType::BOOTLOADER_RECLAIMABLE])
    }

    /// RAM that the direct map shall hold.
    pub fn mapped(&self) -> impl Iterator<Item = Range> + Clone {
        self.ranges(&[EntryType::USABLE, EntryType::BOOTLOADER_RECLAIMABLE, EntryType::EXECUTABLE_AND_MODULES])
    }

    /// All RAM, the firmware's included.
    fn ram(&self) -> impl Iterator<Item = Range> + Clone {
        self.ranges(&[
            EntryType::USABLE,
            EntryType::BOOTLOADER_RECLAIMABLE,
            EntryType::EXECUTABLE_AND_MODULES,
            EntryType::ACPI_RECLAIMABLE,
            EntryType::ACPI_NVS,
            EntryType::BAD_MEMORY,
        ])
    }

    /// First address behind the RAM that the direct map holds.
    pub fn end(&self) -> u64 {
        self.mapped().map(|range| range.end).max().unwrap_or(0)
    }
}

/// Copies the loader's answers. What only the machine's tables tell is left at its default.
pub fn copy(handover: &Handover) -> BootInfo {
    let boot_loader =
        LOADER.get_response().map_or_else(|| "unknown".to_string(), |l| alloc::format!("{} {}", l.name(), l.version()));
    let firmware = match FIRMWARE.get_response().map(|response| response.firmware_type()) {
        Some(FirmwareType::UEFI_32 | FirmwareType::UEFI_64) => "uefi",
        _ => "bios",
    };
    let modules = MODULES.get_response().map_or(&[][..], |response| response.modules());
    BootInfo {
        command_line: command_line().map(text).unwrap_or_default(),
        boot_loader,
        firmware,
        memory_bytes: handover.usable().chain(handover.reclaimable()).map(Range::length).sum(),
        ram: handover.ram().collect(),
        modules: modules.iter().map(|file| module(file)).collect(),
        framebuffer: FRAMEBUFFER.get_response().and_then(|response| response.framebuffers().next()).map(|frame| {
            Framebuffer {
                physical: hhdm::physical(frame.addr()),
                width: frame.width() as u32,
                height: frame.height() as u32,
                pitch: frame.pitch() as u32,
                bits_per_pixel: frame.bpp(),
            }
        }),
        power_off: PowerOff::default(),
        pci_config_base: 0,
        processors: 1,
    }
}

fn module(file: &limine::file::File) -> Module {
    let size = file.size() as usize;
    let physical = hhdm::physical(file.addr());
    let bytes = if size == 0 {
        // An empty file lies nowhere.
        &[]
    } else {
        // SAFETY: the loader put the file there, in memory of the kind "executable and modules", which
        // is in the direct map and which nothing writes or hands out again while the slice is used.
        unsafe { core::slice::from_raw_parts(file.addr().cast_const(), size) }
    };
    let frames = (physical.is_multiple_of(PAGE)).then(|| (Frame::from_address(physical), size.div_ceil(PAGE as usize)));
    Module { path: text(file.path()), command_line: text(file.string()), bytes, frames }
}

fn text(bytes: &CStr) -> String {
    String::from_utf8_lossy(bytes.to_bytes()).into_owned()
}
