//! The commands for programs: `/run`, `/jobs`, `/fg` and `/stop N`.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::world::Host;
use capos_rt::{Either, select};
use capos_schema::authority::{Label, NamedGrant};
use capos_schema::cap::{CallError, Client};
use capos_schema::models::Outcome;
use capos_schema::reflection::{self, InterfaceInfo};
use capos_schema::storage::DirectoryClient;
use capos_schema::system::{LauncherClient, ProgramInfo, ProgramNeed};
use capos_schema::terminal::Style;

use super::command_line::{Line, parse};
use super::grant_plan::{Given, Held, Plan, plan};
use super::job::{Job, Permitted, Surroundings};
use super::jobs::title;
use crate::command::background::remind::waiting;
use crate::command::{Done, refreshed, rows};
use crate::escape::escape;
use crate::session::Session;

/// The tool at whose gate programs are let through.
const TOOL: &str = "run_program";
/// The directory that programs work in, where they are given it.
const WORKING: &str = "home";

/// `/run`.
pub async fn run(session: &mut Session, text: &str) -> Done {
    refreshed(session).await?;
    let launcher = session.runner.grants.find::<LauncherClient>("run programs")?;
    let programs = session.runner.audited(launcher.describe()).await?;
    if text.trim().is_empty() {
        return list(session, &programs).await;
    }
    let line = parse(text).map_err(|mistake| mistake.to_string())?;
    let number = session.jobs.number(session.runner.info.limits.max_jobs)?;
    let plans = plans(session, &line, &programs)?;
    for (_, words) in &plans {
        session.runner.screen.line(Style::Dim, words).await;
    }
    let permitted = permit(session, &line, plans).await?;
    let around = Surroundings { launcher, table: session.runner.table.clone(), screen: session.runner.screen.clone() };
    let job = Job::start(number, text.trim().to_string(), !line.background, permitted, around).await?;
    session.jobs.add(job.clone());
    if line.background {
        let text = format!("[{number}] runs in the background; /fg {number} brings it to the foreground");
        session.runner.screen.line(Style::Dim, &text).await;
        return Ok(());
    }
    attend(session, &job).await;
    Ok(())
}

/// `/run` alone.
async fn list(session: &Session, programs: &[ProgramInfo]) -> Done {
    let grants = session.runner.grants.all();
    let is_held = |need: &ProgramNeed| {
        need.own || grants.iter().any(|held| held.from == need.from && held.interface == need.interface)
    };
    let text: Vec<(String, String)> = programs
        .iter()
        .map(|program| {
            let needs = program.needs.iter().map(|need| match (is_held(need), need.read_only) {
                (false, _) => format!("{} (not held here)", need.name),
                (true, true) => format!("{} (read)", need.name),
                (true, false) => need.name.clone(),
            });
            let needs: Vec<String> = needs.collect();
            let asks = if needs.is_empty() { "nothing".into() } else { needs.join(", ") };
            let takes = match program.settings.as_slice() {
                [] => String::new(),
                settings => format!("; takes {}", settings.join(" ")),
            };
            (program.name.clone(), format!("{}; asks for {asks}{takes}", program.description))
        })
        .collect();
    rows(session, &text).await;
    Ok(())
}

/// What each program of a line is given, with the text that says so.
fn plans(session: &Session, line: &Line, programs: &[ProgramInfo]) -> Result<Vec<(Plan, String)>, String> {
    let grants = session.runner.grants.all();
    let held: Vec<Held<'_>> = grants.iter().map(Held::from).collect();
    let put_away: Vec<String> = session.runner.grants.dropped.borrow().iter().cloned().collect();
    let mut plans = Vec::new();
    let mut input = if line.background { "nowhere" } else { "the terminal" };
    for (at, stage) in line.stages.iter().enumerate() {
        let program = programs
            .iter()
            .find(|program| program.name == stage.program)
            .ok_or_else(|| format!("there is no program {:?}; /run lists the programs", escape(&stage.program)))?;
        let plan = plan(program, &held, &put_away, stage)?;
        let output = match line.stages.get(at.saturating_add(1)) {
            Some(next) => next.program.as_str(),
            None if line.background => "a buffer until the job ends",
            None => "the terminal",
        };
        let words = plan.words(&program.name, input, output);
        plans.push((plan, words));
        input = &program.name;
    }
    Ok(plans)
}

