//! The limits of a budget, and what happens at each.

use crate::amounts::{Amounts, UNLIMITED};
use crate::dimension::Dimension;

/// What happens when a limit is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnExceed {
    /// The run ends as failed.
    #[default]
    Stop,
    /// The run pauses, and a person is asked for more.
    Ask,
    /// A warning, and the run continues.
    Warn,
}

impl OnExceed {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Stop, Self::Ask, Self::Warn];

    /// The name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Ask => "ask",
            Self::Warn => "warn",
        }
    }

    /// The policy of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// The limit of one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// In the dimension's unit; [`UNLIMITED`] is no limit.
    pub limit: u64,
    pub on_exceed: OnExceed,
}

impl Default for Rule {
    fn default() -> Self {
        Self { limit: UNLIMITED, on_exceed: OnExceed::Stop }
    }
}

/// The limits of all dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan([Rule; Dimension::COUNT]);

impl Plan {
    /// The rule of a dimension.
    #[must_use]
    pub fn rule(&self, dimension: Dimension) -> Rule {
        self.0.get(dimension.index()).copied().unwrap_or_default()
    }

    /// The same, with this rule for a dimension.
    #[must_use]
    pub fn with(mut self, dimension: Dimension, limit: u64, on_exceed: OnExceed) -> Self {
        self.set(dimension, Rule { limit, on_exceed });
        self
    }

    /// Changes the rule of a dimension.
    pub fn set(&mut self, dimension: Dimension, rule: Rule) {
        if let Some(place) = self.0.get_mut(dimension.index()) {
            *place = rule;
        }
    }

    /// The limits alone.
    #[must_use]
    pub fn limits(&self) -> Amounts {
        let mut limits = Amounts::default();
        for dimension in Dimension::ALL {
            limits.set(dimension, self.rule(dimension).limit);
        }
        limits
    }

    /// The same rules with no limit above these.
    #[must_use]
    pub fn within(mut self, most: Amounts) -> Self {
        for (dimension, most) in most.iter() {
            let rule = self.rule(dimension);
            self.set(dimension, Rule { limit: rule.limit.min(most), ..rule });
        }
        self
    }
}
