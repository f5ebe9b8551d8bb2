//! A service on `std`: greets, and reports what happened to its callers. The work for a call depends on the name.
#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::thread;

use capos_rt::Error;
use capos_schema::cap::{CallContext, CallError, Cap, Client};
use capos_schema::hello::{GreeterClient, GreeterServer, GreeterService};

/// A number that grows, and the tasks that wait for it.
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
    /// Those of them whose callers no longer wait.
    left: Count,
    /// Calls that came to meet another.
    met: Count,
    /// The identifier of an export by a thread that has ended.
    foreign: u64,
}

fn io(error: std::io::Error) -> CallError {
    CallError::failed(error.to_string())
}

impl GreeterServer for Greeter {
    async fn greet(&self, cx: &CallContext, name: String) -> Result<String, CallError> {
        let (what, number) = name.split_once(' ').unwrap_or((&name, ""));
        let number: u32 = number.parse().unwrap_or(0);
        match what {
            // Until the caller stops waiting for the answer.
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
            "export" => return self.compare_exports().await,
            _ => {}
        }
        Ok(format!("Hello, {name}!"))
    }
}

/// Exports a greeter from the calling thread.
fn export() -> Result<Cap, Error> {
    Ok(capos_rt::env()?.export(Rc::new(GreeterService(Rc::new(Greeter::default()))))?)
}

/// The same from a thread that ends; the capability stays.
fn export_elsewhere() -> Result<u64, Error> {
    let exported = thread::spawn(|| {
        let cap = export()?;
        cap.transport().forget();
        Ok(cap.id())
    });
    exported.join().map_err(|_| Error::new("the thread that exports panicked"))?
}

impl Greeter {
    /// The results of calls to an object of this thread and of another, and of an export by a thread that does not
    /// answer.
    async fn compare_exports(&self) -> Result<String, CallError> {
        let own = GreeterClient::from_cap(export()?);
        let own = own.greet("own").await.map_or_else(|error| error.to_string(), |_| "own".to_owned());
        let ended = match capos_rt::adopt::<GreeterClient>(self.foreign).greet("foreign").await {
            Err(error) if error.to_string().contains("has ended") => "ended".to_owned(),
            other => format!("{other:?}"),
        };
        let refused = match export_elsewhere() {
            Err(error) if error.words().contains("export the object from that one") => "refused".to_owned(),
            other => format!("{other:?}"),
        };
        Ok(format!("{own}; {ended}; {refused}"))
    }
}

fn main() -> Result<(), Error> {
    let foreign = export_elsewhere()?;
    capos_rt::block_on(async {
        let env = capos_rt::env()?;
        env.serve(0, Rc::new(GreeterService(Rc::new(Greeter { foreign, ..Greeter::default() }))));
        println!("ready");
        env.run().await
    })
}
