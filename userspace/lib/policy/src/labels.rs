//! Confidentiality labels: a lattice of classes, joined on use and checked where something leaves.
//!
//! `public` is below everything. In a family such as `pii` or `secret`, `pii.redacted` is below every other class of its
//! family, and `pii.*` is above them. Classes of different families cannot be compared. `*` is above all. A label is a set of
//! classes, and none at all is public.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use capos_schema::authority::{Label, Provenance};
use capos_schema::models::ChatMessage;

use crate::profile::is_remote;

/// The class above all others.
const TOP: &str = "*";
/// Bytes of a class's name.
const CLASS_LIMIT: usize = 64;
/// The most bytes that the names of a label's classes may have, each counted with 4 more.
pub const LABEL_LIMIT: usize = 1024;

/// Whether this names a class: 1 to 64 ASCII letters, digits and `.`, `_`, `-`, `*`, so that it can be shown without
/// escapes.
fn is_class(class: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-*".contains(&byte);
    (1..=CLASS_LIMIT).contains(&class.len()) && class.bytes().all(is_letter)
}

/// The size of a label, which [`LABEL_LIMIT`] bounds.
#[must_use]
pub fn label_size(label: &Label) -> usize {
    label.classes.iter().fold(0, |sum, class| class.len().saturating_add(4).saturating_add(sum))
}

/// The label that is above all others: for data that may have been made of anything.
#[must_use]
pub fn all_above() -> Label {
    Label { classes: vec![TOP.into()] }
}

/// Whether what has class `low` may go wherever class `high` may.
#[must_use]
pub fn class_below(low: &str, high: &str) -> bool {
    if low == "public" || low == high || high == TOP {
        return true;
    }
    let (Some((low_family, low_kind)), Some((high_family, high_kind))) = (low.split_once('.'), high.split_once('.'))
    else {
        return false;
    };
    // A redacted secret is still secret, so this holds for personal data alone.
    let redacted = low_family == "pii" && low_kind == "redacted";
    low_family == high_family && (high_kind == "*" || redacted)
}

/// Whether each class of `low` is below some class of `high`.
#[must_use]
pub fn label_below(low: &Label, high: &Label) -> bool {
    above(low, &high.classes).is_none()
}

/// The first class of `label` that is below none of `classes`.
fn above<'a>(label: &'a Label, classes: &[String]) -> Option<&'a str> {
    let cleared = |class: &str| class == "public" || classes.iter().any(|high| class_below(class, high));
    label.classes.iter().map(String::as_str).find(|class| !cleared(class))
}

/// The least label that is above both, with sorted classes and none that another makes superfluous.
///
/// It is at most [`LABEL_LIMIT`] long and has names of classes only, whatever labels were given: a label that is
/// neither becomes the class above all.
#[must_use]
pub fn join(one: &Label, other: &Label) -> Label {
    let mut joined = Label::default();
    let named = |class: &String| if is_class(class) { class.clone() } else { TOP.into() };
    for class in &one.classes.iter().chain(&other.classes).map(named).collect::<Vec<String>>() {
        if class == "public" || joined.classes.iter().any(|have| class_below(class, have)) {
            continue;
        }
        joined.classes.retain(|have| !class_below(have, class));
        joined.classes.push(class.clone());
    }
    if label_size(&joined) > LABEL_LIMIT {
        return all_above();
    }
    joined.classes.sort_unstable();
    joined
}

/// Data made from something untrusted is untrusted.
#[must_use]
pub fn join_provenance(one: Provenance, other: Provenance) -> Provenance {
    if one == Provenance::Untrusted { one } else { other }
}

/// The most confidential label that may leave by each path. Data that stay on this machine are not checked here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Egress {
    /// By an outbound tool.
    pub outbound: Label,
    /// In a prompt to a remote model.
    pub remote_model: Label,
}

impl Default for Egress {
    /// Redacted personal data may leave through a tool that a person agreed to; only public text is sent to a remote
    /// model.
    fn default() -> Self {
        Self { outbound: Label { classes: [String::from("pii.redacted")].into() }, remote_model: Label::default() }
    }
}

impl Egress {
    /// Whether a value may leave by an outbound tool.
    ///
    /// # Errors
    /// The first class that may not.
    pub fn check_outbound<'a>(&self, label: &'a Label) -> Result<(), &'a str> {
        above(label, &self.outbound.classes).map_or(Ok(()), Err)
    }

    /// Whether these messages may be sent to a model with this backend. One on this machine may read everything.
    ///
    /// # Errors
    /// The first class that may not leave.
    pub fn check_request<'a>(&self, messages: &'a [ChatMessage], backend: &str) -> Result<(), &'a str> {
        if !is_remote(backend) {
            return Ok(());
        }
        messages.iter().try_for_each(|message| self.check_remote_model(&message.label))
    }

    /// Whether a value may be sent to a remote model.
    ///
    /// # Errors
    /// The first class that may not.
    pub fn check_remote_model<'a>(&self, label: &'a Label) -> Result<(), &'a str> {
        above(label, &self.remote_model.classes).map_or(Ok(()), Err)
    }
}
