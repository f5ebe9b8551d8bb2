//! Transfer volumes.

use std::cell::RefCell;

use capos_transfer::{Disk, Error, Fault, Format, Volume};

use crate::parsers::now;

const BLOCK: usize = 512;

struct Bytes(RefCell<Vec<u8>>);

impl Bytes {
    /// A disk of whole blocks; missing bytes of a small input are zero.
    fn of(data: &[u8]) -> Self {
        let mut disk = data.to_vec();
        disk.resize(data.len().next_multiple_of(4 * BLOCK).max(64 * BLOCK), 0);
        Self(RefCell::new(disk))
    }
}

impl Disk for Bytes {
    fn block_bytes(&self) -> u32 {
        BLOCK as u32
    }

    fn blocks(&self) -> u64 {
        (self.0.borrow().len() / BLOCK) as u64
    }

    fn is_writable(&self) -> bool {
        true
    }

    async fn read(&self, block: u64, count: u32) -> Result<Vec<u8>, Fault> {
        let start = block as usize * BLOCK;
        let disk = self.0.borrow();
        Ok(disk.iter().skip(start).take(count as usize * BLOCK).copied().collect())
    }

    async fn write(&self, block: u64, bytes: Vec<u8>) -> Result<(), Fault> {
        let start = block as usize * BLOCK;
        self.0.borrow_mut().iter_mut().skip(start).zip(bytes).for_each(|(to, from)| *to = from);
        Ok(())
    }
}

/// A volume of either kind: all that it gives is read, and then it is changed.
pub fn transfer(data: &[u8]) {
    for format in [Format::Fat, Format::Iso9660] {
        now(async {
            let Ok(mut volume) = Volume::mount(Bytes::of(data), format, true).await else { return };
            read_all(&mut volume).await;
            let _ = change(&mut volume).await;
        });
    }
}

async fn read_all(volume: &mut Volume<Bytes>) -> Vec<String> {
    let (mut left, mut paths, mut folders) = (64, Vec::new(), vec![String::new()]);
    while let Some(folder) = folders.pop() {
        let Ok(listing) = volume.list(&folder).await else { continue };
        for entry in listing.entries {
            assert!(capos_transfer::name::is_accepted(&entry.name), "{entry:?}");
            let path = format!("{folder}/{}", entry.name);
            if let Ok(file) = volume.open(&path, false).await {
                let _ = volume.read(&file, 1, 1 << 16).await;
                let _ = volume.close(file).await;
            } else if left > 0 {
                left -= 1;
                folders.push(path.clone());
            }
            paths.push(path);
        }
    }
    paths
}

async fn change(volume: &mut Volume<Bytes>) -> Result<(), Error> {
    let _ = volume.label().await;
    volume.make_folder("a new folder").await?;
    let file = volume.create("a new folder/file.txt").await?;
    let written = volume.write(&file, 0, &[1; 3000]).await;
    volume.close(file).await?;
    written?;
    volume.rename("a new folder/file.txt", "A.TXT").await?;
    volume.remove_file("A.TXT").await?;
    volume.remove_folder("a new folder").await
}

/// The paths on a FAT volume, after all of [`transfer`] could be done with it.
///
/// # Errors
/// It is no volume that can be read and written.
pub fn sound(data: &[u8]) -> Result<Vec<String>, Error> {
    let mut result = Ok(Vec::new());
    now(async {
        result = async {
            let mut volume = Volume::mount(Bytes::of(data), Format::Fat, true).await?;
            let paths = read_all(&mut volume).await;
            change(&mut volume).await.map(|()| paths)
        }
        .await;
    });
    result
}
