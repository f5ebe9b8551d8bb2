//! Several products in one multiplication of words of 64 bits, in integers as far as possible, without instructions of
//! any kind of processor. That is what runs best if a processor is emulated: such a multiplication becomes one of the
//! processor that emulates it, and an instruction on vectors becomes a call.

use alloc::vec::Vec;
use core::array::from_ref;
use core::hint::black_box;
use core::slice::{ChunksExact, ChunksExactMut};

use super::chunk::{Chunk, GROUPS, VALUE_GROUPS, blocks_of};
use super::portable::{self, ROUNDING};
use super::{Kernels, Parts};
use crate::activations::{Activations, CHUNK, GROUP, HALF_GROUP};
use crate::block::{BFloat16, Block, Float16, Float32, Kind, Q8_0, blocks, half, with_block};
use crate::cache::CacheType;
use crate::tensor::Tensor;

/// Kernels for emulated processors ("SIMD within a register").
#[derive(Clone, Copy, Debug, Default)]
pub struct Swar;

impl Kernels for Swar {
    fn name(&self) -> &'static str {
        "swar"
    }

    fn has_slow_floats(&self) -> bool {
        true
    }

    fn product(&self, matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
        if matrix.kind() == Kind::Q8_0 {
            return bytes(matrix, activations, out);
        }
        with_block!(matrix.kind(), B => quantised::<B>(matrix, activations, out), else match matrix.kind() {
            Kind::F16 => portable::product::<Float16>(matrix, activations, out),
            Kind::BF16 => portable::product::<BFloat16>(matrix, activations, out),
            _ => portable::product::<Float32>(matrix, activations, out),
        });
    }

    fn cache(&self) -> CacheType {
        CacheType::Q8_0
    }

    fn dot_q8_0(&self, vectors: ChunksExact<'_, f32>, rows: Parts<'_, Q8_0>, out: ChunksExactMut<'_, f32>) {
        in_pairs(vectors, out, |vectors, out| dot_pair(vectors, rows, out));
    }

    fn add_q8_0(&self, weights: ChunksExact<'_, f32>, rows: Parts<'_, Q8_0>, out: ChunksExactMut<'_, f32>) {
        in_pairs(weights, out, |weights, out| add_pair(weights, rows, out));
    }
}

/// Computes with two heads at a time; the last may come with one that is empty.
fn in_pairs(heads: ChunksExact<'_, f32>, out: ChunksExactMut<'_, f32>, compute: impl Fn([&[f32]; 2], [&mut [f32]; 2])) {
    let mut heads = heads.zip(out);
    while let Some((first, first_out)) = heads.next() {
        let (second, second_out) = heads.next().unwrap_or_default();
        compute([first, second], [first_out, second_out]);
    }
}

/// Rows of activations that are in one word.
const LANES: usize = 3;

/// Bits of a row's part of a word: a group's sum is less than 32 × 255 × 127, which with its sign has 21 bits.
const LANE: u32 = 21;

/// Words that are multiplied with the same weights one after another.
const WORDS: usize = 2;

/// The largest whole numbers that scales of weights and of activations become. A sum of a group has 20 bits and its
/// sign; with both scales, and for all groups of a chunk together, it fits into 63.
const WEIGHT_SCALE: f32 = 1_048_576.0;
const VALUE_SCALE: f32 = 1_048_576.0;

/// The largest size of numbers, by their bits: NaN is larger than all.
#[inline(always)]
fn largest_of(numbers: impl Iterator<Item = f32>) -> f32 {
    f32::from_bits(numbers.map(|number| number.abs().to_bits()).fold(0, u32::max))
}

/// Whole numbers instead of scales, and the value of one unit.
fn whole(scales: &[f32], out: &mut [i64], largest: f32) -> f32 {
    let most = largest_of(scales.iter().copied());
    let inverse = if most > 0.0 { largest / most } else { 0.0 };
    for (out, scale) in out.iter_mut().zip(scales) {
        *out = nearest(scale * inverse);
    }
    most / largest
}

/// The whole number that is nearest to one below 2²².
#[inline(always)]
fn nearest(number: f32) -> i64 {
    i64::from((number + ROUNDING).to_bits().wrapping_sub(ROUNDING.to_bits()).cast_signed())
}

/// A block's scale. It keeps the compiler from loading several scales as a vector: an emulated processor takes longer
/// to extract numbers from vectors than for all arithmetic with them.
#[inline(always)]
fn alone(block: &Q8_0) -> [u8; 2] {
    black_box(block.scale)
}

