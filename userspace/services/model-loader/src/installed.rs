//! Models that were installed on this machine: their files are in a folder of the data disk, and are trusted as little as
//! those of the boot medium.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use capos_copy::{CopyError, Progress, Source, copy, is_part, part_name};
use capos_model::PROMPTS;
use capos_plural::count;
use capos_rt::{Error, log};
use capos_schema::cap::{CallContext, CallError};
use capos_schema::models::{InstalledModel, ModelFolderClient, ModelStoreInstallingResults, ModelStoreServer};
use capos_schema::storage::{DirectoryClient, DirectoryEntry, FileClient, FileError, OpenOptions};
use core::cell::RefCell;
use core::ops::ControlFlow;

use crate::catalog::{Catalog, check_prompts_size};
use crate::weights::{Offer, VerifiedWeights, name_of};

/// What the name of a model file ends with.
const MODEL: &str = ".gguf";
/// What the names of the files beside a signed one end with.
const BESIDE: [&str; 2] = [".sig", ".verity"];
/// Bytes of a file's name at most: room for the endings is left.
const MAX_NAME: usize = 200;

/// Where the folder of installed models is.
#[derive(Default)]
enum Folder {
    /// The data disk is not open yet.
    #[default]
    Waiting,
    /// Nothing lasts on this machine; with the reason.
    None(String),
    Open(DirectoryClient),
}

/// The installed models.
pub struct Installed {
    catalog: Rc<Catalog>,
    folder: RefCell<Folder>,
    /// The model that is being copied.
    copying: RefCell<Option<(String, Progress)>>,
    /// Models whose files are there and are refused, with the reason.
    refused: RefCell<Vec<(String, String)>>,
}

impl Installed {
    pub fn new(catalog: Rc<Catalog>) -> Rc<Self> {
        Rc::new(Self { catalog, folder: RefCell::default(), copying: RefCell::default(), refused: RefCell::default() })
    }

    /// Waits for the data disk, and offers the models that are installed on it.
    pub async fn find(self: Rc<Self>, folder: Option<ModelFolderClient>) {
        let found = match folder {
            None => Folder::None("this system keeps no installed models".to_string()),
            Some(folder) => match folder.open().await {
                Ok(opened) if opened.lasting => Folder::Open(opened.folder),
                Ok(_) => Folder::None("this machine has no open data disk, on which a model could be kept".to_string()),
                Err(error) => Folder::None(format!("the folder of installed models cannot be opened: {error}")),
            },
        };
        if let Folder::None(why) = &found {
            log::info!("no models are installed: {why}");
        }
        *self.folder.borrow_mut() = found;
        let Ok(folder) = self.folder() else { return };
        match self.offer_all(&folder).await {
            Ok(0) => {}
            Ok(offered) => log::info!("{} registered", count(offered, "installed model")),
            Err(error) => log::error!("the installed models cannot be listed: {error}"),
        }
    }

    async fn offer_all(&self, folder: &DirectoryClient) -> Result<usize, Error> {
        let mut offered = 0_usize;
        for entry in entries(folder).await? {
            if !entry.name.ends_with(MODEL) {
                continue;
            }
            match self.catalog.register(folder, &entry.name).await {
                Ok(_) => offered = offered.saturating_add(1),
                Err(error) => self.refused.borrow_mut().push((entry.name, error.words().to_string())),
            }
        }
        Ok(offered)
    }

    fn folder(&self) -> Result<DirectoryClient, CallError> {
        match &*self.folder.borrow() {
            Folder::Open(folder) => Ok(folder.clone()),
            Folder::None(why) => Err(CallError::failed(format!("no model can be installed: {why}"))),
            Folder::Waiting => {
                Err(CallError::failed("the data disk is not open yet; log in with a passphrase, then try again"))
            }
        }
    }

