//! What a program is given: of what it asks for, what the session holds itself, never more.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_rt::{Context, Error};
use capos_schema::authority::NamedGrant;
use capos_schema::cap::Client;
use capos_schema::reflection;
use capos_schema::storage::DirectoryClient;
use capos_schema::system::{Grant, ProgramInfo};
use serde_json::json;

use super::command_line::Stage;
use crate::escape::escape;
use crate::grants::may_take_back;

/// Names that the launcher or the shell fills itself.
const RESERVED: &[&str] = &["account", "space", "table", "process", "serve", "in", "out", "err"];
/// Capabilities of one program at most, besides its streams: a message carries 16.
const MOST: usize = 12;
/// Every right; the session's capability may have fewer.
const ALL_RIGHTS: u32 = u32::MAX;

/// A capability that the session holds.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    pub name: &'a str,
    pub interface: u64,
    /// What the manifest calls its source.
    pub from: &'a str,
    pub read_only: bool,
}

impl<'a> From<&'a NamedGrant> for Held<'a> {
    fn from(grant: &'a NamedGrant) -> Self {
        Self { name: &grant.name, interface: grant.interface, from: &grant.from, read_only: grant.read_only }
    }
}

/// One of the session's capabilities, or less of it, under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    pub name: String,
    /// The session's grant that it is of.
    pub of: String,
    pub interface: u64,
    /// The directory in it that is meant; empty for the whole.
    pub path: String,
    /// To be made read-only.
    pub narrow: bool,
    /// Whether it is read-only in the end.
    pub read_only: bool,
}

/// All that one program is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub given: Vec<Given>,
    /// What the launcher gives to each caller that runs the program.
    pub own: Vec<String>,
    /// CPU time that it may use in all, in seconds.
    pub cpu_seconds: Option<u64>,
}

