//! The manifest's entries about sessions, for their issuer.

use alloc::rc::Rc;
use alloc::vec::Vec;

use capos_schema::cap::{CallContext, CallError};
use capos_schema::manifest::{ServiceEnd, SessionProfile, SessionProfilesServer};

use crate::system::System;

/// The manifest's profiles.
pub struct Profiles(pub Rc<System>);

impl SessionProfilesServer for Profiles {
    async fn list(&self, _cx: &CallContext) -> Result<Vec<SessionProfile>, CallError> {
        Ok(self.0.profiles.clone())
    }

    async fn services(&self, _cx: &CallContext) -> Result<Vec<ServiceEnd>, CallError> {
        let ends = self.0.services.iter().map(|service| ServiceEnd {
            name: service.entry.name.clone(),
            trusted: service.entry.trusted,
            loses: service.entry.loses.clone(),
        });
        Ok(ends.collect())
    }
}
