//! Weights of quantised types with groups of 32: each group's products are whole numbers, which are multiplied with both
//! scales and added.

use alloc::vec::Vec;
use core::arch::asm;
use core::arch::x86_64::*;

use super::ROWS;
use super::tiles::Tiles;
use crate::activations::{Activations, CHUNK, GROUP};
use crate::block::blocks;
use crate::kernel::avx512::{Load, load_numbers, store_numbers, transpose};
use crate::kernel::chunk::{GROUPS, blocks_of};
use crate::tensor::Tensor;

/// Sixteen rows of activations.
type Tile = crate::activations::Tile<ROWS>;

/// For each of 16 rows of weights the products with 16 of activations.
type Sums = [[f32; ROWS]; ROWS];

/// Strips of 16 rows of weights, and tiles of activations, that are multiplied together: each is loaded once for two
/// products.
const PAIR: usize = 2;

/// Groups whose products are made before they are added.
const TOGETHER: usize = 4;

/// Strips of 16 rows that are written together: of what lies in one place for each row of activations, and far from that
/// for the next, as much as there is.
const STRIPS: usize = 4;

/// A chunk of each of 32 rows of weights.
#[repr(C, align(64))]
struct Panel {
    /// With the type's offset taken off.
    quants: [[i8; CHUNK]; PAIR * ROWS],
    /// For each group those of all rows.
    scales: [[f32; PAIR * ROWS]; GROUPS],
    minima: [[f32; PAIR * ROWS]; GROUPS],
    /// Groups that there are.
    count: usize,
    /// For each group, of two strips with two tiles each.
    products: [[[Products; PAIR]; PAIR]; TOGETHER],
}

impl Panel {
    const EMPTY: Self = Self {
        quants: [[0; CHUNK]; PAIR * ROWS],
        scales: [[0.0; PAIR * ROWS]; GROUPS],
        minima: [[0.0; PAIR * ROWS]; GROUPS],
        count: 0,
        products: [[[[[0; ROWS]; ROWS]; PAIR]; PAIR]; TOGETHER],
    };
}

/// The products of a group of 16 rows of weights with 16 of activations.
type Products = [[i32; ROWS]; ROWS];

/// Multiplies a matrix with all rows of activations.
///
/// # Safety
/// The processor has AMX, and the program may use it.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub unsafe fn products<B: Load>(matrix: &Tensor<'_>, activations: &Activations, out: &mut [&mut [f32]]) {
    let (weights, values, sums) = ((16, GROUP as u16), (GROUP as u8 / 4, 64), (16, 64));
    // SAFETY: the caller has AMX, and nothing that this is called from has tiles.
    let tiles = unsafe { Tiles::set_up([weights, weights, values, values, sums, sums, sums, sums]) };
    let mut sums: Vec<[Sums; STRIPS]> = alloc::vec![[[[0.0; ROWS]; ROWS]; STRIPS]; out.len().div_ceil(ROWS)];
    let values: Vec<&[Tile]> = activations.sixteens().collect();
    let mut panel = Panel::EMPTY;
    let chunk_bytes = blocks_of::<B>() * size_of::<B>();
    let row_bytes = matrix.row_bytes().max(1);
    for (band, rows) in matrix.bytes().chunks(STRIPS * ROWS * row_bytes).enumerate() {
        for (pair, rows) in rows.chunks(PAIR * ROWS * row_bytes).enumerate() {
            for chunk in 0..matrix.columns().div_ceil(CHUNK) {
                let range = chunk * chunk_bytes..((chunk + 1) * chunk_bytes).min(row_bytes);
                fill::<B>(&mut panel, rows.chunks_exact(row_bytes).map(|row| row.get(range.clone()).unwrap_or(&[])));
                for (values, sums) in values.chunks(PAIR).zip(sums.chunks_mut(PAIR)) {
                    let tile = |index: usize| values.get(index)?.get(chunk);
                    let (Some(one), other) = (tile(0), tile(1)) else { continue };
                    let mut sums = sums.iter_mut().filter_map(|sums| sums.as_chunks_mut().0.get_mut(pair));
                    let sums = [sums.next(), sums.next()];
                    let work = Work { tiles: &tiles, values: [one, other.unwrap_or(one)], sums, first: chunk == 0 };
                    match B::MINIMA {
                        false => multiply::<false>(&mut panel, work),
                        true => multiply::<true>(&mut panel, work),
                    }
                }
            }
        }
        write(band, &sums, out);
    }
}

