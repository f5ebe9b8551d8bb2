//! `capos-agent`: the shell's login and sessions, with requests to the agent and what belongs to them alone.
#![cfg_attr(capos_guest, no_std, no_main)]

use capos_rt::{Env, Error};

async fn start(env: Env) -> Result<(), Error> {
    capos_shell::start(env, &capos_shell::AGENT).await
}
capos_rt::program!(start);
