//! Tests of the machine part: frames, heap, page tables, clocks, random bytes, vectors. A failed
//! assertion panics, which ends the machine with the panic's status.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "these are tests")]

use alloc::vec::Vec;

use capos_machine::page_entry::{Flags, LARGE_PAGE, PAGE, PageEntry};

use super::bench::alone;
use crate::arch::context::Fpu;
use crate::arch::{cpu, interrupts, io_apic, msr, percpu, time};
use crate::cpu::{entropy, log};
use crate::memory::frames::{self, Frame};
use crate::memory::page_table::{Access, MapError, PageTable, Root};
use crate::memory::{heap, kernel_space};

/// The tests by name.
pub const TESTS: [(&str, fn()); 13] = [
    ("frames", frames_come_and_go),
    ("frame-runs", runs_are_contiguous),
    ("heap", heap_returns_every_byte),
    ("page-table", page_table_maps_and_returns_its_frames),
    ("large-pages", large_pages_split_and_grow_together),
    ("protections", protections_are_on),
    ("kernel-half", nothing_of_the_kernel_is_writable_and_executable),
    ("clock", clock_advances),
    ("random", random_bytes_differ),
    ("vectors", vectors_are_exclusive),
    ("edges", edges_are_not_masked),
    ("fpu", vector_registers_survive),
    ("log", log_positions_hold),
];

const READ_WRITE: Access = Access { read: true, write: true, execute: false, device: false };
const READ_EXECUTE: Access = Access { read: true, write: false, execute: true, device: false };

fn is_zero(frame: Frame) -> bool {
    // SAFETY: the frame is RAM that the test owns.
    (0..4096).all(|at| unsafe { frame.pointer().add(at).read() } == 0)
}

fn frames_come_and_go() {
    let mut taken = Vec::with_capacity(64);
    let before = frames::free_count();
    for _ in 0..64 {
        let frame = frames::allocate().unwrap();
        assert!(is_zero(frame));
        assert!(!taken.contains(&frame));
        // SAFETY: the frame is RAM that the test owns.
        unsafe { frame.pointer().write(0xff) };
        taken.push(frame);
    }
    assert_eq!(frames::free_count(), before - 64);
    for frame in taken.drain(..) {
        frames::free(frame);
    }
    assert_eq!(frames::free_count(), before);
    let again = frames::allocate().unwrap();
    assert!(is_zero(again), "a frame that was used comes back zeroed");
    frames::free(again);
}

fn runs_are_contiguous() {
    let before = frames::free_count();
    let first = frames::allocate_contiguous_dirty(100).unwrap();
    assert_eq!(first.offset(99).address(), first.address() + 99 * 4096);
    assert_eq!(frames::free_count(), before - 100);
    for n in 0..100 {
        frames::free(first.offset(n));
    }
    assert_eq!(frames::free_count(), before);
    assert!(frames::allocate_contiguous_dirty(frames::total() + 1).is_none());
}

fn heap_returns_every_byte() {
    let before = (frames::free_count() + heap::frames(), heap::frames(), heap::used());
    let mut kept: Vec<Vec<u8>> = Vec::new();
    // A fixed sequence of sizes and victims: a linear congruence with Knuth's multiplier.
    let mut state = 1u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for round in 0..5000usize {
        let length = next(9000) + 1;
        let mark = round as u8;
        let mut block = alloc::vec![mark; length];
        block[length - 1] = !mark;
        kept.push(block);
        if kept.len() > 200 {
            let victim = next(kept.len());
            check_marks(&kept.swap_remove(victim));
        }
    }
    kept.iter().for_each(|block| check_marks(block));
    drop(kept);
    assert_eq!(before, (frames::free_count() + heap::frames(), heap::frames(), heap::used()));
}

/// The last byte is the complement of all others: nothing else wrote to the block.
fn check_marks(block: &[u8]) {
    let (last, rest) = block.split_last().unwrap();
    assert!(rest.iter().all(|byte| *byte == !*last));
}

/// Maps one page. False where something is mapped there.
fn map(
    table: &mut PageTable,
    address: u64,
    physical: u64,
    access: Access,
    frames: &mut dyn FnMut() -> Option<Frame>,
) -> Result<bool, MapError> {
    table.run(address, access, frames).put(physical)
}

