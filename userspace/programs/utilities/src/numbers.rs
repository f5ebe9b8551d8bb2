//! `seq` and `sleep`.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use crate::input::Failure;

pub fn seq(arguments: &[String], out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let number = |text: &String| text.parse::<i64>().map_err(|_| Failure::Usage);
    let (first, last) = match arguments {
        [last] => (1, number(last)?),
        [first, last] => (number(first)?, number(last)?),
        _ => return Err(Failure::Usage),
    };
    for number in first..=last {
        writeln!(out, "{number}").map_err(Failure::Output)?;
    }
    Ok(ExitCode::SUCCESS)
}

pub fn sleep(arguments: &[String], _out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let [seconds] = arguments else { return Err(Failure::Usage) };
    let seconds: f64 = seconds.parse().map_err(|_| Failure::Usage)?;
    std::thread::sleep(Duration::try_from_secs_f64(seconds).map_err(|_| Failure::Usage)?);
    Ok(ExitCode::SUCCESS)
}
