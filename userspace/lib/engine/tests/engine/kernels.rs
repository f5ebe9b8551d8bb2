//! Every set of kernels against the reference, with every tensor type.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // Helpers of tests count as tests.

use crate::support::kernels;
use bytemuck::Zeroable;
use capos_engine::activations::{Activations, FLOAT_ROWS, FloatTile, TILE_COLUMNS};
use capos_engine::architecture::Activation;
use capos_engine::block::{Kind, Q8_0, dequantise_row};
use capos_engine::kernel::{Kernels, Layout, MANY_FROM, Parts, reference};
use capos_engine::{Single, Tensor};
use capos_engine_threads::Threads;
use capos_gguf::TensorType;

/// Numbers that look random and are always the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// From -1 to 1.
    fn number(&mut self) -> f32 {
        self.next() as f32 / (1u64 << 30) as f32 - 1.0
    }
}

/// Where in a block of a type the scales of 16 bits lie.
fn scales_of(name: &str) -> &'static [usize] {
    match name {
        "Q4_1" | "Q5_1" | "Q4_K" | "Q5_K" => &[0, 2],
        "Q2_K" => &[80, 82],
        "Q3_K" => &[108],
        "Q6_K" => &[208],
        _ => &[0],
    }
}

/// A matrix of any bits, with scales and floating point numbers that are numbers.
fn matrix(random: &mut Random, kind: TensorType, rows: usize, columns: usize) -> Vec<u8> {
    let blocks = rows * columns / kind.block_values() as usize;
    let mut bytes = Vec::new();
    for _ in 0..blocks {
        match kind.name() {
            "F32" => bytes.extend(random.number().to_le_bytes()),
            "F16" => bytes.extend(half::f16::from_f32(random.number()).to_le_bytes()),
            "BF16" => bytes.extend(half::bf16::from_f32(random.number()).to_le_bytes()),
            name => {
                let mut block: Vec<u8> = (0..kind.block_bytes()).map(|_| random.next() as u8).collect();
                for at in scales_of(name) {
                    let scale = half::f16::from_f32(random.number() / 64.0).to_le_bytes();
                    block[*at..at + 2].copy_from_slice(&scale);
                }
                bytes.extend(block);
            }
        }
    }
    bytes
}

fn activations(random: &mut Random, kernels: &dyn Kernels, rows: usize, columns: usize) -> Activations {
    let mut activations = Activations::default();
    activations.resize(rows, columns).iter_mut().for_each(|value| *value = random.number() + 0.2);
    if columns.is_multiple_of(32) {
        activations.prepare(Kind::Q8_0, kernels, &Single);
    }
    activations
}

fn product(kernels: &dyn Kernels, matrix: &Tensor<'_>, activations: &Activations) -> Vec<f32> {
    let mut out = vec![f32::NAN; matrix.rows() * activations.rows()];
    let mut rows: Vec<&mut [f32]> = out.chunks_exact_mut(matrix.rows()).collect();
    kernels.product(matrix, activations, &mut rows);
    out
}

