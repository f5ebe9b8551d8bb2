//! What Tab completes at the prompt: commands, and the names that stand behind them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::session::Session;

/// Commands that are whole, with a space where a name may follow.
const COMMANDS: &[&str] = &[
    "/approvals",
    "/approvals approve ",
    "/approvals deny ",
    "/approvals revoke ",
    "/approvals revoke all",
    "/approvals show ",
    "/artifacts",
    "/artifacts save ",
    "/artifacts show ",
    "/audit",
    "/audit all",
    "/audit archive ",
    "/audit export ",
    "/audit since ",
    "/audit verify",
    "/background ",
    "/background --at ",
    "/background --in ",
    "/background cancel ",
    "/background show ",
    "/backup ",
    "/budget",
    "/budget steps",
    "/cap",
    "/cap all",
    "/cap drop ",
    "/cap offer ",
    "/cap take ",
    "/clock",
    "/clock set ",
    "/compare ",
    "/continue",
    "/conversations",
    "/conversations all",
    "/disks",
    "/exit",
    "/expire ",
    "/expire never",
    "/export ",
    "/fg",
    "/forget ",
    "/fork",
    "/help",
    "/help ",
    "/import ",
    "/inspect conversation",
    "/jobs",
    "/lock",
    "/model",
    "/model ",
    "/models",
    "/models install ",
    "/models remove ",
    "/more",
    "/more --json",
    "/passphrase",
    "/plain",
    "/plain off",
    "/policy",
    "/policy check ",
    "/poweroff",
    "/quit",
    "/remind ",
    "/remind cancel ",
    "/rename ",
    "/rest",
    "/resume",
    "/run",
    "/runs",
    "/runs all",
    "/runs cancel ",
    "/runs show ",
    "/runs steps ",
    "/search ",
    "/segments ",
    "/sessions",
    "/sessions all",
    "/settings",
    "/settings reset ",
    "/settings set ",
    "/setup ",
    "/skill drop ",
    "/skill use ",
    "/skills",
    "/status",
    "/stop",
    "/tools",
    "/until",
    "/until check ",
    "/until exists ",
    "/until matches ",
    "/until off",
    "/users",
    "/users add ",
    "/users profile ",
    "/users recovery-code",
    "/users remove ",
    "/users reset ",
    "/volumes",
];

/// The names that a session has for things.
#[derive(Debug, Default)]
struct Names {
    held: Vec<String>,
    put_away: Vec<String>,
    withheld: Vec<String>,
    tools: Vec<String>,
    programs: Vec<String>,
    models: Vec<String>,
    conversations: Vec<String>,
}

/// All that may stand at the beginning of a line.
pub fn completions(session: &Session) -> Vec<String> {
    let runner = &session.runner;
    let mut lines = lines(&Names {
        held: runner.grants.all().into_iter().map(|grant| grant.name).collect(),
        put_away: runner.grants.dropped.borrow().iter().cloned().collect(),
        withheld: runner.grants.withheld(),
        tools: session.snapshot.tools().iter().map(|tool| tool.descriptor.name.clone()).collect(),
        programs: session.programs.clone(),
        models: session.models.clone(),
        conversations: session.listed.clone(),
    });
    lines.retain(|line| session.commands.has(line));
    lines
}

fn lines(names: &Names) -> Vec<String> {
    let with = |command: &'static str, names: &[String], end: &'static str| -> Vec<String> {
        names.iter().map(|name| format!("{command} {name}{end}")).collect()
    };
    let mut lines: Vec<String> = COMMANDS.iter().map(ToString::to_string).collect();
    lines.extend(with("/cap drop", &names.held, ""));
    lines.extend(with("/cap offer", &names.withheld, ""));
    lines.extend(with("/cap take", &names.put_away, ""));
    lines.extend(with("/inspect", &names.held, ""));
    lines.extend(with("/inspect", &names.tools, ""));
    lines.extend(with("/policy check", &names.tools, " "));
    lines.extend(with("/run", &names.programs, " "));
    lines.extend(with("/model", &names.models, ""));
    for command in ["/compare", "/forget", "/resume"] {
        lines.extend(with(command, &names.conversations, ""));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SHELL;

    #[test]
    fn every_command_and_name_is_completed() {
        let some = |name: &str| Vec::from([name.to_string()]);
        let names = Names {
            held: some("home"),
            put_away: some("logs"),
            withheld: some("users"),
            tools: some("read_file"),
            programs: some("cat"),
            models: some("capOS assistant"),
            conversations: some("3f9a"),
        };
        let lines = lines(&names);
        for line in [
            "/cap drop home",
            "/cap offer users",
            "/cap take logs",
            "/inspect home",
            "/inspect read_file",
            "/run cat ",
            "/model capOS assistant",
            "/resume 3f9a",
            "/forget 3f9a",
            "/compare 3f9a",
        ] {
            assert!(lines.iter().any(|known| known == line), "{line}");
        }
        // What the help lists is there.
        for (commands, _) in SHELL.help {
            for command in commands.split(", ") {
                let words: Vec<&str> = command.split(' ').filter(|word| word.to_uppercase() != *word).collect();
                let wanted = words.join(" ");
                assert!(lines.iter().any(|line| line.starts_with(&wanted)), "{wanted}");
            }
        }
    }
}
