//! Building the whole system: kernel, loader, programs, model, and the image made of them.
//!
//! Every step leaves its result alone when nothing that it depends on has changed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::build::boot_package;
use crate::build::c_library;
use crate::build::packages::{self, Program};
use crate::build::toolchain;
use crate::models::extra::{self, ExtraModel};
use crate::models::gguf;
use crate::models::packed::PackedModels;
use crate::models::prompts::{PromptCaches, Sessions};
use crate::session_tools;
use crate::sign::keygen;
use crate::sign::read_key;
use crate::sign::sign_file;
use capos_host::files;
use capos_image::Recipe;
use capos_image::date::Date;
use capos_image::ustar;

/// Programs of the boot package; every other program is read from the image.
const BOOT_PROGRAMS: [&str; 4] = ["init", "virtio-blk", "ahci", "iso9660"];
/// The scripted model's place on the image, and below `target/models`.
const MODEL: &str = "scripted.gguf";
/// Size of the scripted model in bytes, and the seed of its content.
const MODEL_SIZE: u64 = 64 << 20;
const MODEL_SEED: u64 = 1;
/// The manifest's source in `iso_root`. It is encoded into the boot package, not copied to the image.
const MANIFEST: &str = "etc/manifest.toml";
/// What a session tells its model first.
const SESSION_MESSAGE: &str = "userspace/lib/runner/src/system-message.txt";
/// The models in `iso_root`. They go on an image signed, and only if they are asked for: sessions begin with the first
/// model of an image.
const MODELS: &str = "boot/models/";
/// The packages that have the feature `next`, with newer formats, and their programs.
const NEXT: [(&str, &str); 2] = [("capos-svc-store", "store"), ("capos-svc-conversations", "conversations")];
/// The purpose of the model's key.
const PURPOSE: &str = "model-weights";

/// The system's source and where its parts are built.
pub struct System {
    root: PathBuf,
}

/// The parts an image is made of, built.
pub struct Parts {
    kernel: PathBuf,
    loader: PathBuf,
    boot_package: PathBuf,
    /// The manifest's source.
    manifest: PathBuf,
    /// Programs without their debugging information.
    stripped: PathBuf,
    /// The files of every image, and those that scenarios have besides.
    stage: PathBuf,
    test_stage: Option<PathBuf>,
    keys: PathBuf,
    /// The date that images carry.
    date: Date,
}

/// The program at an image's console.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Console {
    /// Every command, and requests to the agent.
    #[default]
    Shell,
    /// Requests to the agent, and the commands that belong to them.
    CaposAgent,
}

/// The store's variable that says how long deriving a key may take.
const KEY_TIME: &str = "KEY_MILLISECONDS=";

impl Console {
    /// The service of the manifest whose program it is.
    const SERVICE: &'static str = "shell";

    fn program(self) -> &'static str {
        match self {
            Self::Shell => "/bin/shell",
            Self::CaposAgent => "/bin/capos-agent",
        }
    }
}

/// The options of an image.
#[derive(Debug, Clone, Default)]
pub struct Variant {
    /// A Limine release to boot with, in place of GRUB.
    pub limine: Option<PathBuf>,
    /// A folder whose content is laid over the image's own.
    pub over: Option<PathBuf>,
    /// A scenario's folder, put at `/scenario`.
    pub scenario: Option<PathBuf>,
    /// The kernel's command line.
    pub command_line: String,
    /// Programs that the boot package holds in place of the system's: the first of them is the first process. Such an
    /// image has the test programs' files only.
    pub boot: Vec<String>,
    /// The program at the console.
    pub console: Console,
    /// How long deriving a key may take, in milliseconds; as the manifest says if absent.
    pub key_milliseconds: Option<u32>,
}

impl System {
    /// The workspace that holds the current folder.
    pub fn find() -> Result<Self> {
        let here = std::env::current_dir()?;
        let is_root = |folder: &&Path| folder.join("kernel/kernel/Cargo.toml").is_file();
        let root = here
            .ancestors()
            .find(is_root)
            .context("the current folder is not inside capOS's source folder; change to it first")?;
        Ok(Self { root: root.to_owned() })
    }

