//! Starting a program with capabilities of the caller's choice. Held by few.
//!
//! A program started for a service ends with the service: the service's next instance does not know of it, so it would
//! never be ended.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use capos_abi::Rights;
use capos_process::{Granted, Image, Launch};
use capos_rt::spawn;
use capos_schema::cap::{CallContext, CallError};
use capos_schema::kernel::{Limits, ProcessClient};
use capos_schema::system::{Grant, ProcessSpawnerServer};

use crate::service::Service;
use crate::system::System;

/// Starts programs of the medium for one client.
pub struct Spawner {
    /// The system.
    pub system: Rc<System>,
    /// The service that asks; every other spawner ends with the program that holds it.
    pub keeper: Option<Rc<Service>>,
}

/// Why a process ends that was started for a service.
const KEEPER_GONE: &str = "the service that had it started has ended";

impl Service {
    /// Ends what the last life of the service had started.
    pub async fn end_spawned(&self) {
        // Each is taken off the list by the task that waits for its end.
        let spawned: Vec<ProcessClient> = self.spawned.borrow().values().cloned().collect();
        for process in spawned {
            // That it is dead already is as good.
            let _ = process.kill(KEEPER_GONE).await;
        }
    }

    /// Notes a process that was started for the service in its life of this number. False if that life is over.
    fn adopt(self: &Rc<Self>, process: &ProcessClient, life: u32) -> bool {
        if self.starts() != life || self.running.borrow().is_none() {
            return false;
        }
        let number = self.next_spawned.get();
        self.next_spawned.set(number.wrapping_add(1));
        self.spawned.borrow_mut().insert(number, process.clone());
        let (service, process) = (self.clone(), process.clone());
        drop(spawn(async move {
            drop(process.wait().await);
            service.spawned.borrow_mut().remove(&number);
        }));
        true
    }
}

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
        let life = self.keeper.as_ref().map(|keeper| keeper.starts());
        let image = Image::open(&self.system.medium, &program).await?;
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
            account: &self.system.account,
        };
        let process = launch.start().await?.process;
        if let (Some(keeper), Some(life)) = (&self.keeper, life)
            && !keeper.adopt(&process, life)
        {
            process.kill(KEEPER_GONE).await?;
            return Err(CallError::disconnected(KEEPER_GONE));
        }
        Ok(process)
    }
}
