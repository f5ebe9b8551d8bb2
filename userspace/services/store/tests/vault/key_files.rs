//! Key files, and the count of wrong keys.

use super::*;

/// A key file is no passphrase that somebody guesses: a start that was cut off costs no wait, and a right one forgets no wrong
/// passphrase.
#[test]
fn a_key_file_neither_counts_nor_forgets() {
    const FILE: &str = "0123456789abcdef0123456789abcdef";
    let machine = Machine::new();
    let mut vault = machine.start(None, false);
    vault.create(machine.place(false), "site", FILE, KeyKind::KeyFile).unwrap();
    drop(vault);
    for _ in 0..20 {
        let mut vault = machine.start(None, false);
        assert_eq!(wrong(vault.open("site", &FILE.replace('0', "1"), KeyKind::KeyFile)), "the key file is wrong");
        assert_eq!(vault.status().failed_attempts, 0);
    }
    for count in 1..=4 {
        let mut vault = machine.start(None, false);
        assert_eq!(vault.open("site", FILE, KeyKind::KeyFile), Ok(Tried::Right));
        assert_eq!(vault.status().failed_attempts, count - 1, "a restart forgets nothing");
        wrong(vault.verify("site", "a guess"));
    }
    for _ in 0..2 {
        wrong(machine.start(None, false).open("", "a guess", KeyKind::Passphrase));
    }
    let mut vault = machine.start(None, false);
    assert!(wrong(vault.open("", "a guess", KeyKind::Passphrase)).contains("too many"));
    assert_eq!(vault.open("site", FILE, KeyKind::KeyFile), Ok(Tried::Right), "the site's key file does not wait");
    assert!(wrong(vault.verify("site", "a guess")).contains("too many"));
}