/// Whole numbers instead of the scales of a chunk's weights, and the value of one unit.
#[derive(Clone, Copy)]
struct Scales {
    whole: [i64; GROUPS],
    unit: f32,
}

impl Scales {
    const EMPTY: Self = Self { whole: [0; GROUPS], unit: 0.0 };

    #[inline(always)]
    fn set(&mut self, scales: &[f32]) {
        self.unit = whole(scales, &mut self.whole, WEIGHT_SCALE);
    }

    /// The same for scales of 16 bits, without any floating point number.
    #[inline(always)]
    fn set_halves(&mut self, blocks: &[Q8_0]) {
        let bits = |block: &Q8_0| u32::from(u16::from_le_bytes(alone(block)));
        let exponent = |bits: u32| ((bits >> 10) & 31).max(1);
        let most = blocks.iter().fold(1, |most, block| exponent(bits(block)).max(most));
        for (whole, block) in self.whole.iter_mut().zip(blocks) {
            let bits = bits(block);
            let mantissa = i64::from(bits & 0x3ff | u32::from(bits & 0x7c00 != 0) << 10) << MORE;
            let size = mantissa >> (most - exponent(bits));
            *whole = if bits & 0x8000 == 0 { size } else { -size };
        }
        // The exponent of a half is 15 more than it says, and its mantissa has 10 bits after the point.
        let exponent = 127 - 15 - 10 - MORE + most;
        self.unit = if most == 31 { f32::NAN } else { f32::from_bits(exponent << 23) };
    }
}

/// Bits by which the mantissa of a scale with 16 bits is made longer, up to those of [`WEIGHT_SCALE`].
const MORE: u32 = 9;

/// Up to `L × W` rows of activations, column by column.
struct Packed<const W: usize, const L: usize> {
    /// The first of the rows.
    first: usize,
    quants: Vec<[i64; W]>,
    /// For each group whole numbers instead of the scales of all rows, and for each chunk what these stand for.
    scales: Vec<[[i64; L]; W]>,
    units: Vec<[[f32; L]; W]>,
}

impl<const W: usize, const L: usize> Packed<W, L> {
    fn new(activations: &Activations, first: usize) -> Self {
        let columns = activations.row(first).quants.len();
        let mut quants = alloc::vec![[0i64; W]; columns];
        let mut scales = alloc::vec![[[0; L]; W]; columns / GROUP];
        let mut units = alloc::vec![[[0.0; L]; W]; columns / CHUNK];
        for word in 0..W {
            for lane in 0..L {
                let row = activations.row(first + word * L + lane);
                for (to, quant) in quants.iter_mut().filter_map(|words| words.get_mut(word)).zip(row.quants) {
                    *to = to.wrapping_add(i64::from(*quant) << (LANE * lane as u32));
                }
                let chunks = scales.as_chunks_mut::<VALUE_GROUPS>().0.iter_mut().zip(&mut units);
                for ((scales, units), of_row) in chunks.zip(row.scales.as_chunks::<VALUE_GROUPS>().0) {
                    let mut found = [0; VALUE_GROUPS];
                    let unit = whole(of_row, &mut found, VALUE_SCALE);
                    for (scales, found) in scales.iter_mut().zip(found) {
                        if let Some(to) = lane_of(scales, word, lane) {
                            *to = found;
                        }
                    }
                    if let Some(to) = lane_of(units, word, lane) {
                        *to = unit;
                    }
                }
            }
        }
        Self { first, quants, scales, units }
    }

