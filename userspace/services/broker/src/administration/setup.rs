//! The set-up of the machine from a session, after its person has put the questions of the first start off.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;

use capos_broker::in_force::InForce;
use capos_rt::log;
use capos_schema::authority::{MachineSetupServer, MachineSetupSetUpDiskResults};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::storage::DiskInfo;
use capos_schema::store::VolumeState;
use capos_setup::disks::{content, size};

use crate::broker::Broker;

/// The set-up, for an operator without a user.
pub struct SetupObject {
    pub broker: Rc<Broker>,
    /// Whose home and conversations the first user gets.
    pub principal: String,
    /// It ends with the session's policy.
    pub in_force: InForce,
}

/// A disk in a line.
fn line(disk: &DiskInfo) -> String {
    let bytes = disk.blocks.saturating_mul(disk.block_bytes.into());
    format!("- {}: {}, {}\n", disk.place, content(disk.content), size(bytes))
}

impl MachineSetupServer for SetupObject {
    async fn look(&self, _cx: &CallContext) -> Result<String, CallError> {
        self.in_force.check()?;
        let volume = self.broker.volume()?.info().await?;
        let mut text = String::from("Disks:\n");
        match self.broker.blocks.disks() {
            Ok(disks) => text.extend(disks.list().await?.iter().map(line)),
            Err(why) => log::warning!("{why}"),
        }
        let now = self.broker.clock.wall_clock().unwrap_or_default();
        text.push_str(&format!("Clock: {}\n", capos_setup::moment(now)));
        let next = match volume.state {
            VolumeState::Declined => format!(
                "{} is not set up, and nothing is kept when the machine is turned off.\nNext: set_up_disk sets it up and adds \
                 the first user. It needs no arguments: the terminal asks the person for a name and a passphrase.\n",
                volume.disk
            ),
            VolumeState::Open => format!(
                "{} is set up, and what is done from now on is kept.\nNext, in the session of the new user: add_user adds \
                 users, set_setting changes settings, for example session.lock_minutes or session.home_quota.\n",
                volume.disk
            ),
            _ => volume.details,
        };
        text.push_str(&next);
        Ok(text)
    }

    async fn set_up_disk(
        &self,
        _cx: &CallContext,
        user: String,
        passphrase: String,
    ) -> Result<MachineSetupSetUpDiskResults, CallError> {
        self.in_force.check()?;
        let recovery_code = self.broker.set_up(&user, &passphrase).await?;
        // What was made so far is the first user's.
        if user != self.principal
            && let Err(why) = self.broker.blocks.rename(&self.principal, &user).await
        {
            log::warning!("the first user gets nothing of what {} has made: {why}", self.principal);
        }
        let text = format!(
            "{} is set up and encrypted, and the person has the recovery code. {user} is its first user, an operator, and is \
             logged in at the end of this answer. From the next request on there are tools to add users and to change settings.",
            self.broker.volume()?.info().await?.disk
        );
        Ok(MachineSetupSetUpDiskResults { text, recovery_code })
    }
}
