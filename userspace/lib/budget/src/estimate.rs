//! What a run is expected to use, as a range.

use crate::amounts::Amounts;
use crate::dimension::Dimension;

/// A range of each dimension. Where the most is 0, nothing is expected of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    pub least: Amounts,
    pub most: Amounts,
}

/// What an estimate says against what is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    Fits,
    /// It may take more than is left.
    Tight(Dimension),
    /// It takes more than is left, and is not begun.
    Blocked(Dimension),
}

impl Estimate {
    /// Compares the range with what is left.
    #[must_use]
    pub fn judge(&self, left: Amounts) -> Judged {
        let over = |amounts: Amounts| amounts.iter().find(|(at, amount)| *amount > left.get(*at)).map(|(at, _)| at);
        match (over(self.least), over(self.most)) {
            (Some(dimension), _) => Judged::Blocked(dimension),
            (None, Some(dimension)) => Judged::Tight(dimension),
            (None, None) => Judged::Fits,
        }
    }
}
