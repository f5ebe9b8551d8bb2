//! The order of the boot: read the handover, place everything, write the answers, enter the kernel.

use capos_loader::arena::Arena;
use capos_loader::image::Image;
use capos_loader::interrupts::{Physical, io_apics};
use capos_loader::limine::{Facts, File, Requests};
use capos_loader::memory_map::{Kind, MemoryMap};
use capos_loader::multiboot2::{Framebuffer, Information, Module};
use capos_loader::page_tables::{Access, Mapping, PageTables, Table, frames_needed};
use capos_loader::{HHDM, PAGE, Refusal, Result};

use crate::machine::{self, LowMemory, REACHABLE};

const NO_INFORMATION: Refusal = Refusal("The boot loader handed over no Multiboot2 information.");
const NO_MEMORY_MAP: Refusal = Refusal("The boot loader handed over no memory map.");
const NO_KERNEL: Refusal = Refusal("No kernel was loaded: the boot configuration lacks `module2 FILE kernel`.");
const TOO_LITTLE: Refusal =
    Refusal("The kernel does not fit into free memory below 4 GiB. capOS needs a machine with 256 MiB.");
const TOO_MANY_MODULES: Refusal = Refusal("More than 32 modules were loaded.");
const BAD_ENTRY: Refusal = Refusal("The kernel's entry point is not in its code.");
const BAD_MODULE: Refusal = Refusal("A module is not on a page boundary below 4 GiB.");

/// Memory for the answers: 32 KiB and 40 bytes for every range of the memory map.
const ARENA_SIZE: u64 = 128 << 10;

/// Entered from `entry.s` with the physical address of the Multiboot2 information.
#[unsafe(no_mangle)]
extern "C" fn loader_main(information: u64) -> ! {
    match prepare(information) {
        Ok(ready) => machine::leave(ready.root, ready.stack_top, ready.entry),
        Err(reason) => machine::refuse(reason),
    }
}

/// The values for the last jump.
struct Ready {
    root: u64,
    stack_top: u64,
    entry: u64,
}

fn read_information(address: u64) -> Result<(Information<'static>, u64)> {
    static MEMORY: LowMemory = LowMemory;
    let size = MEMORY.read(address, 8).and_then(Information::stated_size).ok_or(NO_INFORMATION)?;
    let bytes = MEMORY.read(address, size).ok_or(NO_INFORMATION)?;
    Ok((Information::new(bytes)?, size as u64))
}

fn framebuffer_range(screen: &Framebuffer) -> (u64, u64) {
    let start = screen.address & !(PAGE - 1);
    let bytes = u64::from(screen.pitch).saturating_mul(u64::from(screen.height));
    let length = bytes.saturating_add(screen.address % PAGE);
    (start, length.checked_next_multiple_of(PAGE).unwrap_or(length))
}

/// The firmware's map with the first page, the framebuffer and all that was loaded marked.
fn memory_map(information: &Information, own: &[(u64, u64)]) -> Result<MemoryMap> {
    let mut map = MemoryMap::new();
    for entry in information.memory() {
        map.add(entry.base, entry.length, Kind::from_multiboot2(entry.kind))?;
    }
    if map.regions().is_empty() {
        return Err(NO_MEMORY_MAP);
    }
    map.add(0, PAGE, Kind::Reserved)?;
    if let Some(screen) = information.framebuffer() {
        let (start, length) = framebuffer_range(&screen);
        map.add(start, length, Kind::Framebuffer)?;
    }
    // The kernel's file is of use only until the kernel has read it; only its image counts.
    for module in information.modules() {
        let kind = if module.name() == b"kernel" { Kind::BootloaderReclaimable } else { Kind::KernelAndModules };
        map.claim(module.start, module.size, kind)?;
    }
    for &(base, length) in own {
        map.claim(base, length, Kind::BootloaderReclaimable)?;
    }
    Ok(map)
}

/// The modules for the kernel, each named by the first word of its string.
fn collect_modules<'a>(information: &Information<'a>, list: &mut [File<'a>; 32]) -> Result<(Module<'a>, usize)> {
    let (mut kernel, mut count) = (None, 0_usize);
    for module in information.modules() {
        if module.start % PAGE != 0 || module.start.saturating_add(module.size) > REACHABLE {
            return Err(BAD_MODULE);
        }
        if module.name() == b"kernel" && kernel.is_none() {
            kernel = Some(module);
            continue;
        }
        let slot = list.get_mut(count).ok_or(TOO_MANY_MODULES)?;
        *slot = File { address: module.start, size: module.size, name: module.name(), text: module.text };
        count = count.saturating_add(1);
    }
    Ok((kernel.ok_or(NO_KERNEL)?, count))
}

