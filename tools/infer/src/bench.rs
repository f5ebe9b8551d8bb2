//! `capos-infer bench`: how fast tokens are read and written, and how near that is to the memory's rate.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use capos_engine::generation::Options;
use capos_engine::kernel::prefetch;
use capos_engine::{Event, Finish, Generation, Pool, Request};
use serde_json::json;

use crate::file::ModelFile;
use crate::run::{Run, RunOptions};

#[derive(clap::Args)]
pub struct Args {
    /// The model file.
    model: PathBuf,
    /// Number of prompt tokens.
    #[arg(short, long, default_value_t = 256)]
    prompt: usize,
    /// Number of tokens to generate.
    #[arg(short = 'n', long = "n", default_value_t = 64)]
    count: usize,
    /// Number of measurements; the best one counts.
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Also measure the decode of this many sequences together.
    #[arg(long, default_value_t = 1)]
    sequences: usize,
    /// Also measure passes of 1, 2, and so on up to this many tokens, with logits after each.
    #[arg(long, default_value_t = 0)]
    rows: usize,
}

pub fn run(args: &Args, options: &RunOptions, as_json: bool) -> Result<()> {
    ensure!(
        args.prompt > 0 && args.count > 0 && args.repeat > 0 && args.sequences > 0,
        "nothing to measure: -p, -n, --repeat and --sequences must be at least 1"
    );
    let file = ModelFile::open(&args.model)?;
    let mut run = Run::new(&file, options)?;
    let vocabulary = run.model.vocabulary().max(1);
    let prompt: Vec<u32> =
        (0..args.prompt).map(|index| u32::try_from(index.wrapping_mul(7919) % vocabulary).unwrap_or(0)).collect();
    let (mut prefill, mut decode, mut together) = (0f64, 0f64, 0f64);
    let mut bandwidth = 0f64;
    let mut passes = vec![f64::INFINITY; args.rows];
    for _ in 0..args.repeat {
        bandwidth = bandwidth.max(bandwidth_of(file.bytes().len(), || read(file.bytes(), &run.computer.threads)));
        run.reset();
        let began = Instant::now();
        let mut id = capos_engine::greedy(run.feed(&prompt)?);
        prefill = prefill.max(args.prompt as f64 / began.elapsed().as_secs_f64());
        let began = Instant::now();
        for _ in 0..args.count {
            id = capos_engine::greedy(run.feed(&[id])?);
        }
        decode = decode.max(args.count as f64 / began.elapsed().as_secs_f64());
        if args.sequences > 1 {
            together = together.max(decode_together(&run, options, &prompt, args)?);
        }
        // The first pass over a new number of rows allocates memory that later ones reuse.
        for (index, least) in passes.iter_mut().enumerate() {
            for _ in 0..PASSES {
                let ids = prompt.iter().cycle().take(index.saturating_add(1));
                let began = Instant::now();
                run.feed_rows(ids)?;
                *least = least.min(began.elapsed().as_secs_f64());
                run.truncate(args.prompt);
            }
        }
    }
    let bytes = run.model.bytes_per_token();
    let fraction = bytes as f64 * decode / bandwidth;
    let (kernels, threads) = (run.computer.kernels.name(), run.computer.threads.threads());
    if as_json {
        let found = json!({
            "kernels": kernels,
            "threads": threads,
            "promptTokens": args.prompt,
            "prefillPerSecond": prefill,
            "newTokens": args.count,
            "decodePerSecond": decode,
            "sequences": args.sequences,
            "decodeTogetherPerSecond": (args.sequences > 1).then_some(together),
            "passSeconds": passes,
            "bytesPerToken": bytes,
            "readBytesPerSecond": bandwidth,
            "bandwidthFraction": fraction,
        });
        println!("{found}");
        return Ok(());
    }
    println!("kernels {kernels}, threads {threads}");
    println!("prefill of {}: {prefill:.1} tokens/s", args.prompt);
    println!("decode of {}: {decode:.1} tokens/s, {bytes} bytes read for each", args.count);
    println!("that is {:.0} % of the {:.2} GB/s that reading the file gives", fraction * 100.0, bandwidth / 1e9);
    if args.sequences > 1 {
        println!("decode of {} sequences together: {together:.1} tokens/s in total", args.sequences);
    }
    for (index, pass) in passes.iter().enumerate() {
        println!("a pass of {} tokens: {:.2} ms", index.saturating_add(1), pass * 1e3);
    }
    Ok(())
}