/// What a panel is multiplied with, and where the products go.
struct Work<'a> {
    tiles: &'a Tiles,
    values: [&'a Tile; PAIR],
    sums: [Option<&'a mut [Sums; PAIR]>; PAIR],
    /// Whether there are no sums yet.
    first: bool,
}

/// Unpacks a chunk of each row. Rows that are not there keep what was there before; nobody asks for their products.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn fill<'a, B: Load>(panel: &mut Panel, rows: impl Iterator<Item = &'a [u8]>) {
    let offset = _mm512_set1_epi8(B::OFFSET.cast_signed());
    for ((place, quants), bytes) in panel.quants.iter_mut().enumerate().zip(rows) {
        let blocks = blocks::<B>(bytes);
        // SAFETY: this function has what these kernels need.
        let row = unsafe { B::load(blocks) };
        for (to, quants) in quants.as_chunks_mut::<64>().0.iter_mut().zip(row.quants) {
            // SAFETY: there is room for 64 bytes.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_sub_epi8(quants, offset)) };
        }
        put(&mut panel.scales, place, row.scales);
        if B::MINIMA {
            put(&mut panel.minima, place, row.minima);
        }
        panel.count = blocks.len() * B::VALUES / GROUP;
    }
}

/// Writes a number for each group.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn put(to: &mut [[f32; PAIR * ROWS]; GROUPS], place: usize, numbers: __m512) {
    let mut all = [0.0; GROUPS];
    store_numbers(&mut all, numbers);
    for (to, number) in to.iter_mut().zip(all) {
        if let Some(to) = to.get_mut(place) {
            *to = number;
        }
    }
}

/// Adds the panel's products with two tiles.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn multiply<const MINIMA: bool>(panel: &mut Panel, mut work: Work<'_>) {
    for part in 0..panel.count.div_ceil(TOGETHER) {
        match work.sums {
            [_, Some(_)] => dot::<true>(work.tiles, panel, work.values, part),
            [_, None] => dot::<false>(work.tiles, panel, work.values, part),
        }
        let groups = part * TOGETHER..((part + 1) * TOGETHER).min(panel.count);
        for (index, (sums, values)) in work.sums.iter_mut().zip(work.values).enumerate() {
            let Some(sums) = sums else { continue };
            for (strip, sums) in sums.iter_mut().enumerate() {
                let mut totals = [_mm512_setzero_ps(); ROWS];
                if part > 0 || !work.first {
                    for (total, sums) in totals.iter_mut().zip(&*sums) {
                        *total = load_numbers(sums);
                    }
                }
                for (group, products) in groups.clone().zip(&panel.products) {
                    let Some(products) = products.get(strip).and_then(|products| products.get(index)) else { continue };
                    add::<MINIMA>(panel, strip, values, group, products, &mut totals);
                }
                for (sums, total) in sums.iter_mut().zip(totals) {
                    store_numbers(sums, total);
                }
            }
        }
    }
}

