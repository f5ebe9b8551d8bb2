//! The methods of Endpoint and Notification.

use alloc::sync::Arc;

use capos_abi::Rights;
use capos_schema::kernel_capnp::endpoint;
use capos_schema::kernel_dispatch::{EndpointKernel, NotificationKernel};
use capos_schema::sync::{Completion, Exception, capability};

use crate::object::Answer;
use crate::object::capability::Object;
use crate::object::endpoint::{Client, Endpoint};
use crate::object::invocation::Invocation;
use crate::object::notification::Notification;

impl EndpointKernel<Invocation<'_>> for Arc<Endpoint> {
    fn mint(
        &self,
        cx: &mut Invocation<'_>,
        params: endpoint::mint_params::Reader<'_>,
        mut results: endpoint::mint_results::Builder<'_>,
    ) -> Answer {
        cx.need(Rights::MANAGE)?;
        let client =
            Client { endpoint: Arc::clone(self), badge: params.get_badge(), interface: params.get_interface() };
        cx.give(Object::Client(client), Rights::CALL.union(Rights::GRANT), cx.node);
        results.set_client(capability());
        Ok(Completion::Done)
    }
}

impl<L> NotificationKernel<Invocation<'_, L>> for Arc<Notification> {
    fn poll(&self, cx: &mut Invocation<'_, L>) -> Result<u64, Exception> {
        cx.need(Rights::RECEIVE)?;
        Ok(self.as_ref().poll())
    }
}