    /// Copies what was offered, with every block checked, and gives the copy its name when it is complete.
    async fn copy(&self, folder: &DirectoryClient, offer: &Offer, weights: &VerifiedWeights) -> Result<u64, CallError> {
        let name = weights.name();
        let signature = writer(folder, &format!("{name}.sig")).await?;
        signature.truncate(0).await?;
        signature.write(0, &offer.signature).await?;
        let part = part_name(name);
        let mut target = writer(folder, &part).await?;
        let (mut source, mut tree_source) = (Checked(weights), offer.tree.clone());
        let copied = copy(&mut source, &mut target, u64::MAX, |progress| {
            if let Some((_, known)) = &mut *self.copying.borrow_mut() {
                *known = progress;
            }
            ControlFlow::Continue(())
        });
        let copied = copied.await.map_err(|error| told(name, error))?;
        let mut tree = writer(folder, &format!("{name}.verity")).await?;
        // What another file of this name has left is not continued.
        tree.truncate(0).await?;
        let whole = copy(&mut tree_source, &mut tree, u64::MAX, |_| ControlFlow::Continue(()));
        whole.await.map_err(|error| told(name, error))?;
        folder.sync().await?;
        match folder.rename(&part, name).await? {
            FileError::None => {}
            error => return Err(CallError::failed(format!("naming the copy `{name}`: {error:?}"))),
        }
        folder.sync().await?;
        Ok(copied.resumed)
    }

    /// Copies the prompt cache of a model of `size` bytes that is offered with one. Without it the model reads all of its
    /// prompts, so an error costs nothing but that.
    async fn copy_prompts(&self, folder: &DirectoryClient, source: &DirectoryClient, path: &str, size: u64) {
        let prompts = format!("{}.{PROMPTS}", name_of(path));
        if let Err(error) = self.try_to_copy_prompts(folder, source, path, size).await {
            log::warning!("the prompt cache of {path} is not installed: {error}");
            if let Err(error) = Self::delete(folder, &prompts).await {
                log::warning!("{error}");
            }
        }
    }

    async fn try_to_copy_prompts(
        &self,
        folder: &DirectoryClient,
        source: &DirectoryClient,
        path: &str,
        size: u64,
    ) -> Result<(), Error> {
        let Some(offer) = Offer::prompts(source, path).await? else { return Ok(()) };
        let prompts = self.catalog.examine(offer.clone()).await?;
        check_prompts_size(prompts.size(), size)?;
        // One that an earlier copy has left may be of another model.
        folder.remove_file(prompts.name()).await?;
        self.copy(folder, &offer, &prompts).await?;
        Ok(())
    }

    /// Deletes the file of this name with its signature, its tree and its incomplete copy. Says whether there was one.
    async fn delete(folder: &DirectoryClient, name: &str) -> Result<bool, CallError> {
        let mut found = false;
        let beside = BESIDE.iter().map(|ending| format!("{name}{ending}"));
        for name in [name.to_string(), part_name(name)].into_iter().chain(beside) {
            match folder.remove_file(&name).await? {
                FileError::None => found = true,
                FileError::NotFound => {}
                error => return Err(CallError::failed(format!("deleting `{name}`: {error:?}"))),
            }
        }
        folder.sync().await?;
        Ok(found)
    }
}

/// All files of the folder.
async fn entries(folder: &DirectoryClient) -> Result<Vec<DirectoryEntry>, CallError> {
    let (mut all, mut after): (Vec<DirectoryEntry>, String) = Default::default();
    loop {
        let page = folder.entries(".", &after).await?;
        all.extend(page.entries);
        match all.last().filter(|_| page.more) {
            Some(last) => after.clone_from(&last.name),
            None => return Ok(all),
        }
    }
}

/// The error of a copy, as the person is told it.
fn told(name: &str, error: CopyError<CallError, CallError>) -> CallError {
    match error {
        CopyError::Source(error) => CallError::failed(format!("reading the model: {error}")),
        CopyError::Target(error) => CallError::failed(format!(
            "writing `{name}` to the data disk: {error}; if it is full, remove a model or files and install it again: it \
             continues where it stopped"
        )),
        CopyError::Changed => CallError::failed("the model became shorter while it was copied; copy it again"),
        CopyError::TooLarge(_) | CopyError::Cancelled(_) => CallError::failed("the copy was cancelled"),
    }
}

/// A model file whose blocks are checked as they are read.
struct Checked<'a>(&'a VerifiedWeights);

impl Source for Checked<'_> {
    type Error = CallError;

    async fn size(&mut self) -> Result<u64, CallError> {
        Ok(self.0.size())
    }

    async fn read(&mut self, offset: u64, most: usize) -> Result<Vec<u8>, CallError> {
        Ok(self.0.read(offset, most).await?)
    }
}

/// Opens a file of the folder to write it.
async fn writer(folder: &DirectoryClient, name: &str) -> Result<FileClient, CallError> {
    let options = OpenOptions { write: true, create: true, ..OpenOptions::default() };
    let opened = folder.open_with(name, &options).await?;
    let error = opened.error;
    opened.file.ok_or_else(|| CallError::failed(format!("opening `{name}` on the data disk: {error:?}")))
}

