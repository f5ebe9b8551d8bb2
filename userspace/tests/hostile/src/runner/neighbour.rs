//! The user of a volume that it shares with an attacker on `std`: keeps files there that the attacker was not given,
//! and checks that they are unchanged.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use capos_process::{Granted, Started};
use capos_rt::timeout;
use capos_schema::cap::{CallError, Client};
use capos_schema::kernel::EndpointClient;
use capos_schema::storage::{DirectoryClient, ReadOnlyFileClient};

use crate::plan::{Expect, Plan, Size};
use crate::{LIMIT, Runner, words};

/// Bytes of the volume.
const VOLUME: &str = "1048576";
/// Every file that is not the attacker's, and its content.
const FILES: &[(&str, &str)] = &[
    ("other/diary", "nobody else's"),
    ("books/book", "to be read"),
    ("books/shelf/second", "to be read, too"),
    ("letter", "to whom it was given"),
    ("secret", "at the top"),
];
/// Folders of the volume, and how many entries each has; the content of `home` is the attacker's.
const FOLDERS: &[(&str, usize)] = &[("other", 1), ("books", 2), ("books/shelf", 1)];
/// Entries at the top: the folders, `home`, and two files.
const AT_THE_TOP: usize = 5;

/// A volume of its own, and the attacker's part of it.
pub struct Neighbour {
    server: Started,
    volume: DirectoryClient,
    home: DirectoryClient,
    books: DirectoryClient,
    letter: ReadOnlyFileClient,
}

impl Neighbour {
    /// Starts a file server and fills its volume.
    pub async fn settle(runner: &Runner) -> Result<Self, String> {
        let endpoint: EndpointClient = runner.account.create_endpoint().await.map_err(words)?;
        // Ordinal 0 of its interfaces, client 1.
        let volume = endpoint.mint(1 << 16, DirectoryClient::INTERFACE_ID).await.map_err(words)?;
        let volume: DirectoryClient = volume.cast();
        let limits = Size::Server.limits(0);
        let grants = vec![Granted::new("serve", &endpoint)];
        let server = runner.launch(&runner.file_server, "ramfs", &[VOLUME], grants, limits).await?;
        drop(endpoint);
        for folder in ["home"].iter().chain(FOLDERS.iter().map(|(folder, _)| folder)) {
            volume.make_directory(folder).await.map_err(words)?;
        }
        for (file, text) in FILES {
            volume.write_text(file, text, false, None, None).await.map_err(words)?;
        }
        let home = volume.open_directory("home").await.map_err(words)?;
        let books = volume.open_directory("books").await.map_err(words)?.read_only().await.map_err(words)?;
        let letter = volume.open("letter").await.map_err(words)?;
        Ok(Self { server, volume, home, books, letter })
    }

    /// The attacker's grants.
    pub fn grants(&self) -> Vec<Granted> {
        vec![Granted::new("home", &self.home), Granted::new("books", &self.books), Granted::new("letter", &self.letter)]
    }

    async fn look(&self) -> Result<(), CallError> {
        let differs = |what: String| Err(CallError::failed(what));
        for (file, text) in FILES {
            let found = self.volume.read_text(file, 0, 0).await?.text;
            if found != *text {
                return differs(format!("`{file}` holds {found:?}"));
            }
        }
        for (folder, count) in [(".", AT_THE_TOP)].iter().chain(FOLDERS) {
            let found = self.volume.list(folder).await?;
            if found.entries.len() != *count {
                return differs(format!("`{folder}` has {found:?}"));
            }
        }
        // It still writes, and opens files.
        self.volume.write_text("other/diary", "nobody else's", false, None, None).await?;
        self.volume.open("other/diary").await.map(drop)
    }

    /// Looks at its files after the attack, and ends the server.
    pub async fn leave(self, runner: &Runner) -> Result<(), String> {
        let looked = match timeout(LIMIT, self.look()).await {
            Ok(Ok(looked)) => looked.map_err(words),
            Ok(Err(_)) => Err("the file server did not answer".to_string()),
            Err(error) => Err(format!("{error}")),
        };
        let ended = runner.end(&self.server, Expect::Runs).await;
        looked.and(ended)
    }
}

/// Further arguments of an attack that is about them: each begins with its number.
pub fn many_arguments(plan: &Plan) -> Vec<String> {
    let count = if plan.attack.ends_with("huge-arguments") { 500 } else { 0 };
    (0..count).map(|number| format!("{number}{}", "a".repeat(1000))).collect()
}
