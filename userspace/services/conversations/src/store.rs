//! The interfaces, over the tables.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use capos_conversations::{Attachment as Kept, Conversations, Error, Found, Info, Owner, Part, Point, Run, Step};
use capos_rt::{Clock, Server};
use capos_schema::cap::{CallContext, CallError, Client};
use capos_schema::conversations::{
    Attachment, ConversationAdminServer, ConversationInfo, ConversationStoreAttachmentResults, ConversationStoreClient,
    ConversationStoreListResults, ConversationStoreReadResults, ConversationStoreRunsResults,
    ConversationStoreSearchResults, ConversationStoreServer, Found as FoundMessage, MessagePart, RunInfo, RunPoint,
    RunStep,
};
use capos_schema::store::NamespaceClient;

/// What the objects share.
pub struct Service {
    pub conversations: Conversations<NamespaceClient>,
    pub clock: Clock,
    pub server: Rc<Server>,
}

impl Service {
    /// Milliseconds since 1970.
    fn now(&self) -> Result<u64, CallError> {
        self.clock.wall_clock()
    }
}

/// All conversations.
pub struct Admin(pub Rc<Service>);

impl ConversationAdminServer for Admin {
    async fn of(&self, _cx: &CallContext, principal: String) -> Result<ConversationStoreClient, CallError> {
        let service = &self.0;
        let Owner(number) = service.conversations.owner(&principal, service.now()?).await.map_err(told)?;
        let cap = service.server.durable(number.into(), ConversationStoreClient::INTERFACE_ID)?;
        Ok(ConversationStoreClient::from_cap(cap))
    }

    async fn rename(&self, _cx: &CallContext, principal: String, to: String) -> Result<(), CallError> {
        let service = &self.0;
        service.conversations.hand_over(&principal, &to, service.now()?).await.map_err(told)
    }
}

/// The conversations of one principal.
pub struct Principal {
    pub service: Rc<Service>,
    pub owner: Owner,
}

impl ConversationStoreServer for Principal {
    async fn list(
        &self,
        _cx: &CallContext,
        from: String,
        most: u32,
    ) -> Result<ConversationStoreListResults, CallError> {
        let now = self.service.now()?;
        let listed = self.service.conversations.list(self.owner, &from, most, now).await.map_err(told)?;
        let conversations = listed.conversations.into_iter().map(info).collect();
        Ok(ConversationStoreListResults { conversations, next: listed.next })
    }

    async fn create(&self, _cx: &CallContext, id: String, title: String) -> Result<ConversationInfo, CallError> {
        let now = self.service.now()?;
        self.service.conversations.create(self.owner, &id, &title, now).await.map(info).map_err(told)
    }

    async fn info(&self, _cx: &CallContext, id: String) -> Result<ConversationInfo, CallError> {
        let now = self.service.now()?;
        self.service.conversations.info(self.owner, &id, now).await.map(info).map_err(told)
    }

    async fn append(
        &self,
        _cx: &CallContext,
        id: String,
        part: MessagePart,
        model: String,
        at: RunPoint,
    ) -> Result<u32, CallError> {
        let now = self.service.now()?;
        let MessagePart { index, part, last, json } = part;
        let part = Part { index, part, last, text: json };
        let at = (at.turn > 0).then(|| point(at));
        self.service.conversations.append(self.owner, &id, &part, &model, at.as_ref(), now).await.map_err(told)
    }

    async fn read(
        &self,
        _cx: &CallContext,
        id: String,
        from: u32,
        part: u32,
        most: u32,
    ) -> Result<ConversationStoreReadResults, CallError> {
        let now = self.service.now()?;
        let read = self.service.conversations.read(self.owner, &id, (from, part), most, now).await.map_err(told)?;
        let part = |Part { index, part, last, text }| MessagePart { index, part, last, json: text };
        Ok(ConversationStoreReadResults { parts: read.parts.into_iter().map(part).collect(), more: read.more })
    }

    async fn fork(
        &self,
        _cx: &CallContext,
        id: String,
        messages: u32,
        fork: String,
        title: String,
    ) -> Result<ConversationInfo, CallError> {
        let now = self.service.now()?;
        let made = self.service.conversations.fork(self.owner, &id, messages, (&fork, &title), now).await;
        made.map(info).map_err(told)
    }

    async fn rename(&self, _cx: &CallContext, id: String, title: String) -> Result<(), CallError> {
        let now = self.service.now()?;
        self.service.conversations.rename(self.owner, &id, &title, now).await.map_err(told)
    }

    async fn remove(&self, _cx: &CallContext, id: String) -> Result<(), CallError> {
        let now = self.service.now()?;
        self.service.conversations.remove(self.owner, &id, now).await.map_err(told)
    }

