//! Which backend of the worker computes a model's answers. The file says, and nobody else.

use capos_gguf::Header;
use capos_retrieval::{FileError, Handbook};

/// `ModelInfo.backend` of models whose answers a script has.
pub const LOCAL_SCRIPTED: &str = "local-scripted";
/// `ModelInfo.backend` of models that answer from the handbook in their file.
pub const LOCAL_RETRIEVAL: &str = "local-retrieval";

/// The backend of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// What is said is played from a script beside the model; the weights are mapped, and compute nothing.
    Scripted,
    /// The file's own handbook answers.
    Retrieval(Handbook),
}

impl Backend {
    /// The backend that a file's `general.architecture` asks for.
    ///
    /// # Errors
    /// The file lacks what that backend needs.
    pub fn of(header: &Header<'_>) -> Result<Self, FileError> {
        if header.facts().architecture == capos_retrieval::ARCHITECTURE {
            return Ok(Self::Retrieval(Handbook::from_file(header)?));
        }
        Ok(Self::Scripted)
    }

    /// `ModelInfo.backend`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Scripted => LOCAL_SCRIPTED,
            Self::Retrieval(_) => LOCAL_RETRIEVAL,
        }
    }
}
