//! The login after a session has ended.

use super::*;

#[test]
fn a_wrong_passphrase_after_a_logout_is_asked_for_again() {
    let open = "ask login as ada, bob, guest, anonymous (Enter: ada): ";
    TWO.run(&[
        (At(Open), "login operator  ", ""),
        (Ended, "look", ""),
        (At(Open), open, ""),
        (Line("bob"), OF_BOB, ""),
        (Line("battery stable"), "login operator bob battery stable", ""),
        (Fail("the passphrase is wrong"), OF_BOB, "login rejected: the passphrase is wrong"),
        (Line("battery staple"), "login operator bob battery staple", ""),
        (Ended, "look", ""),
        (At(Open), open, ""),
        // The way back to the names.
        (Line("bob"), OF_BOB, ""),
        (Line("battery stable"), "login operator bob battery stable", ""),
        (Fail("the passphrase is wrong"), OF_BOB, "login rejected"),
        (Line(""), open, "no passphrase was entered"),
        (Line("ada"), OF_ADA, ""),
        (Line("correct house"), "login operator ada correct house", ""),
        (Fail("the passphrase is wrong"), OF_ADA, "login rejected"),
        (Stop, open, "no passphrase was entered"),
    ]);
}