    /// Writes the products of a row of the matrix with all rows: `chunks` gives for each chunk the groups of its
    /// weights and their scales; `PER` groups have the same activation scale.
    #[inline(always)]
    fn multiply<'w, const SIZE: usize, const PER: usize, G: Iterator<Item = &'w [[u8; SIZE]; PER]>>(
        &self,
        chunks: impl Iterator<Item = (G, &'w Scales)>,
        widen: impl Fn(u8) -> i64,
        index: usize,
        out: &mut [&mut [f32]],
    ) {
        let mut totals = [[0.0f32; L]; W];
        let values = self.quants.as_chunks::<CHUNK>().0.iter().zip(self.scales.as_chunks::<VALUE_GROUPS>().0);
        for ((groups, scales), ((values, value_scales), units)) in chunks.zip(values.zip(&self.units)) {
            let mut sums = [[0i64; L]; W];
            let values = values.as_chunks::<SIZE>().0.as_chunks::<PER>().0;
            let all_scales = scales.whole.as_chunks::<PER>().0.iter().zip(value_scales);
            for ((weights, values), (scales, value_scales)) in groups.zip(values).zip(all_scales) {
                for ((weights, values), scale) in weights.iter().zip(values).zip(scales) {
                    let found = multiply(weights, &widen, values);
                    for ((sums, found), value_scales) in sums.iter_mut().zip(found).zip(value_scales) {
                        for ((sum, found), value_scale) in sums.iter_mut().zip(lanes::<L>(found)).zip(value_scales) {
                            *sum = sum.wrapping_add(scale.wrapping_mul(*value_scale).wrapping_mul(found));
                        }
                    }
                }
            }
            let units = units.as_flattened().iter().zip(sums.as_flattened());
            for (total, (unit, sum)) in totals.as_flattened_mut().iter_mut().zip(units) {
                *total += *sum as f32 * (unit * scales.unit);
            }
        }
        for (out, total) in out.iter_mut().skip(self.first).zip(totals.as_flattened()) {
            if let Some(out) = out.get_mut(index) {
                *out = *total;
            }
        }
    }
}

/// One element of a row.
fn lane_of<T, const W: usize, const L: usize>(words: &mut [[T; L]; W], word: usize, lane: usize) -> Option<&mut T> {
    words.get_mut(word)?.get_mut(lane)
}

/// Weights that are multiplied before the sums are read. These have no jump between them, since a jump is slow on an
/// emulated processor.
const UNROLLED: usize = 16;

/// The sums of products of a group.
#[inline(always)]
fn multiply<const SIZE: usize, const W: usize>(
    weights: &[u8; SIZE],
    widen: impl Fn(u8) -> i64,
    values: &[[i64; W]; SIZE],
) -> [i64; W] {
    let mut sums = [0i64; W];
    for (weights, values) in weights.as_chunks::<UNROLLED>().0.iter().zip(values.as_chunks::<UNROLLED>().0) {
        for (weight, values) in weights.iter().zip(values) {
            let weight = widen(*weight);
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = sum.wrapping_add(weight.wrapping_mul(*value));
            }
        }
    }
    sums
}

/// The sums that a word consists of. Those below take from the next what they lack to zero.
#[inline(always)]
fn lanes<const L: usize>(mut word: i64) -> [i64; L] {
    const ABOVE: u32 = 64 - LANE;
    let mut sums = [0; L];
    if let Some((last, below)) = sums.split_last_mut() {
        for sum in below {
            *sum = (word << ABOVE) >> ABOVE;
            word = word.wrapping_sub(*sum) >> LANE;
        }
        *last = word;
    }
    sums
}

/// All rows of activations: six to a pair of words, and those that are left over.
struct AllPacked {
    pairs: Vec<Packed<WORDS, LANES>>,
    rest: Option<Packed<1, LANES>>,
    single: Option<Packed<1, 1>>,
}

impl AllPacked {
    fn new(activations: &Activations) -> Self {
        let count = activations.rows();
        let mut pairs = Vec::new();
        let mut first = 0;
        while count.saturating_sub(first) > LANES {
            pairs.push(Packed::new(activations, first));
            first += WORDS * LANES;
        }
        let left = count.saturating_sub(first);
        Self {
            pairs,
            rest: (left > 1).then(|| Packed::new(activations, first)),
            single: (left == 1).then(|| Packed::new(activations, first)),
        }
    }

