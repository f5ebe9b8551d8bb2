//! Products of matrices with rows of activations, split among threads by rows of the matrices.

use alloc::vec::Vec;

use crate::activations::Activations;
use crate::kernel::Kernels;
use crate::pool::{Pool, part_size, share};
use crate::tensor::Tensor;

/// Rows of a matrix that the kernels take together.
const ROWS_TOGETHER: usize = 32;

/// The computing machine: kernels and the threads that they run on.
#[derive(Clone, Copy)]
pub struct Machine<'m> {
    /// Kernels.
    pub kernels: &'m dyn Kernels,
    /// Threads.
    pub pool: &'m dyn Pool,
}

/// A matrix and where its products go: for each row of activations, one number for each of the
/// matrix's rows.
pub struct Product<'t, 'o> {
    /// The matrix.
    pub tensor: &'t Tensor<'t>,
    /// Rows of results, one after another.
    pub out: &'o mut [f32],
}

struct Part<'p> {
    tensor: Tensor<'p>,
    out: Vec<&'p mut [f32]>,
}

/// Multiplies each matrix with every row of activations. A result does not depend on how the
/// work is split.
pub fn multiply(machine: Machine<'_>, activations: &mut Activations, products: &mut [Product<'_, '_>]) {
    for product in products.iter() {
        activations.prepare(product.tensor.kind(), machine.kernels, machine.pool);
    }
    let activations = &*activations;
    let all: usize = products.iter().fold(0, |sum, product| sum.saturating_add(product.tensor.rows()));
    let size = part_size(machine.pool, all, ROWS_TOGETHER);
    let mut parts: Vec<Part<'_>> = Vec::new();
    for product in products {
        let rows = product.tensor.rows();
        let first = parts.len();
        for start in (0..rows).step_by(size) {
            let tensor = product.tensor.part(start..start.saturating_add(size).min(rows));
            parts.push(Part { tensor, out: Vec::with_capacity(activations.rows()) });
        }
        for row in product.out.chunks_exact_mut(rows.max(1)) {
            for (part, out) in parts.iter_mut().skip(first).zip(row.chunks_mut(size)) {
                part.out.push(out);
            }
        }
    }
    share(machine.pool, parts, |mut part| machine.kernels.product(&part.tensor, activations, &mut part.out));
}
