//! Writes the hostile model files into a folder, to be looked at or tried out elsewhere.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use capos_hostile_models::all;

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let folder =
        arguments.next().map(PathBuf::from).context("name the folder that the files are to be written into")?;
    ensure!(arguments.next().is_none(), "name one folder, and nothing else");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    for model in all()? {
        let path = folder.join(format!("{}.gguf", model.name));
        std::fs::write(&path, &model.file).with_context(|| format!("writing {}", path.display()))?;
        println!("{}: {:?}", path.display(), model.end);
    }
    Ok(())
}
