//! Greets the names in its arguments: each by a thread of its own, then all at once by tasks of one thread.
#![forbid(unsafe_code)]

use std::thread;

use capos_rt::Error;
use capos_schema::hello::GreeterClient;

/// A call blocks the thread that makes it. A client stays on its thread, so each thread gets its own.
fn greet(name: &str) -> Result<String, Error> {
    let greeter = capos_rt::env()?.cap::<GreeterClient>("greeter")?;
    Ok(capos_rt::call(greeter.greet(name))?)
}

/// On an executor the same calls are awaited, and run in parallel.
async fn greet_all(names: Vec<String>) -> Result<(), Error> {
    let greeter = capos_rt::env()?.cap::<GreeterClient>("greeter")?;
    let calls: Vec<_> = names.iter().map(|name| greeter.greet(name)).collect();
    for greeting in capos_rt::join_all(calls).await {
        println!("{}", greeting?);
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let threads: Vec<_> = names.iter().cloned().map(|name| thread::spawn(move || greet(&name))).collect();
    for greeting in threads {
        println!("{}", greeting.join().map_err(|_| Error::new("a thread panicked"))??);
    }
    capos_rt::block_on(greet_all(names))
}
