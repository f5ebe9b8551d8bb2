//! The steps of a run: when one begins, and what is told at its end.

use alloc::format;

use capos_run_state::{Event, RunEvent};
use capos_schema::authority::SessionLimits;

use crate::agent::Agent;
use crate::race::{Either, race};
use crate::turn_end::TurnEnd;
use crate::world::{Answer, Show, World};

impl<W: World> Agent<W> {
    /// Whether the next step may begin by the number of those that the run may have: the person is asked at the limit, or the
    /// next segment begins.
    pub(crate) async fn may_begin_step(&mut self) -> Result<(), TurnEnd> {
        loop {
            let (asked, most) = self.going.as_ref().map(|going| (going.calls(), going.steps().1)).unwrap_or_default();
            if asked < most {
                return Ok(());
            }
            // A child run asks for no more.
            if self.origin.is_some() {
                return Err(TurnEnd::Iterations(asked));
            }
            if self.next_segment().await? {
                continue;
            }
            match self.ask_to_go_on(asked).await {
                Answer::Yes => {
                    let more = self.session().limits.max_iterations;
                    if let Some(going) = &mut self.going {
                        going.most = most.saturating_add(more);
                    }
                    return Ok(());
                }
                Answer::No => return Err(TurnEnd::Iterations(asked)),
                Answer::Lost => return Err(TurnEnd::Unanswered(asked)),
                Answer::Interrupted => return Err(TurnEnd::Interrupted),
            }
        }
    }

    /// The model has answered; without calls its step is complete with the answer.
    pub(crate) async fn answered(&mut self, usage: (u32, u32), count: u32, is_complete: bool) {
        if let Some(going) = &mut self.going {
            going.answered(usage);
        }
        if is_complete {
            self.count_use().await;
            self.step_done(count);
        }
    }

    pub(crate) fn step_done(&mut self, count: u32) {
        if let Some(going) = &mut self.going {
            going.done = count;
        }
    }

    /// A step has ended. The person and telemetry hear when four fifths of those that a run may have are used.
    pub(crate) async fn end_step(&self, count: u32) {
        let (asked, most) = self.going.as_ref().map(|going| (going.calls(), going.steps().1)).unwrap_or_default();
        self.course().emit(self.world().now(), Event::StepCompleted { count });
        let near = most.saturating_mul(4) / 5;
        let Some(going) = self.going.as_ref().filter(|_| near > 0 && asked >= near) else { return };
        // Child runs and a restart may go past it at once.
        if going.told.replace(most) != most {
            self.course().emit(self.world().now(), Event::StepLimitApproaching { count: asked, most });
            let text = format!("{asked} of the {} of this turn are used", capos_plural::count(most, "model call"));
            self.world().show(Show::Notice(&text)).await;
        }
    }

    /// Asks the person whether the turn continues. If the limit is 0 model calls, it ends without a question.
    async fn ask_to_go_on(&self, calls: u32) -> Answer {
        let SessionLimits { max_iterations: more, approval_timeout_ms, .. } = self.session().limits;
        if more == 0 {
            return Answer::No;
        }
        self.course().advance(&**self.world(), RunEvent::AwaitApproval).await;
        let limit = u64::from(approval_timeout_ms).saturating_mul(1_000_000);
        let patience = self.world().sleep_until(self.world().now().saturating_add(limit));
        let answer = match race(self.world().go_on(calls, more), patience).await {
            Either::Left(answer) => answer,
            Either::Right(()) => Answer::Lost,
        };
        if answer == Answer::Yes {
            self.course().advance(&**self.world(), RunEvent::Resume).await;
        }
        answer
    }
}
