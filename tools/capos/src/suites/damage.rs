//! Boot media, each damaged in one way, and the expected report.

use std::path::Path;

use anyhow::{Context, Result};
use capos_schema::manifest::{Grant, GrantSource, Manifest, Service};
use regex_lite::Regex;

use crate::build::system::Parts;
use crate::scenario::{self, Report, Scenario, Settings};
use crate::suites::damage_disc::Disc;
use capos_image::Recipe;
use capos_image::ustar::{self, Writer};
use capos_vm::expect::Pattern;
use capos_vm::qemu::Medium;
use capos_vm::script::{Line, Step};

/// A damaged medium.
pub struct Case {
    /// Its name as a test.
    pub name: &'static str,
    /// The change.
    damage: Damage,
    /// A regular expression that the report must match.
    says: &'static str,
}

/// The files of a boot package.
type Items = Vec<(String, Vec<u8>)>;

/// The damaged part.
enum Damage {
    /// Files of the boot package, before it is packed.
    Items(fn(&mut Items) -> Result<()>),
    /// The manifest, which is encoded after the change.
    Manifest(fn(&mut Manifest) -> Result<()>),
    /// The boot package's bytes.
    Package(fn(&mut Vec<u8>) -> Result<()>),
    /// The image.
    Disc(fn(&mut Disc) -> Result<()>),
    /// The image, so that the boot loader does not get to the system. It then waits for a person.
    Loading(fn(&mut Disc) -> Result<()>),
    /// The image of the whole system, which runs as far as it can.
    System(fn(&mut Disc) -> Result<()>),
    /// A byte of the whole system's disc in an optical drive, in whose sector every read fails.
    Unreadable(fn(&Disc) -> Result<usize>),
    /// A virtio disk next to the disc in an optical drive that was booted. It has another boot package, and no
    /// programs.
    Beside,
}

/// Bytes of an ELF file's header and of a program header, and the places of fields in them.
mod elf {
    pub const ENTRY: usize = 24;
    pub const HEADERS: usize = 64;
    pub const HEADER: usize = 56;
    pub const COUNT: usize = 56;
    pub const FLAGS: usize = 4;
    pub const OFFSET: usize = 8;
    pub const ADDRESS: usize = 16;
}

