//! How much harm a call could do.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use capos_schema::authority::{Profile, Risk};

use crate::bundle::Capability;
use crate::category::Category;
use crate::scope::{Arguments, PathIndex, PathRules};

/// What raises the risk of a call above that of its tool, as one layer of the configuration says it. The layers add up: what one of
/// them raises, no other lowers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RiskRules {
    /// The profile whose sessions it is for; all if there is none.
    pub profile: Option<Profile>,
    /// Where the work is: a call that changes something elsewhere has a high risk. Everywhere if it is empty.
    pub areas: BTreeSet<String>,
    /// The programs that are known: to run another one has a high risk. All if it is empty.
    pub programs: BTreeSet<String>,
    /// The file or the settings that have it.
    pub source: String,
}

/// The rules of one profile in the form in which calls are looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Raises {
    areas: Vec<PathIndex>,
    programs: Vec<BTreeSet<String>>,
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
    /// Whether they raise nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.areas.is_empty() && self.programs.is_empty()
    }

    /// Those of them that are for sessions of a profile.
    pub(crate) fn of(all: &[Self], profile: Profile) -> impl Iterator<Item = &Self> {
        all.iter().filter(move |rules| rules.profile.is_none_or(|wanted| wanted == profile))
    }

    /// What they raise, one rule a line.
    pub(crate) fn lines(&self) -> Vec<String> {
        let listed =
            |names: &BTreeSet<String>| names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let lines =
            [("high risk for a change outside", &self.areas), ("high risk for a program other than", &self.programs)];
        let lines = lines.into_iter().filter(|(_, names)| !names.is_empty());
        lines.map(|(what, names)| format!("{what} {}", listed(names))).collect()
    }
}

impl Raises {
    pub(crate) fn of(all: &[RiskRules], profile: Profile) -> Self {
        let mut raises = Self::default();
        for RiskRules { areas, programs, .. } in RiskRules::of(all, profile) {
            if !areas.is_empty() {
                let areas = PathRules { allow: areas.iter().cloned().collect(), block: Vec::new() };
                raises.areas.push(areas.compile());
            }
            if !programs.is_empty() {
                raises.programs.push(programs.clone());
            }
        }
        raises
    }

    /// Whether some call could have a higher risk than its tool.
    pub(crate) fn is_empty(&self) -> bool {
        self.areas.is_empty() && self.programs.is_empty()
    }

    /// Why a call of this tool has a high risk, where it has one for its arguments.
    pub(crate) fn why(&self, tool: &Capability, arguments: &Arguments, lookups: &mut u64) -> Option<&'static str> {
        if tool.category != Category::ReadOnly && !self.areas.is_empty() {
            let outside = |name: &&str| match arguments.text(name) {
                Ok(Some(path)) => self.areas.iter().any(|areas| areas.check(path, lookups).is_err()),
                Ok(None) => false,
                Err(_) => true,
            };
            if tool.paths.iter().any(outside) {
                return Some("it changes something outside the areas of work");
            }
        }
        let knows = |known: &BTreeSet<String>| arguments.program().is_some_and(|program| known.contains(program));
        (tool.runs_programs() && !self.programs.iter().all(knows)).then_some("it runs a program that is not known")
    }
}