/// The ranges of the direct map: all memory and at least 4 GiB, the framebuffer write-combining.
fn direct_map(map: &MemoryMap, screen: Option<Framebuffer>) -> [Mapping; 3] {
    const ALIGN: u64 = 1 << 30;
    let screen_range = screen.as_ref().map_or((REACHABLE, 0), framebuffer_range);
    // A physical address has 52 bits at most.
    let screen_end = screen_range.0.saturating_add(screen_range.1).min(1 << 52);
    let screen_start = screen_range.0.min(screen_end);
    let top = map.top().max(REACHABLE).max(screen_end);
    let top = top.checked_next_multiple_of(ALIGN).unwrap_or(top);
    let range = |start: u64, end: u64, combining| Mapping {
        virt: HHDM.saturating_add(start),
        phys: start,
        length: end.saturating_sub(start),
        access: Access { write: true, execute: true, combining },
    };
    [range(0, screen_start, false), range(screen_start, screen_end, true), range(screen_end, top, false)]
}

fn prepare(information_address: u64) -> Result<Ready> {
    let processor = machine::Processor::check()?;
    let (information, information_size) = read_information(information_address)?;
    let mut map = memory_map(&information, &[machine::own_place(), (information_address, information_size)])?;
    let mut modules = [File { address: 0, size: 0, name: b"", text: b"" }; 32];
    let (kernel, module_count) = collect_modules(&information, &mut modules)?;
    let kernel_bytes = usize::try_from(kernel.size).ok().and_then(|size| LowMemory.read(kernel.start, size));
    let kernel_file = kernel_bytes.ok_or(NO_KERNEL)?;
    let image = Image::new(kernel_file)?;

    let image_at = map.allocate(image.size, 1 << 21, REACHABLE, Kind::KernelAndModules).ok_or(TOO_LITTLE)?;
    // SAFETY: just allocated.
    let loaded: &mut [u8] = unsafe { machine::writable(image_at, image.size as usize)? };
    loaded.fill(0);
    image.load(loaded)?;
    let requests = Requests::find(loaded)?;
    let entry = requests.entry_point(loaded).unwrap_or(image.entry);
    if !image.is_code(entry) {
        return Err(BAD_ENTRY);
    }

    let mut reclaimable = |length| map.allocate(length, PAGE, REACHABLE, Kind::BootloaderReclaimable).ok_or(TOO_LITTLE);
    let stack_size = requests.stack_size(loaded).checked_next_multiple_of(PAGE).ok_or(TOO_LITTLE)?;
    let stack = reclaimable(stack_size)?;
    let arena_at = reclaimable(ARENA_SIZE)?;
    let screen = information.framebuffer();
    let direct = direct_map(&map, screen);
    let frames = image.mappings(image_at).fold(frames_needed(&direct, processor.gigabyte_pages), |sum, mapping| {
        sum.saturating_add(frames_needed(&[mapping], processor.gigabyte_pages))
    });
    let tables_at =
        map.allocate(frames.saturating_mul(PAGE), PAGE, REACHABLE, Kind::BootloaderReclaimable).ok_or(TOO_LITTLE)?;
    // SAFETY: just allocated.
    let pool: &mut [Table] = unsafe { machine::writable(tables_at, frames as usize)? };
    let mut tables = PageTables::new(pool, tables_at, processor.gigabyte_pages)?;
    for mapping in direct {
        tables.map(&mapping)?;
    }
    for mapping in image.mappings(image_at) {
        tables.map(&mapping)?;
    }

    // SAFETY: just allocated.
    let mut arena = Arena::new(unsafe { machine::writable(arena_at, ARENA_SIZE as usize)? }, arena_at);
    let rsdp = match information.rsdp() {
        Some(bytes) => Some(arena.put(bytes)?.saturating_sub(HHDM)),
        None => None,
    };
    let command_line = information.command_line();
    let facts = Facts {
        kernel: File { address: kernel.start, size: kernel.size, name: b"kernel", text: command_line },
        placed: (image_at, image.base),
        modules: modules.get(..module_count).unwrap_or(&[]),
        memory: &map,
        rsdp,
        framebuffer: screen,
        firmware: information.firmware(),
        efi_system_table: information.efi_system_table(),
        boot_time: machine::read_clock().and_then(|reading| reading.unix_seconds()),
    };
    requests.answer(loaded, &facts, &mut arena)?;

    machine::mask_legacy_interrupts();
    if let Some(rsdp) = information.rsdp() {
        io_apics(&LowMemory, rsdp, machine::mask_io_apic);
    }
    processor.prepare();
    Ok(Ready { root: tables.root(), stack_top: HHDM.saturating_add(stack).saturating_add(stack_size), entry })
}
