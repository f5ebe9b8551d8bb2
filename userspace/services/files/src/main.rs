//! Home directories, in the store: one for each principal.
//!
//! Provides: `Directory` (0), which the manifest grants to sessions and to the programs that they run, and which nobody holds
//! otherwise: the broker gets each principal's own from `Homes` (1). `ModelFolder` (2) is where installed models are. Its arguments are folders of the medium: a new home begins
//! as a copy of the first of them that there is. While the volume is locked, `Homes` rejects every call with that reason.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod homes;

use alloc::rc::Rc;

use capos_file_server::OPTIONS;
use capos_rt::{Env, Error, exit, exit_code, log};
use capos_schema::models::ModelFolderService;
use capos_schema::storage::HomesService;
use homes::{Homes, HomesObject, ModelFolderObject};

async fn run(env: Env) -> Result<(), Error> {
    let homes = Homes::new(&env)?;
    if homes.is_locked().await? {
        // Nobody holds a home yet, and those who ask for one are told.
        let homes = homes.clone();
        drop(capos_rt::spawn(async move {
            if let Err(error) = homes.open_all().await {
                log::error!("{error}");
                exit(exit_code::FAILURE);
            }
        }));
    } else {
        homes.open_all().await?;
    }
    let found = homes.clone();
    env.server().serve_durable(move |key| found.find(key));
    env.serve(1, Rc::new(HomesService(Rc::new(HomesObject(homes.clone())))));
    env.serve(2, Rc::new(ModelFolderService(Rc::new(ModelFolderObject(homes)))));
    env.run_with(OPTIONS).await
}
capos_rt::program!(run);
