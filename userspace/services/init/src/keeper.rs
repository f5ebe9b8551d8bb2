//! Data that services must not forget when they crash.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_schema::cap::{CallContext, CallError};
use capos_schema::system::StateKeeperServer;

use crate::system::System;

/// Bytes that are kept for one service.
const MOST: usize = 16 << 10;

/// The keeper of one service's state.
pub struct Keeper {
    system: Rc<System>,
    service: String,
}

impl Keeper {
    /// The keeper for a service, by its name in the manifest.
    pub fn new(system: Rc<System>, service: &str) -> Self {
        Self { system, service: service.to_string() }
    }
}

impl StateKeeperServer for Keeper {
    async fn load(&self, _cx: &CallContext) -> Result<Vec<u8>, CallError> {
        Ok(self.system.kept.borrow().get(&self.service).cloned().unwrap_or_default())
    }

    async fn store(&self, _cx: &CallContext, state: Vec<u8>) -> Result<(), CallError> {
        if state.len() > MOST {
            return Err(CallError::invalid_argument(format!(
                "the state has {} bytes; at most {MOST} are kept",
                state.len()
            )));
        }
        self.system.kept.borrow_mut().insert(self.service.clone(), state);
        Ok(())
    }
}
