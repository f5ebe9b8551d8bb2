//! The tools of a profile's sessions, as described to a model.

use capos_schema::authority::{Profile, RemindersClient};
use capos_schema::manifest::{CategoryMode, SessionGrant, SessionProfile};
use capos_schema::models::{PermissionMode, ToolDescriptor};
use capos_schema::reflection::interface;

/// The tools that a session of this profile shows a model, in the same order: each with the mode of its category. The
/// configuration's rules may change modes further; handles are each session's own, so there are none here.
#[must_use]
pub fn profile_tools(profile: &SessionProfile) -> Vec<ToolDescriptor> {
    let mut tools: Vec<ToolDescriptor> =
        profile.grants.iter().flat_map(|grant| grant_tools(grant, &profile.modes)).collect();
    if profile.profile == Profile::Operator {
        // No grant of the manifest has them: the console keeps reminders itself.
        let reminders = SessionGrant { interface: RemindersClient::INTERFACE_ID, ..SessionGrant::default() };
        tools.extend(grant_tools(&reminders, &profile.modes));
    }
    tools
}

/// The tools of one grant.
pub(crate) fn grant_tools(grant: &SessionGrant, modes: &[CategoryMode]) -> Vec<ToolDescriptor> {
    let offered = interface(grant.interface).into_iter().flat_map(|found| found.offered(grant.read_only));
    let tool = |(_, mut tool): (_, ToolDescriptor)| {
        let mode = modes.iter().find(|mode| mode.category == tool.category);
        tool.permission = mode.map_or(PermissionMode::Forbidden, |found| found.mode);
        tool
    };
    offered.map(tool).collect()
}
