//! Logging a client in.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};

use capos_client_protocol::{RpcError, VERSION, code};
use capos_runner::escape::{first_line, plain};
use capos_runner::{Capabilities, OPENED, Session};
use capos_schema::authority::{Profile, UserSessionClient};
use capos_schema::cap::{CallError, ExceptionKind};
use capos_schema::clients::ClientRequestNewSession;
use capos_schema::store::VolumeState;

use crate::client::Client;
use crate::shared::Shared;

/// Letters of a client's name in the audit log.
const NAME: usize = 64;

/// Opens a session for what the client gave.
///
/// # Errors
/// What to do, here or at the console.
pub async fn create(
    held: &Capabilities,
    shared: &Rc<Shared>,
    given: ClientRequestNewSession,
) -> Result<Session<Client>, RpcError> {
    if given.version != VERSION {
        let text = format!(
            "incompatible: the client speaks version {} of the protocol, and this machine {VERSION}",
            given.version
        );
        return Err(RpcError::new(code::INCOMPATIBLE, text));
    }
    let user = login(held, &given).await?;
    let client = Client::new(shared.clone(), first_line(&given.client, NAME));
    let opened = Session::open(held, client, user, None).await;
    let mut session = opened.map_err(|why| {
        RpcError::new(code::UNAVAILABLE, format!("the session could not be opened: {why}; try again"))
    })?;
    if session.record(OPENED, &session.agent.conversation().id).await.is_none() {
        session.end().await;
        let text = "the audit log takes no records, so no session can begin; look at the console of the machine";
        return Err(RpcError::new(code::UNAVAILABLE, text));
    }
    Ok(session)
}

async fn login(held: &Capabilities, given: &ClientRequestNewSession) -> Result<UserSessionClient, RpcError> {
    let silent = |why: CallError| {
        RpcError::new(code::UNAVAILABLE, format!("the authority broker does not answer: {why}; try again"))
    };
    let volume = held.broker.volume().await.map_err(silent)?;
    let console = |what: &str| {
        let text = format!("{what} at the console of the machine first: {}", plain(&volume.details));
        Err(RpcError::new(code::CONSOLE_NEEDED, text))
    };
    match volume.state {
        VolumeState::Searching => {
            let text = "the machine still looks for its disks; try again in a moment";
            return Err(RpcError::new(code::UNAVAILABLE, text));
        }
        VolumeState::Blank => return console("set up the data disk, or say that nothing is to be kept,"),
        VolumeState::Locked => return console("unlock the data volume"),
        VolumeState::Older => return console("confirm that the data volume is migrated"),
        VolumeState::Open => {
            // Without a passphrase the broker would take who has just unlocked the volume at the console.
            if given.user.is_empty() || given.passphrase.is_empty() {
                let text = "this machine has users: give user and passphrase";
                return Err(RpcError::new(code::LOGIN_FAILED, text));
            }
            return logged_in(held.broker.login(Profile::Operator, &given.user, &given.passphrase).await);
        }
        _ => {}
    }
    if !given.user.is_empty() {
        let text = format!("this machine has no user {}: leave out user and passphrase", first_line(&given.user, NAME));
        return Err(RpcError::new(code::LOGIN_FAILED, text));
    }
    let initial = held.broker.profiles().await.map_err(silent)?.initial;
    let user = logged_in(held.broker.login(initial, initial.name(), &given.passphrase).await)?;
    // The volume was unlocked at the console meanwhile.
    if user.info().await.is_ok_and(|info| info.user) {
        let _ = user.end().await;
        return Err(RpcError::new(code::LOGIN_FAILED, "this machine has users now: give user and passphrase"));
    }
    Ok(user)
}

fn logged_in(result: Result<UserSessionClient, CallError>) -> Result<UserSessionClient, RpcError> {
    result.map_err(|error| {
        let code = match &error {
            CallError::Exception(exception) if exception.kind == ExceptionKind::InvalidArgument => code::LOGIN_FAILED,
            CallError::Exception(exception) if exception.kind == ExceptionKind::Overloaded => code::LIMIT,
            _ => code::UNAVAILABLE,
        };
        let why: String = plain(&error.to_string());
        RpcError::new(code, format!("no session: {why}"))
    })
}
