//! The GRUB side of an image: one BIOS and one UEFI program made with `grub-mkimage`, and the configuration they read.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::fat;
use capos_host::tool;

/// Modules for both firmwares: reading the image, the configuration, and Multiboot2.
const COMMON: [&str; 16] = [
    "iso9660",
    "part_msdos",
    "part_gpt",
    "search",
    "search_fs_file",
    "normal",
    "configfile",
    "multiboot2",
    "boot",
    "echo",
    "read",
    "halt",
    "test",
    "all_video",
    "serial",
    "terminal",
];

/// The boot files of GRUB, and its configuration, in the image's folder `boot`.
const STARTED: [&str; 4] = ["loader", "kernel", "boot.tar", "grub/grub.cfg"];

/// Bytes of the digest in the name of the file that an image is known by.
const MARK_BYTES: usize = 16;

/// Where the boot programs are on the image.
const BIOS_IMAGE: &str = "boot/grub/bios.img";
const UEFI_IMAGE: &str = "boot/grub/uefi.img";

/// Writes the boot programs and the configuration below `root`, the top folder of the image, and gives the options
/// that make xorriso boot them. The boot programs start this image's files only: they look for a file whose name is the
/// digest of the files that they start. (A disc's date is the same for one made in the same second.)
pub fn prepare(root: &Path, command_line: &str) -> Result<Vec<OsString>> {
    let library = library()?;
    let folder = root.join("boot/grub");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("grub.cfg"), configuration(command_line)?)?;
    let mark = format!("{}.id", digest(&root.join("boot"))?);
    std::fs::write(folder.join(&mark), b"")?;
    let early = folder.join("early.cfg");
    let search = format!("search --no-floppy --set=root --file /boot/grub/{mark}\nset prefix=($root)/boot/grub\n");
    std::fs::write(&early, search)?;

    let core = make(&library, "i386-pc", &early, &folder, &["biosdisk", "vbe", "vga"])?;
    let mut bios = std::fs::read(library.join("i386-pc/cdboot.img")).context("reading GRUB's cdboot.img")?;
    bios.extend(core);
    std::fs::write(root.join(BIOS_IMAGE), bios)?;
    let uefi = make(&library, "x86_64-efi", &early, &folder, &["efi_gop"])?;
    std::fs::write(root.join(UEFI_IMAGE), fat::efi_image(&uefi)?)?;
    std::fs::remove_file(&early)?;

    let mut options = [
        "-b",
        BIOS_IMAGE,
        "-no-emul-boot",
        "-boot-load-size",
        "4",
        "-boot-info-table",
        "--grub2-boot-info",
        "--efi-boot",
        UEFI_IMAGE,
        "-efi-boot-part",
        "--efi-boot-image",
        "--protective-msdos-label",
        "--grub2-mbr",
    ]
    .map(OsString::from)
    .to_vec();
    options.push(library.join("i386-pc/boot_hybrid.img").into());
    Ok(options)
}

/// Identifies an image: the digest of all that GRUB reads from its folder `boot`, in hexadecimal digits.
fn digest(boot: &Path) -> Result<String> {
    let mut hasher = Sha256::new();
    for name in STARTED {
        let path = boot.join(name);
        let content = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        hasher.update((content.len() as u64).to_le_bytes());
        hasher.update(content);
    }
    let digest = hasher.finalize();
    Ok(digest.iter().take(MARK_BYTES).map(|byte| format!("{byte:02x}")).collect())
}

/// The folder of GRUB's modules, complete for both firmwares.
fn library() -> Result<PathBuf> {
    let folders = ["/usr/lib/grub", "/usr/lib/grub2", "/usr/share/grub"].map(PathBuf::from);
    let complete = |folder: &&PathBuf| {
        folder.join("i386-pc/cdboot.img").exists() && folder.join("x86_64-efi/multiboot2.mod").exists()
    };
    folders.iter().find(complete).cloned().context(
        "GRUB's files for BIOS and UEFI are not installed; on Debian: apt-get install grub-pc-bin grub-efi-amd64-bin",
    )
}

fn make(library: &Path, format: &str, early: &Path, scratch: &Path, modules: &[&str]) -> Result<Vec<u8>> {
    let out = scratch.join("core.tmp");
    let program = tool::find(&["grub-mkimage", "grub2-mkimage"], "grub-common")?;
    let mut command = Command::new(program);
    command.arg("-d").arg(library.join(format)).args(["-O", format, "-p", "/boot/grub", "-c"]);
    command.arg(early).arg("-o").arg(&out).args(COMMON).args(modules);
    tool::run(&mut command)?;
    let made = std::fs::read(&out)?;
    std::fs::remove_file(&out)?;
    Ok(made)
}

/// The configuration: starts at once, keeps the serial terminal for the system. If a file cannot be loaded, the entry
/// reports that on the serial terminal and the screen, since nothing else would. It then never returns, because GRUB
/// would start what it has loaded.
fn configuration(command_line: &str) -> Result<String> {
    if command_line.contains(['\n', '\r', '\'']) {
        bail!("the kernel's command line may not hold line ends or single quotes: `{}`", command_line.escape_debug());
    }
    // Quoted whole, so that GRUB takes no character of it for its own; its parser then hands over the words.
    let words: Vec<String> = command_line.split_whitespace().map(|word| format!("'{word}'")).collect();
    Ok(format!(
        "set timeout=0\n\
         set default=0\n\
         function cannot_load {{\n\
         \tserial --unit=0 --speed=115200\n\
         \tterminal_input --append serial\n\
         \tterminal_output --append serial\n\
         \techo \"capOS cannot run here: GRUB cannot load $1 from the boot medium.\"\n\
         \techo 'Write the image to its medium again. To switch the machine off: Enter.'\n\
         \tread key\n\
         \thalt\n\
         }}\n\
         menuentry 'capOS' {{\n\
         \tif ! multiboot2 /boot/loader {}; then\n\
         \t\tcannot_load /boot/loader\n\
         \telif ! module2 /boot/kernel kernel; then\n\
         \t\tcannot_load /boot/kernel\n\
         \telif ! module2 /boot/boot.tar boot.tar; then\n\
         \t\tcannot_load /boot/boot.tar\n\
         \tfi\n\
         }}\n",
        words.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_quoted_word_by_word() {
        let text = configuration("log=debug  run=$x;reboot").unwrap();
        assert!(text.contains("multiboot2 /boot/loader 'log=debug' 'run=$x;reboot'; then\n"), "{text}");
        assert!(configuration("a\nreboot").is_err());
        assert!(configuration("a' b").is_err());
    }
}
