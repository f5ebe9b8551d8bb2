//! Conversations that last, each principal's apart.
//!
//! Provides: `ConversationAdmin` (0). It keeps everything in its namespace of the store. A capability to one principal's
//! conversations outlives this instance of the service: its key is the principal's number in the tables. While the volume
//! is locked, every call is rejected with that reason.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

mod store;

use alloc::rc::Rc;

use capos_conversations::{Conversations, Owner, Quota};
use capos_rt::{Env, Error, ServeOptions};
use capos_schema::cap::Dispatch;
use capos_schema::conversations::{ConversationAdminService, ConversationStoreService};
use capos_schema::store::NamespaceClient;
use store::{Admin, Principal, Service};

/// A part of a message has 64 KiB.
const OPTIONS: ServeOptions = ServeOptions { buffers: 4, message_bytes: 96 << 10, concurrent: 16 };

async fn start(env: Env) -> Result<(), Error> {
    let namespace = env.cap::<NamespaceClient>("namespace")?;
    let conversations = Conversations::new(namespace, Quota::default());
    let service = Rc::new(Service { conversations, clock: env.clock()?, server: env.server().clone() });
    let found = service.clone();
    env.server().serve_durable(move |key| {
        let owner = Owner(u32::try_from(key).ok()?);
        let object: Rc<dyn Dispatch> =
            Rc::new(ConversationStoreService(Rc::new(Principal { service: found.clone(), owner })));
        Some(object)
    });
    env.serve(0, Rc::new(ConversationAdminService(Rc::new(Admin(service)))));
    env.run_with(OPTIONS).await
}
capos_rt::program!(start);