/// Every case.
pub const CASES: &[Case] = &[
    Case {
        name: "no-kernel",
        damage: Damage::Loading(|disc| {
            let area = disc.system_use(&["BOOT", "KERNEL.;1"])?;
            disc.replace_from(area, b"kernel", b"kennel")
        }),
        says: r"GRUB cannot load /boot/kernel from the boot medium\.\s+Write the image to its medium again",
    },
    Case {
        name: "no-package",
        damage: Damage::Disc(|disc| {
            disc.replace(b"module2 /boot/boot.tar boot.tar", b"module2 /boot/boot.tar leek.tar")
        }),
        says: r"the boot loader brought no boot\.tar",
    },
    Case {
        name: "empty-package",
        damage: Damage::Package(|package| {
            package.clear();
            Ok(())
        }),
        says: r"boot\.tar is damaged: it is empty",
    },
    Case {
        name: "package-cut-in-a-header",
        damage: Damage::Package(|package| {
            let header = header_of(package, "manifest")?;
            package.truncate(header + 100);
            Ok(())
        }),
        says: r"boot\.tar is damaged: it is cut short: it ends within the header at byte \d+",
    },
    Case {
        name: "package-cut-in-a-file",
        damage: Damage::Package(|package| {
            let header = header_of(package, "init")?;
            package.truncate(header + ustar::BLOCK + 1000);
            Ok(())
        }),
        says: r"it is cut short: of the \d+ bytes of `init` only 1000 are there",
    },
    Case {
        name: "changed-header",
        damage: Damage::Package(|package| {
            let header = header_of(package, "iso9660")?;
            put(package, header, b"x")
        }),
        says: r"the header at byte \d+ does not have the checksum that it says",
    },
    Case {
        name: "negative-size",
        damage: Damage::Package(|package| {
            let header = header_of(package, "virtio-blk")?;
            // The sum of the digits stays the same, so that the checksum stays valid.
            let size: Vec<u8> = package.get(header + 124..header + 135).context("the header is cut")?.to_vec();
            let sum: u32 = size.iter().map(|digit| u32::from(*digit)).sum();
            let mut changed = *b"-0000000000";
            let mut left = sum - changed.iter().map(|digit| u32::from(*digit)).sum::<u32>();
            for digit in changed.iter_mut().skip(1) {
                let more = left.min(7);
                *digit += u8::try_from(more)?;
                left -= more;
            }
            put(package, header + 124, &changed)
        }),
        says: r"the header at byte \d+ has a file size that is no octal number",
    },
    Case {
        name: "no-init",
        damage: Damage::Items(|items| {
            items.retain(|(name, _)| name != "init");
            Ok(())
        }),
        says: r"boot\.tar holds no `init`",
    },
    Case {
        name: "init-is-no-program",
        damage: Damage::Items(|items| {
            *init(items)? = b"#!/bin/sh\n".to_vec();
            Ok(())
        }),
        says: r"`init` in boot\.tar cannot be loaded: the file is not an ELF file",
    },
    Case {
        name: "init-is-cut-short",
        damage: Damage::Items(|items| {
            init(items)?.truncate(5000);
            Ok(())
        }),
        says: r"cannot be loaded: segment \d+ is outside the file",
    },
    Case {
        name: "init-in-the-kernels-half",
        damage: Damage::Items(|items| {
            let (init, header) = text_segment(items)?;
            put(init, header + elf::ADDRESS, &0xffff_8000_0000_0000_u64.to_le_bytes())?;
            put(init, header + elf::OFFSET, &0_u64.to_le_bytes())
        }),
        says: r"cannot be loaded: segment \d+ is outside user memory",
    },
    Case {
        name: "init-with-writable-code",
        damage: Damage::Items(|items| {
            let (init, header) = text_segment(items)?;
            put(init, header + elf::FLAGS, &7_u32.to_le_bytes())
        }),
        says: r"cannot be loaded: segment \d+ is writable and executable at once",
    },
    Case {
        name: "init-dies",
        damage: Damage::Items(|items| {
            let (init, header) = text_segment(items)?;
            let entry = number(init, elf::ENTRY)?;
            let from = number(init, header + elf::OFFSET)?;
            let place = entry - number(init, header + elf::ADDRESS)? + from;
            // UD2, which no processor executes.
            put(init, usize::try_from(place)?, &[0x0f, 0x0b])
        }),
        says: r"capOS stops here: the first process has died, and nothing runs without it: \S",
    },
    Case {
        name: "no-manifest",
        damage: Damage::Items(|items| {
            items.retain(|(name, _)| name != "manifest");
            Ok(())
        }),
        says: r"the boot package has no `manifest`; it has init, virtio-blk, ahci, iso9660; write the image to its medium again",
    },
    Case {
        name: "manifest-is-cut-short",
        damage: Damage::Items(|items| {
            let manifest = item(items, "manifest")?;
            manifest.truncate(manifest.len() / 2);
            Ok(())
        }),
        says: r"the manifest in the boot package is damaged: malformed message at .*; write the image to its medium again",
    },
    Case {
        name: "manifest-is-changed",
        damage: Damage::Items(|items| {
            let manifest = item(items, "manifest")?;
            manifest.iter_mut().skip(8).take(64).for_each(|byte| *byte = !*byte);
            Ok(())
        }),
        says: r"the manifest in the boot package is damaged: malformed message at .*; write the image to its medium again",
    },
    Case {
        name: "program-not-in-the-package",
        damage: Damage::Manifest(|manifest| {
            service(manifest, "iso9660")?.program = "boot:udf".into();
            Ok(())
        }),
        says: r"the program of service `iso9660` is `udf`, and the boot package has only init, virtio-blk",
    },
    Case {
        name: "services-in-a-circle",
        damage: Damage::Manifest(|manifest| {
            let files = service(manifest, "iso9660")?;
            let grant = files.grants.first().cloned().context("`iso9660` has no grant")?;
            let mut back = Grant { name: "back".into(), ..grant };
            back.interface = files.provides.first().context("`iso9660` provides nothing")?.interface;
            files.clients.push("virtio-blk".into());
            if let GrantSource::Service(source) = &mut back.source {
                source.service = files.name.clone();
                source.client = u16::try_from(files.clients.len())?;
            }
            service(manifest, "virtio-blk")?.grants.push(back);
            Ok(())
        }),
        says: r"in a cycle and could wait forever: virtio-blk -> iso9660 -> virtio-blk",
    },
    Case {
        name: "two-services-of-one-name",
        damage: Damage::Manifest(|manifest| {
            manifest.services.last_mut().context("there are no services")?.name = "shell".into();
            Ok(())
        }),
        says: r"two services or programs are called `shell`",
    },
    Case {
        name: "grant-of-nobody",
        damage: Damage::Manifest(|manifest| {
            let service = service(manifest, "iso9660")?;
            match service.grants.first_mut().map(|grant| &mut grant.source) {
                Some(GrantSource::Service(source)) => source.service = "floppy".into(),
                _ => anyhow::bail!("the first grant of `iso9660` is of no service"),
            }
            Ok(())
        }),
        says: r"grant `device` of `iso9660` is from `floppy`, and there is no service `floppy`",
    },
    Case {
        name: "disc-descriptor",
        // The byte order that the boot loader does not read.
        damage: Damage::Disc(|disc| disc.change(Disc::DESCRIPTOR + 84, 0x7f)),
        says: r"the volume descriptor at sector 16, byte 0: 'volume space size' is \d+ in one byte order and \d+ in the other",
    },
    Case {
        name: "disc-root",
        damage: Damage::Disc(|disc| disc.change(Disc::ROOT_RECORD + 6, 0x7f)),
        says: r"the root directory's record at sector 16, byte 156: 'location of extent' is \d+ in one byte order",
    },
    Case {
        name: "disc-cut-short",
        damage: Damage::Disc(|disc| disc.cut(64 << 10)),
        says: r"on a device that has fewer \(the image may be cut off\)",
    },
    Case {
        name: "file-past-the-end",
        damage: Damage::Disc(|disc| {
            let record = disc.record(&["BIN", "CONFIG.TOML;1"])?;
            disc.put(record + 2, &0x7fff_ffff_u32.to_le_bytes())?;
            disc.put(record + 6, &0x7fff_ffff_u32.to_be_bytes())
        }),
        says: r"cannot be read: service `iso9660` cannot list the programs in /bin: .* sectors from 2147483647 on",
    },
    Case {
        name: "rock-ridge-cut-short",
        damage: Damage::Disc(|disc| {
            let area = disc.system_use(&["BIN", "CONFIG.TOML;1"])?;
            disc.change(area + 2, 200)
        }),
        says: r"cannot list the programs in /bin: .* an entry's length is below 4 or past the area's end",
    },
    Case {
        name: "no-programs",
        damage: Damage::Disc(|disc| {
            let area = disc.system_use(&["BIN"])?;
            disc.replace_from(area, b"bin", b"bim")
        }),
        says: r"cannot list the programs in /bin: .*there is no 'bin' on the volume",
    },
    Case {
        name: "unreadable-sector",
        damage: Damage::Unreadable(|disc| disc.content(&["BIN", "TERMINAL.;1"])),
        says: r"service `terminal` has failed: .*block \d+ of `QEMU DVD-ROM` at port 2 cannot be read: .*\(sense 5/21/00\)",
    },
    Case {
        name: "another-disk-beside",
        damage: Damage::Beside,
        says: r"service `log` has failed: .*there is no 'bin/log' on the volume",
    },
    Case {
        name: "terminal-is-no-program",
        damage: Damage::System(|disc| {
            let content = disc.content(&["BIN", "TERMINAL.;1"])?;
            disc.put(content, b"#!/bin/sh\n")
        }),
        says: r"service `terminal` has failed: .*the file is not an ELF file.* is not tried again",
    },
];

