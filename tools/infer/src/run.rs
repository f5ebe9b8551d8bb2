//! What every command that runs a model needs.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use capos_engine::kernel::{self, Kernels};
use capos_engine::{Batch, Cache, Forward, Machine, Model};

use crate::file::ModelFile;
use crate::threads::Threads;

/// Tokens of a prompt that go through the layers together.
const TOGETHER: usize = 512;

/// How a model is run.
#[derive(clap::Args)]
pub struct RunOptions {
    /// Threads; as many as there are processors where none are named.
    #[arg(short = 't', long, global = true)]
    threads: Option<usize>,
    /// Most tokens of a sequence; as many as the model was made for where none are named.
    #[arg(long, global = true)]
    context: Option<usize>,
    /// Kernels; those that are fastest in a trial where none are named.
    #[arg(long, global = true, value_parser = kernel::NAMES)]
    kernels: Option<String>,
}

/// A model and what runs it, and one sequence for those who need no more.
pub struct Run<'f> {
    pub model: Model<'f>,
    pub kernels: &'static dyn Kernels,
    pub threads: Threads,
    caches: [Cache; 1],
    forward: Forward,
}

impl<'f> Run<'f> {
    /// Makes the model of a file ready.
    pub fn new(file: &'f ModelFile, options: &RunOptions) -> Result<Self> {
        let model =
            Model::new(&file.header()?, file.bytes(), options.context).with_context(|| file.name().to_owned())?;
        let processors = || std::thread::available_parallelism().map_or(1, |count| count.get());
        let threads = Threads::new(options.threads.unwrap_or_else(processors))?;
        let began = Instant::now();
        let now = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let kernels = match &options.kernels {
            Some(name) => kernel::named(name)?,
            None => kernel::fastest(&now),
        };
        let caches = [Cache::new(model.config(), model.context())];
        Ok(Self { model, kernels, threads, caches, forward: Forward::new() })
    }

    /// What computes.
    pub fn machine(&self) -> Machine<'_> {
        Machine { kernels: self.kernels, pool: &self.threads }
    }

    /// Adds tokens to the sequence and gives the logits behind the last.
    pub fn feed(&mut self, ids: &[u32]) -> Result<&[f32]> {
        ensure!(!ids.is_empty(), "there are no tokens; name at least one with --ids");
        let machine = Machine { kernels: self.kernels, pool: &self.threads };
        let mut left = ids;
        while let Some((ids, rest)) = left.split_at_checked(TOGETHER).filter(|(_, rest)| !rest.is_empty()) {
            let mut batch = Batch::new();
            ids.iter().for_each(|id| batch.push(*id, 0, false));
            self.forward.pass(&self.model, machine, &batch, &mut self.caches)?;
            left = rest;
        }
        Ok(self.forward.pass(&self.model, machine, &Batch::prompt(left), &mut self.caches)?)
    }

    /// Forgets the sequence.
    pub fn reset(&mut self) {
        self.caches.iter_mut().for_each(|cache| cache.truncate(0));
    }
}