    /// See [`Packed::multiply`].
    #[inline(always)]
    fn multiply<'w, const SIZE: usize, const PER: usize, G: Iterator<Item = &'w [[u8; SIZE]; PER]>>(
        &self,
        chunks: impl Iterator<Item = (G, &'w Scales)> + Clone,
        widen: impl Fn(u8) -> i64 + Copy,
        index: usize,
        out: &mut [&mut [f32]],
    ) {
        for packed in &self.pairs {
            packed.multiply(chunks.clone(), widen, index, out);
        }
        if let Some(packed) = &self.rest {
            packed.multiply(chunks.clone(), widen, index, out);
        }
        if let Some(packed) = &self.single {
            packed.multiply(chunks, widen, index, out);
        }
    }
}

/// Multiplies rows whose weights are bytes, in place: moving vectors takes longer than the products.
fn bytes(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    let packed = AllPacked::new(activations);
    let mut scales = alloc::vec![Scales::EMPTY; matrix.columns().div_ceil(CHUNK)];
    for (index, bytes) in matrix.bytes().chunks_exact(matrix.row_bytes().max(1)).enumerate() {
        let row = blocks::<Q8_0>(bytes);
        scales.iter_mut().zip(row.chunks(VALUE_GROUPS)).for_each(|(scales, blocks)| scales.set_halves(blocks));
        let groups = row.chunks(VALUE_GROUPS).map(|blocks| blocks.iter().map(|block| from_ref(&block.quants)));
        let chunks = groups.zip(&scales);
        packed.multiply::<GROUP, 1, _>(chunks, |weight| i64::from(weight.cast_signed()), index, out);
    }
}

/// Unpacks each row once and multiplies it with all activations.
fn quantised<B: Block>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    let packed = AllPacked::new(activations);
    let mut unpacked = alloc::vec![(Chunk::EMPTY, Scales::EMPTY); matrix.columns().div_ceil(CHUNK)];
    for (index, bytes) in matrix.bytes().chunks_exact(matrix.row_bytes().max(1)).enumerate() {
        for ((chunk, scales), blocks) in unpacked.iter_mut().zip(blocks::<B>(bytes).chunks(blocks_of::<B>())) {
            chunk.unpack(blocks);
            scales.set(chunk.scales.get(..CHUNK / B::GROUP).unwrap_or(&chunk.scales));
        }
        match B::GROUP {
            GROUP => multiply_unpacked::<GROUP, 1>(&packed, &unpacked, B::OFFSET, index, out),
            _ => multiply_unpacked::<HALF_GROUP, 2>(&packed, &unpacked, B::OFFSET, index, out),
        }
        if B::MINIMA {
            for (row, out) in out.iter_mut().enumerate() {
                let Some(out) = out.get_mut(index) else { continue };
                let row = activations.row(row);
                let sums = if B::GROUP == GROUP { row.sums } else { row.half_sums };
                let minima = unpacked.iter().flat_map(|(chunk, _)| chunk.minima.iter().take(CHUNK / B::GROUP));
                *out -= minima.zip(sums).fold(0.0, |sum, (minimum, values)| sum + minimum * values);
            }
        }
    }
}

/// Multiplies an unpacked row, of whatever type, with all activations. Groups after a row's end have scales of zero.
#[inline(never)]
fn multiply_unpacked<const SIZE: usize, const PER: usize>(
    packed: &AllPacked,
    unpacked: &[(Chunk, Scales)],
    offset: u8,
    index: usize,
    out: &mut [&mut [f32]],
) {
    let offset = i64::from(offset);
    let chunks =
        unpacked.iter().map(|(chunk, scales)| (chunk.quants.as_chunks::<SIZE>().0.as_chunks::<PER>().0.iter(), scales));
    packed.multiply::<SIZE, PER, _>(chunks, |weight| i64::from(weight).wrapping_sub(offset), index, out);
}

/// The largest whole number that a number of a vector becomes: sums of 32 products with quants, which are 127 at most,
/// have 31 bits and a sign.
const LARGEST: f32 = 524_287.0;

/// Two sums of 32 bits in a word.
#[inline(always)]
fn halves(word: i64) -> [f32; 2] {
    let low = word as i32;
    [low as f32, (word.wrapping_sub(i64::from(low)) >> 32) as i32 as f32]
}

/// The sums of two vectors' products with each of some rows. The second may be empty.
fn dot_pair(vectors: [&[f32]; 2], rows: Parts<'_, Q8_0>, out: [&mut [f32]; 2]) {
    if !vectors.iter().copied().flatten().all(|value| value.is_finite()) {
        for (vector, out) in vectors.iter().zip(out) {
            let (size, length) = (vector.len().max(1), out.len().max(1));
            portable::dot_q8_0(vector.chunks_exact(size), rows, out.chunks_exact_mut(length));
        }
        return;
    }
    let groups = vectors[0].len().div_ceil(GROUP);
    let mut packed = alloc::vec![([0i64; GROUP], [0.0f32; 2]); groups];
    for (place, vector) in vectors.iter().enumerate() {
        for (values, (words, scales)) in vector.chunks(GROUP).zip(&mut packed) {
            let largest = values.iter().fold(0.0f32, |most, value| most.max(value.abs()));
            let inverse = if largest > 0.0 { LARGEST / largest } else { 0.0 };
            for (word, value) in words.iter_mut().zip(values) {
                *word = word.wrapping_add(nearest(value * inverse) << (32 * place));
            }
            if let Some(scale) = scales.get_mut(place) {
                *scale = largest / LARGEST;
            }
        }
    }
    let [first, second] = out;
    let mut second = second.iter_mut();
    for (first, row) in first.iter_mut().zip(rows.iter()) {
        let mut totals = [0.0f32; 2];
        for (block, (words, scales)) in row.iter().zip(&packed) {
            let products = block.quants.iter().zip(words);
            let sum = products
                .fold(0i64, |sum, (quant, word)| sum.wrapping_add(i64::from(quant.cast_signed()).wrapping_mul(*word)));
            let block_scale = half(alone(block));
            for ((total, scale), sum) in totals.iter_mut().zip(scales).zip(halves(sum)) {
                *total += block_scale * scale * sum;
            }
        }
        *first = totals[0];
        if let Some(second) = second.next() {
            *second = totals[1];
        }
    }
}

