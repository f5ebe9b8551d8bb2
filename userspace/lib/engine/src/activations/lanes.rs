//! Quantised rows laid out for products in sixteen lanes. All values with one scale are in one lane, so the products of
//! a chunk are added up as integers and multiplied with their scales once.

use core::ops::Range;

use super::{CHUNK, GROUP, HALF_GROUP, Row};

/// Half groups of a chunk: each is a lane.
pub const LANES: usize = CHUNK / HALF_GROUP;

/// Rows that are multiplied together at most.
pub const LANE_ROWS: usize = 8;

/// [`CHUNK`] columns of a quantised row.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    /// The first four quants of each half group, then the second four, and so on.
    pub quants: [[[i8; 4]; LANES]; HALF_GROUP / 4],
    /// The scale of each half group.
    pub scales: [f32; LANES],
    /// See [`Row::half_sums`].
    pub sums: [f32; LANES],
}

/// Which lane a half group (0 to 15) is, and which half group a lane is: a matrix of 4 × 4, transposed.
pub const fn lane(half_group: usize) -> usize {
    ((half_group & 3) << 2) | (half_group >> 2)
}

impl Lanes {
    /// Nothing.
    pub(super) const EMPTY: Self =
        Self { quants: [[[0; 4]; LANES]; HALF_GROUP / 4], scales: [0.0; LANES], sums: [0.0; LANES] };

    /// A chunk of a row.
    pub(super) fn of(row: Row<'_>, chunk: usize) -> Self {
        let mut lanes = Self::EMPTY;
        let quants = row.quants.as_chunks::<HALF_GROUP>().0.iter().skip(chunk.saturating_mul(LANES));
        let scales = row.scales.iter().skip(chunk.saturating_mul(CHUNK / GROUP)).flat_map(|scale| [*scale; 2]);
        let sums = row.half_sums.iter().skip(chunk.saturating_mul(LANES));
        for (half_group, ((quants, scale), sum)) in quants.zip(scales).zip(sums).enumerate().take(LANES) {
            let lane = lane(half_group);
            for (to, quants) in lanes.quants.iter_mut().zip(quants.as_chunks().0) {
                set(to, lane, *quants);
            }
            set(&mut lanes.scales, lane, scale);
            set(&mut lanes.sums, lane, *sum);
        }
        lanes
    }
}

fn set<T>(all: &mut [T; LANES], lane: usize, value: T) {
    if let Some(to) = all.get_mut(lane) {
        *to = value;
    }
}

/// Divides rows into as few parts of at most `most` as possible, whose sizes differ by at most one.
pub fn parts(rows: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let count = rows.div_ceil(most.max(1));
    (0..count).scan(0, move |first, index| {
        let left = count.saturating_sub(index);
        let size = rows.saturating_sub(*first).div_ceil(left.max(1));
        let part = *first..first.saturating_add(size);
        *first = part.end;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_divided_into_parts_of_nearly_one_size() {
        let sizes = |rows| parts(rows, 8).map(|part| part.len()).collect::<alloc::vec::Vec<_>>();
        assert_eq!(sizes(0), [0; 0]);
        assert_eq!(sizes(1), [1]);
        assert_eq!(sizes(8), [8]);
        assert_eq!(sizes(9), [5, 4]);
        assert_eq!(sizes(17), [6, 6, 5]);
        for rows in 0..100 {
            assert_eq!(
                parts(rows, 8).flatten().collect::<alloc::vec::Vec<_>>(),
                (0..rows).collect::<alloc::vec::Vec<_>>()
            );
        }
    }

    #[test]
    fn every_half_group_has_a_lane() {
        for half_group in 0..LANES {
            assert_eq!(lane(lane(half_group)), half_group);
        }
    }
}
