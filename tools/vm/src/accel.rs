//! Which accelerator QEMU is to use: KVM if it really runs 64-bit guests at speed, TCG otherwise.
//!
//! That `/dev/kvm` can be opened says little: under some hosts KVM emulates most of a booting guest's work, and a boot
//! loader never finishes. So a guest of one sector is run. It counts to twenty million before paging is on, counts
//! again in 64-bit mode, waits for a timer interrupt there, and leaves through the debug-exit device. A processor does
//! that in a tenth of a second; the probe allows two.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use capos_host::tool;

/// QEMU's accelerators for guests of this kind: everywhere, on Linux, on macOS, on Windows, on NetBSD.
const NAMES: [&str; 5] = ["tcg", "kvm", "hvf", "whpx", "nvmm"];

/// The name of an accelerator, or nothing, if the probe is to choose.
///
/// # Errors
/// QEMU has none of that name; says which there are. Printed when options are read, before anything is built.
pub fn name(text: &str) -> Result<String, String> {
    match text.is_empty() || NAMES.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(format!("the accelerators are {}", NAMES.join(", "))),
    }
}

/// The accelerator to use: that of `ACCEL`, or the probe's result.
///
/// # Errors
/// `ACCEL=kvm`, and `/dev/kvm` cannot be opened.
pub fn choose(wish: Option<&str>) -> Result<String> {
    match wish {
        Some("kvm") => {
            open(KVM)?;
            if !kvm_works().unwrap_or(true) {
                eprintln!(
                    "warning: ACCEL=kvm: {KVM} does not run a small guest within {SECONDS} s, so a machine may stand still; \
                     ACCEL=tcg emulates the processor instead"
                );
            }
            Ok("kvm".into())
        }
        Some(name) if !name.is_empty() => Ok(name.to_owned()),
        _ if kvm_works()? => Ok("kvm".into()),
        _ => Ok("tcg".into()),
    }
}

const KVM: &str = "/dev/kvm";
/// Seconds that the probe may take.
const SECONDS: &str = "2";

fn open(device: &str) -> Result<std::fs::File> {
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(device);
    opened.with_context(|| format!("ACCEL=kvm: {device} cannot be opened; ACCEL=tcg emulates the processor instead"))
}

fn kvm_works() -> Result<bool> {
    if open(KVM).is_err() {
        return Ok(false);
    }
    let disk = std::env::temp_dir().join(format!("capos-probe-{}.img", std::process::id()));
    std::fs::write(&disk, boot_disk())?;
    let result = passes("kvm", &disk);
    std::fs::remove_file(&disk)?;
    result
}

