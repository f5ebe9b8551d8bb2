//! The process that must not notice anything: it answers whoever calls.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;

use capos_rt::{Env, Error};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::hello::{GreeterServer, GreeterService};

struct Canary;

impl GreeterServer for Canary {
    async fn greet(&self, _: &CallContext, name: String) -> Result<String, CallError> {
        Ok(format!("{name} hears the canary sing"))
    }
}

/// Sings for ever.
pub async fn sing(env: &Env) -> Result<(), Error> {
    env.serve(0, Rc::new(GreeterService(Rc::new(Canary))));
    env.run().await
}