/// The sum of the integers that weights become: products of bytes with them fit into 32 bits.
const WHOLE: f32 = 4_000_000.0;

/// Columns whose sums are kept at a time: as many as there are registers for.
const COLUMNS: usize = 8;

/// Adds rows to two vectors, multiplied with two weights each. The second vector may be empty.
fn add_pair(weights: [&[f32]; 2], rows: Parts<'_, Q8_0>, out: [&mut [f32]; 2]) {
    let most = largest_of(rows.iter().flatten().map(|block| half(alone(block))));
    let whole = weights.map(|weights| weights.iter().fold(0.0f32, |sum, weight| sum + weight.abs()) * most);
    if !whole.iter().all(|whole| whole.is_finite()) {
        for (weights, out) in weights.iter().zip(out) {
            let (length, size) = (weights.len().max(1), out.len().max(1));
            portable::add_q8_0(weights.chunks_exact(length), rows, out.chunks_exact_mut(size));
        }
        return;
    }
    let factors = whole.map(|whole| if whole > 0.0 { WHOLE / whole } else { 0.0 });
    let inverses = whole.map(|whole| whole / WHOLE);
    let [first, second] = out;
    let mut second = second.chunks_mut(GROUP);
    let seconds = weights[1].iter().copied().chain(core::iter::repeat(0.0));
    let weights: Vec<[f32; 2]> =
        weights[0].iter().zip(seconds).map(|(first, second)| [first * factors[0], second * factors[1]]).collect();
    let mut words: Vec<i64> = Vec::with_capacity(weights.len());
    for (index, first) in first.chunks_mut(GROUP).enumerate() {
        let blocks = || rows.iter().filter_map(|row| row.get(index));
        words.clear();
        words.extend(blocks().zip(&weights).map(|(block, [first, second])| {
            let scale = half(alone(block));
            nearest(scale * first).wrapping_add(nearest(scale * second) << 32)
        }));
        let mut sums = [[0i64; COLUMNS]; GROUP / COLUMNS];
        for (part, sums) in sums.iter_mut().enumerate() {
            for (word, block) in words.iter().zip(blocks()) {
                if let Some(quants) = block.quants.as_chunks::<COLUMNS>().0.get(part) {
                    for (sum, quant) in sums.iter_mut().zip(quants) {
                        *sum = sum.wrapping_add(i64::from(quant.cast_signed()).wrapping_mul(*word));
                    }
                }
            }
        }
        let sums = sums.as_flattened();
        for (out, sum) in first.iter_mut().zip(sums) {
            *out += halves(*sum)[0] * inverses[0];
        }
        for (out, sum) in second.next().unwrap_or_default().iter_mut().zip(sums) {
            *out += halves(*sum)[1] * inverses[1];
        }
    }
}

#[cfg(test)]
mod tests {
    use bytemuck::Zeroable;

    use super::*;

    #[test]
    fn whole_numbers_stand_for_every_scale_of_16_bits() {
        let mut scales = Scales::EMPTY;
        for bits in 0..=u16::MAX {
            let block = Q8_0 { scale: bits.to_le_bytes(), ..Q8_0::zeroed() };
            scales.set_halves(&[block]);
            let (found, expected) = (scales.whole[0] as f32 * scales.unit, half(block.scale));
            match expected.is_finite() {
                true => assert_eq!(found, expected, "{bits:#x}"),
                false => assert!(found.is_nan(), "{bits:#x}"),
            }
        }
    }

    #[test]
    fn a_word_holds_the_largest_sums() {
        let most = 32 * 255 * 127;
        for sums in [[most, -most, most], [-most, -most, -most], [-most, most, 0], [0, -1, 1]] {
            let word = sums.iter().rev().fold(0i64, |word, sum| (word << LANE) + sum);
            assert_eq!(lanes::<LANES>(word), sums);
        }
        assert_eq!(lanes::<1>(-7), [-7]);
        let all = i128::from(most) * WEIGHT_SCALE as i128 * VALUE_SCALE as i128 * VALUE_GROUPS as i128;
        assert!(all <= i128::from(i64::MAX));
    }
}
