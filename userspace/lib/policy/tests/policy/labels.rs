//! Labels at their bounds, and risks of categories.

use capos_policy::*;
use capos_schema::authority::{Label, Risk};

fn label(classes: &[&str]) -> Label {
    Label { classes: classes.iter().map(ToString::to_string).collect() }
}

/// A label of up to 1,024 bytes is kept, each class with four more; a longer one is above all.
#[test]
fn labels_are_kept_up_to_their_last_byte() {
    assert_eq!(label_size(&label(&[])), 0);
    assert_eq!(label_size(&label(&["a", "bcd"])), 12);
    // Fourteen of 68, and two that take the 72 that are left.
    let mut names: Vec<String> = (0..14).map(|number| format!("{number:064}")).collect();
    names.extend(["x".repeat(40), "y".repeat(24)]);
    let all = |names: &[String]| Label { classes: names.to_vec() };
    assert_eq!(label_size(&all(&names)), LABEL_LIMIT);
    assert_eq!(join(&all(&names), &label(&[])), all(&names));
    names.push("y".repeat(25));
    names.retain(|name| name.len() != 24);
    assert_eq!(join(&all(&names), &label(&[])), all_above());
}

#[test]
fn names_of_classes_are_plain_and_short() {
    let longest = "x".repeat(64);
    for (class, named) in [
        ("a", true),
        ("pii.log", true),
        ("A-b_c.9", true),
        (longest.as_str(), true),
        (&"x".repeat(65), false),
        ("", false),
        ("a b", false),
        ("\u{e9}", false),
        ("a/b", false),
    ] {
        let wanted = if named { label(&[class]) } else { all_above() };
        assert_eq!(join(&label(&[class]), &label(&[])), wanted, "{class:?}");
    }
    assert_eq!(all_above(), label(&["*"]));
}

#[test]
fn each_category_has_its_usual_risk() {
    for (category, risk) in [
        (Category::ReadOnly, Risk::Low),
        (Category::Mutating, Risk::Medium),
        (Category::Outbound, Risk::Medium),
        (Category::Destructive, Risk::High),
        (Category::Admin, Risk::High),
    ] {
        assert_eq!(usual(category), risk, "{category:?}");
    }
}

#[test]
fn rules_that_raise_something_are_not_empty() {
    let names = || ["a".to_string()].into();
    assert!(RiskRules::default().is_empty());
    assert!(RiskRules { source: "settings".into(), ..RiskRules::default() }.is_empty());
    assert!(!RiskRules { areas: names(), ..RiskRules::default() }.is_empty());
    assert!(!RiskRules { programs: names(), ..RiskRules::default() }.is_empty());
}
