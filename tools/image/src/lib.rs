//! `capos image`: the bootable ISO, for BIOS and UEFI, as a disc and as a disk.

pub mod date;
pub mod fat;
pub mod grub;
pub mod limine;
pub mod ustar;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use crate::date::Date;
use crate::limine::Release;
use capos_host::tool;

/// Build a bootable image.
#[derive(clap::Args)]
pub struct Args {
    /// Where to write the image.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The kernel's ELF file.
    #[arg(long, value_name = "FILE")]
    kernel: PathBuf,
    /// The Multiboot2 loader's ELF file; not needed with --limine.
    #[arg(long, value_name = "FILE", required_unless_present = "limine")]
    loader: Option<PathBuf>,
    /// The boot package, made by `capos boot-package`.
    #[arg(long, value_name = "FILE")]
    boot_package: PathBuf,
    /// Files of the image, as `DIR` or `PLACE=DIR`: the folder's content is copied to the top or to PLACE on the image.
    #[arg(long, value_name = "[PLACE=]DIR", value_parser = parse_tree)]
    tree: Vec<(String, PathBuf)>,
    /// The kernel's command line.
    #[arg(long, value_name = "TEXT", default_value = "")]
    command_line: String,
    /// Boot with the Limine binary release in this folder in place of GRUB and the Multiboot2 loader.
    #[arg(long, value_name = "DIR")]
    limine: Option<PathBuf>,
}

fn parse_tree(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((place, folder)) => Ok((place.trim_matches('/').to_owned(), folder.into())),
        None => Ok((String::new(), text.into())),
    }
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    build(&Recipe {
        kernel: &args.kernel,
        loader: args.loader.as_deref(),
        boot_package: &args.boot_package,
        trees: &args.tree,
        command_line: &args.command_line,
        limine: args.limine.as_deref(),
        date: build_date()?,
        out: &args.out,
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The inputs of an image.
pub struct Recipe<'a> {
    /// The kernel's ELF file.
    pub kernel: &'a Path,
    /// The Multiboot2 loader's ELF file, if GRUB boots.
    pub loader: Option<&'a Path>,
    /// The boot package.
    pub boot_package: &'a Path,
    /// Folders and where their content goes.
    pub trees: &'a [(String, PathBuf)],
    /// The kernel's command line.
    pub command_line: &'a str,
    /// The Limine release, if Limine boots.
    pub limine: Option<&'a Path>,
    /// The date that the image carries.
    pub date: Date,
    /// The image to write.
    pub out: &'a Path,
}

/// Builds the image next to its final place and moves it there when it is complete.
pub fn build(recipe: &Recipe) -> Result<()> {
    let scratch = scratch_folder(recipe.out)?;
    let result = build_in(recipe, &scratch);
    let removed = std::fs::remove_dir_all(&scratch).context("removing the scratch folder of the image");
    result.and(removed)
}

/// An empty folder next to `out`, named after it and this process.
fn scratch_folder(out: &Path) -> Result<PathBuf> {
    let name = out.file_name().with_context(|| format!("{} is no file name", out.display()))?;
    let mut scratch_name = OsString::from(".");
    scratch_name.push(name);
    scratch_name.push(format!(".{}", std::process::id()));
    let scratch = out.with_file_name(scratch_name);
    if scratch.exists() {
        std::fs::remove_dir_all(&scratch)?;
    }
    std::fs::create_dir_all(&scratch).with_context(|| format!("making {}", scratch.display()))?;
    Ok(scratch)
}

fn build_in(recipe: &Recipe, scratch: &Path) -> Result<()> {
    let root = scratch.join("root");
    let boot = root.join("boot");
    std::fs::create_dir_all(&boot)?;
    let copy = |from: &Path, name: &str| {
        std::fs::copy(from, boot.join(name)).with_context(|| format!("copying {} to the image", from.display()))
    };
    copy(recipe.kernel, "kernel")?;
    copy(recipe.boot_package, "boot.tar")?;
    let date = recipe.date;
    let release = recipe.limine.map(Release::open).transpose()?;
    let boot_options = match (&release, recipe.loader) {
        (Some(release), _) => release.prepare(&root, recipe.command_line)?,
        (None, Some(loader)) => {
            copy(loader, "loader")?;
            grub::prepare(&root, recipe.command_line)?
        }
        (None, None) => anyhow::bail!("an image needs the loader or a Limine release"),
    };

    let made = scratch.join("image.iso");
    let mut command = Command::new(tool::find(&["xorriso"], "xorriso")?);
    command.args(["-as", "mkisofs", "-quiet", "-R", "-r", "-iso-level", "3", "-V", "CAPOS", "-graft-points"]);
    command.arg(format!("--modification-date={}", date.xorriso()));
    command.arg("--set_all_file_dates").arg(date.xorriso());
    command.args(["--gpt_disk_guid", "modification-date"]);
    command.args(boot_options).arg("-o").arg(&made).arg(graft("", &root)?);
    for (place, folder) in recipe.trees {
        ensure!(folder.is_dir(), "{} is no folder", folder.display());
        check_names(folder)?;
        command.arg(graft(place, folder)?);
    }
    tool::run(&mut command)?;
    if let Some(release) = &release {
        release.install(&made, scratch)?;
    }
    std::fs::rename(&made, recipe.out).with_context(|| format!("writing {}", recipe.out.display()))
}

/// Checks that capOS can have every file and folder below this one by its name.
fn check_names(folder: &Path) -> Result<()> {
    let mut folders = vec![folder.to_owned()];
    while let Some(open) = folders.pop() {
        for entry in std::fs::read_dir(&open).with_context(|| format!("reading {}", open.display()))? {
            let entry = entry?;
            let path = entry.path();
            let name = path.strip_prefix(folder)?.to_str();
            let name =
                name.with_context(|| format!("the name {path:?} is not UTF-8; rename it to have it on an image"))?;
            capos_tree::path::components(name).with_context(|| format!("{path:?} cannot be on an image; rename it"))?;
            if entry.file_type()?.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(())
}

/// xorriso's way to say where a folder's content goes.
fn graft(place: &str, folder: &Path) -> Result<OsString> {
    let text = folder.to_str().with_context(|| format!("the path {} is not UTF-8", folder.display()))?;
    let escape = |text: &str| text.replace('\\', "\\\\").replace('=', "\\=");
    Ok(format!("/{}={}", escape(place), escape(text)).into())
}

/// The date that an image made now carries: `SOURCE_DATE_EPOCH` if it is set, so that the same input gives the same
/// bytes.
pub fn build_date() -> Result<Date> {
    let seconds = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text.parse().with_context(|| format!("SOURCE_DATE_EPOCH is `{text}`, not a number of seconds"))?,
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?.as_secs(),
    };
    Ok(Date::from_unix(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_program_could_open_is_refused_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("home")).unwrap();
        std::fs::write(folder.path().join("home/Grüße.txt"), "").unwrap();
        check_names(folder.path()).unwrap();
        std::fs::write(folder.path().join("home/a\u{1b}[2Jb"), "").unwrap();
        let error = format!("{:#}", check_names(folder.path()).unwrap_err());
        assert!(error.contains("home/a\\u{1b}[2Jb") && error.contains("control character"), "{error}");
    }

    #[test]
    fn trees_say_where_they_go() {
        assert_eq!(parse_tree("a/b"), Ok((String::new(), "a/b".into())));
        assert_eq!(parse_tree("/scenario/=x"), Ok(("scenario".into(), "x".into())));
        assert_eq!(graft("scenario", Path::new("/t/a=b")).unwrap(), "/scenario=/t/a\\=b");
    }
}
