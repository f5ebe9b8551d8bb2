//! How much memory running a model takes, by the shape in its file. Nothing here is less than the actual use, so a
//! grant of this size suffices. The weights, which are in the file's mapping, are not counted.

use crate::activations::{CHUNK, FLOAT_ROWS, FloatTile, GROUP, Lanes, TILE_COLUMNS, TILE_ROWS, Tile};
use crate::attention::{PART_BYTES, SCORES_TOGETHER};
use crate::cache::{Cache, CacheType};
use crate::config::Config;
use crate::kernel::FEW_ROWS;

/// Vectors that are taken together in attention at most, whatever the kernels.
const VECTORS_TOGETHER: u64 = 32;
/// Bytes of a tensor's record: its name's length, shape, type and place, and a vector's head.
const TENSOR: u64 = 512;
/// Norms and biases of a layer, as multiples of the width of the state.
const WIDE_VECTORS: u64 = 8;
/// Bytes for each token of the vocabulary while one is chosen: a candidate, its place when they are sorted, a mask.
const CANDIDATE: u64 = 32;

/// How a model is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Most tokens of a pass.
    pub prefill: u64,
    /// Sequences that are run together.
    pub sequences: u64,
    /// Threads.
    pub threads: u64,
}

/// Bytes of keys and values of a token, in the larger of the types that they may be kept as.
pub fn token_bytes(config: &Config) -> u64 {
    let of = |kind| Cache::of_type(kind, config, 1).token_bytes() as u64;
    of(CacheType::F16).max(of(CacheType::Q8_0))
}

/// Bytes that passes take besides keys and values, if sequences have at most `context` tokens.
pub fn pass_bytes(config: &Config, vocabulary: u64, load: Load, context: u64) -> u64 {
    let Load { prefill, sequences, threads } = load;
    // Every sequence that is written has a token in each pass.
    let rows = prefill.saturating_add(sequences);
    let wide = |width: usize| width as u64;
    let (width, inside) = (wide(config.width), wide(config.feed_forward));
    let (queries, mixed) = (wide(config.queries()), wide(config.mixed()));
    let floats = |columns: u64| product(&[rows, columns, 4]);
    let mut parts = [
        // The state and the addition to it.
        floats(width),
        floats(width),
        floats(queries),
        floats(wide(config.keys())),
        floats(wide(config.values())),
        floats(inside),
        activations(rows, width),
        activations(rows, mixed),
        activations(rows, inside),
        activations(sequences, width),
        product(&[sequences, vocabulary, 4]),
    ]
    .into_iter()
    .fold(0, u64::saturating_add);
    let experts = config.experts.map_or(0, |experts| experts.count as u64);
    if experts > 0 {
        let chosen = [floats(experts), activations(rows, width), floats(width), product(&[rows, experts, 16])];
        parts = chosen.into_iter().fold(parts, u64::saturating_add);
    }
    // A buffer that grows may be twice as large as its content.
    let buffers = parts.saturating_mul(2);

    let group = wide(config.heads).checked_div(wide(config.kv_heads)).unwrap_or(1);
    let scores = SCORES_TOGETHER as u64;
    let of_thread = [
        product(&[scores.max(group.saturating_mul(context)), 4]),
        product(&[VECTORS_TOGETHER.max(group), wide(config.key_size).saturating_add(wide(config.value_size)), 4]),
    ];
    let attention = of_thread.into_iter().fold(0, u64::saturating_add).saturating_mul(threads.max(1));
    let places = product(&[rows, wide(config.kv_heads), PART_BYTES as u64, 2]);
    let turns = product(&[rows, wide(config.key_size), 8]);

    let tensors = experts.saturating_mul(3).saturating_add(16).saturating_mul(TENSOR);
    let vectors = [width.saturating_mul(WIDE_VECTORS), queries, wide(config.keys()), wide(config.values())];
    let vectors = vectors.into_iter().fold(inside.saturating_mul(2), u64::saturating_add).saturating_mul(4);
    let layers = tensors.saturating_add(vectors).saturating_mul(wide(config.layers));
    let choice = product(&[sequences, vocabulary, CANDIDATE]);
    [buffers, attention, places, turns, layers, choice].into_iter().fold(0, u64::saturating_add)
}

/// Bytes of rows with all that is made of them for kernels.
fn activations(rows: u64, columns: u64) -> u64 {
    let padded = columns.checked_next_multiple_of(CHUNK as u64).unwrap_or(u64::MAX);
    // A scale, a sum and two half sums for each group of quants.
    let (groups, chunks) = (padded.div_ceil(GROUP as u64), padded.div_ceil(CHUNK as u64));
    let of_groups = product(&[rows, groups, 16]);
    let eights = product(&[rows.div_ceil(TILE_ROWS as u64), chunks, size_of::<Tile>() as u64]);
    let sixteens = [rows.div_ceil(FLOAT_ROWS as u64), columns.div_ceil(TILE_COLUMNS as u64), 2];
    let sixteens = product(&sixteens).saturating_mul(size_of::<FloatTile>() as u64);
    let lanes = product(&[rows.min(FEW_ROWS as u64), chunks, size_of::<Lanes>() as u64]);
    let plain = product(&[rows, columns, 4]).saturating_add(product(&[rows, padded]));
    [plain, of_groups, eights, lanes, sixteens].into_iter().fold(0, u64::saturating_add)
}

fn product(factors: &[u64]) -> u64 {
    factors.iter().copied().fold(1, u64::saturating_mul)
}
