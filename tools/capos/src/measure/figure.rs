//! A figure: a number, its unit, and how it was measured.

use std::collections::BTreeMap;

use serde::Serialize;

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// The number.
    pub value: u64,
    /// The unit.
    pub unit: String,
    /// How it was measured.
    pub how: String,
}

/// Figures by their names.
pub type Figures = BTreeMap<String, Figure>;

impl Figure {
    /// A figure.
    pub(super) fn new(value: u64, unit: &str, how: &str) -> Self {
        Self { value, unit: unit.into(), how: how.into() }
    }
}
