//! Writes the hostile model files into a folder, to be looked at or tried out elsewhere.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use capos_hostile_models::all;

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = arguments.next().map(PathBuf::from).context("give the folder to write the files to")?;
    ensure!(arguments.next().is_none(), "give exactly one folder");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    for model in all()? {
        let path = folder.join(format!("{}.gguf", model.name));
        std::fs::write(&path, &model.file).with_context(|| format!("writing {}", path.display()))?;
        println!("{}: {:?}", path.display(), model.end);
    }
    Ok(())
}
