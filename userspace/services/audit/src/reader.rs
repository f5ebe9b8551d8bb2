//! Reading the log, and checking it.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_audit::{Filter, Record, verify_lines};
use capos_schema::audit::{AuditReaderQueryResults, AuditReaderServer, AuditReaderVerifyResults, Query};
use capos_schema::cap::{CallContext, CallError};

use crate::log::Log;

/// Bytes of records in one answer, unless one alone is longer: small, since who reads may have little memory.
const MAX_ANSWER: usize = 128 << 10;

/// The right to read all of the log.
pub struct Reader {
    log: Rc<Log>,
}

impl Reader {
    /// A reader of a log.
    pub fn new(log: Rc<Log>) -> Self {
        Self { log }
    }
}

impl AuditReaderServer for Reader {
    async fn query(&self, _cx: &CallContext, query: Query) -> Result<AuditReaderQueryResults, CallError> {
        let most = usize::try_from(query.max).unwrap_or(usize::MAX).max(1);
        Ok(self.log.with(|chain| {
            let (found, mut next) = chain.query(&Filter::from(&query), most);
            let mut records: Vec<String> = Vec::new();
            let mut bytes = 0_usize;
            for record in found {
                let line = record.line();
                bytes = bytes.saturating_add(line.len()).saturating_add(16);
                if bytes > MAX_ANSWER && !records.is_empty() {
                    next = record.sequence;
                    break;
                }
                records.push(line);
            }
            AuditReaderQueryResults { records, next }
        }))
    }

    async fn verify(&self, _cx: &CallContext) -> Result<AuditReaderVerifyResults, CallError> {
        Ok(self.log.with(|chain| {
            let head = chain.head();
            // One line at a time: a full log leaves no room for a second copy of itself.
            let (ok, reason) = match verify_lines(chain.records().iter().map(Record::line), Some(head)) {
                Ok(_) => (true, String::new()),
                Err(broken) => (false, broken.to_string()),
            };
            AuditReaderVerifyResults { ok, records: head.sequence, head: head.hash.to_vec(), reason }
        }))
    }
}
