//! The service `notes`: keeps notes for the holders of a capability to it.
#![cfg_attr(capos_guest, no_std, no_main)]
extern crate alloc;

mod notes;

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_rt::{Env, Error, log};
use capos_schema::cap::{CallContext, CallError};

use capos_schema::notes::{NotesServer, NotesService};

use crate::notes::Notes;

/// The server's object: one list for all clients.
struct Keeper(RefCell<Notes>);

impl NotesServer for Keeper {
    async fn add(&self, _: &CallContext, text: String) -> Result<u32, CallError> {
        self.0.borrow_mut().add(text).map_err(CallError::invalid_argument)
    }

    async fn list(&self, _: &CallContext) -> Result<Vec<String>, CallError> {
        Ok(self.0.borrow().texts().to_vec())
    }
}

async fn run(env: Env) -> Result<(), Error> {
    log::info!("ready to keep notes");
    env.serve(0, Rc::new(NotesService(Rc::new(Keeper(RefCell::default())))));
    env.run().await
}

capos_rt::program!(run);
