//! The budget of a run, as the broker keeps it.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;

use capos_agent::world::{Amounts, Budget, Excess, Standing};
use capos_budget::Dimension;
use capos_rt::log;
use capos_schema::authority::{BudgetAnswer, Reply, RunClient};

use crate::runner::Runner;
use crate::surface::Surface;

/// The place of a session's run, or of a child run.
#[derive(Default)]
pub struct RunSlot {
    run: RefCell<Option<RunClient>>,
    /// Of a child run: the run that it is a part of, and which parts of what that has left it asks for.
    parent: Option<(RunClient, Amounts)>,
}

impl RunSlot {
    fn client(&self) -> Result<RunClient, String> {
        self.run.borrow().clone().ok_or_else(|| "no run has begun".to_string())
    }

    /// The place of a child run of this run, with these parts of its budget.
    ///
    /// # Errors
    /// No run has begun.
    pub fn child(&self, shares: Amounts) -> Result<Self, String> {
        Ok(Self { run: RefCell::default(), parent: Some((self.client()?, shares)) })
    }
}

fn list(amounts: Amounts) -> Vec<u64> {
    amounts.iter().map(|(_, amount)| amount).collect()
}

/// Amounts in the order of the dimensions.
pub fn amounts(given: &[u64]) -> Amounts {
    let mut amounts = Amounts::default();
    for (dimension, amount) in Dimension::ALL.into_iter().zip(given) {
        amounts.set(dimension, *amount);
    }
    amounts
}

fn standing(answer: BudgetAnswer) -> Standing {
    let BudgetAnswer { number, notices, exceeded: text, asks, session, dimension, suggested } = answer;
    let excess = (!text.is_empty()).then_some(Excess { text, asks, session, dimension, suggested });
    Standing { number, notices, excess }
}

impl<S: Surface> Budget for Runner<S> {
    async fn begin_run(
        &self,
        conversation: &str,
        turn: u32,
        (least, most): (u64, u64),
        used: Amounts,
    ) -> Result<Standing, String> {
        let (run, answer) = match &self.run.parent {
            Some((parent, shares)) => {
                let begun = self.within(parent.split(conversation, &list(*shares), least, most)).await;
                let begun = begun.map_err(|error| error.to_string())?;
                (begun.run, begun.answer)
            }
            None if let Some((_, part)) = &self.part => {
                let begun = self.within(part.begin_run(conversation, turn, least, most, &list(used))).await;
                let begun = begun.map_err(|error| error.to_string())?;
                (begun.run, begun.answer)
            }
            None => {
                let begun = self.within(self.user.begin_run(conversation, turn, least, most, &list(used))).await;
                let begun = begun.map_err(|error| error.to_string())?;
                (begun.run, begun.answer)
            }
        };
        *self.run.run.borrow_mut() = run;
        Ok(standing(answer))
    }

    async fn look(&self) -> Result<Standing, String> {
        let run = self.run.client()?;
        self.within(run.look()).await.map(standing).map_err(|error| error.to_string())
    }

    async fn reserve(&self, tool: &str, call_id: &str, writes: u64) -> Result<Standing, String> {
        let run = self.run.client()?;
        self.within(run.reserve(tool, call_id, writes)).await.map(standing).map_err(|error| error.to_string())
    }

    async fn settle(&self, number: u64, began: bool) -> Vec<String> {
        let Ok(run) = self.run.client() else { return Vec::new() };
        match self.within(run.settle(number, began)).await {
            Ok(notices) => notices,
            Err(error) => {
                // It counts as used.
                log::warning!("a step of a run could not be settled: {error}");
                Vec::new()
            }
        }
    }

    async fn extend(&self, excess: &Excess, more: u64, reply: Reply) -> Result<(), String> {
        let run = self.run.client()?;
        let answer = self.within(run.extend(excess.session, excess.dimension, more, reply)).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.granted { Ok(()) } else { Err(answer.why) }
    }

    async fn used(&self) -> Option<(Amounts, Amounts)> {
        let run = self.run.client().ok()?;
        let answer = self.within(run.used()).await.ok()?;
        Some((amounts(&answer.used), amounts(&answer.granted)))
    }

    async fn end_run(&self, outcome: &str, over: bool) -> Vec<String> {
        let Some(run) = self.run.run.take() else { return Vec::new() };
        match self.within(run.end(outcome, over)).await {
            Ok(notices) => notices,
            Err(error) => {
                log::warning!("the end of a run could not be recorded: {error}");
                Vec::new()
            }
        }
    }
}
