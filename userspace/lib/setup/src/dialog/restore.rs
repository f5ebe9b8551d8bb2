//! The part of the dialog that restores a backup onto a blank disk.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};

use capos_plural::count;
use capos_schema::authority::FoundBackup;
use capos_schema::store::{KeyKind, VolumeState};
use capos_schema::terminal::Style;

use super::{Call, DIFFER, Dialog, Next, Says, State, Step, ask, moment, secret, sentence};
use crate::rules::{check_name, check_passphrase};

/// The word in place of a name that asks for a backup.
pub(super) const RESTORE: &str = "restore";

#[derive(Clone)]
pub(super) enum Restore {
    Which,
    Name {
        backup: FoundBackup,
    },
    Secret {
        backup: FoundBackup,
        name: String,
    },
    Code {
        backup: FoundBackup,
        name: String,
    },
    First {
        backup: FoundBackup,
        name: String,
        code: String,
    },
    Again {
        backup: FoundBackup,
        name: String,
        code: String,
        passphrase: String,
    },
    Running {
        backup: FoundBackup,
        name: String,
    },
    /// It is asked again what there is.
    Rejected {
        backup: FoundBackup,
        name: String,
        why: String,
    },
}

fn told(backup: &FoundBackup) -> String {
    format!("{} of {}, from {}", backup.folder, backup.volume, moment(backup.time))
}

impl Dialog {
    /// Tells a person with a blank disk that there are backups.
    pub(super) fn offer(&self, says: Says) -> Says {
        match self.backups.as_slice() {
            [] => says,
            [one] => {
                says.add(Style::Plain, format!("There is a backup: {}. Enter `{RESTORE}` to restore it.", told(one)))
            }
            more => says.add(
                Style::Plain,
                format!("There are {}. Enter `{RESTORE}` to restore one.", count(more.len(), "backup")),
            ),
        }
    }

    fn then(&mut self, state: Restore, says: Says, next: Next) -> Step {
        self.state = State::Restore(state);
        says.then(next)
    }

    pub(super) fn restore(&mut self) -> Step {
        match self.backups.as_slice() {
            [] => self.look(Says::error("there is no backup on a transfer volume any more")),
            [one] => {
                let one = one.clone();
                self.whose_backup(one, Says::none())
            }
            more => {
                let mut says = Says::none();
                for (number, backup) in (1_usize..).zip(more) {
                    says = says.add(Style::Plain, format!("  {number}  {}", told(backup)));
                }
                let prompt = format!("Which backup (1 to {}, Enter: back): ", more.len());
                self.then(Restore::Which, says, ask(&prompt))
            }
        }
    }

    fn whose_backup(&mut self, backup: FoundBackup, says: Says) -> Step {
        self.then(Restore::Name { backup }, says, ask("Your name in the backup (Enter: back): "))
    }

    fn key_of_backup(&mut self, backup: FoundBackup, name: String, says: Says) -> Step {
        let prompt = format!("Passphrase of {name} in the backup (Enter: use the recovery code): ");
        self.then(Restore::Secret { backup, name }, says, secret(&prompt))
    }

    fn new_passphrase(&mut self, backup: FoundBackup, name: String, code: String, says: Says) -> Step {
        let prompt = format!("New passphrase of {name}, at least 8 characters: ");
        self.then(Restore::First { backup, name, code }, says, secret(&prompt))
    }

    fn run(&mut self, backup: FoundBackup, name: String, key: (String, KeyKind), passphrase: String) -> Step {
        let text = format!("{} is being restored onto {}.", told(&backup), self.volume.disk);
        let (secret, kind) = key;
        let call = Call::Restore { backup: backup.clone(), name: name.clone(), secret, kind, passphrase };
        self.then(Restore::Running { backup, name }, Says::none().add(Style::Dim, text), Next::Call(call))
    }

    /// A line was entered.
    pub(super) fn restore_line(&mut self, state: Restore, line: &str) -> Step {
        let back = |dialog: &mut Self| dialog.blank(Says::none());
        match state {
            Restore::Which if line.trim().is_empty() => back(self),
            Restore::Which => {
                let at = line.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
                match at.and_then(|at| self.backups.get(at)).cloned() {
                    Some(backup) => self.whose_backup(backup, Says::none()),
                    None => {
                        let mut step = self.restore();
                        step.says.insert(0, (Style::Error, "enter the number of a backup".to_owned()));
                        step
                    }
                }
            }
            Restore::Name { backup } => match line.trim() {
                "" => back(self),
                name => match check_name(name) {
                    Ok(()) => self.key_of_backup(backup, name.to_owned(), Says::none()),
                    Err(why) => self.whose_backup(backup, Says::error(&why)),
                },
            },
            Restore::Secret { backup, name } if line.is_empty() => {
                let prompt = "Recovery code of the backup, of 8 groups of 5 letters (Enter: back): ";
                self.then(Restore::Code { backup, name }, Says::none(), secret(prompt))
            }
            Restore::Secret { backup, name } => {
                self.run(backup, name, (line.to_owned(), KeyKind::Passphrase), String::new())
            }
            Restore::Code { backup, .. } if line.trim().is_empty() => self.whose_backup(backup, Says::none()),
            Restore::Code { backup, name } => self.new_passphrase(backup, name, line.trim().to_owned(), Says::none()),
            Restore::First { backup, name, code } => match check_passphrase(line) {
                Ok(()) => {
                    let passphrase = line.to_owned();
                    let again = secret("The same passphrase again: ");
                    self.then(Restore::Again { backup, name, code, passphrase }, Says::none(), again)
                }
                Err(why) => self.new_passphrase(backup, name, code, Says::error(&why)),
            },
            Restore::Again { backup, name, code, passphrase } if passphrase == line => {
                self.run(backup, name, (code, KeyKind::RecoveryCode), passphrase)
            }
            Restore::Again { backup, name, code, .. } => self.new_passphrase(backup, name, code, Says::error(DIFFER)),
            // No line was asked for.
            Restore::Running { .. } | Restore::Rejected { .. } => self.look(Says::none()),
        }
    }

    /// The restore was done. The text is the recovery code of the new volume.
    pub(super) fn restored(&mut self, state: Restore, text: &str) -> Step {
        let Restore::Running { backup, name } = state else { return self.look(Says::none()) };
        let done =
            format!("{} is restored: the records on {} are those of the backup.", told(&backup), self.volume.disk);
        let says = Says::none().add(Style::Success, done).code(text);
        let others = "Other users of the backup get their passphrases by /users reset.";
        // A backup of an older version is migrated before anybody logs in.
        self.state = State::Unlocked { name: Some(name) };
        says.add(Style::Plain, others.to_string()).then(Next::Look)
    }

    /// After a restore that was rejected, the disk is as it was found now.
    pub(super) fn looked_again(&mut self, backup: FoundBackup, name: String, why: &str) -> Step {
        let says = Says::error(why);
        match self.volume.state {
            VolumeState::Blank if self.backups.contains(&backup) => self.key_of_backup(backup, name, says),
            VolumeState::Blank => self.blank(says),
            _ => {
                let says = says.add(Style::Warning, sentence(&self.volume.details));
                self.who(says)
            }
        }
    }

    /// The restore was rejected.
    pub(super) fn not_restored(&mut self, state: Restore, why: &str) -> Step {
        match state {
            // What the disk is now comes first.
            Restore::Running { backup, name } => {
                self.then(Restore::Rejected { backup, name, why: why.to_owned() }, Says::none(), Next::Look)
            }
            _ => self.look(Says::error(why)),
        }
    }
}
