//! A verified model file: believed by its signature, checked block by block as its pages come in.

use crate::medium;
use crate::report::Report;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use capos_gguf as gguf;
use capos_model::Backend;
use capos_model::memory::Need;
use capos_rt::memory::{self, Access};
use capos_rt::{Context, Error};
use capos_schema::cap::{AsCap, CallContext, CallError};
use capos_schema::kernel::{CapabilityTableClient, MemoryObjectClient, PagerServer};
use capos_schema::models::ModelInfo;
use capos_schema::storage::{DirectoryClient, ReadOnlyFileClient};
use capos_verity::{
    BLOCK_SIZE, BlockVerifier, Expected, FileSignature, MAX_TEXT_BYTES, PURPOSE_MODEL_WEIGHTS, TrustStore, VerityError,
};
use core::cell::RefCell;

/// Tree blocks kept: 4 KiB each, the leaves of 64 MiB of weights.
const CACHED_TREE_BLOCKS: usize = 128;
/// A GGUF header larger than this is not read. A vocabulary of 150,000 tokens makes one of some 7 MiB.
const MAX_HEADER: usize = 10 << 20;
/// How much of the file the header is first looked for in.
const FIRST_HEADER: usize = 128 * 1024;
/// How many times as much is read if a header did not end in the part read before. The part read before leaves a gap in
/// the heap that is too small for more, so it must be small in comparison.
const MORE: usize = 10;

/// A model file whose signature was accepted.
pub struct VerifiedWeights {
    /// Its name in messages.
    pub path: String,
    file: ReadOnlyFileClient,
    tree: ReadOnlyFileClient,
    verifier: RefCell<BlockVerifier>,
    table: CapabilityTableClient,
    report: Rc<Report>,
    /// Refusals of pages that the audit log has.
    told: RefCell<BTreeSet<String>>,
    size: u64,
    /// Whether its signer says that it can summarise a conversation.
    summarises: bool,
}

/// A model as offered: three files, none of which is trusted yet.
#[derive(Clone)]
pub struct Offer {
    /// Its name in messages: its path on the medium, or the name it was signed under.
    pub path: String,
    /// The model.
    pub file: ReadOnlyFileClient,
    /// The text of its signature.
    pub signature: Vec<u8>,
    /// Its Merkle tree.
    pub tree: ReadOnlyFileClient,
}

impl Offer {
    /// The prompt cache of the model at `path`, if it has one on the medium.
    ///
    /// # Errors
    /// Its signature or its tree is missing.
    pub async fn prompts(medium: &DirectoryClient, path: &str) -> Result<Option<Self>, Error> {
        let path = format!("{path}.{}", capos_model::PROMPTS);
        if medium.open(&path).await.is_err() {
            return Ok(None);
        }
        Self::on_medium(medium, &path).await.map(Some)
    }

    /// `path` on the medium, with its `path.sig` and `path.verity`.
    ///
    /// # Errors
    /// Which of the three is missing.
    pub async fn on_medium(medium: &DirectoryClient, path: &str) -> Result<Self, Error> {
        let file = medium.open(path).await.with_context(|| format!("opening {path}"))?;
        let signature = medium::read_file(medium, &format!("{path}.sig"), MAX_TEXT_BYTES).await?;
        let tree_path = format!("{path}.verity");
        let tree = medium.open(&tree_path).await.with_context(|| format!("opening {tree_path}"))?;
        Ok(Self { path: path.to_string(), file, signature, tree })
    }

    /// The name that it has to be signed under.
    fn name(&self) -> &str {
        name_of(&self.path)
    }
}

