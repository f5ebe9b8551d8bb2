//! Generator of clients, servers and reflection data from `schema/*.capnp`.
//!
//! The Cap'n Proto compiler parses the schema, and capnpc generates readers and builders. From the
//! same request this crate generates the rest: owned types, async clients, server traits with
//! dispatch, synchronous dispatch for the kernel, and reflection tables. It runs in the build
//! script of `capos-schema`; its output is not kept in the tree.
#![forbid(unsafe_code)]

mod adapt;
mod client;
mod code;
mod convert;
mod json_schema;
mod kernel;
mod load;
mod model;
mod names;
mod owned;
mod reflection;
mod server;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub use model::Schema;

/// Lints that generated code need not heed: names and shapes come from the schema.
const ALLOWED: &str =
    "#[allow(clippy::all, clippy::pedantic, clippy::indexing_slicing, non_snake_case, unused_variables, unused_mut)]";

/// What to generate, from which files, and where to.
#[derive(Clone, Debug, Default)]
pub struct Generator {
    /// The schema files.
    pub files: Vec<PathBuf>,
    /// The folder that the files' names are relative to.
    pub prefix: PathBuf,
    /// Where the generated files go: `modules.rs`, which includes all others, is the one to include.
    pub output: PathBuf,
    /// Owned types, async clients and server traits.
    pub client: bool,
    /// Synchronous dispatch traits.
    pub kernel: bool,
    /// Reflection tables.
    pub reflect: bool,
}

impl Generator {
    /// Runs the Cap'n Proto compiler and writes everything.
    ///
    /// # Errors
    /// The compiler is missing or refuses the schema; the schema uses what is not supported
    /// (generics, constants of pointer type); a file cannot be written.
    pub fn run(&self) -> Result<()> {
        fs::create_dir_all(&self.output).with_context(|| format!("cannot create {}", self.output.display()))?;
        let request = self.output.join("request.bin");
        let mut command = capnpc::CompilerCommand::new();
        command.src_prefix(&self.prefix).output_path(&self.output).raw_code_generator_request_path(&request);
        for file in &self.files {
            command.file(file);
        }
        command.run().context("the Cap'n Proto compiler failed")?;
        let bytes = fs::read(&request).with_context(|| format!("cannot read {}", request.display()))?;
        let schema = load::load(&bytes)?;
        self.write(&schema)
    }

    fn write(&self, schema: &Schema) -> Result<()> {
        let mut modules = code::Code::new();
        modules.line("// Made by capos-codegen. Do not edit.");
        for file in &schema.files {
            let stem = &file.stem;
            let capnpc = self.output.join(format!("{stem}_capnp.rs"));
            let text = fs::read_to_string(&capnpc).with_context(|| format!("cannot read {}", capnpc.display()))?;
            write_changed(&capnpc, &adapt::adapt(&text))?;
            let mut parts = Vec::new();
            if self.client {
                self.save(&format!("{stem}_owned.rs"), &owned::generate(schema, file)?)?;
                self.save(&format!("{stem}_client.rs"), &client::generate(schema, file)?)?;
                self.save(&format!("{stem}_server.rs"), &server::generate(schema, file)?)?;
                parts.extend(["owned", "client", "server"]);
            }
            if self.reflect {
                self.save(&format!("{stem}_reflection.rs"), &reflection::generate(schema, file)?)?;
                parts.push("reflection");
            }
            modules.line("#[allow(clippy::all, clippy::pedantic, clippy::restriction, unused, missing_docs)]");
            modules.line("#[rustfmt::skip]");
            modules.line(&format!(
                "pub mod {stem}_capnp {{ include!({:?}); }}",
                self.output.join(format!("{stem}_capnp.rs"))
            ));
            if !parts.is_empty() {
                modules.docs(&file.doc);
                modules.line(ALLOWED);
                modules.open(&format!("pub mod {} {{", names::ident(stem)));
                for part in parts {
                    modules.line(&format!("include!({:?});", self.output.join(format!("{stem}_{part}.rs"))));
                }
                modules.close("}");
            }
            if self.kernel && !file.interfaces.is_empty() {
                self.save(&format!("{stem}_dispatch.rs"), &kernel::generate(schema, file)?)?;
                modules.line(&format!("/// Synchronous dispatch of the interfaces of `{stem}.capnp`."));
                modules.line(ALLOWED);
                modules.line(&format!(
                    "pub mod {stem}_dispatch {{ include!({:?}); }}",
                    self.output.join(format!("{stem}_dispatch.rs"))
                ));
            }
        }
        if self.reflect {
            modules.line("/// Every interface of every schema file, sorted by identifier.");
            modules.open("pub static INTERFACES: &[&::capos_schema::reflection::InterfaceInfo] = &[");
            let mut interfaces: Vec<_> = schema.interfaces.values().collect();
            interfaces.sort_by_key(|interface| interface.id);
            for interface in interfaces {
                modules.line(&format!("&{}::{},", names::ident(&interface.file), reflection::table_name(interface)));
            }
            modules.close("];");
            modules.line("/// What lists and boxes of every schema file hold.");
            modules.open("pub static ELEMENTS: &[&[::capos_schema::reflection::ElementInfo]] = &[");
            for file in &schema.files {
                modules.line(&format!("{}::ELEMENTS,", names::ident(&file.stem)));
            }
            modules.close("];");
        }
        self.save("modules.rs", &modules.finish())
    }

    fn save(&self, name: &str, text: &str) -> Result<()> {
        let path = self.output.join(name);
        write_changed(&path, text)
    }
}

/// Writes a file if its text differs, so that unchanged files keep their time.
fn write_changed(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
