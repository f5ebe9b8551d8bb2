//! Experts: each token passes through the few that a router selects.

use alloc::vec::Vec;

use crate::activations::Activations;
use crate::aligned::Aligned;
use crate::architecture::Activation;
use crate::feed_forward::{FeedForwardScratch, dense};
use crate::product::{Machine, Product, multiply};
use crate::tensor::Tensor;
use crate::weights::Dense;

/// A row and how much the expert's result counts for it.
type Share = (usize, f32);

/// Results between the products, kept from layer to layer.
#[derive(Default)]
pub(crate) struct ExpertScratch {
    dense: FeedForwardScratch,
    scores: Aligned<f32>,
    rows: Activations,
    results: Aligned<f32>,
}

impl ExpertScratch {
    /// Bytes of memory that it has taken.
    pub fn bytes(&self) -> usize {
        let parts = [self.dense.bytes(), self.scores.bytes(), self.rows.bytes(), self.results.bytes()];
        parts.into_iter().fold(0, usize::saturating_add)
    }
}

/// Writes the results for all rows of `input` to `out`.
pub(crate) fn experts(
    machine: Machine<'_>,
    (router, experts): (&Tensor<'_>, &[Dense<'_>]),
    used: usize,
    activation: Activation,
    input: &mut Activations,
    scratch: &mut ExpertScratch,
    out: &mut [f32],
) {
    let width = input.columns().max(1);
    let count = experts.len().max(1);
    scratch.scores.resize(input.rows().saturating_mul(count));
    multiply(machine, input, &mut [Product { tensor: router, out: &mut scratch.scores }]);
    let mut shares: Vec<Vec<Share>> = Vec::new();
    shares.resize_with(count, Vec::new);
    for (row, scores) in scratch.scores.chunks_exact_mut(count).enumerate() {
        machine.kernels.softmax(scores);
        for (expert, weight) in chosen(scores, used) {
            if let Some(shares) = shares.get_mut(expert) {
                shares.push((row, weight));
            }
        }
    }
    out.fill(0.0);
    for (expert, shares) in experts.iter().zip(&shares).filter(|(_, shares)| !shares.is_empty()) {
        let rows = scratch.rows.resize(shares.len(), width);
        for (to, (row, _)) in rows.chunks_exact_mut(width).zip(shares) {
            to.copy_from_slice(input.row(*row).values);
        }
        scratch.results.resize(shares.len().saturating_mul(width));
        dense(machine, expert, activation, &mut scratch.rows, &mut scratch.dense, &mut scratch.results);
        for (result, (row, weight)) in scratch.results.chunks_exact(width).zip(shares) {
            let Some(out) = out.chunks_exact_mut(width).nth(*row) else { continue };
            for (out, value) in out.iter_mut().zip(result) {
                *out += weight * value;
            }
        }
    }
}

/// The experts with the largest probabilities, which are then scaled to one together.
fn chosen(probabilities: &[f32], used: usize) -> Vec<(usize, f32)> {
    let mut order: Vec<(usize, f32)> = probabilities.iter().copied().enumerate().collect();
    // Of equals the first counts, so that the order does not depend on how it is sorted.
    order.sort_unstable_by(|(one, a), (other, b)| b.total_cmp(a).then(one.cmp(other)));
    order.truncate(used);
    let total = order.iter().fold(0.0f32, |sum, (_, probability)| sum + probability);
    for (_, probability) in &mut order {
        *probability /= total;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::chosen;

    #[test]
    fn the_likeliest_experts_are_chosen_and_the_first_of_equals() {
        assert_eq!(chosen(&[0.25, 0.25, 0.5, 0.0], 2), [(2, 0.5 / 0.75), (0, 0.25 / 0.75)]);
    }

    #[test]
    fn what_is_not_a_number_is_no_reason_to_end() {
        assert_eq!(chosen(&[f32::NAN, 0.5], 1).len(), 1);
    }
}
