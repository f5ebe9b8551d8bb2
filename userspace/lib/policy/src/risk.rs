//! How much harm a call could do.

use alloc::collections::BTreeSet;
use alloc::string::String;

use capos_schema::authority::Risk;

use crate::bundle::Capability;
use crate::category::Category;
use crate::scope::{Arguments, PathIndex, PathRules};

/// What raises the risk of a call above that of its tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RiskRules {
    /// Where the work is: a call that changes something elsewhere has a high risk. Everywhere if it is empty.
    pub areas: BTreeSet<String>,
    /// The programs that are known: to run another one has a high risk. All if it is empty.
    pub programs: BTreeSet<String>,
}

/// The same in the form in which calls are looked at.
#[derive(Clone, Debug)]
pub(crate) struct Raises {
    areas: Option<PathIndex>,
    programs: BTreeSet<String>,
}

/// The risk of calls of a category.
#[must_use]
pub fn usual(category: Category) -> Risk {
    match category {
        Category::ReadOnly => Risk::Low,
        Category::Mutating | Category::Outbound => Risk::Medium,
        Category::Destructive | Category::Admin => Risk::High,
    }
}

impl RiskRules {
    pub(crate) fn compile(&self) -> Raises {
        let areas = PathRules { allow: self.areas.iter().cloned().collect(), block: Default::default() };
        Raises { areas: (!self.areas.is_empty()).then(|| areas.compile()), programs: self.programs.clone() }
    }
}

impl Raises {
    /// Whether some call could have a higher risk than its tool.
    pub(crate) fn is_empty(&self) -> bool {
        self.areas.is_none() && self.programs.is_empty()
    }

    /// Why a call of this tool has a high risk, where it has one for its arguments.
    pub(crate) fn why(&self, tool: &Capability, arguments: &Arguments, lookups: &mut u64) -> Option<&'static str> {
        if let Some(areas) = self.areas.as_ref().filter(|_| tool.category != Category::ReadOnly) {
            let outside = |name: &&str| match arguments.text(name) {
                Ok(Some(path)) => areas.check(path, lookups).is_err(),
                Ok(None) => false,
                Err(_) => true,
            };
            if tool.paths.iter().any(outside) {
                return Some("it changes something outside the areas of work");
            }
        }
        let unknown = || arguments.program().is_none_or(|program| !self.programs.contains(program));
        (tool.runs_programs() && !self.programs.is_empty() && unknown())
            .then_some("it runs a program that is not known")
    }
}
