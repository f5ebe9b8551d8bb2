//! A run in parallel with the session's own, in a conversation of its own.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::world::{Audit, Host, RunState};
use capos_agent::{Agent, Backlog, Conversation, Course, Signal, Snapshot, Tool, TurnEnd, hash};
use capos_rt::log;
use capos_schema::audit::{GeneralEvent, GeneralEventField};

use crate::runner::Runner;
use crate::session::{Session, agent};
use crate::surface::Surface;

/// What such a run begins with, now or later: the tools, the model and the records of its session.
pub struct Beside<S: Surface> {
    /// The session's own.
    pub runner: Rc<Runner<S>>,
    backlog: Rc<Backlog>,
    course: Rc<Course>,
    tools: Snapshot,
}

/// Such a run that has begun.
pub struct Begun<S: Surface> {
    agent: Agent<Runner<S>>,
    runner: Rc<Runner<S>>,
    tools: Snapshot,
    /// The session's.
    course: Rc<Course>,
    number: u32,
}

impl<S: Surface> Session<S> {
    /// What a run in parallel with the session's own has of it: the tools that the session has now, except those for which the
    /// person fills in a form, and those that a skill brought: it is not taught the skill, and may outlast it.
    ///
    /// # Errors
    /// Two tools have the same name.
    pub fn beside(&self) -> Result<Beside<S>, String> {
        let tools = self.snapshot.tools().iter().filter(|tool| S::form(&self.runner, tool).is_none());
        let is_lent = |tool: &Tool| self.runner.grants.is_lent(tool.descriptor.interface_id, &tool.descriptor.name);
        let tools = Snapshot::new(tools.filter(|tool| !is_lent(tool)).cloned().collect())?;
        let (runner, backlog, course) = (self.runner.clone(), self.backlog.clone(), self.course.clone());
        Ok(Beside { runner, backlog, course, tools })
    }
}

impl<S: Surface> Beside<S> {
    /// Begins it, with its part of the session's budget and a new conversation. `cancel` ends it as Ctrl-C ends the session's own
    /// run.
    ///
    /// # Errors
    /// The broker gives it no part, no model opens, or the audit log does not take its record.
    pub async fn begin(&self, number: u32, request: &str, cancel: Signal) -> Result<Begun<S>, String> {
        let own = &self.runner;
        let model = own.model.info().ok_or("this session has no model; /model lists the models")?;
        let begun = own.within(own.user.begin_part(number)).await.map_err(|error| error.to_string())?;
        let part = begun.part.ok_or(begun.answer.exceeded)?;
        let runner = own.beside(number, part, cancel);
        let (tools, session_course) = (self.tools.clone(), self.course.clone());
        let conversation = Conversation::new(hex::encode(runner.random()));
        runner.saving.begin(&conversation.id, 0);
        let course = Rc::new(self.course.beside());
        let mut agent = agent(&runner, conversation, (&self.backlog, &course));
        agent.set_policy(runner.policy_version.borrow().clone());
        let mut begun = Begun { agent, runner, tools, course: session_course, number };
        let fields = [
            ("model", model.id.clone()),
            ("requestBytes", request.len().to_string()),
            ("requestHash", hex::encode(hash(request))),
        ];
        let opened = match begun.runner.open_in_part(&model.id).await {
            Ok(()) => begun.record("run.background.begin", &fields).await,
            Err(why) => Err(why),
        };
        if let Err(why) = opened {
            begun.leave().await;
            return Err(why);
        }
        Ok(begun)
    }
}

impl<S: Surface> Begun<S> {
    /// Its conversation.
    pub fn conversation(&self) -> &Conversation {
        self.agent.conversation()
    }

    /// Where it is.
    pub fn course(&self) -> Rc<Course> {
        self.agent.course().clone()
    }

    /// Runs it until it ends or pauses, and gives its part back. Returns how it ended, and its state.
    pub async fn run(mut self, request: &str) -> (TurnEnd, RunState) {
        let end = self.agent.turn(request, &self.tools).await;
        let state = self.agent.course().last();
        let calls = self.agent.going().map(|(going, _)| going.steps().0).unwrap_or_default();
        let fields = [
            ("state", state.name().to_string()),
            ("outcome", end.outcome().to_string()),
            ("modelCalls", calls.to_string()),
            ("tokens", self.agent.course().tokens().to_string()),
        ];
        if let Err(why) = self.record("run.background.end", &fields).await {
            log::warning!("{why}");
        }
        self.course.count(self.agent.course());
        self.leave().await;
        (end, state)
    }

    /// Gives its part of the session back.
    async fn leave(&mut self) {
        if let Some((_, part)) = &self.runner.part
            && let Err(why) = self.runner.within(part.end()).await
        {
            log::warning!("the part of background run {} could not be ended: {why}", self.number);
        }
    }

    async fn record(&self, kind: &str, fields: &[(&str, String)]) -> Result<(), String> {
        let field = |name: &str, value: String| GeneralEventField { name: name.to_string(), value };
        let mut all = Vec::from([
            field("conversation", self.agent.conversation().id.clone()),
            field("background", self.number.to_string()),
        ]);
        all.extend(fields.iter().map(|(name, value)| field(name, value.clone())));
        let info = &self.runner.info;
        let (session, principal) = (info.id.clone(), info.principal.clone());
        let event = GeneralEvent { kind: kind.to_string(), session, principal, fields: all };
        let written = self.runner.general(&event).await;
        written.map(drop).map_err(|why| format!("the audit log takes no records ({why})"))
    }
}