/// Frees the place of the copy in progress, also if its caller is gone.
struct Busy<'a>(&'a RefCell<Option<(String, Progress)>>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        *self.0.borrow_mut() = None;
    }
}

/// The name of the file at a path, if a model can be installed under it.
fn model_name(path: &str) -> Result<&str, CallError> {
    let name = name_of(path);
    if !name.ends_with(MODEL) || name.len() > MAX_NAME || name.starts_with('.') {
        return Err(CallError::invalid_argument(format!(
            "`{}` is not the name of a model file; it ends with `{MODEL}` and has at most {MAX_NAME} bytes",
            name.escape_debug()
        )));
    }
    Ok(name)
}

impl ModelStoreServer for Installed {
    async fn installed(&self, _cx: &CallContext) -> Result<Vec<InstalledModel>, CallError> {
        let mut models = Vec::new();
        for entry in entries(&self.folder()?).await? {
            let part = is_part(&entry.name);
            let name = if part { entry.name.trim_end_matches(&part_name("")) } else { &entry.name };
            if !name.ends_with(MODEL) {
                continue;
            }
            let refused = self.refused.borrow().iter().find(|(of, _)| of == name).map(|(_, why)| why.clone());
            let problem = match refused {
                _ if part => "it is not complete; install it again to continue".to_string(),
                Some(why) => why,
                None => String::new(),
            };
            let id = if part { String::new() } else { self.catalog.id_of(name).unwrap_or_default() };
            models.push(InstalledModel { name: name.to_string(), id, bytes: entry.status.bytes, problem });
        }
        models.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(models)
    }

    async fn install(
        &self,
        _cx: &CallContext,
        source: DirectoryClient,
        path: String,
    ) -> Result<InstalledModel, CallError> {
        let folder = self.folder()?;
        let name = model_name(&path)?;
        if let Some((other, _)) = &*self.copying.borrow() {
            return Err(CallError::overloaded(format!("`{other}` is being installed; install one model at a time")));
        }
        *self.copying.borrow_mut() = Some((name.to_string(), Progress { done: 0, total: 0 }));
        let _busy = Busy(&self.copying);
        let offer = Offer::on_medium(&source, &path).await?;
        let weights = self.catalog.examine(offer.clone()).await?;
        if folder.stat(name).await.is_ok() {
            return Err(CallError::invalid_argument(format!(
                "a model `{name}` is installed; remove it first: /models remove {name}"
            )));
        }
        self.catalog.check_new(&weights).await?;
        // The prompt cache comes first: what was interrupted continues until the model has its name.
        self.copy_prompts(&folder, &source, &path, weights.size()).await;
        let resumed = self.copy(&folder, &offer, &weights).await?;
        let info = self.catalog.register(&folder, name).await?;
        self.catalog
            .report()
            .worker("model.installed", &info.id, &format!("from {path}, {resumed} bytes resumed"))
            .await;
        Ok(InstalledModel { name: name.to_string(), id: info.id, bytes: info.bytes, problem: String::new() })
    }

    async fn installing(&self, _cx: &CallContext) -> Result<ModelStoreInstallingResults, CallError> {
        let copying = self.copying.borrow();
        let (name, progress) = copying.clone().unwrap_or((String::new(), Progress { done: 0, total: 0 }));
        Ok(ModelStoreInstallingResults { name, done: progress.done, total: progress.total })
    }

    async fn remove(&self, _cx: &CallContext, name: String) -> Result<(), CallError> {
        let folder = self.folder()?;
        let name = model_name(&name)?;
        if self.copying.borrow().as_ref().is_some_and(|(copied, _)| copied == name) {
            return Err(CallError::overloaded(format!("`{name}` is being installed; stop that first")));
        }
        // Its signature goes last, and its worker first: nothing is served whose files are going.
        let offered = folder.stat(name).await.is_ok().then(|| self.catalog.id_of(name)).flatten();
        if let Some(id) = &offered {
            self.catalog.withdraw(id, "its model was removed").await?;
        }
        Self::delete(&folder, &format!("{name}.{PROMPTS}")).await?;
        if !Self::delete(&folder, name).await? {
            return Err(CallError::invalid_argument(format!(
                "no model `{name}` is installed; /models lists those that are"
            )));
        }
        self.refused.borrow_mut().retain(|(of, _)| of != name);
        self.catalog.report().worker("model.removed", offered.as_deref().unwrap_or(name), "removed").await;
        Ok(())
    }
}
