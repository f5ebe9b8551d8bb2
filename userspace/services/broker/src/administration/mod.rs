//! What a session manages the machine with, as objects.

mod backups;
mod settings;
mod setup;
mod users;

pub use backups::BackupsObject;
pub use settings::{SettingsObject, difference};
pub use setup::SetupObject;
pub use users::UsersObject;
