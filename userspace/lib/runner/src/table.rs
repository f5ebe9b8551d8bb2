//! The tool table: what the session's capabilities can do, by reflection over their interfaces.

use alloc::string::String;
use alloc::vec::Vec;

use capos_agent::{Handles, Snapshot, Tool};
use capos_schema::annotations_capnp::USUAL_MAX_RESULT;
use capos_schema::authority::{Label, NamedGrant, ToolPermission};
use capos_schema::models::{PermissionMode, ToolDescriptor};
use capos_schema::reflection::{self, MethodInfo};

/// Every tool that the grants offer, not yet permitted: mode forbidden. A capability that is not there has no tool, and
/// a read-only one none that changes anything.
///
/// Those that are `withheld`, by interface and name, are left out.
pub fn offered(grants: &[NamedGrant], withheld: impl Fn(u64, &str) -> bool) -> Vec<Tool> {
    let mut tools: Vec<Tool> = Vec::new();
    for (at, grant) in grants.iter().enumerate() {
        let Some(interface) = reflection::interface(grant.interface) else { continue };
        // No session holds two capabilities of one interface: the manifest refuses that.
        let offered = interface.offered(grant.read_only);
        let offered = offered.filter(|(_, descriptor)| !withheld(grant.interface, &descriptor.name));
        tools.extend(offered.map(|(method, descriptor)| offer(at as u64, method, descriptor)));
    }
    tools
}

/// The tool of this name for a call of the person, whether models have it or not. What it needs is the broker's to say.
pub fn own(grants: &[NamedGrant], name: &str) -> Option<Tool> {
    grants.iter().enumerate().find_map(|(at, grant)| {
        let (method, mut descriptor) = reflection::interface(grant.interface)?.tool(name)?;
        if grant.read_only && method.changes() {
            return None;
        }
        descriptor.permission = PermissionMode::Auto;
        Some(offer(at as u64, method, descriptor))
    })
}

fn offer(capability: u64, method: &MethodInfo, descriptor: ToolDescriptor) -> Tool {
    Tool {
        descriptor,
        capability,
        method: method.ordinal,
        touches: Vec::from([capability]),
        max_result: method.max_result.unwrap_or(USUAL_MAX_RESULT) as usize,
        untrusted: method.untrusted,
        pieces: method.pieces,
        label: Label {
            classes: method.label.filter(|label| *label != "public").map(String::from).into_iter().collect(),
        },
    }
}

/// The questions to the broker about these tools.
pub fn questions(tools: &[Tool]) -> Vec<ToolPermission> {
    tools
        .iter()
        .map(|tool| ToolPermission {
            category: tool.descriptor.category.clone(),
            method_name: tool.descriptor.method_name.clone(),
            tool: tool.descriptor.name.clone(),
            mode: PermissionMode::Forbidden,
            suppressed: false,
        })
        .collect()
}

/// The snapshot for a turn: the tools with the broker's modes and this session's handles, without those that are
/// suppressed. What the broker did not answer about is left out.
///
/// # Errors
/// Two tools have the same name.
pub fn snapshot(
    tools: Vec<Tool>,
    answers: &[ToolPermission],
    grants: &[NamedGrant],
    handles: &mut Handles,
    mut random: impl FnMut() -> [u8; 16],
) -> Result<Snapshot, String> {
    let mut permitted = Vec::new();
    for mut tool in tools {
        let answer = answers.iter().find(|answer| answer.tool == tool.descriptor.name);
        let grant = usize::try_from(tool.capability).ok().and_then(|at| grants.get(at));
        let (Some(answer), Some(grant)) = (answer, grant) else { continue };
        if answer.suppressed {
            continue;
        }
        let found = &mut tool.descriptor;
        found.permission = answer.mode;
        found.handle = handles.handle(&grant.name, found.interface_id, &found.method_name, &mut random);
        permitted.push(tool);
    }
    Snapshot::new(permitted)
}
