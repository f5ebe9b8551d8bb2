//! The shell: every command, and requests to the agent.
#![cfg_attr(capos_guest, no_std, no_main)]

use capos_rt::{Env, Error};

async fn start(env: Env) -> Result<(), Error> {
    capos_shell::start(env, &capos_shell::SHELL).await
}
capos_rt::program!(start);
