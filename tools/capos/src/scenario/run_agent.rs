//! `capos run-agent`: one scenario from its folder to its results.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use capos_plural::count;

use crate::build::iso::{Limine, limine_dir};
use crate::build::system::{Parts, System, Variant};
use crate::scenario::{self, Report, Scenario};
use capos_vm::accel;

/// The scenario that is run when none is named, below the source folder.
pub const SMOKE: &str = "tools/scenarios/smoke";

/// Run a scenario.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of the scenario [default: the smoke scenario].
    #[arg(long, value_name = "DIR", env = "SCENARIO")]
    scenario: Option<PathBuf>,
    /// Folder for the results [default: target/run-agent/NAME].
    #[arg(long, value_name = "DIR", env = "OUT")]
    out: Option<PathBuf>,
    /// QEMU's accelerator [default: kvm if it works, otherwise tcg].
    #[arg(long, value_name = "NAME", env = "ACCEL", value_parser = accel::name)]
    accel: Option<String>,
    /// Boot with the Limine binary release in this folder instead of GRUB.
    #[arg(long, value_name = "DIR", env = "LIMINE_DIR", value_parser = limine_dir)]
    limine: Option<Limine>,
}

/// Runs the subcommand: success when the scenario passes.
pub fn run(args: &Args) -> Result<ExitCode> {
    let system = System::find()?;
    let given = args.scenario.clone().filter(|path| !path.as_os_str().is_empty());
    let folder = std::path::absolute(given.unwrap_or_else(|| system.root().join(SMOKE)))?;
    let name = folder.file_name().context("the scenario's folder has no name")?.to_owned();
    let out = args.out.clone().filter(|path| !path.as_os_str().is_empty());
    let out = std::path::absolute(out.unwrap_or_else(|| system.target().join("run-agent").join(name)))?;
    ensure!(!out.starts_with(&folder), "the results cannot go into the scenario's own folder {}", folder.display());
    let scenario = Scenario::open(&folder)?;
    let accelerator = accel::choose(args.accel.as_deref())?;
    let limine = Limine::folder(args.limine.as_ref())?;
    let report = execute(&system.build(true)?, &scenario, limine, &accelerator, &out)?;
    println!("{}", summary(&scenario, &report, &out));
    Ok(if report.passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds the scenario's image in `out`, runs it there, and takes the image away again.
pub fn execute(
    parts: &Parts,
    scenario: &Scenario,
    limine: Option<PathBuf>,
    accelerator: &str,
    out: &Path,
) -> Result<Report> {
    std::fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    let image = out.join("scenario.iso");
    let command_line = scenario.settings.command_line.clone();
    let models = &scenario.settings.model;
    let over = (!models.is_empty()).then(|| out.join("over"));
    if let Some(over) = &over {
        parts.models(models, &scenario.folder, over)?;
    }
    let (over_too, boot, console) = (over.clone(), scenario.settings.boot.clone(), scenario.settings.console);
    // Without a disk no key is derived, and the image's own boot package will do.
    let key_milliseconds = (!scenario.settings.disk.is_empty()).then_some(scenario.settings.key_milliseconds);
    let folder = Some(scenario.folder.clone());
    let variant = Variant { limine, over: over_too, scenario: folder, command_line, boot, console, key_milliseconds };
    parts.image(&variant, &image)?;
    let mut leftovers = vec![image.clone()];
    if scenario.boots_next() {
        ensure!(variant.over.is_none(), "the step `boot next` does not work in a scenario with models of its own");
        let next = scenario::next_image(&image);
        parts.image(&Variant { over: Some(parts.next()?), ..variant }, &next)?;
        leftovers.push(next);
    }
    let report = scenario::run(scenario, &scenario.machine(&image, accelerator), out);
    // The images may have been changed by the run, and they are large.
    for image in leftovers {
        for ending in ["iso", "iso.inputs", "manifest", "boot.tar"] {
            let leftover = image.with_extension(ending);
            if leftover.exists() {
                std::fs::remove_file(leftover)?;
            }
        }
    }
    if let Some(over) = over {
        std::fs::remove_dir_all(over)?;
    }
    report
}

/// A run in a few lines for a person.
pub fn summary(scenario: &Scenario, report: &Report, out: &Path) -> String {
    let name = scenario.folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let (taken, all) = report.steps;
    match &report.reason {
        None => {
            format!("{name}: passed, {} in {:.1} s; results in {}", count(all, "step"), report.seconds, out.display())
        }
        Some(reason) => {
            format!("{name}: FAILED after {taken} of {}: {reason}\nresults in {}", count(all, "step"), out.display())
        }
    }
}