fn page_table_maps_and_returns_its_frames() {
    let before = frames::free_count();
    let mut table = PageTable::new(&mut frames::allocate).unwrap();
    let page = frames::allocate().unwrap();
    let (low, high) = (0x40_0000, 0x7fff_ffff_e000);
    let frames: &mut dyn FnMut() -> Option<Frame> = &mut frames::allocate;
    assert_eq!(map(&mut table, low, page.address(), READ_EXECUTE, frames), Ok(true));
    assert_eq!(map(&mut table, high, page.address(), READ_WRITE, frames), Ok(true));
    assert_eq!(table.table_frames(), 7);
    assert_eq!(table.lookup(low + 5), Some((page.address() + 5, READ_EXECUTE)));
    assert_eq!(table.lookup(high + 4095), Some((page.address() + 4095, READ_WRITE)));
    assert_eq!(table.lookup(low + 4096), None);
    assert_eq!(map(&mut table, low, page.address(), READ_WRITE, frames), Ok(false));
    assert_eq!(table.lookup(low), Some((page.address(), READ_EXECUTE)), "what was there stays");
    for bad in [low + 1, 0x7fff_ffff_f000, 0x8000_0000_0000, 0xffff_8000_0000_0000] {
        assert_eq!(map(&mut table, bad, page.address(), READ_WRITE, frames), Err(MapError::BadAddress));
    }
    assert_eq!(map(&mut table, 0x1000_0000_0000, page.address(), READ_WRITE, &mut || None), Err(MapError::NoFrame));
    assert!(!table.take_accessed(&mut alone(), low), "nobody touched the page");
    Root::of(&table).activate(percpu::current());
    assert_eq!(table.unmap(&mut alone(), low), Some(page.address()));
    assert_eq!(table.unmap(&mut alone(), low), None);
    assert_eq!(table.lookup(low), None);
    // The whole user half at once: 2^35 pages, of which the walk looks only at tables that are there.
    assert_eq!(map(&mut table, low, page.address(), READ_WRITE, frames), Ok(true));
    assert_eq!(map(&mut table, 0x7000_0000_0000, page.address(), READ_WRITE, frames), Ok(true));
    table.unmap_range(&mut alone(), low + 0x1000, 0x7000_0000_0000);
    assert!(table.lookup(low).is_some(), "before the range");
    assert_eq!(table.lookup(0x7000_0000_0000), None);
    table.unmap_range(&mut alone(), 0, 0x7fff_ffff_f000);
    assert_eq!(table.lookup(low), None);
    table.leave();
    // One table at a time, as where the budget allows no more.
    while !table.destroy(1, &mut frames::free) {}
    frames::free(page);
    assert_eq!(frames::free_count(), before);
}

/// Reads a byte of user memory of the address space in use, as a program would, so that the processor notes it.
fn use_page(address: u64) {
    // SAFETY: the test has mapped the page; the flag that lets the kernel reach it is cleared again.
    unsafe {
        core::arch::asm!("stac", "mov {0:l}, [{0}]", "clac", inout(reg) address => _, options(nostack, readonly));
    }
}

