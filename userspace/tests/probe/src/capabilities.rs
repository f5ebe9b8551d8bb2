//! A process holds exactly what it was given.

use alloc::format;
use alloc::vec::Vec;

use capos_rt::{Env, Error};
use capos_schema::kernel::CapabilityTableClient;
use capos_schema::reflection;

use crate::{Report, ensure};

/// Lists what was given by name, and fails if the table holds anything that was not.
///
/// # Errors
/// There is something else.
pub async fn run(env: &Env, report: &Report) -> Result<(), Error> {
    let table = capos_rt::capabilities(&env.cap::<CapabilityTableClient>("table")?).await?;
    let mut given = Vec::new();
    for name in env.names() {
        let Some(cap) = env.raw(name) else { continue };
        let entry = table.iter().find(|entry| entry.id == cap.id());
        let Some(entry) = entry else { return Err(Error::new(format!("{name} is not in the table"))) };
        let interface = reflection::interface(entry.interface).map_or("unknown", |interface| interface.name);
        report.line(&format!("{name}: {interface}"));
        given.push(entry.id);
    }
    let others: Vec<&str> =
        table.iter().filter(|entry| !given.contains(&entry.id)).map(|entry| entry.kind.as_str()).collect();
    ensure(others.is_empty(), format!("the table holds {others:?} that nobody gave"))?;
    report.line(&format!("{} capabilities, all of them given", given.len()));
    Ok(())
}