    /// The top folder of the source.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Prompt caches for the sessions of each profile, by the system's manifest.
    pub fn prompts(&self) -> Result<PromptCaches> {
        let tools = session_tools::sets(&crate::manifest::read(&[self.root.join(session_tools::MANIFEST)])?)?;
        let message = self.root.join(SESSION_MESSAGE);
        let system = std::fs::read_to_string(&message).with_context(|| format!("reading {}", message.display()))?;
        let sessions = Sessions { system: system.trim_ascii_end().to_owned(), tools };
        Ok(PromptCaches::new(sessions, self.target().join("prompts")))
    }

    /// The folder of everything built.
    pub fn target(&self) -> PathBuf {
        self.root.join("target")
    }

    /// Builds every part. The programs that are there for tests are built with `tests` only.
    pub fn build(&self, tests: bool) -> Result<Parts> {
        crate::setup::check(&self.root.join("iso_root"))?;
        let _alone = files::lock(&self.target())?;
        // Cargo's own lines do not say how much is still to come.
        let is_first = !self.target().join("stripped").exists();
        let stage = |number: u8, what: &str| {
            if is_first {
                println!("Building {what} ({number} of 4).");
            }
        };
        let programs = packages::programs(&self.root)?;
        let (test_programs, programs): (Vec<Program>, Vec<Program>) = programs.into_iter().partition(|p| p.test);
        let manifest = self.root.join("iso_root").join(MANIFEST);
        every_program_is_built(&manifest, &programs)?;
        let wanted = || programs.iter().chain(test_programs.iter().filter(|_| tests));
        let names = |std: bool| packages_of(wanted(), std);
        let kernel = || {
            stage(2, "the kernel");
            toolchain::build_bare(&self.root, &["capos-kernel", "capos-loader"])
        };
        let user = || {
            stage(3, "the services");
            toolchain::build_programs(&self.root, &names(false))
        };
        let std = || {
            stage(4, "the programs on std");
            c_library::build_programs(&self.root, &names(true))
        };
        // A crate late in the order often has one processor to itself, so tests build all at once. A person sees one after the
        // other: the lines of several cargos would overwrite one another.
        let (bare, user, std) = if tests {
            c_library::build(&self.root)?;
            std::thread::scope(|scope| {
                let (kernel, user) = (scope.spawn(kernel), scope.spawn(user));
                let std = std();
                (joined(kernel), joined(user), std)
            })
        } else {
            let (bare, user) = (kernel()?, user()?);
            c_library::build(&self.root)?;
            (Ok(bare), Ok(user), std())
        };
        let (bare, user, std) = (bare?, user?, std?);
        let kernel = self.strip(&bare.join("capos-kernel"), "capos-kernel")?;
        let loader = self.strip(&bare.join("capos-loader"), "capos-loader")?;
        let stage = self.stage(&programs, &user, &std)?;
        let test_stage = if tests { Some(self.test_stage(&test_programs, &user, &std)?) } else { None };
        let boot_package = self.boot_package(&user)?;
        let (stripped, keys) = (self.target().join("stripped"), self.target().join("keys"));
        let date = capos_image::build_date()?;
        Ok(Parts { kernel, loader, boot_package, manifest, stripped, stage, test_stage, keys, date })
    }

    /// A program without its debugging information, which stays next to the original.
    fn strip(&self, program: &Path, name: &str) -> Result<PathBuf> {
        let stripped = self.target().join("stripped").join(name);
        toolchain::strip(program, &stripped)?;
        Ok(stripped)
    }

    /// The scripted model, signed: its folder and the trust store that accepts it.
    fn model(&self) -> Result<(PathBuf, PathBuf)> {
        let (keys, models) = (self.target().join("keys"), self.target().join("models"));
        let (key, trust) = (keys.join(format!("{PURPOSE}.key")), keys.join("trust"));
        if !key.is_file() || !trust.is_file() {
            keygen::generate(&keys, PURPOSE)?;
        }
        std::fs::create_dir_all(&models)?;
        let model = models.join(MODEL);
        if !model.is_file() {
            gguf::create(&model, MODEL_SIZE, MODEL_SEED, true)?;
        }
        let beside = |ending: &str| models.join(format!("{MODEL}.{ending}"));
        let inputs = [model, key];
        let [model, key] = &inputs;
        if !files::up_to_date(&beside("sig"), &inputs)?
            || !files::up_to_date(&beside("verity"), std::slice::from_ref(model))?
        {
            sign_file::sign(model, &read_key(key)?)?;
        }
        Ok((models, trust))
    }

