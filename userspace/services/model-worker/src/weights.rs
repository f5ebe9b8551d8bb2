//! The weights: mapped read-only, checked page by page as they are touched.

use capos_gguf as gguf;
use capos_model::Backend;
use capos_rt::memory::FileMapping;
use capos_rt::{Context, Env, Error};
use capos_schema::kernel::MemoryObjectClient;
use capos_schema::models::ModelInfo;
use std::sync::atomic::{AtomicUsize, Ordering};

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

    /// The file's description, if one call may have `max_tokens` tokens and a conversation `context`, and the backend
    /// that it asks for.
    ///
    /// # Errors
    /// It is malformed.
    pub fn info(&self, id: &str, max_tokens: u32, context: Option<u32>) -> Result<(ModelInfo, Backend), Error> {
        let header = gguf::Header::parse(self.bytes(), self.bytes().len() as u64)
            .context("the weights are not a well-formed GGUF file")?;
        let backend = Backend::of(&header).context("the weights are of no backend")?;
        let info = capos_model::describe(&header, id, self.bytes().len() as u64, &backend);
        let info = ModelInfo { context_tokens: context.unwrap_or(info.context_tokens), ..info };
        let output_tokens = capos_model::output_tokens(&info, max_tokens);
        Ok((ModelInfo { output_tokens, ..info }, backend))
    }
}
