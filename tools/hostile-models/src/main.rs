//! Writes the hostile model files into a folder: to look at, or for a fuzzer to begin with.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use capos_hostile_models::{End, all};

/// Leaves out the files that use up the memory of whoever runs them, which no fuzzer has to find.
const BOUNDED: &str = "--bounded";

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let folder =
        arguments.next().map(PathBuf::from).context("name the folder that the files are to be written into")?;
    let bounded = arguments.next();
    let known = bounded.as_ref().is_none_or(|option| option == BOUNDED) && arguments.next().is_none();
    ensure!(known, "name one folder, and behind it {BOUNDED} or nothing");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    for model in all()?.into_iter().filter(|model| bounded.is_none() || model.end != End::Exhausts) {
        let path = folder.join(format!("{}.gguf", model.name));
        std::fs::write(&path, &model.file).with_context(|| format!("writing {}", path.display()))?;
        println!("{}: {:?}", path.display(), model.end);
    }
    Ok(())
}
