//! Reading the log, and checking it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_audit::{Filter, Lost, Verified};
use capos_keyspace::{Fault, Layered};
use capos_rt::{Either, select};
use capos_schema::audit::{AuditReaderQueryResults, AuditReaderServer, AuditReaderVerifyResults, Query};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::store::NamespaceClient;

/// Bytes of records in one answer, unless one alone is longer: small, since who reads may have little memory.
const MAX_ANSWER: usize = 128 << 10;

/// The right to read all of the log.
pub struct Reader(pub capos_audit::Reader<Layered<NamespaceClient>>);

impl AuditReaderServer for Reader {
    async fn query(&self, _cx: &CallContext, query: Query) -> Result<AuditReaderQueryResults, CallError> {
        let most = usize::try_from(query.max).unwrap_or(usize::MAX).max(1);
        let page = self.0.query(&Filter::from(&query), most, MAX_ANSWER).await.map_err(unread)?;
        Ok(AuditReaderQueryResults { records: page.lines, next: page.next })
    }

    async fn verify(&self, cx: &CallContext) -> Result<AuditReaderVerifyResults, CallError> {
        let gone = async {
            if capos_rt::cancelled(cx).await.is_err() {
                core::future::pending::<()>().await;
            }
        };
        // A long log takes minutes, and changes nothing: it ends with the caller's interest.
        let Verified { head, checked, lost, why } = match select(self.0.verify(), gone).await {
            Either::First(verified) => verified.map_err(unread)?,
            Either::Second(()) => return Err(CallError::disconnected("nobody waits for the check any more")),
        };
        let archived = checked.as_ref().map_or(0, |summary| summary.archived.sequence);
        let (ok, reason) = match checked {
            Ok(_) => match lost.first() {
                None => (true, String::new()),
                Some(Lost { first, last }) => {
                    let told = format!(
                        "the records {first} to {last} cannot be read ({why}); /audit export VOLUME writes the others, and \
                         records that these are lost"
                    );
                    (false, told)
                }
            },
            Err(broken) => (false, broken.to_string()),
        };
        Ok(AuditReaderVerifyResults { ok, records: head.sequence, head: head.hash.to_vec(), reason, archived })
    }

    async fn damage(&self, _cx: &CallContext) -> Result<Vec<String>, CallError> {
        self.0.damage().await.map_err(unread)
    }
}

fn unread(fault: Fault) -> CallError {
    CallError::failed(format!("the audit log cannot be read: {fault}"))
}
