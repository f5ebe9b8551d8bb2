//! CapabilityTable: a process's capabilities, its own to look at.

use alloc::sync::Arc;

use capos_abi::{CapId, Rights};
use capos_schema::kernel_capnp::{capability_info, capability_table as m};
use capos_schema::kernel_dispatch::CapabilityTableKernel;
use capos_schema::sync::{Completion, Exception};

use crate::cpu::budget::cost;
use crate::object::capability::Capability;
use crate::object::invocation::{Invocation, OVERHEAD, refused};
use crate::object::process::{Listed, Process};
use crate::object::thread::Unfinished;
use crate::object::{Answer, derivation};

/// The table of a process.
pub struct CapabilityTable<'a>(pub &'a Arc<Process>);

/// The most bytes that a capability takes in the results of `list`.
const LARGEST: usize = 64;
/// The most capabilities that one call of `list` tells, and the most places of the table that it looks at.
pub const AT_ONCE: (u32, u32) = (16, 512);

fn describe(id: CapId, capability: &Capability, mut info: capability_info::Builder<'_>) {
    info.set_id(id.0);
    info.set_interface(capability.object.interface());
    info.set_kind(capability.object.kind());
    info.set_rights(capability.rights.0);
    info.set_derived(capability.node.is_some_and(derivation::has_derived));
}

impl CapabilityTableKernel<Invocation<'_>> for CapabilityTable<'_> {
    fn list(
        &self,
        cx: &mut Invocation<'_>,
        params: m::list_params::Reader<'_>,
        mut results: m::list_results::Builder<'_>,
    ) -> Answer {
        let (most, places) = AT_ONCE;
        // Nothing is made that could not be handed over.
        let room = u32::try_from(cx.capacity().saturating_sub(OVERHEAD) / LARGEST).unwrap_or(u32::MAX);
        if room == 0 {
            return Err(Exception::failed("the caller's buffer has no room for a capability"));
        }
        let Listed { capabilities, next } =
            self.0.capabilities(params.get_from(), (most.min(room), places)).map_err(refused)?;
        let told = u32::try_from(capabilities.len()).unwrap_or(u32::MAX);
        // Entries behind it get what is left.
        let spent = told.saturating_mul(cost::LISTED).saturating_add(places.saturating_mul(cost::LISTED_PLACE));
        cx.within_budget(|_, budget| budget.spend(spent));
        cx.expect(capabilities.len().saturating_mul(LARGEST))?;
        results.set_next(next.unwrap_or(0));
        let mut list = results.init_capabilities(told);
        for (index, (id, capability)) in (0_u32..).zip(&capabilities) {
            describe(*id, capability, list.reborrow().get(index));
        }
        Ok(Completion::Done)
    }

    fn info(
        &self,
        _cx: &mut Invocation<'_>,
        params: m::info_params::Reader<'_>,
        results: m::info_results::Builder<'_>,
    ) -> Answer {
        let id = CapId(params.get_id());
        let capability = self.0.get(id).map_err(refused)?;
        describe(id, &capability, results.init_info());
        Ok(Completion::Done)
    }

    fn derive(
        &self,
        _cx: &mut Invocation<'_>,
        params: m::derive_params::Reader<'_>,
        mut results: m::derive_results::Builder<'_>,
    ) -> Answer {
        let capability = self.0.get(CapId(params.get_id())).map_err(refused)?;
        let node = capability.node.ok_or_else(|| Exception::failed("a reply cannot be copied"))?;
        let rights = capability.rights.intersection(Rights(params.get_rights()));
        let id = self.0.insert(capability.object, rights, Some(node)).map_err(refused)?;
        results.set_id(id.0);
        Ok(Completion::Done)
    }

    fn revoke(
        &self,
        cx: &mut Invocation<'_>,
        params: m::revoke_params::Reader<'_>,
        mut results: m::revoke_results::Builder<'_>,
    ) -> Answer {
        let capability = self.0.get(CapId(params.get_id())).map_err(refused)?;
        let Some(node) = capability.node else { return Ok(Completion::Done) };
        let mut count = match cx.thread.take_unfinished() {
            Some(Unfinished::Revocation(begun, count)) if begun == node => count,
            // The parameters were changed meanwhile.
            Some(Unfinished::Revocation(begun, _)) => {
                derivation::end_revocation(begun);
                0
            }
            _ => 0,
        };
        if !cx.within_budget(|cx, budget| derivation::revoke(cx.lock, node, &mut count, budget)) {
            derivation::begin_revocation(node);
            return cx.go_on_later(Unfinished::Revocation(node, count));
        }
        results.set_count(count);
        Ok(Completion::Done)
    }
}
