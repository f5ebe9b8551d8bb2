//! The questions of programs to the person of a session, while a call runs them.

use alloc::rc::Rc;
use alloc::string::String;

use capos_agent::world::Asker;
use capos_rt::{ServeOptions, Server, TaskGroup, log};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::kernel::CapabilityTableClient;
use capos_schema::system::{LauncherClient, ProgramApprovalAskResults, ProgramApprovalClient, ProgramApprovalServer};

/// A question is short, and a program waits for its answer.
const OPTIONS: ServeOptions = ServeOptions { buffers: 2, message_bytes: 4 << 10, concurrent: 8 };

/// Puts a program's questions to the person.
struct Desk(Rc<dyn Asker>);

impl ProgramApprovalServer for Desk {
    async fn ask(
        &self,
        _cx: &CallContext,
        action: String,
        program: String,
    ) -> Result<ProgramApprovalAskResults, CallError> {
        let (granted, why) = match self.0.ask(&program, &action).await {
            Ok(()) => (true, String::new()),
            Err(why) => (false, why),
        };
        Ok(ProgramApprovalAskResults { granted, why })
    }
}

/// A program that is about to be run can ask the person, as long as this is held.
pub struct Asking {
    /// Names it to the launcher.
    pub number: u64,
    _tasks: TaskGroup,
}

impl Asking {
    /// The next program that this launcher runs with the number asks by `asker`; objects of the process are made in its `table`.
    /// None if the process may serve no more, or the launcher does not answer: then the program runs, and cannot ask.
    pub async fn of(launcher: &LauncherClient, asker: Rc<dyn Asker>, table: CapabilityTableClient) -> Option<Self> {
        match Self::begin(launcher, asker, table).await {
            Ok(asking) => Some(asking),
            Err(why) => {
                log::warning!("the program that is about to run cannot ask the person: {why}");
                None
            }
        }
    }

    async fn begin(
        launcher: &LauncherClient,
        asker: Rc<dyn Asker>,
        table: CapabilityTableClient,
    ) -> Result<Self, CallError> {
        let endpoint = capos_rt::memory::account()?.create_endpoint().await?;
        let server = Rc::new(Server::at(endpoint, table));
        let approval = ProgramApprovalClient::serve(&server, Rc::new(Desk(asker)))?;
        let tasks = TaskGroup::new();
        tasks.spawn(async move {
            if let Err(why) = server.run(OPTIONS).await {
                log::error!("programs of a call cannot ask any more: {why}");
            }
        });
        Ok(Self { number: launcher.expect(&approval).await?, _tasks: tasks })
    }
}
