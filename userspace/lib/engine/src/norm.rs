//! Root mean square norms and layer norms.

use crate::weights::LayerNorm;

/// Writes `values`, scaled to a mean square of one and multiplied with `weights`.
pub(crate) fn norm(values: &[f32], weights: &[f32], epsilon: f32, out: &mut [f32]) {
    let scale = scale_of(values, epsilon);
    for ((out, value), weight) in out.iter_mut().zip(values).zip(weights) {
        *out = value * scale * weight;
    }
}

/// The same in place.
pub(crate) fn norm_in_place(values: &mut [f32], weights: &[f32], epsilon: f32) {
    let scale = scale_of(values, epsilon);
    for (value, weight) in values.iter_mut().zip(weights) {
        *value *= scale * weight;
    }
}

/// Subtracts the mean, scales to a variance of one, multiplies with weights and adds biases.
pub(crate) fn layer_norm_in_place(values: &mut [f32], norm: &LayerNorm, epsilon: f32) {
    let count = values.len().max(1) as f64;
    let mean = (values.iter().fold(0.0f64, |sum, value| sum + f64::from(*value)) / count) as f32;
    values.iter_mut().for_each(|value| *value -= mean);
    let scale = scale_of(values, epsilon);
    for (value, (weight, bias)) in values.iter_mut().zip(norm.weights.iter().zip(&norm.biases)) {
        *value = *value * scale * weight + bias;
    }
}

fn scale_of(values: &[f32], epsilon: f32) -> f32 {
    // Sixteen sums, so that several additions are in flight at once.
    let mut sums = [0.0f32; 16];
    let chunks = values.chunks_exact(16);
    let rest = chunks.remainder().iter().fold(0.0f64, |sum, value| sum + f64::from(*value) * f64::from(*value));
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += value * value;
        }
    }
    let total = sums.iter().fold(rest, |total, sum| total + f64::from(*sum));
    let mean = total / values.len().max(1) as f64;
    (1.0 / libm::sqrt(mean + f64::from(epsilon))) as f32
}