/// A set with each number of rows from which it takes the path for many rows.
fn ways(kernels: &'static dyn Kernels) -> Vec<&'static dyn Kernels> {
    let mut all: Vec<_> = MANY_FROM.into_iter().filter_map(|rows| kernels.many_from(rows)).collect();
    if all.is_empty() {
        all.push(kernels);
    }
    all
}

/// The products of the blocks' values with the unquantised activations, each with the sum of the sizes of its terms,
/// with which rounding errors grow.
fn exact(matrix: &Tensor<'_>, activations: &Activations) -> Vec<(f64, f32)> {
    let mut weights = vec![0.0; matrix.columns()];
    let mut out = Vec::new();
    for index in 0..activations.rows() {
        for row in 0..matrix.rows() {
            matrix.dequantise_row(row, &mut weights);
            let products = weights.iter().zip(activations.row(index).values);
            let products = products.map(|(one, other)| f64::from(*one) * f64::from(*other));
            out.push((products.clone().sum(), products.map(|product| product.abs() as f32).sum()));
        }
    }
    out
}

#[test]
fn products_are_those_of_the_reference() {
    let mut random = Random(1);
    let kinds = (0..64).filter_map(TensorType::from_code).filter_map(|kind| Some((kind, Kind::of(kind)?)));
    for (kind, ours) in kinds {
        let widths: &[usize] = match kind.block_values() {
            1 => &[1, 17, 64, 300, 512],
            32 => &[32, 96, 128, 160, 224, 256, 288, 480, 576],
            _ => &[256, 768],
        };
        for &columns in widths {
            let shapes =
                [(1, 1), (19, 1), (16, 2), (33, 3), (16, 4), (5, 5), (33, 6), (19, 7), (16, 8), (7, 9), (16, 16)];
            // Every number of rows of activations up to one more than two times eight.
            let shapes = shapes.into_iter().chain((1..=17).map(|count| (35, count))).chain([(37, 35), (150, 17)]);
            for (rows, count) in shapes {
                let bytes = matrix(&mut random, kind, rows, columns);
                let tensor = Tensor::new(ours, rows, columns, &bytes).unwrap();
                let mut activations = activations(&mut random, reference(), count, columns);
                let expected = product(reference(), &tensor, &activations);
                let exact = exact(&tensor, &activations);
                for kernels in kernels().into_iter().flat_map(ways) {
                    activations.prepare(ours, kernels, &Single);
                    let found = product(kernels, &tensor, &activations);
                    // The rounding error of eight bits is a 256th at most, in both directions; that of sums of two such
                    // numbers is a 65536th.
                    let tiles = kernels.layout(ours, count) == Some(Layout::Sixteen);
                    let narrow = tiles && !ours.is_float();
                    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                        let (exact, size) = exact[index];
                        let (expected, allowed) = if narrow { (exact as f32, 4e-3) } else { (*expected, 1e-5) };
                        let allowed = if tiles { f32::max(allowed, 1.6e-5) } else { allowed };
                        assert!(
                            (found - expected).abs() <= allowed * size + 1e-6,
                            "{} {} of {rows} × {columns} with {count} rows: {index} is {found}, not {expected}",
                            kernels.name(),
                            kind.name(),
                        );
                    }
                }
            }
        }
    }
}

/// The path for few rows adds up each row's products in the same order for any number of rows, so it can be taken for
/// any number of them.
#[test]
fn few_rows_come_to_what_each_comes_to_alone() {
    let mut random = Random(13);
    let kinds = (0..64).filter_map(TensorType::from_code).filter_map(|kind| Some((kind, Kind::of(kind)?)));
    for (kind, ours) in kinds.filter(|(_, kind)| !kind.is_float()) {
        let (rows, columns) = (35, 768);
        let bytes = matrix(&mut random, kind, rows, columns);
        let tensor = Tensor::new(ours, rows, columns, &bytes).unwrap();
        for kernels in kernels().into_iter().filter_map(|kernels| kernels.many_from(*MANY_FROM.last().unwrap())) {
            // Tiles of AMX are another path, whatever the number of rows that are many for AVX-512.
            for count in (1..=17).filter(|count| kernels.layout(ours, *count) != Some(Layout::Sixteen)) {
                let mut together = activations(&mut random, reference(), count, columns);
                together.prepare(ours, kernels, &Single);
                let found = product(kernels, &tensor, &together);
                for (index, found) in found.chunks_exact(rows).enumerate() {
                    let mut alone = Activations::default();
                    alone.resize(1, columns).copy_from_slice(together.row(index).values);
                    alone.prepare(ours, kernels, &Single);
                    let name = (kernels.name(), kind.name());
                    assert_eq!(product(kernels, &tensor, &alone), found, "{name:?}: row {index} of {count}");
                }
            }
        }
    }
}

