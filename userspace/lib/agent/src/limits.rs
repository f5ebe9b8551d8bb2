//! Bounds on what one response of a model may be. A worker is not trusted to keep to any.

/// Bounds on one response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of text.
    pub text: usize,
    /// Calls; more are answered with one refusal.
    pub calls: usize,
    /// Bytes of one call's arguments.
    pub arguments: usize,
    /// Bytes of the arguments of all calls together: the conversation that they join must fit into a request.
    pub all_arguments: usize,
    /// Bytes of one call's id, name or handle.
    pub name: usize,
    /// Calls of one response that may be refused; those after them are not looked at, and one record counts them.
    pub refused: usize,
    /// How often a tool may fail in one run, one time after the other; it is not run again in this run then.
    pub failures: u32,
    /// How often in one run a model is told that a condition does not hold.
    pub reminders: u32,
    /// Bytes of the messages of a request. The kernel carries 1 MiB, with the tools and all else.
    pub request: usize,
    /// Bytes that one turn may leave in the audit log without a person's word. The response that exceeds them is the
    /// turn's last.
    pub evidence: usize,
    /// The same of all turns of a session. What the person does themselves is recorded on.
    pub session_evidence: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            text: 1 << 20,
            calls: 64,
            arguments: 64 << 10,
            all_arguments: 512 << 10,
            name: 256,
            refused: 24,
            failures: 8,
            reminders: 3,
            request: 768 << 10,
            evidence: 1 << 20,
            session_evidence: 2 << 20,
        }
    }
}
