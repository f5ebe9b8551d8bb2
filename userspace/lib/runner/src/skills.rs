//! The skills that a session uses: each has a text for the model, and names tools of capabilities that the session holds.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::{Lesson, hash};
use capos_plural::count;
use capos_policy::join;
use capos_schema::audit::{GeneralEvent, GeneralEventField};
use capos_schema::authority::{Label, Provenance};
use capos_schema::models::PermissionMode;
use capos_skills::{Bound, Skill};

use crate::session::Session;
use crate::surface::Surface;
use crate::table;

/// Skills that one session uses at most.
pub const MOST: usize = 8;

/// Where a skill's file is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Where it lies, as a person reads it.
    pub place: String,
    /// Whether its text is the system's own.
    pub provenance: Provenance,
    /// What the file is labelled.
    pub label: Label,
}

/// What a skill would add to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Each of its tools, and what a call of it needs.
    pub tools: Vec<(String, PermissionMode)>,
    /// Those that the model is not offered without it.
    pub withheld: Vec<String>,
}

/// A skill that is used.
pub struct InUse {
    /// The skill with its settings.
    pub bound: Bound,
    /// Where it is from.
    pub source: Source,
}

impl InUse {
    fn lesson(&self) -> Lesson {
        let classes = self.bound.skill.labels.clone();
        Lesson {
            name: self.bound.skill.name.clone(),
            text: self.bound.teaching.clone(),
            provenance: self.source.provenance,
            label: join(&self.source.label, &Label { classes }),
        }
    }
}

impl<S: Surface> Session<S> {
    /// What a skill would add. Nothing is added yet.
    ///
    /// # Errors
    /// The session does not hold or may not use all of its tools: which ones.
    pub async fn plan_skill(&mut self, skill: &Skill) -> Result<Plan, String> {
        self.refresh().await.map_err(|why| format!("the broker does not answer: {why}"))?;
        let grants = self.runner.grants.all();
        let mut tools = table::offered(&grants, |_, _| false);
        tools.retain(|tool| skill.tools.contains(&tool.descriptor.name));
        let lacks = |name: &&str| !tools.iter().any(|tool| tool.descriptor.name == **name);
        all_or_none("has no capability whose tool is", skill.tools.iter().map(String::as_str).filter(lacks))?;
        let answers = self.runner.within(self.runner.user.permissions(&table::questions(&tools))).await;
        let answers = answers.map_err(|why| why.to_string())?;
        let mode = |name: &str| {
            let answer = answers.iter().find(|answer| answer.tool == name && !answer.suppressed);
            answer.map_or(PermissionMode::Forbidden, |answer| answer.mode)
        };
        let names = || tools.iter().map(|tool| tool.descriptor.name.as_str());
        all_or_none("may not use", names().filter(|name| mode(name) == PermissionMode::Forbidden))?;
        let is_withheld = |name: &&str| !self.snapshot.tools().iter().any(|tool| tool.descriptor.name == **name);
        let withheld = names().filter(is_withheld).map(ToString::to_string).collect();
        Ok(Plan { tools: names().map(|name| (name.to_string(), mode(name))).collect(), withheld })
    }

    /// Uses a skill: the model is offered all of its tools, each with a handle, and taught its text; or nothing is changed.
    ///
    /// # Errors
    /// Why nothing is changed.
    pub async fn use_skill(&mut self, bound: Bound, source: Source) -> Result<(), String> {
        let name = bound.skill.name.clone();
        if self.skills.iter().any(|used| used.bound.skill.name == name) {
            return Err(format!("the skill {name} is in use; /skill drop {name} ends that"));
        }
        if self.skills.len() >= MOST {
            return Err(format!("{} are in use, as many as a session may use", count(MOST, "skill")));
        }
        let skill = InUse { bound, source };
        self.record_skill("skill.used", &skill).await?;
        let tools = skill.bound.skill.tools.clone();
        self.skills.push(skill);
        let lacking = match self.lend().await {
            Ok(()) => {
                let has = |name: &&String| self.snapshot.tools().iter().any(|tool| tool.descriptor.name == **name);
                all_or_none("cannot offer", tools.iter().filter(|name| !has(name)).map(String::as_str))
            }
            Err(why) => Err(format!("the broker does not answer: {why}; nothing of the skill is used")),
        };
        match lacking {
            Ok(()) => self.teach(),
            Err(_) => self.drop_skill(&name).await?,
        }
        lacking
    }

    /// Ends the use of a skill: of its text, and of the tools that it brought, except those that another skill names.
    ///
    /// # Errors
    /// It is not in use, or the audit log takes no record of its end, which holds all the same.
    pub async fn drop_skill(&mut self, name: &str) -> Result<(), String> {
        let at = self.skills.iter().position(|used| used.bound.skill.name == name);
        let at = at.ok_or_else(|| format!("the skill {name:?} is not in use; /skills lists those that are"))?;
        let skill = self.skills.remove(at);
        self.teach();
        if self.lend().await.is_err() {
            // The next turn asks the broker again before it begins.
            self.snapshot = capos_agent::Snapshot::default();
        }
        self.record_skill("skill.dropped", &skill).await
    }

    /// Offers the model the tools that the skills in use name, and no others that are withheld.
    async fn lend(&mut self) -> Result<(), capos_rt::Error> {
        let tools: BTreeSet<String> = self.skills.iter().flat_map(|used| used.bound.skill.tools.clone()).collect();
        self.runner.grants.lend(tools.into_iter());
        self.refresh().await
    }

    /// Has the model taught the texts of all skills that are used.
    pub(crate) fn teach(&mut self) {
        self.agent.teach(self.skills.iter().map(InUse::lesson).collect());
    }

    async fn record_skill(&self, kind: &str, skill: &InUse) -> Result<(), String> {
        let field = |name: &str, value: String| GeneralEventField { name: name.into(), value };
        let Bound { skill: of, teaching } = &skill.bound;
        let event = GeneralEvent {
            kind: kind.to_string(),
            session: self.runner.info.id.clone(),
            principal: self.runner.info.principal.clone(),
            fields: Vec::from([
                field("skill", of.name.clone()),
                field("source", skill.source.place.clone()),
                field("hash", hex::encode(hash(teaching))),
                field("provenance", skill.source.provenance.name().to_string()),
                field("tools", of.tools.join(" ")),
                field("label", skill.lesson().label.classes.join(" ")),
            ]),
        };
        let writer = self.runner.grants.writer()?;
        let written = self.runner.audited(writer.general(&event)).await;
        written.map(drop).map_err(|why| format!("the audit log takes no records ({why})"))
    }
}

/// A skill is used with all of its tools or not at all.
fn all_or_none<'a>(what: &str, tools: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let tools: Vec<&str> = tools.collect();
    if tools.is_empty() {
        return Ok(());
    }
    Err(format!("this session {what} {}; nothing of the skill is used", tools.join(", ")))
}