#[test]
fn the_reference_multiplies_what_the_blocks_stand_for() {
    let mut random = Random(2);
    for kind in (0..64).filter_map(TensorType::from_code) {
        let Some(ours) = Kind::of(kind) else { continue };
        let bytes = matrix(&mut random, kind, 3, 512);
        let tensor = Tensor::new(ours, 3, 512, &bytes).unwrap();
        let activations = activations(&mut random, reference(), 1, 512);
        let exact = exact(&tensor, &activations);
        for (found, (exact, size)) in product(reference(), &tensor, &activations).iter().zip(exact) {
            // Quantised activations are right to about one part in 250.
            let allowed = if ours.is_float() { 1e-5 } else { 4e-3 };
            let apart = (f64::from(*found) - exact).abs();
            assert!(apart <= allowed * f64::from(size), "{}: {found}, not {exact}", kind.name());
        }
    }
}

#[test]
fn rows_are_quantised_as_by_the_reference() {
    let mut random = Random(3);
    for kernels in kernels() {
        let seed = random.next();
        let expected = activations(&mut Random(seed), reference(), 2, 320);
        let found = activations(&mut Random(seed), kernels, 2, 320);
        for row in 0..2 {
            let (found, expected) = (found.row(row), expected.row(row));
            assert_eq!(found.quants, expected.quants, "{}", kernels.name());
            assert_eq!(found.scales, expected.scales, "{}", kernels.name());
            assert_eq!(found.sums, expected.sums, "{}", kernels.name());
            assert_eq!(found.half_sums, expected.half_sums, "{}", kernels.name());
        }
    }
}

#[test]
fn what_is_no_number_is_quantised_as_by_the_reference() {
    let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, f32::MIN_POSITIVE, 1e-42, f32::MAX, 0.0];
    for kernels in kernels() {
        for odd in odd {
            let values = |activations: &mut Activations| {
                let values = activations.resize(1, 64);
                values.iter_mut().enumerate().for_each(|(index, value)| *value = index as f32 - 16.0);
                values[..32].fill(odd);
                values[45] = odd;
            };
            let (mut found, mut expected) = (Activations::default(), Activations::default());
            values(&mut found);
            values(&mut expected);
            found.prepare(Kind::Q8_0, kernels, &Single);
            expected.prepare(Kind::Q8_0, reference(), &Single);
            let (found, expected) = (found.row(0), expected.row(0));
            assert_eq!(found.quants, expected.quants, "{} of {odd}", kernels.name());
            let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<u32>>();
            assert_eq!(bits(found.scales), bits(expected.scales), "{} of {odd}", kernels.name());
        }
    }
}

#[test]
fn a_row_is_quantised_by_several_threads_as_by_one() {
    let two = Threads::new(2).unwrap();
    for kernels in kernels() {
        // Everything after the last whole group of 256 is filled up, and earlier content has no effect.
        for columns in [1024, 1536, 2080] {
            let seed = columns as u64;
            let expected = activations(&mut Random(seed), kernels, 1, columns);
            let mut found = Activations::default();
            found.resize(3, 4096).fill(9.0);
            found.prepare(Kind::Q8_0, kernels, &two);
            let mut random = Random(seed);
            found.resize(1, columns).iter_mut().for_each(|value| *value = random.number() + 0.2);
            found.prepare(Kind::Q8_0, kernels, &two);
            let (found, expected) = (found.row(0), expected.row(0));
            assert_eq!(found.quants, expected.quants, "{} of {columns}", kernels.name());
            assert_eq!(found.scales, expected.scales, "{} of {columns}", kernels.name());
            assert_eq!(found.sums, expected.sums, "{} of {columns}", kernels.name());
            assert_eq!(found.half_sums, expected.half_sums, "{} of {columns}", kernels.name());
        }
    }
}

#[test]
fn what_quants_stand_for_is_near_the_values() {
    let activations = activations(&mut Random(4), reference(), 1, 64);
    let row = activations.row(0);
    for (group, values) in row.values.chunks(32).enumerate() {
        let (mut sum, scale) = (0.0, row.scales[group]);
        for (quant, value) in row.quants[group * 32..].iter().zip(values) {
            assert!((f32::from(*quant) * scale - value).abs() <= scale * 0.501);
            sum += f32::from(*quant) * scale;
        }
        assert!((row.sums[group] - sum).abs() < 1e-4);
        assert!((row.half_sums[group * 2] + row.half_sums[group * 2 + 1] - sum).abs() < 1e-4);
    }
}

