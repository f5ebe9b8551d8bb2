//! From one process to another, and nothing else: two threads take turns; each makes the other ready, and then enters
//! the kernel without entries, to wait.

use capos_abi::syscall::NO_DEADLINE;
use capos_measure::{Samples, count, overhead};
use capos_rt::memory::{self, Access, Mapping};
use capos_rt::{Error, raw};
use capos_schema::cap::AsCap;
use capos_schema::kernel::{MemoryObjectClient, NotificationClient};

use crate::entries;

/// One side of it.
pub struct Side {
    /// Wakes this side.
    pub own: NotificationClient,
    /// Wakes the other side.
    pub other: NotificationClient,
    /// Where a thread that yields the processor records when: shared by both.
    shared: Mapping,
}

impl Side {
    /// A side with these notifications, and a page that both sides map.
    ///
    /// # Errors
    /// The page cannot be mapped.
    pub fn new(own: NotificationClient, other: NotificationClient, page: &MemoryObjectClient) -> Result<Self, Error> {
        let shared = memory::map(page, 0, memory::PAGE, Access::ReadWrite)?;
        Ok(Self { own, other, shared })
    }

    /// Waits for the first turn, if the other side begins.
    pub fn wait(&self) {
        entries::push(&entries::wait(self.own.as_cap().id()));
        raw::enter(1, 1, NO_DEADLINE);
        entries::drain();
    }

    /// Makes the other side ready, lets it run until it does the same, and adds the time from its last ENTER to this
    /// side's next instruction.
    pub fn turn(&self, samples: &mut Samples, overhead: u64) {
        entries::push(&entries::wait(self.own.as_cap().id()));
        entries::push(&entries::notify(self.other.as_cap().id()));
        raw::enter(2, 0, NO_DEADLINE);
        // NOTIFY has ended: nothing but this side's own wait is to end the next ENTER.
        entries::drain();
        entries::write(self.shared.address(), count());
        raw::enter(0, 1, NO_DEADLINE);
        let to = count();
        samples.add(entries::read(self.shared.address()), to, overhead);
        entries::drain();
    }

    /// Takes turns for ever.
    pub fn run(&self) -> ! {
        self.wait();
        loop {
            self.turn(&mut Samples::with_room(1), overhead());
        }
    }
}
