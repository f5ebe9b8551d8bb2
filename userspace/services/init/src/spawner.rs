//! Starting a program with capabilities of the caller's choice. Held by few.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use capos_abi::Rights;
use capos_process::{Granted, Image, Launch};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::kernel::{Limits, ProcessClient};
use capos_schema::system::{Grant, ProcessSpawnerServer};

use crate::system::System;

/// Starts programs of the medium.
pub struct Spawner(pub Rc<System>);

impl ProcessSpawnerServer for Spawner {
    async fn spawn(
        &self,
        _cx: &CallContext,
        name: String,
        program: String,
        arguments: Vec<String>,
        grants: Vec<Grant>,
        limits: Limits,
    ) -> Result<ProcessClient, CallError> {
        let image = Image::open(&self.0.medium, &program).await?;
        let grants = grants
            .into_iter()
            .map(|grant| Granted {
                name: grant.name,
                cap: capos_schema::cap::Client::into_cap(grant.capability),
                interface: grant.interface,
                rights: Rights(grant.rights),
            })
            .collect();
        let launch = Launch {
            name: &name,
            image: &image,
            arguments,
            environment: Vec::new(),
            grants,
            limits,
            account: &self.0.account,
        };
        Ok(launch.start().await?.process)
    }
}