fn put(bytes: &mut [u8], at: usize, new: &[u8]) -> Result<()> {
    let place = bytes.get_mut(at..).and_then(|rest| rest.get_mut(..new.len()));
    place.context("the part to change is missing")?.copy_from_slice(new);
    Ok(())
}

fn number(bytes: &[u8], at: usize) -> Result<u64> {
    let found = bytes.get(at..).and_then(<[u8]>::first_chunk).copied();
    Ok(u64::from_le_bytes(found.context("a number is not there")?))
}

/// Where the header of a file begins in an archive.
fn header_of(package: &[u8], name: &str) -> Result<usize> {
    let headers = package.chunks_exact(ustar::BLOCK);
    let starts = |block: &[u8]| {
        block.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
            && block.get(257..262) == Some(b"ustar")
    };
    let found = headers.into_iter().position(starts).with_context(|| format!("the package has no `{name}`"))?;
    Ok(found * ustar::BLOCK)
}

fn item<'i>(items: &'i mut Items, wanted: &str) -> Result<&'i mut Vec<u8>> {
    let found = items.iter_mut().find(|(name, _)| name == wanted).map(|(_, content)| content);
    found.with_context(|| format!("the package has no `{wanted}`"))
}

fn service<'m>(manifest: &'m mut Manifest, wanted: &str) -> Result<&'m mut Service> {
    let found = manifest.services.iter_mut().find(|service| service.name == wanted);
    found.with_context(|| format!("there is no service `{wanted}`"))
}

fn init(items: &mut Items) -> Result<&mut Vec<u8>> {
    item(items, "init")
}

/// `init`, and the place of the header of its first segment that is executable.
fn text_segment(items: &mut Items) -> Result<(&mut Vec<u8>, usize)> {
    const LOAD: [u8; 4] = [1, 0, 0, 0];
    const EXECUTE: u8 = 1;
    let init = init(items)?;
    let count = init.get(elf::COUNT).copied().map_or(0, usize::from);
    let is_text = |at: &usize| {
        let header = init.get(*at..).unwrap_or(&[]);
        header.starts_with(&LOAD) && header.get(elf::FLAGS).is_some_and(|flags| flags & EXECUTE != 0)
    };
    let found = (0..count).map(|index| elf::HEADERS + index * elf::HEADER).find(is_text);
    Ok((init, found.context("`init` has no executable segment")?))
}

