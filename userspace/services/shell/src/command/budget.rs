//! `/budget`: what the session and its run may use, and have used.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_budget::{Dimension, UNLIMITED};
use capos_policy::dimension;
use capos_schema::authority::{BudgetLine, BudgetPolicy, BudgetStep};
use capos_schema::terminal::Style;

use super::Done;
use crate::escape::first_line;
use crate::session::Session;

/// Letters of a step's name that are shown.
const MOST: usize = 32;
/// Between columns.
const GAP: &str = "  ";

/// `/budget`.
pub async fn budget(session: &Session, rest: &[&str]) -> Done {
    let found = session.runner.within(session.runner.user.budget()).await.map_err(|error| error.to_string())?;
    let screen = &session.runner.screen;
    match rest {
        [] => {
            for row in table(&found.lines) {
                screen.line(Style::Plain, &row).await;
            }
            for note in notes(&found.lines) {
                screen.wrapped(&[(Style::Dim, &note)]).await;
            }
            Ok(())
        }
        ["steps"] => {
            if found.steps.is_empty() {
                screen.line(Style::Dim, "this session has made no step yet").await;
            }
            for step in &found.steps {
                screen.wrapped(&[(Style::Plain, &step_text(step))]).await;
            }
            Ok(())
        }
        _ => Err("usage: /budget or /budget steps".to_string()),
    }
}

fn policy(policy: BudgetPolicy) -> &'static str {
    match policy {
        BudgetPolicy::Stop => "stops",
        BudgetPolicy::Ask => "asks",
        BudgetPolicy::Warn => "warns",
    }
}

fn cells(line: &BudgetLine) -> [String; 6] {
    let dimension = dimension(line.dimension);
    let of = |amount| if line.unmeasured.is_empty() { dimension.text(amount) } else { "-".to_string() };
    let reserved = if line.reserved == 0 { String::new() } else { of(line.reserved) };
    let (limit, policy) = match line.limit {
        UNLIMITED => ("none".to_string(), String::new()),
        limit => (dimension.text(limit), policy(line.policy).to_string()),
    };
    [line.scope.clone(), dimension.title().to_string(), of(line.used), reserved, limit, policy]
}

/// The table, row by row. Numbers stand at the right of their columns.
fn table(lines: &[BudgetLine]) -> Vec<String> {
    let head = ["budget", "of", "used", "reserved", "limit", "then"].map(ToString::to_string);
    let rows: Vec<[String; 6]> = core::iter::once(head).chain(lines.iter().map(cells)).collect();
    let mut widths = [0_usize; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let text = |row: &[String; 6]| {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
            if (2..5).contains(&column) { format!("{pad}{cell}") } else { format!("{cell}{pad}") }
        });
        cells.collect::<Vec<_>>().join(GAP).trim_end().to_string()
    };
    rows.iter().map(text).collect()
}

/// Why something is not measured, once for each dimension.
fn notes(lines: &[BudgetLine]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for line in lines.iter().filter(|line| !line.unmeasured.is_empty()) {
        let title = dimension(line.dimension).title();
        let note = format!("{title}: not measured; {}", line.unmeasured);
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

pub fn amounts(amounts: &[u64]) -> String {
    let all = Dimension::ALL.into_iter().zip(amounts).filter(|(_, amount)| **amount > 0);
    all.map(|(dimension, amount)| format!("{} {}", dimension.text(*amount), dimension.title()))
        .collect::<Vec<_>>()
        .join(", ")
}

fn step_text(step: &BudgetStep) -> String {
    let used = amounts(&step.used);
    let tokens = match step.prompt_tokens.saturating_add(step.answer_tokens) {
        0 => String::new(),
        _ => format!(" ({} read, {} written)", step.prompt_tokens, step.answer_tokens),
    };
    let remaining = step.remaining.iter().zip(Dimension::ALL).filter(|(amount, dimension)| {
        **amount != UNLIMITED && matches!(dimension, Dimension::Steps | Dimension::Tokens)
    });
    let remaining = remaining.map(|(amount, dimension)| format!("{} {}", dimension.text(*amount), dimension.title()));
    let remaining = remaining.collect::<Vec<_>>().join(", ");
    format!("{}. {}: {used}{tokens}; left: {remaining}", step.number, first_line(&step.name, MOST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_schema::authority::BudgetDimension;

    fn line(scope: &str, dimension: BudgetDimension, used: u64, limit: u64) -> BudgetLine {
        BudgetLine { scope: scope.into(), dimension, used, limit, policy: BudgetPolicy::Ask, ..BudgetLine::default() }
    }

    #[test]
    fn a_table_shows_each_dimension_with_its_limit() {
        let mut reserved = line("run", BudgetDimension::Tokens, 80_000, 100_000);
        reserved.reserved = 1024;
        let unmeasured = "no model reports a price".to_string();
        let cost =
            BudgetLine { unmeasured, policy: BudgetPolicy::Stop, ..line("run", BudgetDimension::Cost, 0, 500_000) };
        let lines = [reserved, cost, line("session", BudgetDimension::Cpu, 1500, UNLIMITED)];
        assert_eq!(
            table(&lines),
            [
                "budget   of                      used  reserved    limit  then",
                "run      model tokens          80,000     1,024  100,000  asks",
                "run      model cost                 -              $0.50  stops",
                "session  CPU time of programs   1.5 s               none",
            ]
        );
        assert_eq!(notes(&lines), ["model cost: not measured; no model reports a price"]);
    }

    #[test]
    fn a_step_tells_what_it_used_and_what_is_left() {
        let step = BudgetStep {
            number: 3,
            name: "run_program".into(),
            prompt_tokens: 0,
            answer_tokens: 0,
            used: Vec::from([1200, 1, 0, 0, 300, 0, 0, 0]),
            remaining: Vec::from([5, 46, 91_000, 0, UNLIMITED, UNLIMITED, UNLIMITED, UNLIMITED]),
        };
        assert_eq!(
            step_text(&step),
            "3. run_program: 1.2 s time, 1 tool calls, 0.3 s CPU time of programs; left: 46 tool calls, 91,000 model tokens"
        );
    }
}
