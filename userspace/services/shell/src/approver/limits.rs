//! Questions about limits: more of a budget, more model calls.

use alloc::format;
use alloc::string::String;

use capos_agent::world::{Answer, Excess, More};
use capos_plural::count;
use capos_schema::terminal::{LineEnd, Style};
use capos_terminal::quote;

use super::answer;
use crate::console::Runner;

/// Asks for more of a budget that is used up. An answer that is neither yes nor no is how much.
pub async fn more(runner: &Runner, excess: &Excess) -> More {
    let dimension = capos_policy::dimension(excess.dimension);
    let mut told = String::new();
    loop {
        let held = runner.screen.hold_for_question().await;
        let line = match held.ask(&[(Style::Plain, &told)], &excess.text).await {
            Ok((_, LineEnd::Interrupted)) => return More::Interrupted,
            Ok((line, LineEnd::Entered)) => line,
            // The window has another size: the question is asked again.
            Ok((_, LineEnd::Cancelled)) => continue,
            Ok(_) => return More::No,
            Err(_) => return More::Lost,
        };
        match line.trim().to_lowercase().as_str() {
            "" | "n" | "no" => return More::No,
            "y" | "yes" => return More::Granted(excess.suggested),
            number => match dimension.parse(number) {
                Some(0) => return More::No,
                Some(more) => return More::Granted(more),
                None => told = format!("{} is no amount; y, n or a number\n", quote(number)),
            },
        }
    }
}

/// Asks whether a turn continues.
pub async fn go_on(runner: &Runner, calls: u32, more: u32) -> Answer {
    let held = runner.screen.hold_for_question().await;
    let question = format!("{} made in this turn. Continue for up to {more} more? [y/N] ", count(calls, "model call"));
    answer(held.ask(&[], &question).await)
}
