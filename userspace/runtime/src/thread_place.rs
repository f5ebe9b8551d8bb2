//! Where the runtime is on the host: a test puts one in place on its thread.

use std::cell::RefCell;
use std::rc::Rc;

use crate::runtime::Runtime;

std::thread_local! {
    static PLACE: RefCell<Option<Rc<Runtime>>> = const { RefCell::new(None) };
}

/// Puts a runtime in place; the one before it is returned.
pub(crate) fn install(runtime: Option<Runtime>) -> Option<Rc<Runtime>> {
    PLACE.with(|place| core::mem::replace(&mut *place.borrow_mut(), runtime.map(Rc::new)))
}

/// The runtime, where it is in place.
pub(crate) fn with<R>(act: impl FnOnce(&Runtime) -> R) -> Option<R> {
    let runtime = PLACE.try_with(|place| place.borrow().clone()).ok().flatten()?;
    Some(act(&runtime))
}
