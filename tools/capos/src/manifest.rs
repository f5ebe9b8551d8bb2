//! `capos manifest`: checks, explains and encodes the system manifest.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use capos_plural::count;
use capos_schema::manifest::Manifest;
use layout::backends::svg::SVGWriter;
use layout::gv::{DotParser, GraphBuilder};

/// Check, explain or encode the system manifest.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Check a manifest; errors state the place and what to do.
    Check {
        /// TOML file of the manifest; further ones override it.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Print the capability graph: which capabilities each process holds, and which services it may call.
    Print {
        /// TOML file of the manifest; further ones override it.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Draw the capability graph: which process may call which service, by which interface.
    Draw {
        /// TOML file of the manifest; further ones override it.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Output file: NAME.svg for a picture, NAME.dot for Graphviz.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Encode the manifest for the boot package.
    Encode {
        /// TOML file of the manifest; further ones override it.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Where to write.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
}

/// The manifest that these files give together.
pub fn read<P: AsRef<Path>>(files: &[P]) -> Result<Manifest> {
    let mut read = Vec::new();
    for file in files {
        let file = file.as_ref();
        let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        read.push((file.display().to_string(), text));
    }
    let layers: Vec<(&str, &str)> = read.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    Ok(capos_manifest::read_layers(&layers)?)
}

fn names(files: &[PathBuf]) -> String {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    names.join(" with ")
}

/// A graph of Graphviz's language as a picture, whose metadata holds its source: the layout may differ from run to run.
fn picture(dot: &str) -> Result<String> {
    let graph = DotParser::new(dot).process().map_err(|reason| anyhow!("the graph cannot be read: {reason}"))?;
    let mut builder = GraphBuilder::new();
    builder.visit_graph(&graph);
    let mut writer = SVGWriter::new();
    builder.get().do_it(false, false, false, &mut writer);
    let drawn = writer.finalize();
    let (head, rest) = drawn.split_once("<defs>").context("the picture has no beginning")?;
    Ok(format!("{head}{}<defs>{rest}", metadata(dot)))
}

/// The source of a picture, as its metadata states it.
fn metadata(dot: &str) -> String {
    let text = dot.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<metadata>\n{text}</metadata>\n")
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Result<ExitCode> {
    let (Action::Check { files } | Action::Print { files } | Action::Draw { files, .. } | Action::Encode { files, .. }) =
        &args.action;
    let manifest = read(files)?;
    match &args.action {
        Action::Check { .. } => {
            let (services, programs) = (manifest.services.len(), manifest.programs.len());
            println!("{}: {}, {}", names(files), count(services, "service"), count(programs, "program"));
        }
        Action::Print { .. } => print!("{}", capos_manifest::describe(&manifest)),
        Action::Draw { out, .. } => {
            let dot = capos_manifest::dot(&manifest);
            let drawn = match out.extension().and_then(|extension| extension.to_str()) {
                Some("svg") => picture(&dot)?,
                Some("dot") => dot,
                _ => bail!("{} is neither NAME.svg nor NAME.dot", out.display()),
            };
            std::fs::write(out, drawn).with_context(|| format!("writing {}", out.display()))?;
        }
        Action::Encode { out, .. } => {
            std::fs::write(out, capos_manifest::encode(&manifest)?)
                .with_context(|| format!("writing {}", out.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_in_the_docs_is_that_of_the_manifest() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let manifest = read(&[top.join("iso_root/etc/manifest.toml")]).unwrap();
        let drawn = std::fs::read_to_string(top.join("docs/capabilities.svg")).unwrap();
        let dot = capos_manifest::dot(&manifest);
        assert!(picture(&dot).unwrap().contains(&metadata(&dot)));
        assert!(
            drawn.contains(&metadata(&dot)),
            "it is not; draw it: target/debug/capos manifest draw iso_root/etc/manifest.toml --out docs/capabilities.svg"
        );
    }
}
