//! The manual: finds what the pages of `docs/` say about something.
//!
//! Provides: `Manual` (0). It holds the log and nothing else: the pages are a part of the program.
#![cfg_attr(capos_guest, no_std, no_main)]

extern crate alloc;

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::OnceCell;

use capos_manual::{Manual, PAGES};
use capos_rt::{Env, Error, log};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::system::{ManualPassage, ManualServer, ManualService};

/// Longest query, in bytes.
const MAX_QUERY: usize = 512;
/// Passages of an answer at most.
const MAX_PASSAGES: u8 = 8;

/// The manual as an object. The pages are read at the first search.
#[derive(Default)]
struct ManualObject {
    manual: OnceCell<Manual>,
}

impl ManualServer for ManualObject {
    async fn search(&self, _cx: &CallContext, query: String, max: u8) -> Result<Vec<ManualPassage>, CallError> {
        if query.len() > MAX_QUERY {
            return Err(CallError::invalid_argument(format!("a query has at most {MAX_QUERY} bytes; use fewer words")));
        }
        if max == 0 || max > MAX_PASSAGES {
            return Err(CallError::invalid_argument(format!("`max` is 1 to {MAX_PASSAGES}, not {max}")));
        }
        let manual = self.manual.get_or_init(|| {
            let manual = Manual::new(PAGES);
            log::debug!("{} pages, {} passages", PAGES.len(), manual.passages().len());
            manual
        });
        let found = manual.search(&query, max.into());
        let passage = |(passage, has): (&capos_manual::Passage, u8)| ManualPassage {
            page: passage.page.into(),
            heading: passage.heading.clone(),
            text: passage.text.clone(),
            match_percent: has,
        };
        Ok(found.into_iter().map(passage).collect())
    }
}

async fn run(env: Env) -> Result<(), Error> {
    env.serve(0, Rc::new(ManualService(Rc::new(ManualObject::default()))));
    env.run().await
}
capos_rt::program!(run);
