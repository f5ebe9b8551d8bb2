//! An example of a program that asks the person before a step that cannot be undone: it deletes the files that its arguments name.
#![cfg_attr(capos_guest, no_std, no_main)]
extern crate alloc;

use alloc::format;

use capos_rt::{Env, Error};
use capos_schema::storage::DirectoryClient;
use capos_schema::system::{ProgramApprovalClient, StandardClient};

async fn run(env: Env) -> Result<(), Error> {
    let home = env.cap::<DirectoryClient>("home")?;
    let approval = env.cap::<ProgramApprovalClient>("approval")?;
    let out = env.cap::<StandardClient>("out")?;
    for path in env.arguments() {
        let size = home.stat(path).await?.bytes;
        // The launcher says which program asks.
        let answer = approval.ask(&format!("delete {path}, {size} bytes"), "").await?;
        let line = if answer.granted {
            home.remove(path).await?;
            format!("{path} is deleted\n")
        } else {
            format!("{path} stays: {}\n", answer.why)
        };
        out.write(&line).await?;
    }
    Ok(())
}

capos_rt::program!(run);