    /// Folder of programs on an image, and their files.
    fn placed(&self, programs: &[Program], user: &Path, std: &Path) -> Result<Vec<(String, PathBuf)>> {
        let place = |program: &Program| {
            let folder = if program.std { std } else { user };
            let stripped = self.strip(&folder.join(&program.name), &program.name)?;
            let bytes =
                std::fs::metadata(&stripped).with_context(|| format!("looking at {}", stripped.display()))?.len();
            is_small_enough(program, bytes)?;
            Ok((format!("bin/{}", program.name), stripped))
        };
        programs.iter().map(place).collect()
    }

    /// The files that only the images of scenarios have.
    fn test_stage(&self, programs: &[Program], user: &Path, std: &Path) -> Result<PathBuf> {
        let stage = self.target().join("iso-tests");
        files::mirror(&self.placed(programs, user, std)?, &stage)?;
        std::fs::create_dir_all(&stage)?;
        Ok(stage)
    }

    /// The image's files except those that boot it.
    fn stage(&self, programs: &[Program], user: &Path, std: &Path) -> Result<PathBuf> {
        let mut wanted = self.placed(programs, user, std)?;
        let (models, trust) = self.model()?;
        for ending in ["", ".verity", ".sig"] {
            wanted.push((format!("boot/models/{MODEL}{ending}"), models.join(format!("{MODEL}{ending}"))));
        }
        wanted.push(("etc/trust".into(), trust));
        let given = self.root.join("iso_root");
        for file in files::walk(&given)? {
            let name = file.strip_prefix(&given)?.to_str().context("a file of iso_root has no UTF-8 name")?;
            if name != MANIFEST && !name.starts_with(MODELS) {
                wanted.push((name.to_owned(), file.clone()));
            }
        }
        let stage = self.target().join("iso");
        files::mirror(&wanted, &stage)?;
        Ok(stage)
    }

    fn boot_package(&self, user: &Path) -> Result<PathBuf> {
        let mut items = Vec::new();
        for name in BOOT_PROGRAMS {
            let program = user.join(name);
            ensure!(program.is_file(), "no package builds the program `{name}`, without which nothing starts");
            items.push((name.to_owned(), self.strip(&program, name)?));
        }
        items.push(("manifest".to_owned(), self.target().join("manifest.bin")));
        encode_manifest(&[&self.root.join("iso_root").join(MANIFEST)], &Variant::default(), &items)?;
        let path = self.target().join("boot.tar");
        files::write_if_changed(&path, &boot_package::pack(&items)?)?;
        Ok(path)
    }
}

/// Reads the manifest that these files give together and writes it, as the first process reads it, to the last of the
/// items of a boot package. It is checked here, so that a mistake ends the build and not the boot.
fn encode_manifest(sources: &[&Path], variant: &Variant, items: &[(String, PathBuf)]) -> Result<()> {
    let (_, path) = items.last().context("the boot package has no manifest")?;
    let mut manifest = crate::manifest::read(sources)?;
    let mut changed = false;
    for service in &mut manifest.services {
        if service.name == Console::SERVICE {
            service.program = variant.console.program().to_owned();
        }
        let time = service.environment.iter_mut().find(|variable| variable.starts_with(KEY_TIME));
        if let (Some(time), Some(milliseconds)) = (time, variant.key_milliseconds) {
            *time = format!("{KEY_TIME}{milliseconds}");
            changed = true;
        }
    }
    ensure!(changed || variant.key_milliseconds.is_none(), "no service has the variable {KEY_TIME}");
    let names: Vec<&str> = items.iter().map(|(name, _)| name.as_str()).collect();
    capos_service_graph::check(&manifest, &names).with_context(|| sources_named(sources))?;
    files::write_if_changed(path, &capos_manifest::encode(&manifest)?)?;
    Ok(())
}

fn sources_named(sources: &[&Path]) -> String {
    sources.iter().map(|source| source.display().to_string()).collect::<Vec<_>>().join(" with ")
}

impl Parts {
    /// The kernel of an image whose command line says this: that with the tests that run in it only if the command line asks for some.
    fn kernel_for(&self, command_line: &str) -> Result<PathBuf> {
        if !asks_for_tests(command_line) {
            return Ok(self.kernel.clone());
        }
        let system = System::find()?;
        let _alone = files::lock(&system.target())?;
        let stripped = system.target().join("stripped-tests").join("capos-kernel");
        toolchain::strip(&toolchain::build_kernel_tests(&system.root)?.join("capos-kernel"), &stripped)?;
        // The other one is put back, since stack traces are read with its names.
        toolchain::build_bare(&system.root, &["capos-kernel"])?;
        Ok(stripped)
    }

