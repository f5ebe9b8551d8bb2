//! Joining labels.

use capos_schema::authority::Label;

/// Adds the classes of `from` to `to`: the label of a value made of both.
pub fn join(to: &mut Label, from: &Label) {
    for class in &from.classes {
        if let Err(at) = to.classes.binary_search(class) {
            to.classes.insert(at, class.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_join_as_sets() {
        let label = |classes: &[&str]| Label { classes: classes.iter().map(|class| (*class).into()).collect() };
        let mut joined = label(&[]);
        join(&mut joined, &label(&["secret.key"]));
        join(&mut joined, &label(&["pii.mail", "secret.key"]));
        assert_eq!(joined, label(&["pii.mail", "secret.key"]));
    }
}
