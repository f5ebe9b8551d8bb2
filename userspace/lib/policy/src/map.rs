//! The permission map: from profile, category, method and tool to a mode.

use alloc::format;
use alloc::string::String;

use capos_schema::authority::Profile;
use capos_schema::models::PermissionMode;

use crate::category::Category;

/// How one tool is treated in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    pub mode: PermissionMode,
    /// Not even shown to the model.
    pub suppressed: bool,
}

/// The mode of each category in one profile, before any rule of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes([PermissionMode; Category::ALL.len()]);

impl Modes {
    /// Those of a profile that the manifest does not name: nothing may run.
    pub const CLOSED: Self = Self([PermissionMode::Forbidden; Category::ALL.len()]);

    /// A mode for each category. None may be below the category's floor.
    ///
    /// # Errors
    /// The first category whose mode is missing or too low, and why.
    pub fn new(mode: impl Fn(Category) -> Option<PermissionMode>) -> Result<Self, (Category, String)> {
        let mut modes = Self::CLOSED.0;
        for (place, &category) in modes.iter_mut().zip(Category::ALL) {
            let Some(wanted) = mode(category) else {
                return Err((category, String::from("it is missing; every category needs a mode")));
            };
            if stricter(wanted, floor(category)) != wanted {
                let (name, least) = (category.name(), floor(category).name());
                return Err((category, format!("tools that are {name} need {least} at least, not {}", wanted.name())));
            }
            *place = wanted;
        }
        Ok(Self(modes))
    }

    /// The mode of a category.
    #[must_use]
    pub fn of(&self, category: Category) -> PermissionMode {
        let found = Category::ALL.iter().zip(self.0).find(|(other, _)| **other == category);
        found.map_or(PermissionMode::Forbidden, |(_, mode)| mode)
    }
}

/// The lower bound of a category's tools, whatever is configured.
fn floor(category: Category) -> PermissionMode {
    match category {
        Category::Destructive | Category::Outbound | Category::Admin => PermissionMode::Consent,
        Category::ReadOnly | Category::Mutating => PermissionMode::Auto,
    }
}

/// A rule of the configuration for the tools it names. A part that is `None` matches all.
///
/// A rule tightens: of the default and all rules that name a tool the strictest counts. Only with `widen`, and only in
/// an operator's session, does a rule take the default's place; then too a destructive, outbound or admin tool keeps at
/// least `consent`, and other rules still tighten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Override {
    pub profile: Option<Profile>,
    pub category: Option<Category>,
    pub method: Option<String>,
    pub tool: Option<String>,
    pub mode: Option<PermissionMode>,
    /// `Some(true)` hides the tool; `Some(false)` shows it though it is forbidden.
    pub suppressed: Option<bool>,
    pub widen: bool,
    /// The file or the settings that have it.
    pub source: String,
}

impl Override {
    pub(crate) fn names(&self, profile: Profile, category: Category, method: &str, tool: &str) -> bool {
        self.profile.is_none_or(|wanted| wanted == profile)
            && self.category.is_none_or(|wanted| wanted == category)
            && self.method.as_deref().is_none_or(|wanted| wanted == method)
            && self.tool.as_deref().is_none_or(|wanted| wanted == tool)
    }
}

/// The origin of a mode that no rule changes.
const MANIFEST: &str = "the manifest";
/// The origin of a mode that is a category's least.
const FLOOR: &str = "the least that tools of this category take";

/// The mode and the visibility that follow from the default and the rules, and where the mode comes from.
pub(crate) fn resolve(
    overrides: &[Override],
    modes: &Modes,
    profile: Profile,
    (category, method, tool): (Category, &str, &str),
    hide_forbidden: bool,
) -> (Permission, String) {
    let named = || overrides.iter().filter(|rule| rule.names(profile, category, method, tool));
    let widens = |rule: &&Override| rule.widen && profile == Profile::Operator;
    let mut found: Option<(PermissionMode, &str)> = None;
    for rule in named().filter(widens) {
        if let Some(mode) = rule.mode {
            found = Some(match found {
                Some((before, source)) if stricter(before, mode) == before && before != mode => (before, source),
                _ => (mode, rule.source.as_str()),
            });
        }
    }
    let (mut mode, mut source) = match found {
        None => (modes.of(category), MANIFEST),
        Some((mode, source)) if stricter(mode, floor(category)) == mode => (mode, source),
        Some(_) => (floor(category), FLOOR),
    };
    for rule in named().filter(|rule| !widens(rule)) {
        if let Some(other) = rule.mode.filter(|other| stricter(mode, *other) != mode) {
            (mode, source) = (other, rule.source.as_str());
        }
    }
    let hidden = named().any(|rule| rule.suppressed == Some(true));
    let shown = named().any(|rule| rule.suppressed == Some(false));
    let suppressed = hidden || (mode == PermissionMode::Forbidden && hide_forbidden && !shown);
    (Permission { mode, suppressed }, String::from(source))
}

/// The stricter of two modes: auto, consent, step-up, forbidden.
#[must_use]
pub fn stricter(one: PermissionMode, other: PermissionMode) -> PermissionMode {
    let rank = |mode| match mode {
        PermissionMode::Auto => 0,
        PermissionMode::Consent => 1,
        PermissionMode::StepUp => 2,
        PermissionMode::Forbidden => 3,
    };
    if rank(one) >= rank(other) { one } else { other }
}
