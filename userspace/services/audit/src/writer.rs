//! Writers: which records each client may write.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;

use capos_audit::Kind;
use capos_schema::audit::{
    AuditWriterGeneralResults, AuditWriterServer, AuditWriterToolResults, GeneralEvent, ToolEvent,
};
use capos_schema::cap::{CallContext, CallError};

use crate::log::Log;

enum Source {
    /// A service, by its name in the manifest.
    Service(String),
    /// A session, by its id.
    Session(String),
}

/// One source's way to write.
pub struct Writer {
    log: Rc<Log>,
    source: Source,
}

impl Writer {
    /// The writer of a service. It records no tool calls.
    pub fn service(log: Rc<Log>, name: String) -> Self {
        Self { log, source: Source::Service(name) }
    }

    /// The writer of a session's runner. It records what belongs to the session.
    pub fn session(log: Rc<Log>, id: String) -> Self {
        Self { log, source: Source::Session(id) }
    }

    fn check(&self, session: &str) -> Result<(), CallError> {
        match &self.source {
            Source::Session(id) if id != session => {
                Err(CallError::invalid_argument(format!("this writer records session `{id}` and no other")))
            }
            _ => Ok(()),
        }
    }
}

impl AuditWriterServer for Writer {
    async fn tool(&self, _cx: &CallContext, event: ToolEvent) -> Result<AuditWriterToolResults, CallError> {
        if let Source::Service(name) = &self.source {
            return Err(CallError::invalid_argument(format!(
                "`{name}` runs no tool calls; only the runner of a session records them"
            )));
        }
        self.check(&event.session)?;
        self.log.append_tool(event).await
    }

    async fn general(&self, _cx: &CallContext, event: GeneralEvent) -> Result<AuditWriterGeneralResults, CallError> {
        self.check(&event.session)?;
        if matches!(self.source, Source::Session(_)) && Kind::is_spared(&event.kind) {
            return Err(CallError::invalid_argument(format!("a session's writer records no `{}`", event.kind)));
        }
        let head = match &self.source {
            Source::Service(name) => self.log.append_from(name, event).await?,
            // What a session writes names its session.
            Source::Session(_) => self.log.append(event).await?,
        };
        Ok(AuditWriterGeneralResults { sequence: head.sequence, hash: head.hash.to_vec() })
    }
}