#[test]
fn zeros_are_quantised_to_zeros() {
    for kernels in kernels() {
        let mut activations = Activations::default();
        activations.resize(1, 32).fill(0.0);
        activations.prepare(Kind::Q8_0, kernels, &Single);
        assert!(activations.row(0).quants.iter().all(|quant| *quant == 0));
        assert_eq!(activations.row(0).scales[0], 0.0);
    }
}

#[test]
fn rows_of_the_cache_are_narrowed_multiplied_and_added_as_by_the_reference() {
    let mut random = Random(5);
    for kernels in kernels() {
        for length in [1, 8, 23, 32, 64, 96, 128] {
            for count in [1, 15, 16, 37] {
                let (width, start) = (length + 5, 3);
                let mut numbers = |count: usize| (0..count).map(|_| random.number()).collect::<Vec<f32>>();
                let (vector, weights, values) = (numbers(length), numbers(count), numbers(count * width));
                let (mut narrow, mut expected) = (vec![0; values.len()], vec![0; values.len()]);
                kernels.narrow(&values, &mut narrow);
                reference().narrow(&values, &mut expected);
                assert_eq!(narrow, expected, "{}", kernels.name());
                let rows = Parts::new(&narrow, width, start, length);
                let (mut found, mut expected) = (vec![0.0; count], vec![0.0; count]);
                kernels.dot_f16(&vector, rows, &mut found);
                reference().dot_f16(&vector, rows, &mut expected);
                assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-4), "{}", kernels.name());
                let (mut found, mut expected) = (vector.clone(), vector.clone());
                kernels.add_f16(&weights, rows, &mut found);
                reference().add_f16(&weights, rows, &mut expected);
                assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5), "{}", kernels.name());
            }
        }
    }
}

#[test]
fn many_vectors_take_rows_of_the_cache_as_each_by_the_reference() {
    let mut random = Random(6);
    for kernels in kernels() {
        for length in [8usize, 32, 64, 80, 96, 128, 256, 272] {
            for (vectors, count) in [(1usize, 5usize), (3, 20), (4, 1), (8, 16), (9, 33), (24, 70)] {
                let (width, start) = (length + 5, 3);
                let mut numbers = |count: usize| (0..count).map(|_| random.number()).collect::<Vec<f32>>();
                let mut rows = vec![0; count * width];
                reference().narrow(&numbers(count * width), &mut rows);
                let rows = Parts::new(&rows, width, start, length);
                let (queries, weights, before) =
                    (numbers(vectors * length), numbers(vectors * count), numbers(vectors * length));
                let run = |kernels: &dyn Kernels| {
                    let (mut dots, mut sums) = (vec![f32::NAN; vectors * count], before.clone());
                    kernels.dots_f16(queries.chunks_exact(length), rows, dots.chunks_exact_mut(count));
                    kernels.adds_f16(weights.chunks_exact(count), rows, sums.chunks_exact_mut(length));
                    [dots, sums]
                };
                for (found, expected) in run(kernels).iter().zip(run(reference())) {
                    let same = found.iter().zip(&expected).all(|(one, other)| (one - other).abs() < 1e-4);
                    assert!(same, "{}: {vectors} of {length} with {count} rows", kernels.name());
                }
            }
        }
    }
}

