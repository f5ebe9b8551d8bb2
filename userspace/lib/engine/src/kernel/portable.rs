//! Loops in plain Rust that a compiler makes vector code of, shared by the sets.

use alloc::vec::Vec;
use core::slice::{ChunksExact, ChunksExactMut};

use half::f16;

use super::Parts;
use crate::activations::{Activations, FloatTile, GROUP, HALF_GROUP, RowMut, TILE_COLUMNS};
use crate::architecture::Activation;
use crate::block::{Float, Q8_0, blocks, half};
use crate::tensor::Tensor;

/// Added to a number and taken off again, this rounds it to a whole one; in between, the lowest
/// bits of the sum are that whole number.
pub const ROUNDING: f32 = 12_582_912.0;

/// Quantises a row, each group by its largest value.
#[inline(always)]
pub fn quantise(row: RowMut<'_>) {
    let groups = row.values.chunks_exact(GROUP).zip(row.quants.chunks_exact_mut(GROUP));
    let sums = row.sums.iter_mut().zip(row.half_sums.chunks_exact_mut(2));
    for (((values, quants), scale), (sum, half_sums)) in groups.zip(row.scales).zip(sums) {
        let mut most = [0.0f32; 8];
        for values in values.chunks_exact(8) {
            for (most, value) in most.iter_mut().zip(values) {
                *most = most.max(value.abs());
            }
        }
        let largest = most.iter().fold(0.0f32, |one, other| one.max(*other));
        let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
        *scale = largest / 127.0;
        for (quant, value) in quants.iter_mut().zip(values) {
            *quant = (value * inverse + ROUNDING).to_bits() as i8;
        }
        let mut whole = 0i32;
        for (half_sum, quants) in half_sums.iter_mut().zip(quants.chunks_exact(HALF_GROUP)) {
            let half = quants.iter().fold(0i32, |sum, quant| sum.wrapping_add(i32::from(*quant)));
            whole = whole.wrapping_add(half);
            *half_sum = *scale * half as f32;
        }
        *sum = *scale * whole as f32;
    }
}

/// Past this, powers of e make no difference to sums with one; and smaller ones would become numbers that are not
/// normal, with which processors are slow.
const MOST: f32 = 60.0;

/// The exponential function, to about the last two bits; below `-MOST` it is zero, above `MOST` it stays.
#[inline(always)]
fn exponential(power: f32) -> f32 {
    // ln 2 in two parts, so that taking off a multiple loses nothing.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = if power > MOST { MOST } else { power };
    let x = if x < -MOST { -MOST } else { x };
    let shifted = x * core::f32::consts::LOG2_E + ROUNDING;
    let whole = shifted - ROUNDING;
    let rest = x - whole * LN_2_HIGH - whole * LN_2_LOW;
    let mut sum = 1.987_569_1e-4;
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5] {
        sum = sum * rest + coefficient;
    }
    let scale = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    let result = (sum * rest * rest + rest + 1.0) * scale;
    if power < -MOST { 0.0 } else { result }
}

/// Numbers that are taken at a time.
const LANES: usize = 16;

/// Sixteen numbers as one, half of them joined with the other half at a time.
#[inline(always)]
fn joined(mut numbers: [f32; LANES], join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut part = numbers.as_mut_slice();
    while part.len() > 1 {
        let (one, other) = part.split_at_mut(part.len() / 2);
        one.iter_mut().zip(other).for_each(|(one, other)| *one = join(*one, *other));
        part = one;
    }
    part.first().copied().unwrap_or_default()
}

/// Turns scores into probabilities.
#[inline(always)]
pub fn softmax(scores: &mut [f32]) {
    let larger = |one: f32, other: f32| if other > one { other } else { one };
    let (chunks, rest) = scores.as_chunks_mut::<LANES>();
    // Missing scores count for nothing.
    let mut last = [f32::NEG_INFINITY; LANES];
    last.iter_mut().zip(&*rest).for_each(|(last, score)| *last = *score);
    let mut most = last;
    for chunk in &*chunks {
        most.iter_mut().zip(chunk).for_each(|(most, score)| *most = larger(*most, *score));
    }
    let largest = joined(most, larger);
    let mut sums = [0.0; LANES];
    let mut raise = |chunk: &mut [f32; LANES]| {
        for (sum, score) in sums.iter_mut().zip(chunk) {
            *score = exponential(*score - largest);
            *sum += *score;
        }
    };
    chunks.iter_mut().for_each(&mut raise);
    raise(&mut last);
    let inverse = 1.0 / joined(sums, |one, other| one + other);
    chunks.as_flattened_mut().iter_mut().for_each(|score| *score *= inverse);
    rest.iter_mut().zip(last).for_each(|(score, last)| *score = last * inverse);
}

