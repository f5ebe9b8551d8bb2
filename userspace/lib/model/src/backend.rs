//! Which backend of the worker computes a model's answers. Only the file decides.

use core::fmt;

use alloc::string::{String, ToString};

use capos_engine::EngineError;
use capos_engine::architecture::Architecture;
use capos_gguf::Header;
use capos_retrieval::{FileError, Handbook};

/// `ModelInfo.backend` of models that the engine runs.
pub const LOCAL_ENGINE: &str = "local-engine";
/// `ModelInfo.backend` of models that the engine runs and that embed texts and write none.
pub const LOCAL_EMBEDDER: &str = "local-embedder";
/// `ModelInfo.backend` of models whose answers a script has.
pub const LOCAL_SCRIPTED: &str = "local-scripted";
/// `ModelInfo.backend` of models that answer from the handbook in their file.
pub const LOCAL_RETRIEVAL: &str = "local-retrieval";

/// The metadata entry by which a file asks for another backend than its architecture's.
const KEY: &str = "capos.backend";
/// The entry of files whose answers a script has.
pub const SCRIPTED: (&str, &str) = (KEY, "scripted");

/// The backend of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The engine computes text from the file's weights.
    Engine,
    /// The engine computes vectors of texts from the file's weights, and no text.
    Embedder,
    /// The answers come from a script next to the model; the weights are mapped, and compute nothing.
    Scripted,
    /// The file's own handbook answers.
    Retrieval(Handbook),
}

/// Why no backend can serve a file.
#[derive(Clone, Debug, PartialEq)]
pub enum BackendError {
    /// It asks for a backend that does not exist.
    Unknown(String),
    /// It claims to be a handbook and is not one.
    Handbook(FileError),
    /// The engine does not run models of its architecture.
    Engine(EngineError),
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                write!(f, "its entry {KEY} is {name:?}; it must be absent or {:?}", SCRIPTED.1)
            }
            Self::Handbook(error) => write!(f, "{error}"),
            Self::Engine(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for BackendError {}

impl Backend {
    /// The backend that a file asks for: by its entry `capos.backend`, or else by its `general.architecture`.
    ///
    /// # Errors
    /// There is none for it, or the file lacks what that backend needs.
    pub fn of(header: &Header<'_>) -> Result<Self, BackendError> {
        match header.get(KEY).map(|value| value.as_text().unwrap_or_default()) {
            Some(name) if name == SCRIPTED.1 => return Ok(Self::Scripted),
            Some(name) => return Err(BackendError::Unknown(name.to_string())),
            None => {}
        }
        let architecture = header.facts().architecture;
        if architecture == capos_retrieval::ARCHITECTURE {
            return Ok(Self::Retrieval(Handbook::from_file(header).map_err(BackendError::Handbook)?));
        }
        let architecture = Architecture::of(architecture).map_err(BackendError::Engine)?;
        Ok(if architecture.encoder { Self::Embedder } else { Self::Engine })
    }

    /// `ModelInfo.backend`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Engine => LOCAL_ENGINE,
            Self::Embedder => LOCAL_EMBEDDER,
            Self::Scripted => LOCAL_SCRIPTED,
            Self::Retrieval(_) => LOCAL_RETRIEVAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capos_gguf::{Synthetic, Writer};

    fn of(file: &[u8]) -> Result<Backend, BackendError> {
        Backend::of(&Header::parse(file, file.len() as u64).unwrap())
    }

    #[test]
    fn the_file_says_what_computes_its_answers() {
        assert_eq!(of(&Synthetic::new(256 << 10, 3).unwrap().to_vec()), Ok(Backend::Engine));
        assert_eq!(of(&Synthetic::with_entries(256 << 10, 3, &[SCRIPTED]).unwrap().to_vec()), Ok(Backend::Scripted));
        let error = of(&Synthetic::with_entries(256 << 10, 3, &[(KEY, "oracle")]).unwrap().to_vec()).unwrap_err();
        assert_eq!(error.to_string(), "its entry capos.backend is \"oracle\"; it must be absent or \"scripted\"");
        for architecture in ["bert", "nomic-bert"] {
            let mut writer = Writer::new();
            writer.text("general.architecture", architecture);
            assert_eq!(of(&writer.header()), Ok(Backend::Embedder));
        }
        let mut writer = Writer::new();
        writer.text("general.architecture", "mamba");
        let error = of(&writer.header()).unwrap_err().to_string();
        assert!(error.contains("mamba") && error.contains("llama, "), "{error}");
    }
}
