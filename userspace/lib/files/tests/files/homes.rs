//! Homes by principal.
#![allow(clippy::unwrap_used, reason = "helpers of tests may fail the test")]

use crate::common::keyspace;
use capos_files::{Files, Homes};
use capos_keyspace::Fault;
use capos_tree::suite::{CREATE, READ, done, label};
use capos_tree::{FileTree, Tree, WriteAt};

/// Somebody holds a home, a folder and an open file of it from before its user was removed.
#[test]
fn an_old_home_is_not_that_of_a_later_user_of_the_name() {
    let space = keyspace(4 << 20);
    let homes = Homes::new(space.clone(), 100);
    let public = label(&[]);
    let first = done(homes.number("bob")).unwrap();
    let old = done(Files::open(homes.tree(first))).unwrap();
    done(old.store(Tree::ROOT, "secret", b"of the first", false, &public, 0)).unwrap();
    let (file, _) = done(old.open_at(Tree::ROOT, "secret", READ, 0)).unwrap();
    assert_eq!(done(homes.remove("bob")), Ok(Some(first)));
    assert_eq!(done(homes.remove("bob")), Ok(None));
    assert!(done(old.read(file, 0, 100)).is_err());
    assert!(done(old.open_at(Tree::ROOT, "secret", READ, 0)).is_err());
    // The next one of this name, before and after a restart of the service, and others.
    for (restarted, name) in [(false, "bob"), (true, "bob"), (true, "eve")] {
        let again = Homes::new(space.clone(), 100);
        let homes = if restarted { &again } else { &homes };
        let second = done(homes.number(name)).unwrap();
        assert_ne!(second, first, "{name}");
        let new = done(Files::open(homes.tree(second))).unwrap();
        done(new.store(Tree::ROOT, "secret", b"of the second", false, &public, 0)).unwrap();
        // What the old one writes is not the new one's.
        let _ = done(old.store(Tree::ROOT, "secret", b"forged", false, &public, 0));
        let _ = done(old.write(file, WriteAt::Offset(0), b"forged", &public, 0));
        let _ = done(old.open_at(Tree::ROOT, "forged", CREATE, 0));
        let (id, _) = done(new.open_at(Tree::ROOT, "secret", READ, 0)).unwrap();
        assert_eq!(done(new.read(id, 0, 100)).unwrap().0, b"of the second", "{name}");
        assert!(done(new.open_at(Tree::ROOT, "forged", READ, 0)).is_err());
    }
}

#[test]
fn numbers_run_out() {
    let homes = Homes::new(keyspace(4 << 20), 3);
    assert_eq!((done(homes.number("a")), done(homes.number("b")), done(homes.number("a"))), (Ok(1), Ok(2), Ok(1)));
    done(homes.remove("b")).unwrap();
    assert!(matches!(done(homes.number("b")), Err(Fault::Full(_))));
}
