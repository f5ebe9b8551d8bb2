//! The feed-forward part of a layer.

use crate::activations::Activations;
use crate::aligned::Aligned;
use crate::architecture::Activation;
use crate::pool::{part_size, rows_of_part, share};
use crate::product::{Machine, Product, multiply};
use crate::weights::Dense;

/// Results between the products, kept from layer to layer.
#[derive(Default)]
pub(crate) struct FeedForwardScratch {
    up: Aligned<f32>,
    gated: Activations,
}

impl FeedForwardScratch {
    /// Bytes of memory that it has taken.
    pub fn bytes(&self) -> usize {
        self.up.bytes().saturating_add(self.gated.bytes())
    }
}

/// If several threads gate one row, each of their parts is a multiple of this many numbers.
const GATES_TOGETHER: usize = 64;

/// Writes the results for all rows of `input` to `out`.
pub(crate) fn dense(
    machine: Machine<'_>,
    weights: &Dense<'_>,
    activation: Activation,
    input: &mut Activations,
    scratch: &mut FeedForwardScratch,
    out: &mut [f32],
) {
    let inside = weights.up.matrix.rows().max(1);
    let rows = input.rows();
    scratch.up.resize(rows.saturating_mul(inside));
    let gates = scratch.gated.resize(rows, inside);
    let ups = &mut scratch.up;
    match &weights.gate {
        Some(gate) => {
            let mut products = [
                Product { tensor: &gate.matrix, out: &mut *gates },
                Product { tensor: &weights.up.matrix, out: &mut *ups },
            ];
            multiply(machine, input, &mut products);
            gate.add_bias(gates);
            weights.up.add_bias(ups);
        }
        // Values that pass through the activation alone are gated with ones.
        None => {
            multiply(machine, input, &mut [Product { tensor: &weights.up.matrix, out: &mut *gates }]);
            weights.up.add_bias(gates);
            ups.fill(1.0);
        }
    }
    let length = match rows {
        1 if machine.kernels.has_slow_floats() => part_size(machine.pool, inside, GATES_TOGETHER),
        _ => rows_of_part(machine.pool, rows).saturating_mul(inside),
    };
    let parts = gates.chunks_mut(length).zip(ups.chunks(length)).collect();
    share(machine.pool, parts, |(gates, ups): (&mut [f32], &[f32])| machine.kernels.gate(activation, gates, ups));
    multiply(machine, &mut scratch.gated, &mut [Product { tensor: &weights.down.matrix, out: &mut *out }]);
    weights.down.add_bias(out);
}
