//! What a session permits, as a text that two sessions can compare.

use alloc::format;
use alloc::string::String;

use capos_agent::{Snapshot, hash};
use capos_schema::authority::{SessionInfo, SessionLimits};

/// The version of the policy that a session runs under: a digest of its profile, its limits, and the permission of each tool.
/// A resumed run is told if it is another one. Each call is decided by the broker in any case.
pub fn version(info: &SessionInfo, snapshot: &Snapshot) -> String {
    // A session that continues a lost one has less time, and permits the same.
    let limits = SessionLimits { max_seconds: 0, ..info.limits.clone() };
    let mut text = format!("{} {limits:?}\n", info.profile.name());
    for tool in snapshot.tools() {
        let found = &tool.descriptor;
        text.push_str(&format!("{} {} {}\n", found.name, found.category, found.permission));
    }
    hex::encode(hash(&text)).chars().take(16).collect()
}
