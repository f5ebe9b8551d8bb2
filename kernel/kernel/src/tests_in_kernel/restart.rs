//! Starting the kernel again and again on one machine: from its first instruction on, with its data as the loader put them
//! there, on the loader's page tables and stack. Nothing else is restored: devices are set up again by the start itself, and
//! all other memory is given out as if it held nothing.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use capos_machine::page_entry::PAGE;
use capos_machine::range::Range;

use crate::arch::processors;
use crate::cpu::boot::Handover;
use crate::memory::{hhdm, kernel_space};
use crate::start::startup;

unsafe extern "C" {
    static kernel_data_start: u8;
    static kernel_bss_start: u8;
    static kernel_data_end: u8;
}

/// What outlives a start. It lies below 1 MiB, where nothing is handed out, with a copy of the kernel's data behind it.
#[derive(Debug)]
pub struct Kept {
    /// The loader's top table and its stack.
    root: AtomicU64,
    stack: AtomicU64,
    /// The test's own: what it does, how far it is, and what it has counted.
    pub words: [AtomicUsize; 4],
}

/// Where [`Kept`] is; 0 where the kernel is not started again.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// Bytes of the kernel's data that are not zero from the beginning, in whole words.
fn data_bytes() -> usize {
    (&raw const kernel_bss_start as usize - &raw const kernel_data_start as usize).next_multiple_of(8)
}

/// What outlives a start, where the kernel is to be started again.
pub fn kept() -> Option<&'static Kept> {
    // SAFETY: null, or what `keep` has made, which is never given up.
    unsafe { core::ptr::with_exposed_provenance::<Kept>(KEPT.load(Ordering::Relaxed)).as_ref() }
}

/// Keeps what starting again needs. Called before the kernel changes any of its data but what it writes again at each start.
/// False where there is no memory for it below 1 MiB.
pub fn keep(handover: &Handover) -> bool {
    let bytes = (size_of::<Kept>() + data_bytes()) as u64;
    let wanted = bytes.next_multiple_of(PAGE);
    // Where further processors begin is left free in front of it.
    let room = |range: &Range| range.length() >= startup::PAGES * PAGE + wanted;
    let low = |range: Range| Range { start: range.start.max(PAGE), end: range.end.min(startup::LOW_END) }.inner_pages();
    let Some(home) = handover.usable().map(low).filter(|range| !range.is_empty()).find(room) else { return false };
    let place: *mut Kept = hhdm::pointer(home.end - wanted);
    let mut stack: u64;
    // SAFETY: reading the stack pointer has no effect.
    unsafe { core::arch::asm!("mov {}, rsp", out(reg) stack, options(nostack, nomem, preserves_flags)) };
    // As a function finds it: 8 bytes above a multiple of 16.
    stack = (stack & !15) - 8;
    // SAFETY: the range is RAM that nothing uses or is given, in the direct map, large enough for both, and page aligned. The
    // kernel's data are read as words, whoever may change them: no other processor runs.
    unsafe {
        place.write(Kept {
            root: AtomicU64::new(kernel_space::loaded_root().address()),
            stack: AtomicU64::new(stack),
            words: [const { AtomicUsize::new(0) }; 4],
        });
        core::ptr::copy_nonoverlapping(&raw const kernel_data_start, place.add(1).cast(), data_bytes());
    }
    KEPT.store(place.expose_provenance(), Ordering::Relaxed);
    true
}

/// Starts the kernel again.
pub fn again(kept: &'static Kept) -> ! {
    if processors::count() > 1 {
        startup::reset_others();
    }
    let zeroed = &raw const kernel_data_end as usize - &raw const kernel_data_start as usize - data_bytes();
    // SAFETY: `keep` has made the copy. No other processor runs, interrupts are off, and from the first instruction here on
    // nothing is used but registers, the kernel's text and what the loader has left: `reclaim` leaves that alone. Global
    // translations are forgotten with the bit that allows them, which the start sets again.
    unsafe {
        core::arch::asm!(
            "cld",
            "rep movsq",
            "mov rcx, r8",
            "xor eax, eax",
            "rep stosq",
            "mov [rip + {place}], r9",
            "mov rax, cr4",
            "and rax, ~0x80",
            "mov cr4, rax",
            "mov cr3, r10",
            "mov rsp, r11",
            "xor ebp, ebp",
            "jmp {entry}",
            in("r8") zeroed / 8,
            in("r9") core::ptr::from_ref(kept),
            in("r10") kept.root.load(Ordering::Relaxed),
            in("r11") kept.stack.load(Ordering::Relaxed),
            place = sym KEPT,
            entry = sym crate::start::kernel_entry,
            in("rsi") core::ptr::from_ref(kept).add(1),
            in("rdi") &raw const kernel_data_start,
            in("rcx") data_bytes() / 8,
            options(noreturn)
        );
    }
}
