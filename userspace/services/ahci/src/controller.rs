//! The controller: its registers, how it is taken over and reset, and its interrupt.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::task::{Poll, Waker};

use capos_ahci::registers as r;
use capos_rt::memory::Mapping;
use capos_rt::{Clock, Either, Error, select};
use capos_schema::kernel::NotificationClient;

use crate::port::Port;

/// Nanoseconds of a millisecond.
pub const MILLISECOND: u64 = 1_000_000;
/// How long the driver waits before it looks at a register again: at first, then twice as long each time, and at last.
const FIRST_STEP: u64 = MILLISECOND / 10;
const LAST_STEP: u64 = MILLISECOND;
/// How long the firmware may take to hand over: at once (AHCI 1.3.1, section 10.6.3), and where it says that it is busy.
const HAND_OVER: u64 = 25 * MILLISECOND;
const BUSY_HAND_OVER: u64 = 2000 * MILLISECOND;
/// How long a reset may take (section 10.4.3).
const RESET: u64 = 1000 * MILLISECOND;

/// The controller.
pub struct Controller {
    window: Mapping,
    clock: Clock,
    /// What it can do: CAP.
    capabilities: u32,
    /// The ports that it has: PI.
    implemented: u32,
    fatal: RefCell<Option<String>>,
    listener: RefCell<Option<Waker>>,
}

impl Controller {
    /// Takes the controller over whose registers are in this window, and resets it. It reaches no memory after that.
    ///
    /// # Errors
    /// The window has no such registers, or the reset does not end.
    pub async fn take(window: Mapping, clock: Clock) -> Result<Rc<Self>, Error> {
        let mut controller = Self {
            window,
            clock,
            capabilities: 0,
            implemented: 0,
            fatal: RefCell::default(),
            listener: RefCell::default(),
        };
        controller.capabilities = controller.read(r::CAP);
        controller.implemented = controller.read(r::PI);
        if controller.capabilities == u32::MAX || controller.implemented == 0 {
            return Err(Error::new("the controller has no ports, or does not answer"));
        }
        controller.hand_over().await;
        controller.write(r::GHC, r::GHC_AE);
        controller.write(r::GHC, r::GHC_AE | r::GHC_HR);
        if !controller.until(RESET, |it| it.read(r::GHC) & r::GHC_HR == 0).await {
            return Err(Error::new("the controller does not complete its reset; turn the machine off and on"));
        }
        controller.write(r::GHC, r::GHC_AE);
        Ok(Rc::new(controller))
    }

    /// Asks the firmware for the controller, where it has one that knows of that. It is taken in any case.
    async fn hand_over(&self) {
        if self.read(r::CAP2) & r::CAP2_BOH == 0 {
            return;
        }
        self.write(r::BOHC, self.read(r::BOHC) | r::BOHC_OOS);
        let free = |it: &Self| it.read(r::BOHC) & r::BOHC_BOS == 0;
        if !self.until(HAND_OVER, free).await && self.read(r::BOHC) & r::BOHC_BB != 0 {
            self.until(BUSY_HAND_OVER, free).await;
        }
    }

    /// Lets it interrupt.
    pub fn listen_to_ports(&self) {
        self.write(r::IS, u32::MAX);
        self.write(r::GHC, r::GHC_AE | r::GHC_IE);
    }

    /// A register. All ones where the window does not reach so far, as a device answers that is gone.
    pub fn read(&self, register: u64) -> u32 {
        self.window.read_word(register).unwrap_or(u32::MAX)
    }

    /// Writes a register.
    pub fn write(&self, register: u64, value: u32) {
        // The window is mapped to be written, so what fails is a register that lies outside: it reads as a device that
        // is gone, and that ends what is under way.
        let _ = self.window.write_word(register, value);
    }

    /// Whether its drives spin up only when they are told to.
    pub fn staggers(&self) -> bool {
        self.capabilities & r::CAP_SSS != 0
    }

    /// Whether it reaches addresses of 64 bits.
    pub fn is_wide(&self) -> bool {
        self.capabilities & r::CAP_S64A != 0
    }

    /// The numbers of its ports whose registers lie in the window.
    pub fn ports(&self) -> Vec<u32> {
        let inside = |number: &u32| r::port(number.saturating_add(1)) <= self.window.len();
        let there = |number: &u32| self.implemented.checked_shr(*number).is_some_and(|bits| bits & 1 != 0);
        (0..r::PORTS).filter(there).filter(inside).collect()
    }

    /// The time.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Waits until something is so, but no longer than this many nanoseconds. Whether it is.
    pub async fn until(&self, nanoseconds: u64, mut is_so: impl FnMut(&Self) -> bool) -> bool {
        let end = self.clock.now().saturating_add(nanoseconds);
        let mut step = FIRST_STEP;
        loop {
            // What is so at the end of the time counts, however late this task is woken.
            let late = self.clock.now() >= end;
            if is_so(self) {
                return true;
            }
            if late {
                return false;
            }
            self.clock.sleep(step).await;
            step = step.saturating_mul(2).min(LAST_STEP);
        }
    }

    /// Ends the driver: its device may still reach memory that it must not reach, and only the system can keep it from
    /// that.
    pub fn give_up(&self, words: String) {
        *self.fatal.borrow_mut() = Some(words);
        if let Some(waker) = self.listener.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Tells the ports of their interrupts, for ever.
    ///
    /// # Errors
    /// The interrupt is gone, or the driver was given up.
    pub async fn listen(&self, notification: &NotificationClient, ports: &[Rc<Port>]) -> Result<(), Error> {
        let given_up = core::future::poll_fn(|context| match self.fatal.borrow_mut().take() {
            Some(words) => Poll::Ready(words),
            None => {
                *self.listener.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            }
        });
        let listening = async {
            loop {
                capos_rt::wait(notification).await?;
                // A message is sent when the first bit is set, so none may be left.
                loop {
                    let waiting = self.read(r::IS) & self.implemented;
                    if waiting == 0 {
                        break;
                    }
                    for port in ports {
                        if waiting.checked_shr(port.number()).is_some_and(|bits| bits & 1 != 0) {
                            port.take_interrupt();
                        }
                    }
                    self.write(r::IS, waiting);
                    if self.read(r::CAP) == u32::MAX {
                        return Err(Error::new("the controller does not answer; it may have been removed"));
                    }
                    // A controller that clears nothing does not keep the requests from their limits.
                    capos_rt::yield_now().await;
                }
            }
        };
        match select(given_up, listening).await {
            Either::First(words) => {
                Err(Error::new(format!("{words}; the driver ends, so that the controller is reset")))
            }
            Either::Second(result) => result,
        }
    }
}
