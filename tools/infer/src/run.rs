//! Options of every command that runs a model.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use capos_engine::generation::Options;
use capos_engine::kernel::{self, Kernels};
use capos_engine::{Batch, Cache, CacheType, Forward, Machine, Model};
use capos_engine_threads::Threads;

use crate::file::ModelFile;

/// Tokens of a prompt that go through the layers together.
const TOGETHER: usize = 512;

/// How a model is run.
#[derive(clap::Args)]
pub struct RunOptions {
    /// Number of threads [default: one per processor].
    #[arg(short = 't', long, global = true)]
    threads: Option<usize>,
    /// Maximum tokens of a sequence [default: the model's context length].
    #[arg(long, global = true)]
    context: Option<usize>,
    /// Compute kernels [default: the fastest in a trial].
    #[arg(long, global = true, value_parser = kernel::NAMES)]
    kernels: Option<String>,
    /// Format of cached keys and values [default: the fastest for the kernels; f16 if the weights are
    /// floating-point numbers].
    #[arg(long, global = true, value_parser = ["f16", "q8_0"])]
    cache: Option<String>,
}

impl RunOptions {
    /// How keys and values are kept, if it is named.
    fn cache(&self) -> Option<CacheType> {
        self.cache.as_deref().map(|name| match name {
            "q8_0" => CacheType::Q8_0,
            _ => CacheType::F16,
        })
    }

    /// How requests are run. There is no clock, since tokens must not depend on how fast the machine is.
    pub fn generation(&self) -> Options<'static> {
        Options { cache: self.cache(), ..Options::default() }
    }

    /// Most tokens of a sequence, if they are named.
    pub fn context(&self) -> Option<usize> {
        self.context
    }

    /// The requested threads and kernels.
    pub fn computer(&self) -> Result<Computer> {
        let processors = || std::thread::available_parallelism().map_or(1, |count| count.get());
        let threads = Threads::new(self.threads.unwrap_or_else(processors)).context("a thread cannot be started")?;
        // If the system refuses them, the processor lacks them: there are no such kernels then.
        capos_engine_threads::permit_tiles();
        let began = Instant::now();
        let now = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let kernels = match &self.kernels {
            Some(name) => kernel::named(name)?,
            None => kernel::fastest(&now),
        };
        Ok(Computer { kernels, threads })
    }
}

/// The kernels and threads that models run on.
pub struct Computer {
    pub kernels: &'static dyn Kernels,
    pub threads: Threads,
}

impl Computer {
    /// The same in the engine's form.
    pub fn machine(&self) -> Machine<'_> {
        Machine { kernels: self.kernels, pool: &self.threads }
    }
}

/// A model and its machine, and one sequence for commands that need no more.
pub struct Run<'f> {
    pub model: Model<'f>,
    pub computer: Computer,
    caches: [Cache; 1],
    forward: Forward,
}

impl<'f> Run<'f> {
    /// Makes the model of a file ready.
    pub fn new(file: &'f ModelFile, options: &RunOptions) -> Result<Self> {
        let model =
            Model::new(&file.header()?, file.bytes(), options.context).with_context(|| file.name().to_owned())?;
        let computer = options.computer()?;
        let cache = options.cache().unwrap_or_else(|| model.cache_type(computer.kernels));
        let caches = [Cache::of_type(cache, model.config(), model.context())];
        Ok(Self { model, computer, caches, forward: Forward::new() })
    }

    /// Adds tokens to the sequence and gives the logits after the last.
    pub fn feed(&mut self, ids: &[u32]) -> Result<&[f32]> {
        ensure!(!ids.is_empty(), "there are no tokens; name at least one with --ids");
        let machine = self.computer.machine();
        let mut left = ids;
        while let Some((ids, rest)) = left.split_at_checked(TOGETHER).filter(|(_, rest)| !rest.is_empty()) {
            let mut batch = Batch::new();
            ids.iter().for_each(|id| batch.push(*id, 0, false));
            self.forward.pass(&self.model, machine, &batch, &mut self.caches)?;
            left = rest;
        }
        Ok(self.forward.pass(&self.model, machine, &Batch::prompt(left), &mut self.caches)?)
    }

    /// Adds tokens to the sequence in one pass, with logits after each.
    pub fn feed_rows<'i>(&mut self, ids: impl Iterator<Item = &'i u32>) -> Result<()> {
        let mut batch = Batch::new();
        ids.for_each(|id| batch.push(*id, 0, true));
        self.forward.pass(&self.model, self.computer.machine(), &batch, &mut self.caches)?;
        Ok(())
    }

    /// Forgets the sequence.
    pub fn reset(&mut self) {
        self.truncate(0);
    }

    /// Forgets all but the first tokens of the sequence.
    pub fn truncate(&mut self, tokens: usize) {
        self.caches.iter_mut().for_each(|cache| cache.truncate(tokens));
    }
}
