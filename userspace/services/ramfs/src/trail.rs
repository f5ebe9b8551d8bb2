//! What was read through a capability, for what is written through it.

use alloc::format;
use alloc::rc::Rc;
use capos_policy::join;
use capos_schema::authority::Label;
use capos_schema::cap::CallError;
use core::cell::RefCell;

/// Classes of a label that somebody gives, or that the labels of what they read come to.
const MAX_CLASSES: usize = 32;
/// Bytes of a class.
const MAX_CLASS: usize = 64;

/// The label of all that one holder was given and has read; none for who says of each write what label it has. All that is
/// opened by one capability shares its trail, whoever holds which of it.
#[derive(Clone, Default)]
pub struct Trail(Option<Rc<RefCell<Label>>>);

impl Trail {
    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// What is written carries this.
    pub fn label(&self) -> Label {
        self.0.as_ref().map(|label| label.borrow().clone()).unwrap_or_default()
    }

    /// Something with this label is being read.
    ///
    /// # Errors
    /// There are too many classes: it may not be read.
    pub fn join(&self, label: &Label) -> Result<(), CallError> {
        let Some(own) = &self.0 else { return Ok(()) };
        let joined = join(&own.borrow(), label);
        if joined.classes.len() > MAX_CLASSES {
            return Err(CallError::overloaded(format!(
                "what was read through this capability has more than {MAX_CLASSES} labels; open what is read on with another"
            )));
        }
        *own.borrow_mut() = joined;
        Ok(())
    }

    /// A trail that begins with this label, or the same one with it: nobody gets rid of what they have read.
    ///
    /// # Errors
    /// There are too many classes.
    pub fn labelled(&self, label: &Label) -> Result<Self, CallError> {
        let trail = if self.is_none() { Self(Some(Rc::default())) } else { self.clone() };
        trail.join(label)?;
        Ok(trail)
    }
}

/// A label that somebody gives, where it is not too long.
///
/// # Errors
/// It is.
pub fn bounded(label: Label) -> Result<Label, CallError> {
    if label.classes.len() > MAX_CLASSES || label.classes.iter().any(|class| class.len() > MAX_CLASS) {
        return Err(CallError::invalid_argument(format!(
            "a label has at most {MAX_CLASSES} classes of {MAX_CLASS} bytes each"
        )));
    }
    Ok(label)
}