/// The part of a path after its folders.
pub fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl VerifiedWeights {
    /// Checks the signature of an offer.
    ///
    /// # Errors
    /// Which of the three files is malformed or not trusted.
    pub async fn verify(
        offer: Offer,
        trust: &TrustStore,
        table: CapabilityTableClient,
        report: Rc<Report>,
    ) -> Result<Self, Error> {
        let size = offer.file.info().await.with_context(|| format!("asking for the size of {}", offer.path))?.bytes;
        let signature_path = format!("{}.sig", offer.path);
        let signature = FileSignature::parse(&offer.signature).with_context(|| signature_path.clone())?;
        let expected = Expected { purpose: PURPOSE_MODEL_WEIGHTS, name: offer.name(), size };
        let verified = signature.verify(trust, &expected).with_context(|| signature_path)?;
        let tree_path = format!("{}.verity", offer.path);
        let verifier = BlockVerifier::new(&verified, CACHED_TREE_BLOCKS).with_context(|| offer.path.clone())?;
        let found = offer.tree.info().await.with_context(|| format!("asking for the size of {tree_path}"))?.bytes;
        verifier.geometry().check_tree_length(found).with_context(|| tree_path)?;
        let Offer { path, file, tree, .. } = offer;
        let (verifier, told, summarises) = (RefCell::new(verifier), RefCell::default(), verified.summarises());
        Ok(Self { path, file, tree, verifier, table, report, told, size, summarises })
    }

    /// The file's name, without folders.
    pub fn name(&self) -> &str {
        name_of(&self.path)
    }

    /// The file's length in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The fs-verity digest, in hex.
    pub fn digest(&self) -> String {
        self.verifier.borrow().digest().to_string()
    }

    /// Checks one block; reads the tree blocks that it needs.
    async fn check(&self, block: u64, data: &[u8]) -> Result<(), Error> {
        // Another check may evict a tree block between asking and checking. Each round reads the
        // missing ones, and no tree is deeper than the rounds.
        let rounds = self.verifier.borrow().geometry().levels().len();
        for _ in 0..=rounds {
            let needed = self.verifier.borrow().needed(block).map_err(|error| Error::new(error.to_string()))?;
            let mut brought: Vec<(u64, Vec<u8>)> = Vec::with_capacity(needed.len());
            for index in needed {
                let offset = index.saturating_mul(BLOCK_SIZE as u64);
                brought.push((index, medium::read_range(&self.tree, offset, BLOCK_SIZE).await?));
            }
            let borrowed: Vec<(u64, &[u8])> = brought.iter().map(|(index, bytes)| (*index, bytes.as_slice())).collect();
            let verified = self.verifier.borrow_mut().verify_block(block, data, &borrowed);
            match verified {
                Err(VerityError::TreeBlockMissing { .. }) => {}
                other => return other.map_err(|error| Error::new(error.to_string())),
            }
        }
        Err(Error::new(format!("the tree blocks of block {block} did not stay in the cache; open the model again")))
    }

    /// Checks whole blocks from `offset` on.
    async fn check_all(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let first = offset / BLOCK_SIZE as u64;
        let count = self.size.div_ceil(BLOCK_SIZE as u64);
        for (block, bytes) in (first..count).zip(data.chunks(BLOCK_SIZE)) {
            if let Err(error) = self.check(block, bytes).await {
                return Err(Error::new(format!("{}: {error}", self.path)));
            }
        }
        Ok(())
    }

    /// Reads and checks `most` bytes of the file from `offset` on, or less if it ends before.
    ///
    /// # Errors
    /// A block differs from the signed one, or cannot be read.
    pub async fn read(&self, offset: u64, most: usize) -> Result<Vec<u8>, Error> {
        let within = usize::try_from(offset % BLOCK_SIZE as u64).unwrap_or(0);
        let first = offset.saturating_sub(within as u64);
        let left = usize::try_from(self.size.saturating_sub(first)).unwrap_or(usize::MAX);
        let whole = most.saturating_add(within).min(left).next_multiple_of(BLOCK_SIZE);
        let mut data = medium::read_range(&self.file, first, whole).await.with_context(|| self.path.clone())?;
        self.check_all(first, &data).await?;
        data.drain(..within.min(data.len()));
        data.truncate(most);
        Ok(data)
    }

    /// Reads and checks the first bytes of the file, whole blocks.
    async fn prefix(&self, bytes: usize) -> Result<Vec<u8>, Error> {
        self.read(0, bytes.next_multiple_of(BLOCK_SIZE)).await
    }

    /// What the file says of itself, from checked blocks, and the memory it needs to run with `threads` threads.
    ///
    /// # Errors
    /// A block differs from the signed one, or the file is not a well-formed GGUF file.
    pub async fn info(&self, threads: u32) -> Result<(ModelInfo, Option<Need>), Error> {
        let mut wanted = FIRST_HEADER;
        loop {
            let data = self.prefix(wanted).await?;
            match gguf::Header::parse(&data, self.size) {
                Ok(header) => {
                    let id = capos_model::id(&self.digest(), &header);
                    let backend = Backend::of(&header).with_context(|| self.path.clone())?;
                    let info = capos_model::describe(&header, &id, self.size, &backend);
                    let info = ModelInfo { summarises: self.summarises, ..info };
                    return Ok((info, Need::of(&header, threads)));
                }
                Err(gguf::GgufError::NeedMore { bytes }) if wanted < MAX_HEADER && data.len() as u64 != self.size => {
                    let more = usize::try_from(bytes).unwrap_or(MAX_HEADER);
                    wanted = more.max(wanted.saturating_mul(MORE)).min(MAX_HEADER);
                }
                Err(gguf::GgufError::NeedMore { .. }) if wanted >= MAX_HEADER && (wanted as u64) < self.size => {
                    let most = MAX_HEADER >> 20;
                    return Err(Error::new(format!(
                        "{}: its header has more than the {most} MiB that are read; use a model with a smaller vocabulary",
                        self.path
                    )));
                }
                Err(error) => return Err(Error::new(format!("{}: {error}", self.path))),
            }
        }
    }
}

impl PagerServer for VerifiedWeights {
    async fn page_in(
        &self,
        _cx: &CallContext,
        offset: u64,
        bytes: u64,
        window: MemoryObjectClient,
    ) -> Result<(), CallError> {
        self.file.read_into(offset, bytes, &window, 0).await?;
        // The window must not be writable elsewhere once it is judged: the copies that went to the
        // file system and the driver are dropped here.
        self.table.revoke(window.as_cap().id()).await?;
        let length = usize::try_from(bytes).map_err(|_| CallError::invalid_argument("the window is too large"))?;
        let data = memory::map(&window, 0, bytes, Access::Read)?.read_vec(0, length)?;
        let checked = self.check_all(offset, &data).await;
        if let Err(error) = &checked {
            // The kernel asks again for the pages of a rejected window, one by one: each block is reported once.
            if self.told.borrow_mut().insert(error.words().to_string()) {
                self.report.refused(&self.path, error.words()).await;
            }
        }
        Ok(checked?)
    }
}
