//! Calls that end a service, and their cost.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use crate::category::Category;
use crate::scope::texts;
use capos_schema::authority::ToolQuestion;
use capos_schema::manifest::ServiceEnd;
use capos_schema::system::ServiceSupervisorClient;

/// The manifest's entry of a service with which nothing is lost.
const NOTHING: &str = "nothing";

/// The manifest's statements about restarting and stopping each service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceEnds(BTreeMap<String, ServiceEnd>);

/// The consequences of the end of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// No session may cause it; the reason.
    Refused(String),
    /// Something is lost by it, or that is unknown: it needs the permission of a destructive call. The text for the
    /// person.
    Loses(String),
    /// Nothing is lost by it; the text for the person.
    Harmless(String),
}

impl ServiceEnds {
    /// The manifest's statements about its services.
    pub fn new(services: impl IntoIterator<Item = ServiceEnd>) -> Self {
        Self(services.into_iter().map(|service| (service.name.clone(), service)).collect())
    }

    /// What a call that ends a service means; `None` if it does not end a known one. The server of the call rejects
    /// unknown names.
    pub(crate) fn of(&self, question: &ToolQuestion, category: Category) -> Option<Ending> {
        if question.interface_id != ServiceSupervisorClient::INTERFACE_ID || category == Category::ReadOnly {
            return None;
        }
        let mut arguments = texts(&question.arguments, |member| member == "name").ok()?;
        let service = self.0.get(&arguments.remove("name")??)?;
        let name = &service.name;
        Some(match service.loses.as_str() {
            _ if service.trusted => Ending::Refused(format!(
                "service `{name}` is trusted, so no session may restart or stop it: it would forget what it has recorded \
                 or counted. After a fault it is restarted without asking; to restart it otherwise, turn the machine off \
                 and on"
            )),
            NOTHING => Ending::Harmless(String::from("The call loses no data.")),
            "" => Ending::Loses(format!(
                "The call loses the data that `{name}` keeps in memory; the manifest does not say which."
            )),
            loses => Ending::Loses(format!("The call loses {loses}.")),
        })
    }
}
