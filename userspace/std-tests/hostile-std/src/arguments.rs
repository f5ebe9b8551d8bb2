//! Arguments, variables and names of any size.

use std::io::{Read, Write, pipe};
use std::{env, thread};

use crate::{Outcome, c, check, refused, told};

/// Bytes of a very long text.
const LONG: usize = 1 << 18;

/// Bytes of the threads' stacks: the account pays for the texts.
const STACK: usize = 64 << 10;

/// All of it is accepted whole or rejected; nothing is cut silently except mere names.
pub fn huge() -> Outcome {
    // The launcher may give many arguments: each begins with its index.
    for (at, argument) in env::args().skip(3).enumerate() {
        let wanted = at.to_string();
        check(argument.starts_with(&wanted) && argument.len() >= 1000, || format!("argument {at} was cut"))?;
    }
    let long = "v".repeat(LONG);
    c::set_variable("LONG", &long).map_err(told("a long variable"))?;
    check(env::var("LONG").is_ok_and(|value| value == long), || "a long variable was cut".into())?;
    for name in ["", "A=B", "="] {
        refused(c::set_variable(name, "x"), libc::EINVAL, &format!("a variable named {name:?}"))?;
    }
    for round in 0..2000 {
        c::set_variable(&format!("VARIABLE_{}", round % 100), "x").map_err(told("many variables"))?;
    }
    check(env::vars_os().count() >= 101, || "variables were lost".into())?;
    let name = "n".repeat(LONG);
    let named = thread::Builder::new().name(name).stack_size(STACK).spawn(|| thread::current().name().map(str::len));
    let kept = named.map_err(told("a thread with a long name"))?.join().map_err(|_| "it panicked".to_owned())?;
    check(kept == Some(LONG), || format!("its name is {kept:?} bytes long"))?;
    // A line that is longer than any server takes at once.
    let (mut reader, mut writer) = pipe().map_err(told("a pipe"))?;
    let writes = thread::Builder::new().stack_size(STACK).spawn(move || writer.write_all(long.as_bytes()));
    let writes = writes.map_err(told("a thread"))?;
    let mut read = String::new();
    reader.read_to_string(&mut read).map_err(told("reading"))?;
    writes.join().map_err(|_| "it panicked".to_owned())?.map_err(told("writing"))?;
    check(read.len() == LONG, || format!("{} bytes came through", read.len()))
}