/// Puts each gate through the activation and multiplies it with its partner.
#[inline(always)]
pub fn gate(activation: Activation, gates: &mut [f32], ups: &[f32]) {
    match activation {
        Activation::Silu => {
            for (gate, up) in gates.iter_mut().zip(ups) {
                *gate = *gate / (1.0 + exponential(-*gate)) * up;
            }
        }
        Activation::Gelu => {
            // (1 + tanh(y)) / 2 is 1 / (1 + exp(-2y)).
            const SLOPE: f32 = 1.595_769;
            for (gate, up) in gates.iter_mut().zip(ups) {
                let inner = SLOPE * (*gate + 0.044_715 * *gate * *gate * *gate);
                *gate = *gate / (1.0 + exponential(-inner)) * up;
            }
        }
    }
}

/// Widens each row of a matrix of floating point numbers once and multiplies it with all activations.
#[inline(always)]
pub fn product<F: Float>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    let mut weights: Vec<f32> = Vec::with_capacity(matrix.columns());
    for (index, bytes) in matrix.bytes().chunks_exact(matrix.row_bytes().max(1)).enumerate() {
        weights.clear();
        weights.extend(blocks::<F>(bytes).iter().map(|weight| weight.to_f32()));
        for (row, out) in out.iter_mut().enumerate() {
            if let Some(out) = out.get_mut(index) {
                *out = dot(&weights, activations.row(row).values);
            }
        }
    }
}

/// Separate sums, so that several additions are in flight at once.
const SUMS: usize = 16;

/// The sum of products.
#[inline(always)]
pub fn dot(one: &[f32], other: &[f32]) -> f32 {
    let mut sums = [0.0f32; SUMS];
    let (ones, others) = (one.as_chunks::<SUMS>(), other.as_chunks::<SUMS>());
    for (one, other) in ones.0.iter().zip(others.0) {
        for (sum, (one, other)) in sums.iter_mut().zip(one.iter().zip(other)) {
            *sum += one * other;
        }
    }
    let rest = ones.1.iter().zip(others.1).fold(0.0f32, |sum, (one, other)| sum + one * other);
    sums.iter().fold(rest, |sum, part| sum + part)
}

/// The sum of products.
#[inline(always)]
pub fn dot_f16(one: &[f32], other: &[u16]) -> f32 {
    one.iter().zip(other).fold(0.0, |sum, (one, other)| sum + one * f16::from_bits(*other).to_f32())
}

/// Adds a row, multiplied with `weight`.
#[inline(always)]
pub fn add_f16(out: &mut [f32], row: &[u16], weight: f32) {
    for (out, value) in out.iter_mut().zip(row) {
        *out += weight * f16::from_bits(*value).to_f32();
    }
}

/// Makes 16 bits of each number.
#[inline(always)]
pub fn narrow(values: &[f32], out: &mut [u16]) {
    for (out, value) in out.iter_mut().zip(values) {
        *out = f16::from_f32(*value).to_bits();
    }
}

/// For each vector the sums of its products with each of some rows.
#[inline(always)]
pub fn dot_q8_0(vectors: ChunksExact<'_, f32>, rows: Parts<'_, Q8_0>, out: ChunksExactMut<'_, f32>) {
    for (vector, out) in vectors.zip(out) {
        for (out, row) in out.iter_mut().zip(rows.iter()) {
            *out = dot_row_q8_0(vector, row);
        }
    }
}

