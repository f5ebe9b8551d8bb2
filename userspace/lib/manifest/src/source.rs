//! Capabilities that the first process passes on itself.

use capos_abi::Rights;

/// Capabilities of the first process that are passed on as they are: name after `kernel.`, name of
/// the interface, usual rights.
pub const KERNEL: &[(&str, &str, Rights)] = &[
    ("timer", "Timer", Rights::CALL.union(Rights::GRANT)),
    // The same, with the right to set the clock.
    ("clock", "Timer", Rights::CALL.union(Rights::MANAGE)),
    ("entropy", "Entropy", Rights::ALL),
    ("dma", "DmaDomain", Rights::ALL),
    ("machine", "Machine", Rights::CALL),
    // The files that the boot loader loaded, for comparison.
    ("boot", "MemoryObject", Rights::READ.union(Rights::CALL)),
    // A page that stays the same over the lives of the service that holds it. Made on request.
    (KEPT_MEMORY, "MemoryObject", Rights::READ.union(Rights::WRITE).union(Rights::CALL)),
    // Reading the log takes the right to receive, which must be asked for.
    ("log", "DebugLog", Rights::CALL),
];

/// A page of memory that the first process makes for one service, never maps, and grants again to each of its lives.
pub const KEPT_MEMORY: &str = "kept-memory";

/// Grants with arguments, or made on request: name after `kernel.` and name of the interface.
pub const HARDWARE: &[(&str, &str)] = &[("ports", "IoPorts"), ("interrupts", "Interrupt"), ("power-off", "IoPorts")];

/// The interface of a device that the first process found: granted with arguments.
pub const DEVICE: &str = "PciFunction";

/// The interface that has a read-only form, and the suffix of its name for that form.
pub const DIRECTORY: &str = "Directory";
pub const READ_ONLY: &str = " read-only";

/// The interface of a service that has a directory for each principal, and provides `Directory` for sessions and their
/// programs alone.
pub const HOMES: &str = "Homes";

/// Interfaces that the first process serves itself, by ordinal.
pub const INIT: &[&str] = &[
    "SystemStatus",
    "ServiceSupervisor",
    "Launcher",
    "ProcessSpawner",
    "SessionProfiles",
    "FaultInjector",
    "StateKeeper",
    "ProgramApproval",
];

/// Interfaces that no manifest may grant to a session: a holder could bypass the broker or the audit log, or the broker itself
/// gives a session its own.
pub const NEVER_IN_SESSIONS: &[&str] = &[
    "AuditLog",
    "AuditWriter",
    "AuthorityBroker",
    "Backups",
    "BlockDevice",
    "ClientPort",
    "ConversationAdmin",
    "DiskAccess",
    "DiskController",
    "FaultInjector",
    HOMES,
    "MachineSetup",
    "ModelAdmin",
    "ModelCatalog",
    "ModelFolder",
    "Namespace",
    "PciFunction",
    "ProcessSpawner",
    "ProgramApproval",
    "SessionObserver",
    "SessionProfiles",
    "Settings",
    "StateKeeper",
    "Terminal",
    "TransferDisks",
    "Users",
    "Vault",
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
