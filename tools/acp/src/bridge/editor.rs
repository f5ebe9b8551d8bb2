//! What the editor sends.

use std::time::Duration;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES, AgentCapabilities, AuthMethod, AuthMethodAgent, AuthenticateRequest, CancelNotification,
    CloseSessionRequest, Error, Implementation, InitializeRequest, InitializeResponse, ListSessionsRequest,
    LoadSessionRequest, NewSessionRequest, PromptCapabilities, PromptRequest, RequestId, ResumeSessionRequest,
    SessionCapabilities, SessionCloseCapabilities, SessionListCapabilities, SessionResumeCapabilities,
};
use capos_client_protocol::{Line, code};
use serde_json::value::RawValue;

use super::session::Wanted;
use super::{Bridge, WAITING};
use crate::wire::{self, Message, error};

/// The only way to log in.
const AUTH_METHOD: &str = "capos";

impl Bridge {
    /// Takes a line of the editor.
    pub fn editor_line(&mut self, line: &Line, now: Duration) {
        self.now = now;
        if self.leaving.is_some() {
            return;
        }
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong(beginning) => {
                let message = format!("the line has more than {} bytes: attach less", wire::LINE);
                let id = wire::id_of(beginning).unwrap_or(RequestId::Null);
                return self.reject(&id, &error(code::INVALID_REQUEST, message));
            }
        };
        match wire::read(line) {
            Ok(Message::Request(id, method, params)) => {
                if let Err(error) = self.request(&id, &method, params) {
                    self.reject(&id, &error);
                }
            }
            Ok(Message::Notification(method, params)) if method == AGENT_METHOD_NAMES.session_cancel => {
                match wire::params::<CancelNotification>(params) {
                    Ok(params) if self.open.as_deref() == Some(&*params.session_id.0) => self.cancel(),
                    Ok(_) => {}
                    Err(error) => self.out.log.push(format!("session/cancel: {}", error.message)),
                }
            }
            // Those of later versions and of extensions.
            Ok(Message::Notification(..)) => {}
            Ok(Message::Answer(id, result)) => self.answered(&id, result),
            Err(why) => self.reject(&why.0, &why.1),
        }
    }

    fn request(&mut self, id: &RequestId, method: &str, params: Option<&RawValue>) -> Result<(), Error> {
        let names = &AGENT_METHOD_NAMES;
        if method == names.initialize {
            let request: InitializeRequest = wire::params(params)?;
            self.initialize(id, request);
            return Ok(());
        }
        if self.editor.is_none() {
            return Err(error(code::INVALID_REQUEST, "the first request has to be initialize"));
        }
        let wanted = match method {
            _ if method == names.session_prompt => return self.start(id, &wire::params::<PromptRequest>(params)?),
            _ if method == names.session_close => {
                return self.close(id, &wire::params::<CloseSessionRequest>(params)?.session_id.0);
            }
            _ if method == names.authenticate => {
                let request: AuthenticateRequest = wire::params(params)?;
                if &*request.method_id.0 != AUTH_METHOD {
                    return Err(error(code::INVALID_PARAMS, format!("the only method is \"{AUTH_METHOD}\"")));
                }
                Wanted::Authenticated
            }
            _ if method == names.session_new => {
                let request: NewSessionRequest = wire::params(params)?;
                Wanted::New { has_servers: !request.mcp_servers.is_empty() }
            }
            _ if method == names.session_load => {
                let request: LoadSessionRequest = wire::params(params)?;
                Wanted::Load { conversation: request.session_id.0.to_string(), is_load: true }
            }
            _ if method == names.session_resume => {
                let request: ResumeSessionRequest = wire::params(params)?;
                Wanted::Load { conversation: request.session_id.0.to_string(), is_load: false }
            }
            _ if method == names.session_list => {
                let request: ListSessionsRequest = wire::params(params)?;
                Wanted::List { after: request.cursor, cwd: request.cwd }
            }
            _ => {
                let end = method.floor_char_boundary(100);
                let name = method.get(..end).unwrap_or_default();
                return Err(error(code::METHOD_NOT_FOUND, format!("this agent has no method {name}")));
            }
        };
        if self.waiting.len() >= WAITING || self.pending.len() >= WAITING {
            let message = format!("{WAITING} requests wait for the machine already: wait for their answers");
            return Err(error(code::INTERNAL, message));
        }
        self.want(id.clone(), wanted);
        Ok(())
    }

    fn initialize(&mut self, id: &RequestId, request: InitializeRequest) {
        let capabilities = AgentCapabilities::new()
            .load_session(true)
            .prompt_capabilities(PromptCapabilities::new().embedded_context(true))
            .session_capabilities(
                SessionCapabilities::new()
                    .list(SessionListCapabilities::new())
                    .resume(SessionResumeCapabilities::new())
                    .close(SessionCloseCapabilities::new()),
            );
        let method = AuthMethodAgent::new(AUTH_METHOD, "capOS user")
            .description("Logs in to the machine with --user and --passphrase-file of `capos acp`.".to_owned());
        let response = InitializeResponse::new(ProtocolVersion::V1)
            .agent_capabilities(capabilities)
            .auth_methods(vec![AuthMethod::Agent(method)])
            .agent_info(Implementation::new("capos", env!("CARGO_PKG_VERSION")).title("capOS".to_owned()));
        self.editor = Some(request.client_capabilities);
        self.answer(id, &response);
    }
}
