//! Reading the log, and checking it.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_audit::{Filter, Lost, Verified};
use capos_keyspace::{Fault, Layered};
use capos_rt::log;
use capos_schema::audit::{
    AuditReaderQueryResults, AuditReaderServer, AuditReaderVerifyResults, AuditReaderVerifyingResults, Query,
};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::store::NamespaceClient;

/// Bytes of records in one answer, unless one alone is longer: small, since who reads may have little memory.
const MAX_ANSWER: usize = 128 << 10;

/// The right to read all of the log.
pub struct Reader {
    records: capos_audit::Reader<Layered<NamespaceClient>>,
    /// How far the check is that was begun last. Each check has a count of its own: sessions share the reader.
    checking: RefCell<Rc<Cell<Checking>>>,
}

/// Records that were checked, and all that there are.
type Checking = (u64, u64);

impl Reader {
    pub fn new(records: capos_audit::Reader<Layered<NamespaceClient>>) -> Self {
        Self { records, checking: RefCell::default() }
    }
}

/// A check that has not come to its end: whoever wanted it may be gone.
struct Begun(Rc<Cell<Checking>>);

impl Begun {
    /// The check has a result.
    fn end(self) {
        self.0.set((0, 0));
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let (done, total) = self.0.take();
        if done < total {
            log::info!("nobody waits for a check of the hash chain: it ended after {done} of {total} records");
        }
    }
}

impl AuditReaderServer for Reader {
    async fn query(&self, _cx: &CallContext, query: Query) -> Result<AuditReaderQueryResults, CallError> {
        let most = usize::try_from(query.max).unwrap_or(usize::MAX).max(1);
        let page = self.records.query(&Filter::from(&query), most, MAX_ANSWER).await.map_err(unread)?;
        Ok(AuditReaderQueryResults { records: page.lines, next: page.next })
    }

    async fn verify(&self, _cx: &CallContext) -> Result<AuditReaderVerifyResults, CallError> {
        let begun = Begun(Rc::default());
        self.checking.replace(begun.0.clone());
        let verified = self.records.verify(|done, total| begun.0.set((done, total))).await;
        begun.end();
        let Verified { head, checked, lost, why } = verified.map_err(unread)?;
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

    async fn verifying(&self, _cx: &CallContext) -> Result<AuditReaderVerifyingResults, CallError> {
        let (done, total) = self.checking.borrow().get();
        Ok(AuditReaderVerifyingResults { done, total })
    }

    async fn damage(&self, _cx: &CallContext) -> Result<Vec<String>, CallError> {
        self.records.damage().await.map_err(unread)
    }
}

fn unread(fault: Fault) -> CallError {
    CallError::failed(format!("the audit log cannot be read: {fault}"))
}
