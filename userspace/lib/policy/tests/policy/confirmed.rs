//! What sends or deletes something is confirmed by the person, whatever is configured.

#![allow(clippy::unwrap_used, reason = "a failure is the point of a test")]

use capos_policy::*;
use capos_schema::INTERFACES;
use capos_schema::authority::Profile;
use capos_schema::models::PermissionMode;
use proptest::prelude::*;

/// First words of the names of tools that send or delete something.
const VERBS: [&str; 14] = [
    "archive", "back", "buy", "delete", "erase", "export", "mail", "pay", "post", "publish", "remove", "send",
    "upload", "wipe",
];
const CONFIRMED: [Category; 3] = [Category::Destructive, Category::Outbound, Category::Admin];

/// Requirement D25: each tool that sends or deletes something is of a category that is confirmed.
#[test]
fn d25_tools_that_send_or_delete_are_of_a_confirmed_category() {
    let methods = INTERFACES.iter().flat_map(|interface| interface.methods);
    let tools: Vec<_> = methods.filter_map(|method| Some((method.tool?, method.category?))).collect();
    let sends = |tool: &str| tool.split('_').next().is_some_and(|verb| VERBS.contains(&verb));
    let found: Vec<_> = tools.iter().filter(|(tool, _)| sends(tool)).collect();
    assert!(found.len() >= 6, "{found:?}");
    for (tool, category) in found {
        assert!(CONFIRMED.contains(category), "{tool} is {}", category.name());
    }
}

fn mode() -> impl Strategy<Value = PermissionMode> {
    use PermissionMode::*;
    prop::sample::select(vec![Auto, Consent, StepUp, Forbidden])
}

fn category() -> impl Strategy<Value = Category> {
    prop::sample::select(Category::ALL.to_vec())
}

fn rule() -> impl Strategy<Value = Override> {
    (prop::option::of(category()), prop::option::of(mode()), any::<bool>())
        .prop_map(|(category, mode, widen)| Override { category, mode, widen, tool: None, ..Override::default() })
}

proptest! {
    /// Requirement D25: no modes and no rules of a configuration let such a tool run without the person's word.
    #[test]
    fn d25_no_configuration_takes_the_confirmation_away(
        modes in prop::collection::vec(mode(), Category::ALL.len()),
        overrides in prop::collection::vec(rule(), 0..5),
        profile in prop::sample::select(vec![Profile::Operator, Profile::Guest, Profile::Anonymous]),
    ) {
        let of = |wanted: Category| Category::ALL.iter().zip(&modes).find(|(found, _)| **found == wanted).map(|(_, mode)| *mode);
        // A manifest with less is not accepted.
        let Ok(modes) = Modes::new(of) else { return Ok(()) };
        let policy = Policy { modes: vec![(profile, modes)], overrides, ..Policy::default() };
        let session = SessionPolicy::new(&policy, profile);
        for category in CONFIRMED {
            prop_assert_ne!(session.permission(category, "m", "t").mode, PermissionMode::Auto);
        }
    }
}
