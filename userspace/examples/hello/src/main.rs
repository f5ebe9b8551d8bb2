//! The tutorial's service: greets its callers.
#![cfg_attr(capos_guest, no_std, no_main)]
extern crate alloc;

use alloc::{format, rc::Rc, string::String};

use capos_rt::{Env, Error, log};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::hello::{GreeterServer, GreeterService};

struct Hello;

impl GreeterServer for Hello {
    async fn greet(&self, _: &CallContext, name: String) -> Result<String, CallError> {
        if name.is_empty() {
            return Err(CallError::invalid_argument("a greeting needs a name"));
        }
        Ok(format!("Hello, {name}!"))
    }
}

async fn run(env: Env) -> Result<(), Error> {
    log::info!("ready to greet");
    env.serve(0, Rc::new(GreeterService(Rc::new(Hello))));
    env.run().await
}

capos_rt::program!(run);
