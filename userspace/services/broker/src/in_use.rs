//! Who is logged in: how long the key of a user's home is at hand.

use alloc::rc::Rc;
use alloc::string::String;

use capos_rt::log;

use crate::broker::Broker;

/// A principal's login or session. The key of a user's home is at hand as long as there is one.
pub struct InUse {
    broker: Rc<Broker>,
    principal: String,
}

impl InUse {
    pub fn new(broker: &Rc<Broker>, principal: &str) -> Self {
        let mut count = broker.in_use.borrow_mut();
        let sessions = count.entry(principal.into()).or_default();
        *sessions = sessions.saturating_add(1);
        Self { broker: broker.clone(), principal: principal.into() }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut in_use = self.broker.in_use.borrow_mut();
        let left = in_use.get(&self.principal).copied().unwrap_or_default().saturating_sub(1);
        if left > 0 {
            in_use.insert(core::mem::take(&mut self.principal), left);
            return;
        }
        in_use.remove(&self.principal);
        drop(in_use);
        let (broker, principal) = (self.broker.clone(), core::mem::take(&mut self.principal));
        if broker.volume.is_none() {
            return;
        }
        drop(capos_rt::spawn(async move {
            // Another login may have begun.
            if broker.in_use.borrow().contains_key(&principal) {
                return;
            }
            let Ok(volume) = broker.volume() else { return };
            if let Err(why) = volume.lock(&principal).await {
                log::warning!("the home of a user who has left stays open: {why}");
            }
        }));
    }
}
