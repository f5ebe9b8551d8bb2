//! The process that must not notice anything: it answers its callers.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;

use capos_rt::{Env, Error};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::hello::{GreeterClient, GreeterServer, GreeterService};

use crate::kit;

struct Canary;

impl GreeterServer for Canary {
    async fn greet(&self, _: &CallContext, name: String) -> Result<String, CallError> {
        Ok(format!("{name} hears the canary sing"))
    }
}

/// Asks for a song, and wants it whole.
pub async fn ask(env: &Env) -> Result<(), Error> {
    let canary: GreeterClient = env.cap("canary")?;
    let song = canary.greet("who has little").await?;
    kit::ensure(song == "who has little hears the canary sing", || format!("the canary sang {song:?}"))
}

/// Sings for ever.
pub async fn sing(env: &Env) -> Result<(), Error> {
    env.serve(0, Rc::new(GreeterService(Rc::new(Canary))));
    env.run().await
}