/// The session's capabilities for the programs of one line. Pipes connect the programs, so what one of them writes into
/// a directory has the labels of all that any of them has read. It also has the labels of their other capabilities.
async fn labelled(mut grants: Vec<NamedGrant>, plans: &[(Plan, String)]) -> Result<Vec<NamedGrant>, CallError> {
    let given: Vec<&Given> = plans.iter().flat_map(|(plan, _)| &plan.given).collect();
    let interfaces = given.iter().filter_map(|given| reflection::interface(given.interface));
    let classes: BTreeSet<&str> = interfaces.flat_map(InterfaceInfo::labels).collect();
    let label = Label { classes: classes.into_iter().map(ToString::to_string).collect() };
    for grant in &mut grants {
        if given.iter().any(|given| given.of == grant.name && given.is_directory()) {
            grant.capability = grant.capability.clone().cast::<DirectoryClient>().labelled(&label).await?.cast();
        }
    }
    Ok(grants)
}

/// Has each program of a line permitted and recorded before any is started.
async fn permit(session: &Session, line: &Line, plans: Vec<(Plan, String)>) -> Result<Vec<Permitted>, String> {
    let tool = session.snapshot.tools().iter().find(|tool| tool.descriptor.name == TOOL);
    let tool = tool.ok_or_else(|| format!("this session cannot run programs: it has no tool {TOOL}"))?;
    let grants = labelled(session.runner.grants.all(), &plans).await.map_err(|why| why.to_string())?;
    let mut permitted: Vec<Permitted> = Vec::new();
    for (stage, (plan, words)) in line.stages.iter().zip(plans) {
        let given = plan.grants(&grants).await.map_err(|why| why.to_string());
        let call = match given {
            Ok(given) => session
                .agent
                .begin_direct(tool, plan.arguments(stage))
                .await
                .ok_or(String::new())
                .map(|call| (call, given)),
            Err(why) => Err(why),
        };
        let (call, grants) = match call {
            Ok(found) => found,
            Err(why) => {
                for one in permitted {
                    one.call.finish(Outcome::Cancelled, "another program of the same line was rejected").await;
                }
                let why = if why.is_empty() { format!("{} was not permitted to run", stage.program) } else { why };
                return Err(why);
            }
        };
        let has_home = plan.given.iter().any(|given| given.name == WORKING && given.is_directory());
        permitted.push(Permitted {
            program: stage.program.clone(),
            arguments: stage.arguments.clone(),
            environment: has_home.then(|| format!("PWD=/{WORKING}")).into_iter().collect(),
            words,
            own: plan.own,
            grants,
            call,
        });
    }
    Ok(permitted)
}

/// Waits for a job in the foreground; Ctrl-C ends it.
async fn attend(session: &Session, job: &Rc<Job>) {
    let screen = &session.runner.screen;
    screen.others_speak();
    if let Either::Second(()) = select(job.ended(), session.runner.interrupt()).await {
        job.stop();
        job.ended().await;
    }
    session.jobs.forget(job);
    screen.fresh_line().await;
    if job.is_stopped() {
        screen.line(Style::Dim, "interrupted").await;
        return;
    }
    for words in job.ends() {
        screen.line(Style::Warning, &words).await;
    }
}

/// `/jobs`.
pub async fn jobs(session: &Session) -> Done {
    let jobs = session.jobs.all();
    let reminders = waiting(session);
    if jobs.is_empty() && reminders.is_empty() {
        session.runner.screen.line(Style::Plain, "there are no jobs").await;
    }
    let state = |job: &Job| if job.is_ended() { "ended" } else { "running" };
    let text: Vec<(String, String)> =
        jobs.iter().map(|job| (format!("[{}]", job.number), format!("{}  {}", state(job), title(job)))).collect();
    rows(session, &text).await;
    rows(session, &reminders).await;
    Ok(())
}

/// The job that a command means: by its number, or the newest.
fn meant(session: &Session, rest: &[&str], command: &str) -> Result<Rc<Job>, String> {
    match rest {
        [] => session.jobs.all().pop().ok_or_else(|| "there are no jobs".to_string()),
        [number] => {
            let found = number.parse().ok().and_then(|number| session.jobs.find(number));
            found.ok_or_else(|| format!("there is no job {}; /jobs lists them", escape(number)))
        }
        _ => Err(format!("usage: {command} N; N is the number of a job, which /jobs shows")),
    }
}

/// `/fg N`.
pub async fn foreground(session: &Session, rest: &[&str]) -> Done {
    let job = meant(session, rest, "/fg")?;
    session.runner.screen.line(Style::Dim, &title(&job)).await;
    job.output.to_foreground().await;
    attend(session, &job).await;
    Ok(())
}

/// `/stop N`.
pub async fn stop(session: &Session, rest: &[&str]) -> Done {
    let job = meant(session, rest, "/stop")?;
    job.stop();
    job.ended().await;
    Ok(())
}

/// `/inspect N`.
pub async fn inspect(session: &Session, job: Rc<Job>) -> Done {
    let screen = &session.runner.screen;
    screen.line(Style::Heading, &format!("job {}: {}", job.number, title(&job))).await;
    for program in &job.programs {
        screen.line(Style::Plain, &format!("  {}", program.given)).await;
    }
    Ok(())
}
