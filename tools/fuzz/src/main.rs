//! The program of `make fuzz`: libFuzzer with the target that `CAPOS_FUZZ_TARGET` names. It first writes the target's
//! seeds to the folder `CAPOS_FUZZ_CORPUS`, libFuzzer's corpus. Without a target it prints their names.
#![cfg_attr(not(test), no_main)]

use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use capos_fuzz::{TARGETS, Target, named};
use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<&Target> = OnceLock::new();

/// Finds the target and writes its seeds.
fn prepare() -> Result<()> {
    let Ok(target) = std::env::var("CAPOS_FUZZ_TARGET") else {
        TARGETS.iter().for_each(|target| println!("{}", target.name));
        std::process::exit(0);
    };
    let target = named(&target)?;
    let corpus = std::env::var("CAPOS_FUZZ_CORPUS").context("CAPOS_FUZZ_CORPUS is not set; `make fuzz` sets it")?;
    for (at, seed) in (target.seeds)()?.into_iter().enumerate() {
        let path = Path::new(&corpus).join(format!("seed-{at}"));
        std::fs::write(&path, seed).with_context(|| format!("writing {}", path.display()))?;
    }
    // It is set once, here.
    let _ = TARGET.set(target);
    Ok(())
}

fuzz_target!(
    init: {
        if let Err(error) = prepare() {
            eprintln!("capos-fuzz: {error:#}");
            std::process::exit(2);
        }
    },
    |data: &[u8]| {
        if let Some(target) = TARGET.get() {
            (target.run)(data);
        }
    }
);
