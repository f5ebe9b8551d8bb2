//! The stock Limine side of an image: its own binary release, as its USAGE document lays an image out.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use capos_host::tool;

/// Files of a release that go on the image.
const FILES: [&str; 3] = ["limine-bios.sys", "limine-bios-cd.bin", "limine-uefi-cd.bin"];

/// A binary release of Limine, 8.x or newer.
pub struct Release {
    folder: PathBuf,
}

impl Release {
    /// Takes the release in `folder`, refusing it when a file is missing.
    pub fn open(folder: &Path) -> Result<Self> {
        for name in FILES.iter().chain(&["BOOTX64.EFI"]) {
            ensure!(
                folder.join(name).is_file(),
                "{} is no Limine binary release: `{name}` is missing (branch v8.x-binary or newer of its repository)",
                folder.display()
            );
        }
        Ok(Self { folder: folder.to_owned() })
    }

    /// Puts the release and its configuration below `root`, the top folder of the image, and gives the options that
    /// make xorriso boot them.
    pub fn prepare(&self, root: &Path, command_line: &str) -> Result<Vec<OsString>> {
        let folder = root.join("boot/limine");
        std::fs::create_dir_all(&folder)?;
        std::fs::create_dir_all(root.join("EFI/BOOT"))?;
        for name in FILES {
            std::fs::copy(self.folder.join(name), folder.join(name)).with_context(|| format!("copying {name}"))?;
        }
        std::fs::copy(self.folder.join("BOOTX64.EFI"), root.join("EFI/BOOT/BOOTX64.EFI"))?;
        std::fs::write(folder.join("limine.conf"), configuration(command_line)?)?;
        let options = [
            "-b",
            "boot/limine/limine-bios-cd.bin",
            "-no-emul-boot",
            "-boot-load-size",
            "4",
            "-boot-info-table",
            "-hfsplus",
            "-apm-block-size",
            "2048",
            "--efi-boot",
            "boot/limine/limine-uefi-cd.bin",
            "-efi-boot-part",
            "--efi-boot-image",
            "--protective-msdos-label",
        ];
        Ok(options.map(OsString::from).to_vec())
    }

    /// Makes the finished image bootable from a disk under BIOS too. `scratch` is a folder for the tool, which is
    /// compiled if the release does not bring it ready-made.
    pub fn install(&self, image: &Path, scratch: &Path) -> Result<()> {
        let ready = self.folder.join("limine");
        let program = if ready.is_file() {
            ready
        } else if self.folder.join("limine.c").is_file() {
            let built = scratch.join("limine-tool");
            let compiler = tool::find(&["cc", "gcc", "clang"], "gcc")?;
            let mut command = Command::new(compiler);
            command.args(["-O1", "-std=c99", "-o"]).arg(&built).arg(self.folder.join("limine.c"));
            tool::run(&mut command).context("compiling Limine's installer")?;
            built
        } else {
            tool::find(&["limine"], "limine").context("LIMINE_DIR has neither `limine` nor `limine.c`")?
        };
        tool::run(Command::new(program).arg("bios-install").arg(image))
    }
}

/// The configuration. Limine 9 gave two options new names; a release reads the one it knows and passes the other by.
fn configuration(command_line: &str) -> Result<String> {
    ensure!(
        !command_line.contains(['\n', '\r', '$']),
        "the kernel's command line may not hold line ends or `$`: `{}`",
        command_line.escape_debug()
    );
    Ok(format!(
        "timeout: 0\n\
         quiet: yes\n\
         \n\
         /capOS\n\
         \x20   protocol: limine\n\
         \x20   kernel_path: boot():/boot/kernel\n\
         \x20   path: boot():/boot/kernel\n\
         \x20   cmdline: {command_line}\n\
         \x20   module_path: boot():/boot/boot.tar\n\
         \x20   module_cmdline: boot.tar\n\
         \x20   module_string: boot.tar\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_no_release_is_refused_by_the_file_it_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let error = Release::open(folder.path()).err().unwrap().to_string();
        assert!(error.contains("limine-bios.sys"), "{error}");
    }

    #[test]
    fn a_command_line_cannot_add_options() {
        assert!(configuration("a\n    module_path: boot():/x").is_err());
        assert!(configuration("log=debug x").unwrap().contains("    cmdline: log=debug x\n"));
    }
}