impl Case {
    /// Its scenario: the expected report ends it if the machine does not end by itself.
    fn scenario(&self, scenario: &Scenario) -> Result<Scenario> {
        let mut scenario = scenario.clone();
        if matches!(self.damage, Damage::Loading(_) | Damage::System(_) | Damage::Unreadable(_) | Damage::Beside) {
            let steps = [Step::Expect(Pattern::Regex(Regex::new(self.says)?)), Step::Quit];
            if let Damage::System(_) | Damage::Unreadable(_) = self.damage {
                // As long as every other start of the whole system may take.
                scenario.settings.limit_seconds = Settings::default().limit_seconds;
            }
            scenario.script = (1..).zip(steps).map(|(number, step)| Line { number, step }).collect();
        }
        Ok(scenario)
    }

    /// Writes the damaged medium. Its folder of programs holds the scenario's files only if no case gets so far as to
    /// start one.
    fn image(&self, parts: &Parts, scenario: &Scenario, out: &Path) -> Result<()> {
        let mut items = parts.boot_items()?;
        match self.damage {
            Damage::Items(change) => change(&mut items)?,
            Damage::Manifest(change) => {
                let mut manifest = crate::manifest::read(&[parts.manifest()])?;
                change(&mut manifest)?;
                *item(&mut items, "manifest")? = capos_manifest::encode(&manifest)?;
            }
            Damage::Package(_)
            | Damage::Disc(_)
            | Damage::Loading(_)
            | Damage::System(_)
            | Damage::Unreadable(_)
            | Damage::Beside => {}
        }
        let mut writer = Writer::new(Vec::new());
        for (name, content) in &items {
            writer.file(name, content)?;
        }
        let mut package = writer.finish()?;
        if let Damage::Package(change) = self.damage {
            change(&mut package)?;
        }
        let boot_package = out.with_extension("boot.tar");
        std::fs::write(&boot_package, package)?;
        let trees = match self.damage {
            Damage::System(_) | Damage::Unreadable(_) => [(String::new(), parts.stage().to_owned())],
            _ => [("bin".to_owned(), scenario.folder.clone())],
        };
        capos_image::build(&Recipe { boot_package: &boot_package, trees: &trees, out, ..parts.recipe() })?;
        std::fs::remove_file(&boot_package)?;
        if let Damage::Disc(change) | Damage::Loading(change) | Damage::System(change) = self.damage {
            let mut disc = Disc::read(out)?;
            change(&mut disc)?;
            disc.write(out)?;
        }
        Ok(())
    }

    /// Boots the damaged medium and waits for its report, before all that the scenario expects.
    pub fn execute(&self, parts: &Parts, scenario: &Scenario, accelerator: &str, out: &Path) -> Result<Report> {
        std::fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
        let image = out.join("scenario.iso");
        self.image(parts, scenario, &image).with_context(|| format!("damaging a medium: {}", self.name))?;
        let scenario = self.scenario(scenario)?;
        let mut machine = scenario.machine(&image, accelerator);
        match self.damage {
            Damage::Unreadable(find) => {
                machine.medium = Medium::Cdrom;
                machine.unreadable = Some(u64::try_from(find(&Disc::read(&image)?)?)?);
            }
            Damage::Beside => {
                machine.medium = Medium::Cdrom;
                let beside = out.join("beside.iso");
                // The package's last byte is different, and nothing else: not even its date, which is the parts'.
                let package = out.join("beside.tar");
                let mut bytes = std::fs::read(parts.recipe().boot_package)?;
                *bytes.last_mut().context("the package is empty")? ^= 1;
                std::fs::write(&package, bytes)?;
                let recipe = Recipe { boot_package: &package, out: &beside, ..parts.recipe() };
                capos_image::build(&recipe).context("making the second disk")?;
                machine.beside = Some(beside);
            }
            _ => {}
        }
        let report = scenario::run(&scenario, &machine, out);
        std::fs::remove_file(&image)?;
        if let Some(other) = machine.beside {
            std::fs::remove_file(&other)?;
            std::fs::remove_file(other.with_extension("tar"))?;
        }
        let mut report = report?;
        let said = std::fs::read_to_string(out.join("transcript.txt"))?;
        if report.passed && !Regex::new(self.says)?.is_match(&said) {
            report.passed = false;
            report.reason = Some(format!("nothing that was said matches `{}`", self.says));
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_have_names_of_their_own_and_patterns_that_can_be_read() {
        let mut names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CASES.len());
        for case in CASES {
            Regex::new(case.says).unwrap();
        }
    }
}
