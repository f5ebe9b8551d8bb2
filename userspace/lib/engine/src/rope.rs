//! Rotary position embedding: pairs of a head's values are turned by angles that grow with the position.

use alloc::vec::Vec;

use crate::architecture::RopeLayout;

/// How angles are scaled for contexts longer than the model was trained with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scaling {
    /// Not at all.
    None,
    /// All alike.
    Linear {
        /// How many times longer.
        factor: f32,
    },
    /// Slow angles as with [`Scaling::Linear`], fast ones not at all, those between in between.
    Yarn(Yarn),
}

/// Scaling that depends on how fast a pair turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yarn {
    /// How many times longer.
    pub factor: f32,
    /// Tokens that the model was trained with.
    pub original: usize,
    /// A pair whose angle turns at least this often over the trained context is not scaled.
    pub fast: f32,
    /// Turns up to which the angle of a pair is scaled in full.
    pub slow: f32,
    /// How much of the growth of the turned values with the factor is taken off again.
    pub log_multiplier: f32,
}

/// The metadata of a rotary embedding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeConfig {
    /// Which values are turned together.
    pub layout: RopeLayout,
    /// Values of a head that are turned, an even number; the others stay.
    pub dimensions: usize,
    /// The slowest angle grows by about one over this for a token.
    pub base: f32,
    /// Scaling.
    pub scaling: Scaling,
    /// The factor of the turned values.
    pub magnitude: f32,
    /// Tokens that the model was trained with before its context was made longer, or 0.
    pub original: usize,
}

/// A rotary embedding, ready to be used.
#[derive(Clone, Debug)]
pub struct Rope {
    layout: RopeLayout,
    /// By how much the angle of each pair grows for a token.
    steps: Vec<f64>,
    magnitude: f64,
}

impl Rope {
    /// Works out the angles; `factors` divide them pair by pair, if the file has any.
    pub fn new(config: &RopeConfig, factors: Option<&[f32]>) -> Self {
        let dimensions = config.dimensions as f64;
        let base = f64::from(config.base);
        let pairs = config.dimensions / 2;
        let plain = (0..pairs).map(|pair| libm::pow(base, -2.0 * pair as f64 / dimensions));
        let divided: Vec<f64> = match factors {
            Some(factors) => plain.zip(factors).map(|(step, factor)| step / f64::from(*factor)).collect(),
            None => plain.collect(),
        };
        let mut magnitude = f64::from(config.magnitude);
        let steps = match config.scaling {
            Scaling::None => divided,
            Scaling::Linear { factor } => divided.iter().map(|step| step / f64::from(factor)).collect(),
            Scaling::Yarn(yarn) => {
                let factor = f64::from(yarn.factor);
                let grown = |multiplier: f64| 1.0 + 0.1 * multiplier * libm::log(factor.max(1.0));
                magnitude *= grown(1.0) / grown(f64::from(yarn.log_multiplier));
                let pair_of = |turns: f32| {
                    let length = yarn.original as f64 / (f64::from(turns) * 2.0 * core::f64::consts::PI);
                    dimensions * libm::log(length) / (2.0 * libm::log(base))
                };
                let first = libm::floor(pair_of(yarn.fast)).max(0.0);
                let last = libm::ceil(pair_of(yarn.slow)).min(dimensions - 1.0);
                let mix = |(pair, step): (usize, &f64)| {
                    let along = (pair as f64 - first) / (last - first).max(0.001);
                    let kept = 1.0 - along.clamp(0.0, 1.0);
                    step / factor * (1.0 - kept) + step * kept
                };
                divided.iter().enumerate().map(mix).collect()
            }
        };
        Self { layout: config.layout, steps, magnitude }
    }

    /// Pairs that are turned.
    pub fn pairs(&self) -> usize {
        self.steps.len()
    }

    /// Writes cosine and sine of each pair's angle at a position.
    pub fn turns(&self, position: usize, out: &mut [(f32, f32)]) {
        for (out, step) in out.iter_mut().zip(&self.steps) {
            let (sine, cosine) = libm::sincos(position as f64 * step);
            *out = ((cosine * self.magnitude) as f32, (sine * self.magnitude) as f32);
        }
    }

    /// Turns the values of one head.
    pub fn apply(&self, head: &mut [f32], turns: &[(f32, f32)]) {
        let turn = |one: &mut f32, other: &mut f32, (cosine, sine): (f32, f32)| {
            (*one, *other) = (*one * cosine - *other * sine, *one * sine + *other * cosine);
        };
        match self.layout {
            RopeLayout::Neighbours => {
                for (pair, angle) in head.chunks_exact_mut(2).zip(turns) {
                    if let [one, other] = pair {
                        turn(one, other, *angle);
                    }
                }
            }
            RopeLayout::Halves => {
                if let Some((first, second)) = head.split_at_mut_checked(self.steps.len()) {
                    for ((one, other), angle) in first.iter_mut().zip(second).zip(turns) {
                        turn(one, other, *angle);
                    }
                }
            }
            RopeLayout::None => {}
        }
    }
}
