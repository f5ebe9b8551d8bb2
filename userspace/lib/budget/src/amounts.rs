//! An amount of each dimension.

use crate::dimension::Dimension;

/// A limit that is none.
pub const UNLIMITED: u64 = u64::MAX;

/// An amount of each dimension, in the units of [`Dimension`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts([u64; Dimension::COUNT]);

impl Amounts {
    /// Bytes of [`to_bytes`](Self::to_bytes).
    pub const BYTES: usize = Dimension::COUNT.saturating_mul(8);

    /// The same amount of each.
    #[must_use]
    pub fn all(amount: u64) -> Self {
        Self([amount; Dimension::COUNT])
    }

    /// This much of one dimension, and nothing of the others.
    #[must_use]
    pub fn of(dimension: Dimension, amount: u64) -> Self {
        Self::default().with(dimension, amount)
    }

    /// The same, with this much of one dimension.
    #[must_use]
    pub fn with(mut self, dimension: Dimension, amount: u64) -> Self {
        self.set(dimension, amount);
        self
    }

    /// How much it is of a dimension.
    #[must_use]
    pub fn get(&self, dimension: Dimension) -> u64 {
        self.0.get(dimension.index()).copied().unwrap_or_default()
    }

    /// Changes the amount of a dimension.
    pub fn set(&mut self, dimension: Dimension, amount: u64) {
        if let Some(place) = self.0.get_mut(dimension.index()) {
            *place = amount;
        }
    }

    fn map(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        let mut found = Self::default();
        for dimension in Dimension::ALL {
            found.set(dimension, with(self.get(dimension), other.get(dimension)));
        }
        found
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.map(other, u64::saturating_add)
    }

    /// What is left without the other, and not less than nothing.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.map(other, u64::saturating_sub)
    }

    /// The smaller of both, for each dimension.
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        self.map(other, u64::min)
    }

    /// The larger of both, for each dimension.
    #[must_use]
    pub fn most(self, other: Self) -> Self {
        self.map(other, u64::max)
    }

    /// Whether it is nothing of any dimension.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.0.iter().all(|amount| *amount == 0)
    }

    /// The amounts, in the order of the dimensions.
    pub fn iter(&self) -> impl Iterator<Item = (Dimension, u64)> + '_ {
        Dimension::ALL.into_iter().map(|dimension| (dimension, self.get(dimension)))
    }

    /// In bytes: each 8, little-endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (place, amount) in bytes.chunks_exact_mut(8).zip(self.0) {
            place.copy_from_slice(&amount.to_le_bytes());
        }
        bytes
    }

    /// The amounts in these bytes, and what stands behind them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (own, rest) = bytes.split_at_checked(Self::BYTES)?;
        let mut found = Self::default();
        for (dimension, place) in Dimension::ALL.into_iter().zip(own.chunks_exact(8)) {
            found.set(dimension, u64::from_le_bytes(place.try_into().ok()?));
        }
        Some((found, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_compared_for_each_dimension() {
        let one = Amounts::of(Dimension::Steps, 3).with(Dimension::Tokens, 7);
        let other = Amounts::of(Dimension::Steps, 5).with(Dimension::Writes, 2);
        assert_eq!(
            one.most(other),
            Amounts::of(Dimension::Steps, 5).with(Dimension::Tokens, 7).with(Dimension::Writes, 2)
        );
        assert_eq!(one.least(other), Amounts::of(Dimension::Steps, 3));
        assert!(Amounts::default().is_nothing());
        for dimension in Dimension::ALL {
            assert!(!Amounts::of(dimension, 1).is_nothing());
        }
    }
}
