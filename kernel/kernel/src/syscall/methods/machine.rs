//! Machine: what the machine is and how it is doing.

use core::sync::atomic::{AtomicU64, Ordering};

use capos_schema::kernel_capnp::machine as m;
use capos_schema::kernel_dispatch::MachineKernel;
use capos_schema::sync::Completion;
use spin::Once;

use crate::arch::{processors, time};
use crate::cpu::boot::BootInfo;
use crate::memory::{frames, heap};
use crate::object::invocation::Invocation;
use crate::object::memory::cache;
use crate::object::{Answer, derivation, process, thread};
use crate::sched::{self, accounting};

static BOOT: Once<BootInfo> = Once::new();
/// Time-stamp counter when the first process was entered.
pub static INIT_START: AtomicU64 = AtomicU64::new(0);

/// Keeps what is known about the machine.
pub fn set_boot(boot: BootInfo) -> &'static BootInfo {
    BOOT.call_once(|| boot)
}

/// What is known about this boot, once it is kept.
#[cfg(feature = "tests")]
pub fn boot() -> Option<&'static BootInfo> {
    BOOT.get()
}

/// The machine.
pub struct Machine;

impl MachineKernel<Invocation<'_>> for Machine {
    fn info(
        &self,
        _cx: &mut Invocation<'_>,
        _params: m::info_params::Reader<'_>,
        results: m::info_results::Builder<'_>,
    ) -> Answer {
        let mut info = results.init_info();
        if let Some(boot) = BOOT.get() {
            info.set_command_line(boot.command_line.as_str());
            info.set_boot_loader(boot.boot_loader.as_str());
            info.set_firmware(boot.firmware);
            info.set_memory_bytes(boot.memory_bytes);
            info.set_processors(boot.processors);
            info.set_power_off_port(boot.power_off.port);
            info.set_power_off_value(boot.power_off.value);
            info.set_pci_config_base(boot.pci_config_base);
        }
        info.set_tsc_hertz(time::tsc_hertz());
        Ok(Completion::Done)
    }

    fn statistics(
        &self,
        cx: &mut Invocation<'_>,
        _params: m::statistics_params::Reader<'_>,
        results: m::statistics_results::Builder<'_>,
    ) -> Answer {
        accounting::settle_times(cx.lock);
        let mut statistics = results.init_statistics();
        statistics.set_free_frames(frames::free_count() as u64);
        statistics.set_total_frames(frames::total() as u64);
        // Places that the forest keeps for nodes to come are not in use: how many these are depends on the order in which
        // nodes came and went, and so the same things in the kernel take the same bytes.
        statistics.set_heap_bytes(heap::used().saturating_sub(derivation::spare_bytes()) as u64);
        statistics.set_heap_frames(heap::frames() as u64);
        statistics.set_cached_frames(cache::frames_held() as u64);
        statistics.set_cache_hits(cache::HITS.load(Ordering::Relaxed));
        statistics.set_cache_misses(cache::MISSES.load(Ordering::Relaxed));
        statistics.set_cache_evictions(cache::EVICTIONS.load(Ordering::Relaxed));
        statistics.set_processes(process::ALIVE.load(Ordering::Relaxed));
        statistics.set_threads(u32::try_from(thread::ALIVE.load(Ordering::Relaxed)).unwrap_or(u32::MAX));
        statistics.set_context_switches(sched::SWITCHES.load(Ordering::Relaxed));
        statistics.set_kernel_entry_tsc(time::start_tsc());
        statistics.set_init_start_tsc(INIT_START.load(Ordering::Relaxed));
        statistics.set_idle_nanoseconds(time::lasting(accounting::IDLE.load(Ordering::Relaxed)));
        let processors = u32::try_from(processors::count()).unwrap_or(0);
        let mut interrupts = statistics.init_timer_interrupts(processors);
        for (number, processor) in (0..processors).zip(processors::all()) {
            interrupts.set(number, processor.timer_interrupts.load(Ordering::Relaxed));
        }
        Ok(Completion::Done)
    }

    fn framebuffer(
        &self,
        _cx: &mut Invocation<'_>,
        _params: m::framebuffer_params::Reader<'_>,
        mut results: m::framebuffer_results::Builder<'_>,
    ) -> Answer {
        if let Some(framebuffer) = BOOT.get().and_then(|boot| boot.framebuffer) {
            results.set_address(framebuffer.physical);
            results.set_width(framebuffer.width);
            results.set_height(framebuffer.height);
            results.set_pitch(framebuffer.pitch);
            results.set_bits_per_pixel(framebuffer.bits_per_pixel);
        }
        Ok(Completion::Done)
    }
}