    async fn search(
        &self,
        _cx: &CallContext,
        text: String,
        from: String,
        most: u32,
    ) -> Result<ConversationStoreSearchResults, CallError> {
        let now = self.service.now()?;
        let results = self.service.conversations.search(self.owner, &text, &from, most, now).await.map_err(told)?;
        let found =
            |Found { conversation: Info { id, title, .. }, index, text }| FoundMessage { id, title, index, text };
        Ok(ConversationStoreSearchResults { found: results.found.into_iter().map(found).collect(), next: results.next })
    }

    async fn expire(&self, _cx: &CallContext, id: String, after_seconds: u64) -> Result<ConversationInfo, CallError> {
        let now = self.service.now()?;
        self.service.conversations.expire(self.owner, &id, after_seconds, now).await.map(info).map_err(told)
    }

    async fn checkpoint(&self, _cx: &CallContext, id: String, at: RunPoint) -> Result<(), CallError> {
        let now = self.service.now()?;
        self.service.conversations.checkpoint(self.owner, &id, &point(at), now).await.map_err(told)
    }

    async fn run(&self, _cx: &CallContext, id: String) -> Result<RunInfo, CallError> {
        let now = self.service.now()?;
        let found = self.service.conversations.run(self.owner, &id, now).await.map_err(told)?;
        Ok(found.map(run).unwrap_or_default())
    }

    async fn runs(
        &self,
        _cx: &CallContext,
        from: String,
        most: u32,
    ) -> Result<ConversationStoreRunsResults, CallError> {
        let now = self.service.now()?;
        let found = self.service.conversations.runs(self.owner, &from, most, now).await.map_err(told)?;
        Ok(ConversationStoreRunsResults { runs: found.runs.into_iter().map(run).collect(), next: found.next })
    }

    async fn steps(&self, _cx: &CallContext, id: String, turn: u32, from: u32) -> Result<Vec<RunStep>, CallError> {
        let now = self.service.now()?;
        let found = self.service.conversations.steps(self.owner, &id, turn, from, now).await.map_err(told)?;
        Ok(found.into_iter().map(|Step { number, used }| RunStep { number, used }).collect())
    }

    async fn set_aside(&self, _cx: &CallContext, id: String, turn: u32, why: String) -> Result<(), CallError> {
        let now = self.service.now()?;
        self.service.conversations.set_aside(self.owner, &id, turn, &why, now).await.map_err(told)
    }

    async fn attach(
        &self,
        _cx: &CallContext,
        id: String,
        name: String,
        about: String,
        part: u32,
        text: String,
    ) -> Result<(), CallError> {
        let now = self.service.now()?;
        let (of, part) = ((name.as_str(), about.as_str()), (part, text.as_str()));
        self.service.conversations.attach(self.owner, &id, of, part, now).await.map_err(told)
    }

    async fn attachments(&self, _cx: &CallContext, id: String) -> Result<Vec<Attachment>, CallError> {
        let now = self.service.now()?;
        let found = self.service.conversations.attachments(self.owner, &id, now).await.map_err(told)?;
        let attachment = |Kept { name, about, parts, bytes }| Attachment { name, about, parts, bytes };
        Ok(found.into_iter().map(attachment).collect())
    }

    async fn attachment(
        &self,
        _cx: &CallContext,
        id: String,
        name: String,
        from: u32,
    ) -> Result<ConversationStoreAttachmentResults, CallError> {
        let now = self.service.now()?;
        let found = self.service.conversations.attachment(self.owner, &id, &name, from, now).await.map_err(told)?;
        Ok(ConversationStoreAttachmentResults { texts: found.texts, more: found.more })
    }
}

fn info(found: Info) -> ConversationInfo {
    let Info { id, title, created, changed, messages, model, parent, parent_messages, expires } = found;
    ConversationInfo { id, title, created, changed, messages, model, parent, parent_messages, expires }
}

fn point(at: RunPoint) -> Point {
    let RunPoint { turn, step, open, head, json, used } = at;
    Point { turn, step, open, head, json, used }
}

fn run(found: Run) -> RunInfo {
    let Run { conversation, title, turn, open, changed, aside, head, json } = found;
    RunInfo { conversation, title, turn, open, changed, aside, head, json }
}

fn told(error: Error) -> CallError {
    let why = error.to_string();
    match error {
        Error::NoSuch(_) | Error::Invalid(_) => CallError::invalid_argument(why),
        Error::Full(_) => CallError::overloaded(why),
        Error::Fault(_) | Error::Damaged(_) => CallError::failed(why),
    }
}