/// What a program is to be given of what the session holds, without the grants that were put away.
///
/// # Errors
/// It asks for what the session does not hold, or the line names what is not there.
pub fn plan(program: &ProgramInfo, held: &[Held<'_>], put_away: &[String], stage: &Stage) -> Result<Plan, String> {
    let name = &program.name;
    let cpu_seconds = Some(program.limits.cpu_nanoseconds / 1_000_000_000).filter(|limit| *limit > 0);
    let mut plan = Plan { cpu_seconds, ..Plan::default() };
    if let Some(unknown) = stage.without.iter().find(|wanted| !program.needs.iter().any(|need| need.name == **wanted)) {
        let needs: Vec<&str> = program.needs.iter().map(|need| need.name.as_str()).collect();
        let needs = if needs.is_empty() { "nothing".to_string() } else { needs.join(", ") };
        return Err(format!("--without {}: {name} does not ask for it; it asks for {needs}", escape(unknown)));
    }
    for with in &stage.with {
        let (of, path) = split(&with.path);
        if RESERVED.contains(&with.name.as_str()) || plan.given.iter().any(|given| given.name == with.name) {
            return Err(format!("--with {}: the program has something of this name already", with.name));
        }
        let found = held.iter().find(|held| held.name == of && held.interface == DirectoryClient::INTERFACE_ID);
        let found =
            found.ok_or_else(|| format!("--with {}: this session holds no directory /{}", with.name, escape(of)))?;
        // What a program only wants to read stays so when another place is given for it.
        let asked = || program.needs.iter().any(|need| need.name == with.name && need.read_only);
        let read_only = with.read_only.unwrap_or_else(asked);
        plan.given.push(Given {
            name: with.name.clone(),
            of: of.to_string(),
            interface: found.interface,
            path: path.to_string(),
            narrow: read_only && !found.read_only,
            read_only: read_only || found.read_only,
        });
    }
    for need in &program.needs {
        let replaced = plan.given.iter().any(|given| given.name == need.name);
        if replaced || stage.without.contains(&need.name) {
            continue;
        }
        if need.own {
            plan.own.push(need.name.clone());
            continue;
        }
        let found = held.iter().find(|held| held.from == need.from && held.interface == need.interface);
        let found = found.ok_or_else(|| {
            // What the model's tool gives is the manifest's to say; `/run` gives what the person has.
            let other = may_take_back(put_away).unwrap_or_else(|| {
                "the model can run it: its tool run_program grants what the program's manifest entry lists".to_string()
            });
            format!(
                "{name} asks for {} ({}), which this session does not hold; {other}. To run {name} \
                 without it: /run --without {} {name}",
                need.name, need.from, need.name
            )
        })?;
        plan.given.push(Given {
            name: need.name.clone(),
            of: found.name.to_string(),
            interface: need.interface,
            path: String::new(),
            narrow: need.read_only && !found.read_only,
            read_only: need.read_only || found.read_only,
        });
    }
    if plan.given.len() > MOST {
        return Err(format!("{name} would be given {} capabilities; the limit is {MOST}", plan.given.len()));
    }
    Ok(plan)
}

/// `/home/a/b` as the session's `home` and the path `a/b` in it.
fn split(path: &str) -> (&str, &str) {
    let path = path.trim_matches('/');
    path.split_once('/').map_or((path, ""), |(of, inside)| (of, inside.trim_matches('/')))
}

impl Given {
    /// Whether it is a directory, which programs see as `/NAME`.
    pub fn is_directory(&self) -> bool {
        self.interface == DirectoryClient::INTERFACE_ID
    }

    /// It as the option `--with` of a line, with its access in the end.
    fn option(&self) -> String {
        let inside = if self.path.is_empty() { String::new() } else { format!("/{}", self.path) };
        format!("{}=/{}{inside}:{}", self.name, self.of, if self.read_only { "ro" } else { "rw" })
    }

    fn words(&self) -> String {
        if !self.is_directory() {
            let interface = reflection::interface(self.interface).map_or("unknown interface", |found| found.name);
            return format!("{} ({interface})", self.name);
        }
        let place = if self.path.is_empty() { self.of.clone() } else { format!("{}/{}", self.of, escape(&self.path)) };
        let what = if self.read_only { "read" } else { "read, write" };
        format!("{place} ({what}) as /{}", self.name)
    }
}

impl Plan {
    /// The plan as a text: all that the program named `name` gets, and where it reads and writes.
    pub fn words(&self, name: &str, input: &str, output: &str) -> String {
        let mut parts: Vec<String> = self.given.iter().map(Given::words).collect();
        parts.push(format!("input from {input}"));
        parts.push(format!("output to {output}"));
        parts.extend(self.own.iter().cloned());
        parts.extend(self.cpu_seconds.map(|limit| format!("{limit} s of CPU time at most")));
        format!("{name} is given: {} — nothing else", parts.join("; "))
    }

    /// The arguments of the call that runs the program, as they are judged and recorded: with the directories that the
    /// line names, since with one a program reaches a file by another path.
    pub fn arguments(&self, stage: &Stage) -> String {
        let mut arguments = json!({ "program": stage.program, "arguments": stage.arguments });
        let named = self.given.iter().filter(|given| stage.with.iter().any(|with| with.name == given.name));
        let with: Vec<String> = named.map(Given::option).collect();
        if let Some(members) = arguments.as_object_mut().filter(|_| !with.is_empty()) {
            members.insert("with".to_string(), json!(with));
        }
        arguments.to_string()
    }

    /// The capabilities themselves, made of the session's.
    ///
    /// # Errors
    /// One is gone, or the path in it is no directory.
    pub async fn grants(&self, held: &[NamedGrant]) -> Result<Vec<Grant>, Error> {
        let mut grants = Vec::new();
        for given in &self.given {
            let found = held.iter().find(|grant| grant.name == given.of);
            let found = found.with_context(|| format!("the session no longer holds `{}`", given.of))?;
            let mut capability = found.capability.clone();
            if given.is_directory() {
                let mut directory: DirectoryClient = capability.cast();
                if !given.path.is_empty() {
                    let context = || format!("the directory /{}/{}", given.of, escape(&given.path));
                    directory = directory.open_directory(&given.path).await.with_context(context)?;
                }
                if given.narrow {
                    directory = directory.read_only().await.with_context(|| format!("/{} to read", given.of))?;
                }
                capability = directory.cast();
            }
            grants.push(Grant { name: given.name.clone(), capability, interface: given.interface, rights: ALL_RIGHTS });
        }
        Ok(grants)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::command_line::parse;
    use capos_schema::kernel::{Limits, TimerClient};
    use capos_schema::system::{LauncherClient, ProgramNeed};

    const DIRECTORY: u64 = DirectoryClient::INTERFACE_ID;

    fn need(name: &str, from: &str, interface: u64, own: bool) -> ProgramNeed {
        ProgramNeed { name: name.into(), interface, from: from.into(), read_only: false, own }
    }

    fn program(needs: &[ProgramNeed]) -> ProgramInfo {
        let limits = Limits::default();
        ProgramInfo {
            name: "kv".into(),
            description: String::new(),
            needs: needs.to_vec(),
            limits,
            settings: Vec::new(),
        }
    }

    fn planned(needs: &[ProgramNeed], line: &str, read_only: bool) -> Result<Plan, String> {
        let program = program(needs);
        let held = [
            Held { name: "home", interface: DIRECTORY, from: "ramfs.Directory", read_only },
            Held { name: "launcher", interface: LauncherClient::INTERFACE_ID, from: "init.Launcher", read_only: false },
        ];
        plan(&program, &held, &[], &parse(line).unwrap().stages[0])
    }

    fn words(needs: &[ProgramNeed], line: &str) -> String {
        planned(needs, line, false).unwrap().words("kv", "the terminal", "wc")
    }

    #[test]
    fn a_program_is_given_what_it_asks_for_of_what_the_session_holds() {
        let needs = [
            need("data", "ramfs.Directory", DIRECTORY, false),
            need("timer", "kernel.timer", TimerClient::INTERFACE_ID, true),
        ];
        assert_eq!(
            words(&needs, "kv"),
            "kv is given: home (read, write) as /data; input from the terminal; output to wc; timer — nothing else"
        );
        assert_eq!(
            words(&needs, "--without data --without timer kv"),
            "kv is given: input from the terminal; output to wc — nothing else"
        );
        // What the session may only read stays so.
        let given = planned(&needs, "kv", true).unwrap().given;
        assert!(given[0].read_only && !given[0].narrow);
        let reader = ProgramNeed { read_only: true, ..needs[0].clone() };
        assert!(words(core::slice::from_ref(&reader), "kv").contains("home (read) as /data;"));
        assert!(planned(&[reader], "kv", false).unwrap().given[0].narrow);
    }

    #[test]
    fn what_is_agreed_to_names_the_limit_of_cpu_time() {
        let limits = Limits { cpu_nanoseconds: 30_000_000_000, ..Limits::default() };
        let program = ProgramInfo { limits, ..program(&[]) };
        let plan = plan(&program, &[], &[], &parse("kv").unwrap().stages[0]).unwrap();
        assert!(plan.words("kv", "nowhere", "wc").contains("; 30 s of CPU time at most — nothing else"));
    }

    #[test]
    fn a_directory_of_the_session_is_given_by_the_line() {
        assert!(words(&[], "--with notes=/home/a/b:ro kv").contains("home/a/b (read) as /notes;"));
        assert!(words(&[], "--with all=/home kv").contains("home (read, write) as /all;"));
        let needs = [need("home", "ramfs.Directory", DIRECTORY, false)];
        let narrower = words(&needs, "--with home=/home/a kv");
        assert!(narrower.contains("home/a (read, write) as /home;") && !narrower.contains("home (read, write)"));
        assert!(planned(&[], "--with x=/home:rw kv", true).unwrap().given[0].read_only);
        // A program that wants to read is given no more by naming a place.
        let reader = [ProgramNeed { read_only: true, ..needs[0].clone() }];
        assert!(words(&reader, "--with home=/home/a kv").contains("home/a (read) as /home;"));
        assert!(words(&reader, "--with home=/home/a:rw kv").contains("home/a (read, write) as /home;"));
    }

    #[test]
    fn the_directories_of_a_line_are_among_its_arguments() {
        let arguments = |line: &str, read_only| {
            let stage = parse(line).unwrap().stages.remove(0);
            let needs = [need("data", "ramfs.Directory", DIRECTORY, false)];
            let arguments = planned(&needs, line, read_only).unwrap().arguments(&stage);
            serde_json::from_str::<serde_json::Value>(&arguments).unwrap()
        };
        assert_eq!(arguments("kv a", false), serde_json::json!({ "program": "kv", "arguments": ["a"] }));
        assert_eq!(
            arguments("--with x=/home/notes//secret/:ro --with y=/home kv a", false),
            serde_json::json!({ "program": "kv", "arguments": ["a"], "with": ["x=/home/notes//secret:ro", "y=/home:rw"] })
        );
        // It says what the program gets, not what was asked for.
        assert_eq!(arguments("--with data=/home/a:rw kv", true)["with"], serde_json::json!(["data=/home/a:ro"]));
    }

    #[test]
    fn nothing_is_given_that_the_session_does_not_hold() {
        let needs = [need("medium", "iso9660.Directory", DIRECTORY, false)];
        let why = planned(&needs, "kv", false).unwrap_err();
        assert_eq!(
            why,
            "kv asks for medium (iso9660.Directory), which this session does not hold; the model can run \
             it: its tool run_program grants what the program's manifest entry lists. To run kv without it: /run \
             --without medium kv"
        );
        assert!(planned(&needs, "--without medium kv", false).is_ok());
        let program = program(&needs);
        let why = plan(&program, &[], &["medium".into()], &parse("kv").unwrap().stages[0]).unwrap_err();
        assert!(why.contains("; dropped: medium; /cap take NAME restores one. To run kv without it: "), "{why}");
        // Where it is written behind the name it is the program's, and the hint says where it belongs.
        let why = planned(&needs, "kv --without medium", false).unwrap_err();
        assert!(why.ends_with(": /run --without medium kv"), "{why}");
        assert!(planned(&[], "--with l=/launcher kv", false).unwrap_err().contains("no directory /launcher"));
        assert!(planned(&[], "--with out=/home kv", false).unwrap_err().contains("of this name already"));
        assert!(planned(&[], "--with a=/home --with a=/home kv", false).unwrap_err().contains("of this name already"));
        assert!(planned(&[], "--without home kv", false).unwrap_err().contains("it asks for nothing"));
    }
}