fn large_pages_split_and_grow_together() {
    let before = frames::free_count();
    let mut table = PageTable::new(&mut frames::allocate).unwrap();
    let block = frames::allocate_block_dirty().unwrap();
    let at = 0x4000_0000;
    let physical = |page: u64| block.address() + page * PAGE;
    let whole = |table: &PageTable, access: Access, but: &[u64]| {
        (0..512).all(|page| {
            let found = table.lookup(at + page * PAGE + 7);
            found == (!but.contains(&page)).then_some((physical(page) + 7, access))
        })
    };
    let put = |table: &mut PageTable, address, to, access, frames: &mut dyn FnMut() -> Option<Frame>| {
        table.run(address, access, frames).put_large(&mut alone(), to)
    };
    let none: &mut dyn FnMut() -> Option<Frame> = &mut || None;
    for (address, to) in [(at + PAGE, physical(0)), (at, physical(1)), (0x7fff_ffe0_0000, physical(0))] {
        assert_eq!(put(&mut table, address, to, READ_WRITE, &mut frames::allocate), Err(MapError::BadAddress));
    }
    assert_eq!(put(&mut table, at, physical(0), READ_WRITE, none), Err(MapError::NoFrame));
    assert_eq!(put(&mut table, at, physical(0), READ_WRITE, &mut frames::allocate), Ok(true));
    // The top, two below it, and the one that is put aside.
    assert_eq!((table.table_frames(), table.large_pages()), (4, 1));
    assert!(whole(&table, READ_WRITE, &[]));
    assert_eq!(table.lookup(at + LARGE_PAGE), None);
    assert!(table.reach(at + 5 * PAGE + 9, true).is_some_and(|byte| byte == block.offset(5).pointer().wrapping_add(9)));
    assert_eq!(map(&mut table, at + PAGE, physical(1), READ_WRITE, none), Err(MapError::Occupied));
    assert_eq!(put(&mut table, at, physical(0), READ_WRITE, none), Ok(false));
    // A mark for all of it becomes a mark for each part.
    Root::of(&table).activate(percpu::current());
    assert!(!table.take_accessed(&mut alone(), at + 3 * PAGE));
    assert_eq!(table.large_pages(), 1, "what nobody used stays in one piece");
    use_page(at + 9 * PAGE);
    assert!(table.take_accessed(&mut alone(), at + 3 * PAGE) && !table.take_accessed(&mut alone(), at + 3 * PAGE));
    assert_eq!((table.table_frames(), table.large_pages()), (4, 0));
    assert!(whole(&table, READ_WRITE, &[]) && table.take_accessed(&mut alone(), at + 4 * PAGE));
    use_page(at + 3 * PAGE);
    assert!(table.take_accessed(&mut alone(), at + 3 * PAGE));
    // Grown together again, in the table's stead, from parts and what lacks between them.
    assert_eq!(table.unmap(&mut alone(), at + 8 * PAGE), Some(physical(8)));
    assert!(whole(&table, READ_WRITE, &[8]));
    assert_eq!(put(&mut table, at, physical(0), READ_EXECUTE, none), Ok(false), "other rights");
    assert_eq!(put(&mut table, at, physical(0) + LARGE_PAGE, READ_WRITE, none), Ok(false), "other memory");
    assert_eq!(put(&mut table, at, physical(0), READ_WRITE, none), Ok(true));
    assert_eq!((table.table_frames(), table.large_pages()), (4, 1));
    use_page(at + 8 * PAGE);
    // A part goes from its middle, then the rest and what lies around it.
    table.unmap_range(&mut alone(), at + 100 * PAGE, 2 * PAGE);
    assert!(whole(&table, READ_WRITE, &[100, 101]));
    table.unmap_range(&mut alone(), at - PAGE, LARGE_PAGE + 2 * PAGE);
    assert!((0..512).all(|page| table.lookup(at + page * PAGE).is_none()));
    // In one piece; what was put aside serves for the next table.
    assert_eq!(put(&mut table, at, physical(0), READ_EXECUTE, none), Ok(true));
    table.unmap_range(&mut alone(), 0, 0x7fff_ffff_f000);
    assert_eq!((table.lookup(at), table.large_pages()), (None, 0));
    assert_eq!(map(&mut table, at + LARGE_PAGE, physical(1), READ_EXECUTE, none), Ok(true));
    assert_eq!(table.lookup(at + LARGE_PAGE + PAGE), None, "a table that was put aside comes back zeroed");
    assert_eq!(put(&mut table, at, physical(0), READ_EXECUTE, none), Err(MapError::NoFrame));
    assert_eq!(put(&mut table, at, physical(0), READ_EXECUTE, &mut frames::allocate), Ok(true));
    table.leave();
    // One table at a time, as where the budget allows no more.
    while !table.destroy(1, &mut frames::free) {}
    frames::free_block(block);
    assert_eq!(frames::free_count(), before);
}

fn clock_advances() {
    let (start, start_tsc) = (time::now(), time::tsc());
    let mut last = start;
    while last < start + 1_000_000 {
        let now = time::now();
        assert!(now >= last, "time went back");
        last = now;
    }
    let ticks = time::tsc() - start_tsc;
    // A millisecond in ticks, and at most the last reading more.
    assert!(ticks >= time::tsc_hertz() / 1001, "{ticks} ticks in a millisecond");
}

fn random_bytes_differ() {
    let (mut first, mut second) = ([0u8; 256], [0u8; 256]);
    entropy::fill(&mut first);
    entropy::fill(&mut second);
    assert_ne!(first, second);
    // 2,048 random bits have between 850 and 1,198 ones except one time in 10^13.
    let ones: u32 = first.iter().map(|byte| byte.count_ones()).sum();
    assert!((850..1198).contains(&ones), "{ones} ones");
}

fn vectors_are_exclusive() {
    let (first, address, data) = interrupts::message().unwrap();
    let (second, ..) = interrupts::message().unwrap();
    assert_ne!(first, second);
    assert_eq!(address & !0xf_f000, 0xfee0_0000);
    assert_eq!(data, u32::from(first));
    assert!(!interrupts::is_line(first));
    interrupts::release(second);
    assert_eq!(interrupts::message().map(|(vector, ..)| vector), Some(second));
    interrupts::release(first);
    interrupts::release(second);
    // ISA 3 and 4 are the serial ports on every PC; which of them is in use here is the system's.
    if let Some(line) = interrupts::line(3) {
        assert!(interrupts::is_line(line));
        assert_eq!(interrupts::line(3), None, "a line has one owner");
        interrupts::release(line);
        assert!(!interrupts::is_line(line));
    }
}

