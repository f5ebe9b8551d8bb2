//! The screen on a serial port of the test's own, in a process whose time is virtual.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use capos_rt::simulated::{Object, run};
use capos_rt::{Clock, Either};
use capos_schema::cap::{AsCap, CallContext, CallError, Client};
use capos_schema::kernel::{InterruptClient, IoPortsClient, IoPortsInfoResults, IoPortsServer, NotificationClient};
use capos_schema::local::Local;
use capos_terminal::Read;

use crate::screen::{Answer, Screen};
use capos_uart::Uart;

const MS: u64 = 1_000_000;

/// A port whose line can stop: then its last byte does not leave.
#[derive(Default)]
struct Port {
    stopped: Cell<bool>,
    typed: RefCell<VecDeque<u8>>,
    shown: RefCell<Vec<u8>>,
    /// What a person types as soon as this is shown.
    reply: Cell<Option<(&'static str, &'static str)>>,
    /// The line stops as soon as this is in the port.
    stops_at: Cell<Option<&'static str>>,
}

impl Port {
    fn type_(&self, text: &str) {
        self.typed.borrow_mut().extend(text.bytes());
    }
}

impl IoPortsServer for Port {
    async fn info(&self, _: &CallContext) -> Result<IoPortsInfoResults, CallError> {
        Ok(IoPortsInfoResults { first: 0, count: 8 })
    }

    async fn narrow(&self, _: &CallContext, _: u16, _: u32) -> Result<IoPortsClient, CallError> {
        Err(CallError::failed("it is whole"))
    }

    async fn read(&self, _: &CallContext, _: u16, _: u8) -> Result<u32, CallError> {
        Ok(if self.stopped.get() { 0x20 } else { 0x60 })
    }

    async fn write(&self, _: &CallContext, _: u16, _: u8, _: u32) -> Result<(), CallError> {
        Ok(())
    }

    async fn write_bytes(&self, _: &CallContext, _: u16, data: Vec<u8>) -> Result<(), CallError> {
        self.shown.borrow_mut().extend(data);
        let shown = String::from_utf8_lossy(&self.shown.borrow()).into_owned();
        if let Some((_, reply)) = self.reply.get().filter(|(text, _)| shown.contains(text)) {
            self.reply.set(None);
            self.type_(reply);
        }
        if self.stops_at.get().is_some_and(|text| shown.contains(text)) {
            self.stops_at.set(None);
            self.stopped.set(true);
        }
        Ok(())
    }

    async fn drain(&self, _: &CallContext, _: u16, _: u8, _: u16, _: u16) -> Result<Vec<u8>, CallError> {
        Ok(self.typed.borrow_mut().drain(..).collect())
    }

    async fn read_indexed(&self, _: &CallContext, _: u16, _: u16, _: Vec<u32>) -> Result<Vec<u32>, CallError> {
        Ok(Vec::new())
    }
}

/// Asks on that port, whose bytes come every millisecond; gives the answer. Meanwhile the person does something.
fn asked(port: Rc<Port>, person: impl AsyncFnOnce(Rc<Port>, Clock)) -> Option<String> {
    run(&[("timer", Object::Timer)], async |env| {
        let clock = env.clock().unwrap();
        let ports = IoPortsClient::serve(&Rc::new(Local::default()), port.clone()).unwrap();
        // The test looks at the port itself, so nothing is asked of these two.
        let interrupt = InterruptClient::from_cap(ports.as_cap().clone());
        let notification = NotificationClient::from_cap(ports.as_cap().clone());
        let screen = Screen::new(Uart::on(ports, interrupt, notification), clock.clone());
        let listening = async {
            loop {
                screen.port().await.receive().await.unwrap();
                clock.sleep(MS).await;
            }
        };
        let asking = async {
            let answer = screen.read(Read::question("Allow this call? [y/t/s/N] ")).await;
            if let Answer::Line(line) = answer { Some(line) } else { None }
        };
        let person = async {
            person(port, clock.clone()).await;
            core::future::pending::<()>().await;
        };
        let others = capos_rt::select(capos_rt::select(listening, screen.show()), person);
        match capos_rt::select(asking, others).await {
            Either::First(answer) => answer,
            Either::Second(_) => None,
        }
    })
}

#[test]
fn what_comes_before_a_question_is_out_does_not_answer_it() {
    let port = Rc::new(Port::default());
    port.stopped.set(true);
    let answer = asked(port, async |port, clock| {
        for _ in 0..10 {
            clock.sleep(20 * MS).await;
            port.type_("y\r");
        }
        // It comes in the moment in which the line continues.
        clock.sleep(20 * MS).await;
        port.type_("y\r");
        port.stopped.set(false);
        clock.sleep(20 * MS).await;
        port.type_("n\r");
    });
    assert_eq!(answer.as_deref(), Some("n"));
}

#[test]
fn an_answer_counts_as_soon_as_its_question_is_out() {
    let port = Rc::new(Port::default());
    port.reply.set(Some(("[y/t/s/N] ", "y\r")));
    assert_eq!(asked(port, async |_, _| {}).as_deref(), Some("y"));
}

/// A script at the other end of a line answers within the time between two looks at the port.
#[test]
fn an_answer_counts_that_comes_with_the_last_byte_of_its_question() {
    let port = Rc::new(Port::default());
    port.stops_at.set(Some("[y/t/s/N] "));
    let answer = asked(port, async |port, clock| {
        while !port.stopped.get() {
            clock.sleep(MS / 4).await;
        }
        clock.sleep(5 * MS).await;
        port.type_("n\r");
        clock.sleep(5 * MS).await;
        port.type_("y\r");
        port.stopped.set(false);
    });
    assert_eq!(answer.as_deref(), Some("y"));
}
