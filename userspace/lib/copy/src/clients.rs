//! Files behind capabilities, as sources and targets of copies.

use alloc::vec::Vec;

use capos_schema::cap::CallError;
use capos_schema::storage::{FileClient, ReadOnlyFileClient};

use crate::{Source, Target};

impl Source for ReadOnlyFileClient {
    type Error = CallError;

    async fn size(&mut self) -> Result<u64, CallError> {
        Ok(self.status().await?.bytes)
    }

    async fn read(&mut self, offset: u64, most: usize) -> Result<Vec<u8>, CallError> {
        Self::read(self, offset, u32::try_from(most).unwrap_or(u32::MAX)).await
    }
}

impl Source for FileClient {
    type Error = CallError;

    async fn size(&mut self) -> Result<u64, CallError> {
        Ok(self.status().await?.bytes)
    }

    async fn read(&mut self, offset: u64, most: usize) -> Result<Vec<u8>, CallError> {
        Self::read(self, offset, u32::try_from(most).unwrap_or(u32::MAX)).await
    }
}

impl Target for FileClient {
    async fn write(&mut self, offset: u64, bytes: Vec<u8>) -> Result<(), CallError> {
        Self::write(self, offset, &bytes).await.map(drop)
    }

    async fn truncate(&mut self, bytes: u64) -> Result<(), CallError> {
        Self::truncate(self, bytes).await
    }
}
