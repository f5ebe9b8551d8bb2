//! A service on `std`: greets, and tells what became of its callers. What is done for a call depends on the name.
#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use capos_rt::Error;
use capos_schema::cap::{CallContext, CallError};
use capos_schema::hello::{GreeterServer, GreeterService};

/// A number that grows, and who waits for it to.
#[derive(Default)]
struct Count {
    value: Cell<u32>,
    waiting: RefCell<Vec<Waker>>,
}

impl Count {
    fn add(&self) {
        self.value.set(self.value.get() + 1);
        for waker in self.waiting.take() {
            waker.wake();
        }
    }

    async fn reach(&self, wanted: u32) {
        poll_fn(|context| {
            if self.value.get() >= wanted {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

#[derive(Default)]
struct Greeter {
    /// Calls that came to stay.
    staying: Count,
    /// Those of them that nobody waits for any more.
    left: Count,
    /// Calls that came to meet another.
    met: Count,
}

fn io(error: std::io::Error) -> CallError {
    CallError::failed(error.to_string())
}

impl GreeterServer for Greeter {
    async fn greet(&self, cx: &CallContext, name: String) -> Result<String, CallError> {
        let (what, number) = name.split_once(' ').unwrap_or((&name, ""));
        let number: u32 = number.parse().unwrap_or(0);
        match what {
            // Until nobody waits for the answer.
            "stay" => {
                self.staying.add();
                capos_rt::cancelled(cx).await?;
                self.left.add();
            }
            "staying" => self.staying.reach(number).await,
            "left" => self.left.reach(number).await,
            // Until as many have come as make the number even.
            "meet" => {
                self.met.add();
                self.met.reach(self.met.value.get().next_multiple_of(2)).await;
            }
            // Keeps the name in a file, by blocking calls of std.
            "keep" => {
                let path = format!("/home/kept-{number}");
                std::fs::write(&path, &name).map_err(io)?;
                println!("kept {name}");
                return std::fs::read_to_string(&path).map_err(io);
            }
            _ => {}
        }
        Ok(format!("Hello, {name}!"))
    }
}

fn main() -> Result<(), Error> {
    capos_rt::block_on(async {
        let env = capos_rt::env()?;
        env.serve(0, Rc::new(GreeterService(Rc::new(Greeter::default()))));
        println!("ready");
        env.run().await
    })
}