    /// The kernel's file as packed on an image.
    pub fn kernel(&self) -> &Path {
        &self.kernel
    }

    /// The folder of an image's files except those that boot it.
    pub fn stage(&self) -> &Path {
        &self.stage
    }

    /// The manifest's source.
    pub fn manifest(&self) -> &Path {
        &self.manifest
    }

    /// The files of the system's boot package.
    pub fn boot_items(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let package = std::fs::read(&self.boot_package)?;
        let archive = ustar::entries(&package)?;
        Ok(archive.files.into_iter().map(|file| (file.name, file.content.to_vec())).collect())
    }

    /// An image of the system's kernel and boot package alone, started by GRUB. It still wants a place.
    pub fn recipe(&self) -> Recipe<'_> {
        Recipe {
            kernel: &self.kernel,
            loader: Some(&self.loader),
            boot_package: &self.boot_package,
            trees: &[],
            command_line: "",
            limine: None,
            date: self.date,
            out: Path::new(""),
        }
    }

    /// Makes the folder `over` that puts these models of a scenario's on an image besides the built-in one.
    pub fn models(&self, models: &[ExtraModel], scenario: &Path, over: &Path) -> Result<()> {
        extra::make(models, scenario, &self.keys, &System::find()?.prompts()?, &self.stage, over)
    }

    /// Makes the folder that puts these model files on an image, before the built-in one; none for no files.
    pub fn pack(&self, models: &PackedModels) -> Result<Option<PathBuf>> {
        if models.is_empty() {
            return Ok(None);
        }
        let over = self.stage.with_file_name("iso-models");
        models.pack(&read_key(&self.keys.join(format!("{PURPOSE}.key")))?, &System::find()?.prompts()?, &over)?;
        Ok(Some(over))
    }

    /// Builds the programs whose formats are newer than those of this version, and returns the folder that puts them on an
    /// image in place of the others.
    pub fn next(&self) -> Result<PathBuf> {
        let system = System::find()?;
        let _alone = files::lock(&system.target())?;
        let programs = packages::programs(&system.root)?;
        let built = toolchain::build_next(&system.root, &packages_of(&programs, false), &NEXT)?;
        let mut placed = Vec::new();
        for (_, name) in NEXT {
            let stripped = system.target().join("stripped-next").join(name);
            toolchain::strip(&built.join(name), &stripped)?;
            placed.push((format!("bin/{name}"), stripped));
        }
        let over = system.target().join("iso-next");
        files::mirror(&placed, &over)?;
        Ok(over)
    }

    /// The boot package: the system's, one with a scenario's additions, or one of chosen programs alone, for which the
    /// scenario's manifest is the whole.
    fn boot_package_of(&self, variant: &Variant, out: &Path) -> Result<PathBuf> {
        let manifest = variant.scenario.as_ref().map(|folder| folder.join("manifest.toml"));
        let manifest = manifest.filter(|path| path.is_file());
        let alone = !variant.boot.is_empty();
        if !alone && manifest.is_none() && variant.console == Console::Shell && variant.key_milliseconds.is_none() {
            return Ok(self.boot_package.clone());
        }
        ensure!(!alone || self.test_stage.is_some(), "test programs were not built");
        let programs: Vec<&str> =
            if alone { variant.boot.iter().map(String::as_str).collect() } else { BOOT_PROGRAMS.to_vec() };
        let mut items = Vec::new();
        for (place, program) in programs.into_iter().enumerate() {
            let name = if place == 0 { "init" } else { program };
            items.push((name.to_owned(), self.stripped.join(program)));
        }
        let sources = (!alone).then_some(&self.manifest).into_iter().chain(&manifest);
        let sources: Vec<&Path> = sources.map(PathBuf::as_path).collect();
        if !sources.is_empty() {
            items.push(("manifest".to_owned(), out.with_extension("manifest")));
            encode_manifest(&sources, variant, &items)?;
        }
        let path = out.with_extension("boot.tar");
        files::write_if_changed(&path, &boot_package::pack(&items)?)?;
        Ok(path)
    }

    /// Builds the image at `out` unless it is there and up to date.
    pub fn image(&self, variant: &Variant, out: &Path) -> Result<()> {
        let kernel = self.kernel_for(&variant.command_line)?;
        let _alone = files::lock(self.boot_package.parent().context("the boot package has no folder")?)?;
        let boot_package = self.boot_package_of(variant, out)?;
        let mut trees = Vec::new();
        let mut inputs = vec![kernel.clone(), self.loader.clone(), boot_package.clone()];
        if variant.boot.is_empty() {
            trees.push((String::new(), self.stage.clone()));
            inputs.extend(files::walk(&self.stage)?);
        }
        if let Some(over) = &variant.over {
            trees.push((String::new(), over.clone()));
            inputs.extend(files::walk(over)?);
        }
        if let (Some(_), Some(stage)) = (&variant.scenario, &self.test_stage) {
            trees.push((String::new(), stage.clone()));
            inputs.extend(files::walk(stage)?);
        }
        if let Some(scenario) = &variant.scenario {
            trees.push(("scenario".into(), scenario.clone()));
            inputs.extend(files::walk(scenario)?);
        }
        if let Some(release) = &variant.limine {
            inputs.extend(files::walk(release)?);
        }
        // The options, and the names of the inputs, so that a removed input counts as a change.
        let mut asked = format!("{variant:?}\n");
        inputs.iter().for_each(|input| asked.push_str(&format!("{}\n", input.display())));
        let mut note = out.as_os_str().to_owned();
        note.push(".inputs");
        let note = PathBuf::from(note);
        let changed = files::write_if_changed(&note, asked.as_bytes())?;
        if !changed && files::up_to_date(out, &inputs)? {
            return Ok(());
        }
        let built = capos_image::build(&Recipe {
            kernel: &kernel,
            boot_package: &boot_package,
            trees: &trees,
            command_line: &variant.command_line,
            limine: variant.limine.as_deref(),
            out,
            ..self.recipe()
        });
        if built.is_err() {
            std::fs::remove_file(&note)?;
        }
        built
    }
}

