//! The weights: mapped read-only, checked page by page as they are touched.

use alloc::string::{String, ToString};
use capos_gguf as gguf;
use capos_rt::memory::FileMapping;
use capos_rt::{Context, Env, Error};
use capos_schema::kernel::MemoryObjectClient;
use capos_schema::models::ModelInfo;
use core::sync::atomic::{AtomicUsize, Ordering};

static ADDRESS: AtomicUsize = AtomicUsize::new(0);

/// Where the weights are mapped; 0 before they are.
pub fn address() -> usize {
    ADDRESS.load(Ordering::Relaxed)
}

/// A model file that is mapped.
pub struct Weights {
    mapping: FileMapping,
}

impl Weights {
    /// Maps what the process was given as `weights`.
    ///
    /// # Errors
    /// There is none, or it cannot be mapped.
    pub fn map(env: &Env, bytes: u64) -> Result<Self, Error> {
        let memory = env.cap::<MemoryObjectClient>("weights")?;
        let mapping = FileMapping::new(&memory, bytes).context("mapping the weights")?;
        ADDRESS.store(mapping.as_ptr().addr(), Ordering::Relaxed);
        Ok(Self { mapping })
    }

    /// The file.
    pub fn bytes(&self) -> &[u8] {
        &self.mapping
    }

    /// What the file says of itself.
    ///
    /// # Errors
    /// It is malformed.
    pub fn info(&self, id: &str, backend: &str) -> Result<ModelInfo, Error> {
        let file = gguf::Header::parse(self.bytes(), self.bytes().len() as u64)
            .context("the weights are not a well-formed GGUF file")?;
        let facts = file.facts();
        Ok(ModelInfo {
            id: id.to_string(),
            display_name: facts.name.unwrap_or_default().to_string(),
            arch: facts.architecture.to_string(),
            context_tokens: facts.context_length,
            output_tokens: facts.context_length,
            backend: backend.to_string(),
            quantisation: String::from(facts.quantisation),
            supports_tools: facts.has_chat_template,
            bytes: self.bytes().len() as u64,
            license: facts.license.unwrap_or_default().to_string(),
        })
    }
}