/// Tokens a second that several sequences together get, from when each has its first until one ends.
fn decode_together(run: &Run<'_>, options: &RunOptions, prompt: &[u32], args: &Args) -> Result<f64> {
    let options = Options { sequences: args.sequences, ..options.generation() };
    let mut generation = Generation::new(&run.model, run.computer.machine(), options);
    // Those that begin first are ahead by as many tokens as others begin after them.
    let limit = args.count.saturating_add(args.sequences);
    for _ in 0..args.sequences {
        generation.submit(Request { prompt: prompt.to_vec(), limit, ..Request::default() }, None)?;
    }
    let (mut begun, mut tokens, mut began) = (BTreeSet::new(), 0usize, Instant::now());
    loop {
        let all_begun = begun.len() == args.sequences;
        let events = generation.step();
        if !all_begun {
            // After the pass, which may have read a prompt to its end.
            began = Instant::now();
        }
        for (id, event) in events {
            match event {
                Event::Progress { .. } => {}
                Event::Token(_) => {
                    begun.insert(id);
                    tokens = tokens.saturating_add(usize::from(all_begun));
                }
                Event::Finish { reason: Finish::Failed(error), .. } => return Err(error.into()),
                Event::Finish { .. } => return Ok(tokens as f64 / began.elapsed().as_secs_f64()),
            }
        }
    }
}

/// Bytes that are read together before a thread takes the next.
const PIECE: usize = 1 << 20;

/// How often the file is read to measure the rate, and each pass repeated; the best counts.
const PASSES: usize = 4;

/// Bytes a second, of a `pass` over `bytes` bytes. The first one is not measured: it finds pages that are not mapped
/// yet.
fn bandwidth_of(bytes: usize, mut pass: impl FnMut() -> Duration) -> f64 {
    pass();
    (0..PASSES).map(|_| bytes as f64 / pass().as_secs_f64()).fold(0.0, f64::max)
}

/// How long the threads take to read the file's mapping, when they do nothing else.
fn read(bytes: &[u8], threads: &dyn Pool) -> Duration {
    let next = AtomicUsize::new(0);
    let total = AtomicU64::new(0);
    let began = Instant::now();
    threads.run(&|| {
        while let Some(piece) = bytes.chunks(PIECE).nth(next.fetch_add(1, Ordering::Relaxed)) {
            total.fetch_xor(fold(piece), Ordering::Relaxed);
        }
    });
    let elapsed = began.elapsed();
    // Used, so that reading is not left out.
    std::hint::black_box(total.into_inner());
    elapsed
}

/// All words of a piece joined.
fn fold(piece: &[u8]) -> u64 {
    let mut all = [0u64; 32];
    for words in piece.as_chunks::<256>().0 {
        prefetch(words);
        for (all, word) in all.iter_mut().zip(words.as_chunks::<8>().0) {
            *all ^= u64::from_le_bytes(*word);
        }
    }
    all.iter().fold(0, |one, other| one ^ other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_that_finds_pages_unmapped_is_not_measured() {
        let mut milliseconds = [900, 40, 20, 30, 50].into_iter();
        let rate = bandwidth_of(1000, || Duration::from_millis(milliseconds.next().unwrap()));
        assert_eq!(rate, 50_000.0);
        // However long a run is, its first pass is left out again.
        let mut touched = false;
        let pass = || Duration::from_millis(if std::mem::replace(&mut touched, true) { 10 } else { 1 });
        assert_eq!(bandwidth_of(1000, pass), 100_000.0);
    }

    #[test]
    fn every_word_is_read() {
        let mut piece = vec![0u8; 1024];
        for at in (0..1024).step_by(8) {
            piece[at] = 1;
            assert_eq!(fold(&piece), 1, "{at}");
            piece[at] = 0;
        }
    }
}
