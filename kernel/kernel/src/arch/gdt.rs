//! Segments, and the stacks for what comes in from user mode and for what must not fail.

use x86_64::VirtAddr;
use x86_64::instructions::segmentation::{CS, DS, ES, FS, GS, SS, Segment};
use x86_64::instructions::tables::load_tss;
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable, SegmentSelector};
pub use x86_64::structures::tss::TaskStateSegment;

/// Selectors. `sysretq` fixes the order: user data directly before user code.
pub const KERNEL_CODE: u16 = 0x08;
pub const KERNEL_DATA: u16 = 0x10;
pub const USER_DATA: u16 = 0x18 | 3;
pub const USER_CODE: u16 = 0x20 | 3;
const TASK: u16 = 0x28;

/// Stacks of the interrupt stack table: indices as the interrupt table counts them, from 1.
pub const DOUBLE_FAULT_STACK: u8 = 1;
pub const NMI_STACK: u8 = 2;
pub const MACHINE_CHECK_STACK: u8 = 3;

/// A processor's segments.
pub type Segments = GlobalDescriptorTable<8>;

/// Fills the segments of a processor. `stack_top` is where entries from user mode start, and `stacks` are the tops of those for
/// double faults, NMIs and machine checks.
pub fn prepare(
    table: &'static mut Segments,
    task: &'static mut TaskStateSegment,
    stack_top: u64,
    stacks: [u64; 3],
) -> &'static Segments {
    // The structure is packed, so its arrays are replaced whole.
    task.privilege_stack_table = [VirtAddr::new(stack_top), VirtAddr::zero(), VirtAddr::zero()];
    let mut slots = [VirtAddr::zero(); 7];
    for (slot, stack) in slots.iter_mut().zip(stacks) {
        *slot = VirtAddr::new(stack);
    }
    task.interrupt_stack_table = slots;
    table.append(Descriptor::kernel_code_segment());
    table.append(Descriptor::kernel_data_segment());
    table.append(Descriptor::user_data_segment());
    table.append(Descriptor::user_code_segment());
    table.append(Descriptor::tss_segment(task));
    table
}

/// Sets up this processor's segments.
pub fn load(table: &'static Segments) {
    table.load();
    // SAFETY: the selectors name the descriptors appended above in that order; null selectors are
    // right for data segments in long mode. The GS base is set afterwards, by `percpu`.
    unsafe {
        CS::set_reg(SegmentSelector(KERNEL_CODE));
        SS::set_reg(SegmentSelector(KERNEL_DATA));
        DS::set_reg(SegmentSelector(0));
        ES::set_reg(SegmentSelector(0));
        FS::set_reg(SegmentSelector(0));
        GS::set_reg(SegmentSelector(0));
        load_tss(SegmentSelector(TASK));
        // No local table: what the boot loader left there would lie at user addresses.
        core::arch::asm!("lldt {0:x}", in(reg) 0_u16, options(nostack, preserves_flags));
    }
}
