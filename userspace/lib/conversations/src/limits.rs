//! Bounds on what is kept and on what one call does.

/// Bytes of the longest name of a principal.
pub const MAX_PRINCIPAL: usize = 64;
/// Bytes of the longest title.
pub const MAX_TITLE: usize = 200;
/// Bytes of the longest id of a model.
pub const MAX_MODEL: usize = 256;
/// Bytes of the longest part of a message.
pub const MAX_PART: usize = 64 << 10;
/// Bytes of the longest message.
pub const MAX_MESSAGE: usize = 2 << 20;
/// Messages of a conversation.
pub const MAX_MESSAGES: u32 = 10_000;
/// Bytes of a conversation's messages.
pub const MAX_CONVERSATION: u64 = 4 << 20;
/// How often a conversation can be the fork of a fork.
pub const MAX_FORKS: usize = 32;
/// Bytes of the longest head of a run, and of a point of it.
pub const MAX_HEAD: usize = 24 << 10;
pub const MAX_POINT: usize = 4 << 10;
/// Attachments of a conversation.
pub const MAX_ATTACHMENTS: usize = 64;
/// Bytes of an attachment.
pub const MAX_ATTACHMENT: u64 = 1 << 20;
/// Bytes of the longest name of an attachment, and of what is said of one.
pub const MAX_NAME: usize = 80;
pub const MAX_ABOUT: usize = 1 << 10;
/// Bytes that are kept of the reason why a run was set aside.
pub const MAX_REASON: usize = 300;
/// Bytes of the longest text that is searched for.
pub const MAX_SEARCH: usize = 200;
/// Conversations, or results of a search, in one page.
pub const MAX_PAGE: u32 = 100;
/// Digits of the shortest beginning of an id that names a conversation.
pub const MIN_DIGITS: usize = 4;
/// The longest time to live: a thousand years, in seconds.
pub const MAX_SECONDS: u64 = 31_557_600_000;

/// What one principal may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    pub conversations: u32,
    /// Bytes of messages and attachments, and 512 for each message, each part of an attachment and each conversation.
    pub bytes: u64,
}

impl Default for Quota {
    fn default() -> Self {
        Self { conversations: 20_000, bytes: 256 << 20 }
    }
}

/// What a message, or a conversation, counts besides its text.
pub(crate) const OVERHEAD: u64 = 512;
/// Bytes of messages in one page.
pub(crate) const PAGE_BYTES: usize = 192 << 10;
