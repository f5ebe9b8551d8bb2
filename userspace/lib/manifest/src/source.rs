//! What the first process passes on by itself.

use capos_abi::Rights;

/// Capabilities of the first process that are passed on as they are: name after `kernel.`, name of
/// the interface, usual rights.
pub const KERNEL: &[(&str, &str, Rights)] = &[
    ("timer", "Timer", Rights::ALL),
    ("entropy", "Entropy", Rights::ALL),
    ("dma", "DmaDomain", Rights::ALL),
    ("machine", "Machine", Rights::CALL),
    // Reading the log takes the right to receive, which must be asked for.
    ("log", "DebugLog", Rights::CALL),
];

/// Interfaces that the first process serves itself, by ordinal.
pub const INIT: &[&str] = &[
    "SystemStatus",
    "ServiceSupervisor",
    "Launcher",
    "ProcessSpawner",
    "SessionProfiles",
    "FaultInjector",
    "StateKeeper",
];

/// Interfaces that no session may hold, since whoever holds one could get around the broker or the audit log.
pub const NEVER_IN_SESSIONS: &[&str] = &[
    "AuditLog",
    "AuditWriter",
    "AuthorityBroker",
    "FaultInjector",
    "ModelAdmin",
    "ModelCatalog",
    "PciFunction",
    "ProcessSpawner",
    "SessionProfiles",
    "StateKeeper",
    "Terminal",
];

/// The interface of the service that issues sessions.
pub const ISSUER: &str = "AuthorityBroker";

/// Rights by name.
pub const RIGHTS: &[(&str, Rights)] = &[
    ("read", Rights::READ),
    ("write", Rights::WRITE),
    ("execute", Rights::EXECUTE),
    ("grant", Rights::GRANT),
    ("call", Rights::CALL),
    ("receive", Rights::RECEIVE),
    ("manage", Rights::MANAGE),
];
