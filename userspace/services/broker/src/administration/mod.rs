//! What a session manages the machine with, as objects.

mod backups;
mod settings;
mod setup;
mod users;

use alloc::rc::Rc;
use alloc::string::String;

use capos_broker::in_force::InForce;
use capos_broker::memory_budget::Sharing;
use capos_broker::volume::DataVolume;
use capos_rt::Server;
use capos_schema::authority::{BackupsClient, SettingsClient, UsersClient};
use capos_schema::cap::CallError;
use capos_schema::store::NamespaceClient;

use crate::broker::Broker;
pub use settings::consequence;
pub use setup::SetupObject;

/// The rights of an operator's session over the machine.
pub struct Operator {
    pub broker: Rc<Broker>,
    pub name: String,
    /// They end with the session's policy.
    pub in_force: InForce,
}

impl Operator {
    /// The data volume. There is no other way to it here.
    ///
    /// # Errors
    /// The policy has expired, the person is an operator no longer, or the store does not tell.
    async fn volume(&self) -> Result<&DataVolume<NamespaceClient>, CallError> {
        self.in_force.check()?;
        self.broker.volume_of(&self.name).await
    }

    /// What an operator manages the machine with.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn objects(
        self,
        server: &Sharing<'_, Rc<Server>>,
    ) -> Result<(UsersClient, SettingsClient, BackupsClient), CallError> {
        let operator = Rc::new(self);
        Ok((
            UsersClient::serve(server, Rc::new(users::UsersObject(operator.clone())))?,
            SettingsClient::serve(server, Rc::new(settings::SettingsObject(operator.clone())))?,
            BackupsClient::serve(server, Rc::new(backups::BackupsObject(operator)))?,
        ))
    }
}