/// An edge that comes before its driver has acknowledged the last one is lost where the input is masked meanwhile.
fn edges_are_not_masked() {
    for (irq, level) in [(3, false), (17, true)] {
        // Whether the line exists and is free is the machine's.
        let Some(route) = io_apic::route(irq) else { continue };
        let Some(vector) = interrupts::line(irq) else { continue };
        assert_eq!(route.wiring.level, level);
        assert!(io_apic::is_masked(route.input), "a line is masked until somebody waits for it");
        interrupts::unmask(vector);
        interrupts::hold(vector);
        assert_eq!(io_apic::is_masked(route.input), level, "after an interrupt {irq}");
        interrupts::release(vector);
        assert!(io_apic::is_masked(route.input), "a line that nobody has is masked");
    }
}

/// Loads one value into a vector register, switches to a fresh thread's state and back.
fn vector_registers_survive() {
    let mut mine = Fpu::new().unwrap();
    let fresh = Fpu::new().unwrap();
    let value = 0x0123_4567_89ab_cdefu64;
    let (cleared, back): (u64, u64);
    fresh.restore();
    // SAFETY: the kernel keeps nothing in vector registers; each block moves one register.
    unsafe { core::arch::asm!("movq xmm3, {}", in(reg) value, options(nostack, nomem, preserves_flags)) };
    mine.save();
    fresh.restore();
    // SAFETY: as above.
    unsafe { core::arch::asm!("movq {}, xmm3", out(reg) cleared, options(nostack, nomem, preserves_flags)) };
    mine.restore();
    // SAFETY: as above.
    unsafe { core::arch::asm!("movq {}, xmm3", out(reg) back, options(nostack, nomem, preserves_flags)) };
    assert_eq!((cleared, back), (0, value));
    fresh.restore();
}

fn log_positions_hold() {
    let start = log::end();
    crate::log!("position {}", start);
    let mut text = [0u8; 64];
    let read = log::read_from(start, &mut text);
    assert_eq!(read.start, start);
    assert!(text[..read.length].starts_with(b"position "));
    assert_eq!(log::read_from(log::end(), &mut text).length, 0);
    assert_eq!(log::read_from(u64::MAX, &mut text).length, 0);
}

fn protections_are_on() {
    let (cr0, cr4): (u64, u64);
    // SAFETY: reading control registers has no effect.
    unsafe {
        core::arch::asm!("mov {}, cr0", out(reg) cr0, options(nostack, nomem, preserves_flags));
        core::arch::asm!("mov {}, cr4", out(reg) cr4, options(nostack, nomem, preserves_flags));
    }
    let is_on = |register: u64, bit: u32| register >> bit & 1 == 1;
    assert!(is_on(cr0, 16), "the kernel writes to read-only pages");
    assert!(is_on(msr::read(msr::EFER), 11), "pages cannot be made not executable");
    let features = cpu::features();
    for (name, there, bit) in [("UMIP", features.umip, 11), ("SMEP", features.smep, 20), ("SMAP", features.smap, 21)] {
        assert!(there, "the machine of this test has {name}");
        assert!(is_on(cr4, bit), "{name} is off");
    }
}

/// Visits every page that a table of this level maps, huge ones whole.
fn visit_pages(table: Frame, level: u32, entries: core::ops::Range<usize>, seen: &mut dyn FnMut(PageEntry)) {
    for at in entries {
        // SAFETY: a table in use, whose 512 words only this processor changes; the test reads them.
        let entry = PageEntry(unsafe { table.pointer().cast::<u64>().add(at).read_volatile() });
        if !entry.is_present() {
            continue;
        }
        if level == 1 || entry.has(Flags::LARGE) {
            seen(entry);
        } else {
            visit_pages(Frame::from_address(entry.physical()), level - 1, 0..512, seen);
        }
    }
}

fn nothing_of_the_kernel_is_writable_and_executable() {
    let (mut executable, mut writable) = (0, 0);
    visit_pages(kernel_space::loaded_root(), 4, 256..512, &mut |entry| {
        let (write, execute) = (entry.has(Flags::WRITE), !entry.has(Flags::NO_EXECUTE));
        assert!(!(write && execute), "{entry:?} is writable and executable");
        assert!(!entry.has(Flags::USER), "{entry:?} of the kernel's half is open to programs");
        executable += u32::from(execute);
        writable += u32::from(write);
    });
    assert!(executable > 0 && writable > 0, "{executable} executable and {writable} writable pages");
}