/// For each vector of weights adds rows, each multiplied with its weight.
#[inline(always)]
pub fn add_q8_0(weights: ChunksExact<'_, f32>, rows: Parts<'_, Q8_0>, out: ChunksExactMut<'_, f32>) {
    for (weights, out) in weights.zip(out) {
        for (weight, row) in weights.iter().zip(rows.iter()) {
            add_row_q8_0(out, row, *weight);
        }
    }
}

/// The sum of products with the values of blocks.
#[inline(always)]
fn dot_row_q8_0(one: &[f32], other: &[Q8_0]) -> f32 {
    let mut total = 0.0;
    let (whole, rest) = one.as_chunks::<GROUP>();
    for (one, block) in whole.iter().zip(other) {
        let mut sums = [0.0f32; SUMS];
        let (ones, quants) = (one.as_chunks::<SUMS>().0, block.quants.as_chunks::<SUMS>().0);
        for (one, quants) in ones.iter().zip(quants) {
            for (sum, (one, quant)) in sums.iter_mut().zip(one.iter().zip(quants)) {
                *sum += one * f32::from(quant.cast_signed());
            }
        }
        total += half(block.scale) * sums.iter().fold(0.0f32, |sum, part| sum + part);
    }
    if let Some(block) = other.get(whole.len()) {
        let quants = rest.iter().zip(block.quants);
        let sum = quants.fold(0.0f32, |sum, (one, quant)| sum + one * f32::from(quant.cast_signed()));
        total += half(block.scale) * sum;
    }
    total
}

/// Adds the values of blocks, multiplied with `weight`.
#[inline(always)]
fn add_row_q8_0(out: &mut [f32], row: &[Q8_0], weight: f32) {
    for (out, block) in out.chunks_mut(GROUP).zip(row) {
        let scale = weight * half(block.scale);
        for (out, quant) in out.iter_mut().zip(&block.quants) {
            *out += scale * f32::from(quant.cast_signed());
        }
    }
}

/// Makes blocks of numbers.
#[inline(always)]
pub fn quantise_q8_0(values: &[f32], out: &mut [Q8_0]) {
    for (values, block) in values.chunks(GROUP).zip(out) {
        let largest = values.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
        block.scale = f16::from_f32(largest / 127.0).to_bits().to_le_bytes();
        block.quants = [0; GROUP];
        for (quant, value) in block.quants.iter_mut().zip(values) {
            *quant = (value * inverse + ROUNDING).to_bits() as u8;
        }
    }
}

/// Lays out rows of numbers as the sums of two tiles', which are no farther from them than a 2^17th of their size.
pub fn lay_out(rows: ChunksExact<'_, f32>, tiles: &mut [FloatTile], rests: &mut [FloatTile]) {
    tiles.fill(FloatTile::EMPTY);
    rests.fill(FloatTile::EMPTY);
    for (place, row) in rows.enumerate() {
        let mut rests = rests.iter_mut();
        for (tile, values) in tiles.iter_mut().zip(row.chunks(TILE_COLUMNS)) {
            let mut rest = rests.next();
            for (index, values) in values.chunks(2).enumerate() {
                let mut pairs = [[0; 2]; 2];
                let [highs, lows] = &mut pairs;
                for ((high, low), value) in highs.iter_mut().zip(lows).zip(values) {
                    let nearest = nearest(*value);
                    *high = upper_half(nearest);
                    *low = upper_half(self::nearest(value - nearest));
                }
                let [highs, lows] = pairs;
                let place_in = |tile: &mut FloatTile, pair| {
                    if let Some(to) = tile.0.get_mut(index).and_then(|rows| rows.get_mut(place)) {
                        *to = pair;
                    }
                };
                place_in(tile, highs);
                if let Some(rest) = &mut rest {
                    place_in(rest, lows);
                }
            }
        }
    }
}

/// The nearest number that has nothing in its lower 16 bits.
#[inline(always)]
fn nearest(value: f32) -> f32 {
    const INFINITY: u32 = f32::INFINITY.to_bits();
    let bits = value.to_bits();
    // Infinite numbers and NaN are kept.
    let rounded = if bits & INFINITY == INFINITY { bits } else { bits.wrapping_add(0x8000) };
    f32::from_bits(rounded & 0xffff_0000)
}

#[inline(always)]
fn upper_half(number: f32) -> u16 {
    (number.to_bits() >> 16) as u16
}