#[test]
fn the_largest_quants_and_values_do_not_overflow() {
    let (rows, columns) = (17, 256);
    let kinds = (0..64).filter_map(TensorType::from_code).filter_map(|kind| Some((kind, Kind::of(kind)?)));
    for (kind, ours) in kinds.filter(|(_, kind)| !kind.is_float()) {
        for fill in [0x00, 0x7f, 0x80, 0xff] {
            let mut block = vec![fill; kind.block_bytes() as usize];
            for at in scales_of(kind.name()) {
                block[*at..at + 2].copy_from_slice(&half::f16::from_f32(1.0 / 64.0).to_le_bytes());
            }
            let bytes = block.repeat(rows * columns / kind.block_values() as usize);
            let tensor = Tensor::new(ours, rows, columns, &bytes).unwrap();
            for (count, value) in [(1, 1.0), (2, -1.0), (3, 1.0), (6, 1.0), (17, -1.0)] {
                let mut activations = Activations::default();
                activations.resize(count, columns).fill(value);
                activations.prepare(ours, reference(), &Single);
                let expected = product(reference(), &tensor, &activations);
                for kernels in kernels().into_iter().flat_map(ways) {
                    activations.prepare(ours, kernels, &Single);
                    // All weights may be rounded the same way.
                    let allowed = if kernels.layout(ours, count) == Some(Layout::Sixteen) { 4e-3 } else { 1e-4 };
                    for (found, expected) in product(kernels, &tensor, &activations).iter().zip(&expected) {
                        assert!(
                            (found - expected).abs() <= allowed * expected.abs() + 1e-2,
                            "{} {} of {fill:#x} with {count} rows of {value}: {found}, not {expected}",
                            kernels.name(),
                            kind.name()
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_matrix_without_columns_gives_nothing() {
    for kernels in kernels() {
        let tensor = Tensor::new(Kind::F16, 32, 0, &[0; 64]);
        let Some(tensor) = tensor else { continue };
        let mut activations = activations(&mut Random(10), kernels, 16, 32);
        activations.prepare(Kind::F16, kernels, &Single);
        assert!(product(kernels, &tensor, &activations).iter().all(|sum| *sum == 0.0), "{}", kernels.name());
    }
}

#[test]
fn matrices_of_several_kinds_share_activations() {
    let mut random = Random(11);
    for kernels in kernels() {
        let kinds = [TensorType::Q8_0, TensorType::F16, TensorType::Q8_0, TensorType::F32];
        let mut shared = activations(&mut Random(12), kernels, 20, 96);
        for kind in kinds {
            let ours = Kind::of(kind).unwrap();
            let bytes = matrix(&mut random, kind, 40, 96);
            let tensor = Tensor::new(ours, 40, 96, &bytes).unwrap();
            let mut alone = activations(&mut Random(12), kernels, 20, 96);
            alone.prepare(ours, kernels, &Single);
            shared.prepare(ours, kernels, &Single);
            assert_eq!(product(kernels, &tensor, &shared), product(kernels, &tensor, &alone), "{}", kernels.name());
        }
    }
}

#[test]
fn rows_are_laid_out_as_near_as_they_have_to_be() {
    let mut random = Random(9);
    for kernels in kernels() {
        for (rows, columns) in [(1usize, 32usize), (16, 64), (7, 1), (16, 100), (3, 31)] {
            let values: Vec<f32> = (0..rows * columns).map(|_| random.number() * 1e3).collect();
            // Earlier content is overwritten.
            let old = vec![FloatTile([[[0x7fff; 2]; FLOAT_ROWS]; TILE_COLUMNS / 2]); columns.div_ceil(TILE_COLUMNS)];
            let (mut tiles, mut rests) = (old.clone(), old);
            kernels.lay_out(values.chunks_exact(columns), &mut tiles, &mut rests);
            let number = |tiles: &[FloatTile], row: usize, column: usize| {
                let FloatTile(pairs) = &tiles[column / TILE_COLUMNS];
                f32::from_bits(u32::from(pairs[column % TILE_COLUMNS / 2][row][column % 2]) << 16)
            };
            for row in 0..FLOAT_ROWS {
                for column in 0..columns.next_multiple_of(TILE_COLUMNS) {
                    let value = if row < rows && column < columns { values[row * columns + column] } else { 0.0 };
                    let (nearest, rest) = (number(&tiles, row, column), number(&rests, row, column));
                    assert!(
                        (nearest - value).abs() <= value.abs() / 256.0,
                        "{}: {nearest}, not {value}",
                        kernels.name()
                    );
                    let both = f64::from(nearest) + f64::from(rest) - f64::from(value);
                    assert!(both.abs() <= f64::from(value.abs()) / 65536.0, "{}: {rest} left", kernels.name());
                }
            }
            let mut alone = vec![FloatTile([[[0; 2]; FLOAT_ROWS]; TILE_COLUMNS / 2]); tiles.len()];
            kernels.lay_out(values.chunks_exact(columns), &mut alone, &mut []);
            assert!(alone == tiles, "{}: other tiles without rests", kernels.name());
        }
    }
}

#[test]
fn rows_of_the_cache_are_quantised_multiplied_and_added_as_by_the_reference() {
    let mut random = Random(7);
    for kernels in kernels() {
        for length in [1usize, 12, 32, 40, 64, 96, 128] {
            let values: Vec<f32> = (0..length).map(|_| random.number()).collect();
            let other: Vec<f32> = (0..length).map(|_| random.number()).collect();
            let mut blocks = vec![Q8_0::zeroed(); length.div_ceil(32)];
            kernels.quantise_q8_0(&values, &mut blocks);
            let mut expected = vec![Q8_0::zeroed(); blocks.len()];
            reference().quantise_q8_0(&values, &mut expected);
            assert_eq!(bytemuck::cast_slice::<_, u8>(&blocks), bytemuck::cast_slice::<_, u8>(&expected));
            let mut meant = vec![0.0; blocks.len() * 32];
            dequantise_row(Kind::Q8_0, bytemuck::cast_slice(&blocks), &mut meant);
            assert!(meant[length..].iter().all(|value| *value == 0.0));
            for (values, meant) in values.chunks(32).zip(meant.chunks(32)) {
                let largest = values.iter().fold(0.0f32, |most, value| most.max(value.abs()));
                for (value, meant) in values.iter().zip(meant) {
                    // Half a step, and the scale's rounding to 16 bits.
                    assert!((value - meant).abs() <= largest * (0.5 / 127.0 + 1.0 / 2048.0), "{value} became {meant}");
                }
            }
            let exact: f64 = other.iter().zip(&meant).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            let row = Parts::new(&blocks, blocks.len(), 0, blocks.len());
            let mut found = [f32::NAN];
            kernels.dot_q8_0(other.chunks_exact(length), row, found.chunks_exact_mut(1));
            assert!((f64::from(found[0]) - exact).abs() < 1e-5, "{}: {found:?}, not {exact}", kernels.name());
            let mut sums = other.clone();
            kernels.add_q8_0([0.7].chunks_exact(1), row, sums.chunks_exact_mut(length));
            for ((sum, other), meant) in sums.iter().zip(&other).zip(&meant) {
                assert!((sum - (other + 0.7 * meant)).abs() < 1e-6, "{}", kernels.name());
            }
        }
    }
}

#[test]
fn several_heads_take_rows_of_the_cache_as_one_does_by_the_reference() {
    let mut random = Random(8);
    for kernels in kernels() {
        for (heads, length, count) in [(1usize, 64usize, 3usize), (2, 64, 40), (3, 40, 7), (4, 128, 300), (5, 12, 1)] {
            let blocks = length.div_ceil(32);
            let (width, start) = (blocks * 2 + 1, blocks);
            let mut rows = vec![Q8_0::zeroed(); width * count];
            for row in rows.chunks_exact_mut(width) {
                let size = random.number();
                let values: Vec<f32> = (0..length).map(|_| random.number() * size).collect();
                reference().quantise_q8_0(&values, &mut row[start..start + blocks]);
            }
            let rows = Parts::new(&rows, width, start, blocks);
            let mut numbers = |count: usize| (0..count).map(|_| random.number()).collect::<Vec<f32>>();
            let (vectors, mut weights, before) =
                (numbers(heads * length), numbers(heads * count), numbers(heads * length));
            // One that has all the weight, as attention may, and a head that contributes nothing.
            weights[0] = 100.0;
            weights[(heads - 1) * count..].fill(0.0);
            let run = |kernels: &dyn Kernels, vectors: &[f32], weights: &[f32]| {
                let (mut dots, mut sums) = (vec![f32::NAN; heads * count], before.clone());
                kernels.dot_q8_0(vectors.chunks_exact(length), rows, dots.chunks_exact_mut(count));
                kernels.add_q8_0(weights.chunks_exact(count), rows, sums.chunks_exact_mut(length));
                (dots, sums)
            };
            let (found, expected) = (run(kernels, &vectors, &weights), run(reference(), &vectors, &weights));
            for (found, expected) in [(&found.0, &expected.0), (&found.1, &expected.1)] {
                let most = expected.iter().fold(1.0f32, |most, value| most.max(value.abs()));
                let same = found.iter().zip(expected).all(|(one, other)| (one - other).abs() < 2e-4 * most);
                assert!(same, "{} with {heads} heads of {length}: {found:?}, not {expected:?}", kernels.name());
            }
            // NaN stays NaN.
            let (mut odd, mut odd_weights) = (vectors.clone(), weights.clone());
            odd[length - 1] = f32::NAN;
            odd_weights[0] = f32::INFINITY;
            let (dots, sums) = run(kernels, &odd, &odd_weights);
            assert!(dots[..count].iter().all(|dot| dot.is_nan()), "{}", kernels.name());
            assert!(sums[..length].iter().any(|sum| !sum.is_finite()), "{}", kernels.name());
        }
    }
}

#[test]
fn what_is_not_seen_has_no_probability_and_what_is_no_number_is_not_hidden() {
    for kernels in kernels() {
        for length in [2, 16, 21, 35] {
            for place in [0, length / 2, length - 1] {
                let mut scores = vec![0.5; length];
                scores[place] = f32::NEG_INFINITY;
                kernels.softmax(&mut scores);
                let each = 1.0 / (length as f32 - 1.0);
                let is_right = |(at, found): (usize, &f32)| match at == place {
                    true => *found == 0.0,
                    false => (found - each).abs() < 1e-6,
                };
                assert!(scores.iter().enumerate().all(is_right), "{}: {scores:?}", kernels.name());
                let mut scores = vec![0.5; length];
                scores[place] = f32::NAN;
                kernels.softmax(&mut scores);
                assert!(scores.iter().all(|score| score.is_nan()), "{}: {scores:?}", kernels.name());
            }
        }
    }
}

#[test]
fn probabilities_and_gates_are_what_they_are_defined_to_be() {
    let mut random = Random(6);
    for kernels in kernels() {
        for length in [0, 1, 7, 15, 16, 17, 32, 40] {
            let scores: Vec<f32> = (0..length).map(|_| random.number() * 30.0).collect();
            let total: f64 = scores.iter().map(|score| f64::from(*score).exp()).sum();
            let mut found = scores.clone();
            kernels.softmax(&mut found);
            for (found, score) in found.iter().zip(&scores) {
                let expected = f64::from(*score).exp() / total;
                assert!((f64::from(*found) - expected).abs() < 1e-6 * expected.max(0.01), "{}", kernels.name());
            }
            for activation in [Activation::Silu, Activation::Gelu] {
                let ups: Vec<f32> = (0..length).map(|_| random.number()).collect();
                let mut found = scores.clone();
                kernels.gate(activation, &mut found, &ups);
                for ((found, gate), up) in found.iter().zip(&scores).zip(&ups) {
                    let (gate, up) = (f64::from(*gate), f64::from(*up));
                    let expected = up
                        * match activation {
                            Activation::Silu => gate / (1.0 + (-gate).exp()),
                            Activation::Gelu => {
                                let inner = (2.0 / std::f64::consts::PI).sqrt() * (gate + 0.044715 * gate.powi(3));
                                0.5 * gate * (1.0 + inner.tanh())
                            }
                        };
                    let allowed = 1e-5 * expected.abs().max(1.0);
                    assert!((f64::from(*found) - expected).abs() < allowed, "{}: {found}", kernels.name());
                }
            }
        }
    }
}
