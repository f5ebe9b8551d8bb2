//! What a call names that does not exist: looked up before the person is asked, so that they decide with it before them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_agent::Tool;
use capos_schema::system::{LauncherClient, ServiceSupervisorClient, SystemStatusClient};
use serde_json::Value;

use crate::escape::in_quotes;
use crate::runner::Runner;
use crate::surface::Surface;

/// Names that a fact lists.
const NAMES: usize = 8;
/// Characters of the call's name that it shows.
const LETTERS: usize = 64;

/// Which thing a call names.
struct Thing {
    /// The parameter that names it.
    parameter: &'static str,
    /// What such things are called.
    one: &'static str,
}

fn thing(interface: u64, method: &str) -> Option<Thing> {
    match method {
        "restart" | "stop" if interface == ServiceSupervisorClient::INTERFACE_ID => {
            Some(Thing { parameter: "name", one: "service" })
        }
        "run" if interface == LauncherClient::INTERFACE_ID => Some(Thing { parameter: "program", one: "program" }),
        _ => None,
    }
}

impl Thing {
    /// What to tell of a name: nothing if there is such a thing, or if none is known.
    fn note(&self, arguments: &str, names: &[String]) -> Option<String> {
        let arguments: Value = serde_json::from_str(arguments).ok()?;
        let name = arguments.get(self.parameter)?.as_str()?;
        if names.is_empty() || names.iter().any(|known| known == name) {
            return None;
        }
        let shown: Vec<&str> = names.iter().take(NAMES).map(String::as_str).collect();
        let more = if names.len() > NAMES { ", …" } else { "" };
        let name = in_quotes(name, LETTERS);
        Some(format!("There is no {} {name}; {}s: {}{more}.", self.one, self.one, shown.join(", ")))
    }
}

/// What the person is told of a call that names what does not exist. Without an answer in time, nothing is.
pub async fn note<S: Surface>(runner: &Runner<S>, tool: &Tool, arguments: &str) -> Option<String> {
    let thing = thing(tool.descriptor.interface_id, &tool.descriptor.method_name)?;
    let names = if thing.one == "service" {
        let status: SystemStatusClient = runner.grants.find("list services").ok()?;
        let services = runner.in_time(status.services()).await.ok()?;
        services.into_iter().map(|service| service.name.to_string()).collect()
    } else {
        let launcher: LauncherClient = runner.grants.find("list programs").ok()?;
        runner.in_time(launcher.programs()).await.ok()?
    };
    thing.note(arguments, &names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_exist_is_told_with_what_does() {
        let service = thing(ServiceSupervisorClient::INTERFACE_ID, "restart").unwrap();
        let names = ["files".to_string(), "hello".to_string()];
        let told = service.note(r#"{"name":"exporter\n"}"#, &names).unwrap();
        assert_eq!(told, "There is no service \"exporter\\n\"; services: files, hello.");
        assert_eq!(service.note(r#"{"name":"hello"}"#, &names), None);
        assert_eq!(service.note(r#"{"name":"exporter"}"#, &[]), None);
        let program = thing(LauncherClient::INTERFACE_ID, "run").unwrap();
        let many: Vec<String> = (0..9).map(|number| format!("p{number}")).collect();
        assert!(program.note(r#"{"program":"x"}"#, &many).unwrap().ends_with("p6, p7, …."));
        assert!(thing(LauncherClient::INTERFACE_ID, "programs").is_none());
        assert!(thing(LauncherClient::INTERFACE_ID ^ 1, "run").is_none());
    }

    #[test]
    fn the_names_are_those_of_the_schema() {
        for (interface, method, parameter) in [
            (ServiceSupervisorClient::INTERFACE_ID, "restart", "name"),
            (ServiceSupervisorClient::INTERFACE_ID, "stop", "name"),
            (LauncherClient::INTERFACE_ID, "run", "program"),
        ] {
            let found = capos_schema::reflection::interface(interface).unwrap().method(method).unwrap();
            assert!(found.params_schema.contains(&format!("\"{parameter}\"")), "{method}");
        }
    }
}