/// Runs the probe's guest from the disk image at `disk`.
fn passes(accelerator: &str, disk: &Path) -> Result<bool> {
    // `out 0x2a` to the debug-exit device.
    const EXIT_CODE: i32 = 0x2a << 1 | 1;
    let qemu = tool::find(&["qemu-system-x86_64"], "qemu-system-x86")?;
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", SECONDS]).arg(qemu);
    command.args(["-machine", &format!("pc,accel={accelerator}"), "-cpu", "max", "-m", "16M", "-nodefaults"]);
    command.args(["-display", "none", "-no-reboot", "-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
    command.arg("-drive").arg(format!("format=raw,file={}", disk.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.status()?.code() == Some(EXIT_CODE))
}

fn boot_disk() -> Vec<u8> {
    let mut disk = GUEST.to_vec();
    disk.resize(510, 0);
    disk.extend([0x55, 0xaa]);
    disk.resize(64 << 10, 0);
    disk
}

/// The guest, loaded at 0x7c00 in real mode.
#[rustfmt::skip]
const GUEST: [u8; 312] = [
    // .code16
    // start:
    0xfa, // cli
    0x31, 0xc0, // xor %ax, %ax
    0x8e, 0xd8, // mov %ax, %ds
    0x66, 0x0f, 0x01, 0x16, 0x28, 0x7d, // lgdtl gdtr
    0x0f, 0x20, 0xc0, // mov %cr0, %eax
    0x0c, 0x01, // or $1, %al
    0x0f, 0x22, 0xc0, // mov %eax, %cr0
    0x66, 0xea, 0x1b, 0x7c, 0x00, 0x00, 0x08, 0x00, // ljmpl $0x08, $prot
    // .code32
    // prot:
    0x66, 0xb8, 0x18, 0x00, // mov $0x18, %ax
    0x8e, 0xd8, // mov %ax, %ds
    0x8e, 0xc0, // mov %ax, %es
    0x8e, 0xd0, // mov %ax, %ss
    0xbc, 0x00, 0x7c, 0x00, 0x00, // mov $0x7c00, %esp
    0xbf, 0x00, 0x10, 0x00, 0x00, // mov $0x1000, %edi
    0x31, 0xc0, // xor %eax, %eax
    0xb9, 0x00, 0x10, 0x00, 0x00, // mov $0x1000, %ecx
    0xfc, // cld
    0xf3, 0xab, // rep stosl
    0xb9, 0x00, 0x2d, 0x31, 0x01, // mov $20000000, %ecx
    0x49, // 9: dec %ecx
    0x75, 0xfd, // jnz 9b
    0xc7, 0x05, 0x00, 0x10, 0x00, 0x00, 0x03, 0x20, 0x00, 0x00, // movl $0x2003, 0x1000
    0xc7, 0x05, 0x00, 0x20, 0x00, 0x00, 0x03, 0x30, 0x00, 0x00, // movl $0x3003, 0x2000
    0xc7, 0x05, 0x00, 0x30, 0x00, 0x00, 0x83, 0x00, 0x00, 0x00, // movl $0x83, 0x3000
    0xc7, 0x05, 0x00, 0x42, 0x00, 0x00, 0xf0, 0x7c, 0x08, 0x00, // movl $(tick + 0x80000), 0x4200
    0xc7, 0x05, 0x04, 0x42, 0x00, 0x00, 0x00, 0x8e, 0x00, 0x00, // movl $0x8e00, 0x4204
    0x66, 0xc7, 0x05, 0x00, 0x42, 0x00, 0x00, 0xf0, 0x7c, // movw $tick, 0x4200   (vector 0x20 of the table at 0x4000)
    0x66, 0xc7, 0x05, 0x02, 0x42, 0x00, 0x00, 0x10, 0x00, // movw $0x10, 0x4202
    0xb8, 0x00, 0x10, 0x00, 0x00, // mov $0x1000, %eax
    0x0f, 0x22, 0xd8, // mov %eax, %cr3
    0xb8, 0x20, 0x00, 0x00, 0x00, // mov $0x20, %eax
    0x0f, 0x22, 0xe0, // mov %eax, %cr4
    0xb9, 0x80, 0x00, 0x00, 0xc0, // mov $0xc0000080, %ecx
    0x0f, 0x32, // rdmsr
    0x80, 0xcc, 0x01, // or $1, %ah
    0x0f, 0x30, // wrmsr
    0x0f, 0x20, 0xc0, // mov %cr0, %eax
    0x0d, 0x00, 0x00, 0x00, 0x80, // or $0x80000000, %eax
    0x0f, 0x22, 0xc0, // mov %eax, %cr0
    0xea, 0xb3, 0x7c, 0x00, 0x00, 0x10, 0x00, // ljmpl $0x10, $long
    // .code64
    // long:
    0x0f, 0x01, 0x1c, 0x25, 0x2e, 0x7d, 0x00, 0x00, // lidt idtr
    0xb0, 0x11, // mov $0x11, %al
    0xe6, 0x20, // out %al, $0x20
    0xb0, 0x20, // mov $0x20, %al
    0xe6, 0x21, // out %al, $0x21
    0xb0, 0x04, // mov $0x04, %al
    0xe6, 0x21, // out %al, $0x21
    0xb0, 0x01, // mov $0x01, %al
    0xe6, 0x21, // out %al, $0x21
    0xb0, 0xfe, // mov $0xfe, %al
    0xe6, 0x21, // out %al, $0x21
    0xb0, 0x34, // mov $0x34, %al
    0xe6, 0x43, // out %al, $0x43
    0x30, 0xc0, // xor %al, %al
    0xe6, 0x40, // out %al, $0x40
    0xe6, 0x40, // out %al, $0x40
    0x48, 0xbb, 0xef, 0xcd, 0xab, 0x90, 0x78, 0x56, 0x34, 0x12, // mov $0x1234567890abcdef, %rbx
    0xb9, 0x00, 0x2d, 0x31, 0x01, // mov $20000000, %ecx
    0xff, 0xc9, // 9: dec %ecx
    0x75, 0xfc, // jnz 9b
    0xfb, // sti
    0xf4, // 1: hlt
    0xeb, 0xfd, // jmp 1b
    // tick:
    0x48, 0xc1, 0xeb, 0x20, // shr $32, %rbx
    0x81, 0xfb, 0x78, 0x56, 0x34, 0x12, // cmp $0x12345678, %ebx
    0xb0, 0x2a, // mov $0x2a, %al
    0x74, 0x02, // je 2f
    0xb0, 0x00, // mov $0, %al
    0xe6, 0xf4, // 2: out %al, $0xf4
    0xf4, // hlt
    0x0f, 0x1f, 0x44, 0x00, 0x00, // .balign 8
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // gdt: .quad 0
    0xff, 0xff, 0x00, 0x00, 0x00, 0x9b, 0xcf, 0x00, // .quad 0x00cf9b000000ffff
    0x00, 0x00, 0x00, 0x00, 0x00, 0x9b, 0x20, 0x00, // .quad 0x00209b0000000000
    0xff, 0xff, 0x00, 0x00, 0x00, 0x93, 0xcf, 0x00, // .quad 0x00cf93000000ffff
    0x1f, 0x00, // gdtr: .word 31
    0x08, 0x7d, 0x00, 0x00, // .long gdt
    0xff, 0x0f, // idtr: .word 0xfff
    0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // .quad 0x4000
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_runs_to_its_end_where_the_accelerator_works() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        std::fs::write(&disk, boot_disk()).unwrap();
        assert!(passes("tcg", &disk).unwrap());
        // Without its last step the guest never says that it is done.
        let mut broken = boot_disk();
        let out = GUEST.windows(2).rposition(|pair| pair == [0xe6, 0xf4]).unwrap();
        broken[out] = 0x90;
        std::fs::write(&disk, broken).unwrap();
        assert!(!passes("tcg", &disk).unwrap());
    }

    #[test]
    fn a_host_without_kvm_is_told_what_to_do() {
        let error = format!("{:#}", open("/dev/capos-none").unwrap_err());
        assert!(error.contains("/dev/capos-none cannot be opened; ACCEL=tcg emulates"), "{error}");
    }

    #[test]
    fn only_accelerators_are_taken() {
        for known in ["", "tcg", "kvm", "hvf"] {
            assert_eq!(name(known).unwrap(), known);
        }
        assert_eq!(name("foo").unwrap_err(), "the accelerators are tcg, kvm, hvf, whpx, nvmm");
    }

    /// A wrong `make run ACCEL=foo` is reported before anything is installed or built.
    #[test]
    fn make_knows_the_same_names() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let run = |accel: &str| {
            let mut make = Command::new("make");
            make.args(["--dry-run", "run", &format!("ACCEL={accel}")]).current_dir(&root).env_remove("MAKEFLAGS");
            make.output().unwrap()
        };
        for known in NAMES {
            assert!(run(known).status.success(), "{known}");
        }
        let refused = run("foo");
        let why = String::from_utf8(refused.stderr).unwrap();
        assert!(
            !refused.status.success()
                && why.contains(&format!("ACCEL=foo is not an accelerator; use one of: {}", NAMES.join(" "))),
            "{why}"
        );
    }

    #[test]
    fn a_wish_is_taken_as_it_is() {
        assert_eq!(choose(Some("hvf")).unwrap(), "hvf");
    }
}