/// The packages of programs, with or without `std`.
fn packages_of<'a>(programs: impl IntoIterator<Item = &'a Program>, std: bool) -> Vec<String> {
    let mut packages: Vec<String> =
        programs.into_iter().filter(|program| program.std == std).map(|program| program.package.clone()).collect();
    packages.sort();
    packages.dedup();
    packages
}

/// What a thread returns. If it panicked, its panic continues here.
pub fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Whether the kernel's command line asks for tests that run in the kernel.
fn asks_for_tests(command_line: &str) -> bool {
    command_line.split_whitespace().any(|word| word.starts_with("test="))
}

/// Makes sure that a program is no larger than its package permits.
fn is_small_enough(program: &Program, bytes: u64) -> Result<()> {
    let Some(most) = program.max_kib else { return Ok(()) };
    ensure!(
        bytes <= most * 1024,
        "the program `{}` takes {} KiB on the image, and its package `{}` says that it takes {most} at most \
         (package.metadata.capos.max_kib)",
        program.name,
        bytes.div_ceil(1024),
        program.package,
    );
    Ok(())
}

/// Makes sure that all programs of the manifest are on an image without test programs.
fn every_program_is_built(manifest: &Path, programs: &[Program]) -> Result<()> {
    let manifest = crate::manifest::read(&[manifest])?;
    for entry in manifest.services.iter().chain(&manifest.programs) {
        let Some(file) = entry.program.strip_prefix("/bin/") else { continue };
        ensure!(
            programs.iter().any(|program| program.name == file),
            "the manifest's `{}` is /bin/{file}, which no package below userspace/ builds for the image; a test program \
             belongs in the manifest of a scenario",
            entry.name
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_program_on_std_may_not_grow() {
        let programs = packages::programs(System::find().unwrap().root()).unwrap();
        let hello = programs.iter().find(|program| program.name == "hello-std").unwrap();
        is_small_enough(hello, 400 << 10).unwrap();
        let error = is_small_enough(hello, (400 << 10) + 1).unwrap_err().to_string();
        assert!(error.contains("takes 401 KiB") && error.contains("400 at most"), "{error}");
    }

    #[test]
    fn a_manifest_that_names_what_is_not_built_is_refused() {
        let system = System::find().unwrap();
        let shipped = system.root.join("iso_root").join(MANIFEST);
        let (tests, programs): (Vec<Program>, Vec<Program>) =
            packages::programs(&system.root).unwrap().into_iter().partition(|program| program.test);
        every_program_is_built(&shipped, &programs).unwrap();
        let error = every_program_is_built(&shipped, &tests).unwrap_err().to_string();
        assert!(error.contains("which no package below userspace/ builds"), "{error}");
    }
}
