//! Another session of the console's operator, which continues the conversation that was changed last.

use capos_rt::{Context, Env, Error};
use capos_schema::authority::{AuthorityBrokerClient, Profile};
use capos_schema::cap::Client;
use capos_schema::conversations::{ConversationStoreClient, MessagePart};

use crate::{Report, ensure};

pub async fn run(env: &Env, report: &Report) -> Result<(), Error> {
    let session = env.cap::<AuthorityBrokerClient>("broker")?.login(Profile::Operator, "operator", "").await?;
    let held = session.bundle(0).await?.grants;
    let store = held.into_iter().find(|held| held.interface == ConversationStoreClient::INTERFACE_ID);
    let store = ConversationStoreClient::from_cap(store.context("it has no conversations")?.capability.into_cap());
    let listed = store.list("", 1).await?.conversations;
    let last = listed.first().context("there is no conversation")?;
    // It says again what was said first.
    let first = store.read(&last.id, 0, 0, 1).await?.parts.into_iter().next().context("it has no message")?;
    let part = MessagePart { index: last.messages, part: 0, last: true, ..first };
    ensure(
        store.append(&last.id, &part, "", &Default::default()).await? == last.messages.saturating_add(1),
        "it has no message more",
    )?;
    report.line("another session has said something");
    session.end().await?;
    Ok(())
}