/// The products of [`TOGETHER`] groups one after another: of both strips, with the first tile or with both.
#[inline(always)]
fn dot<const BOTH: bool>(_tiles: &Tiles, panel: &mut Panel, values: [&Tile; PAIR], part: usize) {
    let part = part.min(CHUNK / GROUP / TOGETHER - 1);
    for (group, out) in panel.products.iter_mut().enumerate() {
        let column = (part * TOGETHER + group) * GROUP;
        let weights = panel.quants.as_flattened().as_ptr().wrapping_add(column);
        let [one, other] = values.map(|tile| tile.quants.as_ptr().wrapping_add(column / 4));
        // SAFETY: tiles are set up, as `_tiles` shows. The columns are within the rows of `panel`, of which a tile of
        // weights has 16; a tile of activations has a row for each four of them; those of products are as large as
        // they are in `out`, one strip's after the other's.
        unsafe {
            match BOTH {
                true => asm!(
                    "tileloadd tmm0, [{weights} + {row}]",
                    "tileloadd tmm2, [{one} + {line}]",
                    "tilezero tmm4",
                    "tdpbssd tmm4, tmm0, tmm2",
                    "tileloadd tmm3, [{other} + {line}]",
                    "tilezero tmm5",
                    "tdpbssd tmm5, tmm0, tmm3",
                    "tileloadd tmm1, [{weights} + {row} + {strip}]",
                    "tilezero tmm6",
                    "tdpbssd tmm6, tmm1, tmm2",
                    "tilezero tmm7",
                    "tdpbssd tmm7, tmm1, tmm3",
                    "tilestored [{out} + {line}], tmm4",
                    "tilestored [{out} + {line} + 1024], tmm5",
                    "tilestored [{out} + {line} + 2048], tmm6",
                    "tilestored [{out} + {line} + 3072], tmm7",
                    weights = in(reg) weights, one = in(reg) one, other = in(reg) other, out = in(reg) out.as_mut_ptr(),
                    row = in(reg) CHUNK, line = in(reg) 4 * ROWS, strip = const ROWS * CHUNK,
                    options(nostack, preserves_flags),
                ),
                false => asm!(
                    "tileloadd tmm0, [{weights} + {row}]",
                    "tileloadd tmm2, [{one} + {line}]",
                    "tilezero tmm4",
                    "tdpbssd tmm4, tmm0, tmm2",
                    "tileloadd tmm1, [{weights} + {row} + {strip}]",
                    "tilezero tmm6",
                    "tdpbssd tmm6, tmm1, tmm2",
                    "tilestored [{out} + {line}], tmm4",
                    "tilestored [{out} + {line} + 2048], tmm6",
                    weights = in(reg) weights, one = in(reg) one, out = in(reg) out.as_mut_ptr(),
                    row = in(reg) CHUNK, line = in(reg) 4 * ROWS, strip = const ROWS * CHUNK,
                    options(nostack, preserves_flags),
                ),
            }
        }
    }
}

/// Adds a group's products with a strip, each multiplied with its scales.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
fn add<const MINIMA: bool>(
    panel: &Panel,
    strip: usize,
    values: &Tile,
    group: usize,
    products: &Products,
    totals: &mut [__m512; ROWS],
) {
    fn of(all: &[[f32; PAIR * ROWS]; GROUPS], group: usize, strip: usize) -> Option<&[f32; ROWS]> {
        all.get(group)?.as_chunks().0.get(strip)
    }
    let (Some(scales), Some(minima)) = (of(&panel.scales, group, strip), of(&panel.minima, group, strip)) else {
        return;
    };
    let (Some(value_scales), Some(value_sums)) = (values.scales.get(group), values.sums.get(group)) else { return };
    let (value_scales, value_sums) = (load_numbers(value_scales), load_numbers(value_sums));
    for (total, (products, scale)) in totals.iter_mut().zip(products.iter().zip(scales)) {
        // SAFETY: there are 64 bytes to be read.
        let products = unsafe { _mm512_loadu_si512(products.as_ptr().cast()) };
        let scale = _mm512_mul_ps(_mm512_set1_ps(*scale), value_scales);
        *total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products), scale, *total);
    }
    if MINIMA {
        for (total, minimum) in totals.iter_mut().zip(minima) {
            *total = _mm512_fnmadd_ps(_mm512_set1_ps(*minimum), value_sums, *total);
        }
    }
}

/// Writes the products of a band of `N` strips of 16 rows of weights.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
#[inline]
pub fn write<const N: usize>(band: usize, sums: &[[Sums; N]], out: &mut [&mut [f32]]) {
    for (out, sums) in out.chunks_mut(ROWS).zip(sums) {
        let mut columns = [[_mm512_setzero_si512(); ROWS]; N];
        for (strip, sums) in columns.iter_mut().zip(sums) {
            for (to, from) in strip.iter_mut().zip(sums) {
                *to = _mm512_castps_si512(load_numbers(from));
            }
            transpose(strip);
        }
        for (place, out) in out.iter_mut().enumerate() {
            let Some(out) = out.get_mut(band * N * ROWS..) else { continue };
            for (out, strip) in out.chunks_mut(ROWS).zip(&columns) {
                let Some(lanes) = strip.get(place) else { continue };
                let lanes = _mm512_castsi512_ps(*lanes);
                match out.first_chunk_mut() {
                    Some(out) => store_numbers(out, lanes),
                    None => {
                        let mut sums = [0.0; ROWS];
                        store_numbers(&mut sums, lanes);
                        out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum);
                    }
                }
            }
        }
    }
}
