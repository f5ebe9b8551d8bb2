//! The database.

use std::fmt;
use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

const VALUES: TableDefinition<&str, &str> = TableDefinition::new("values");

/// The errors.
#[derive(Debug)]
pub enum Error {
    /// There is no such name.
    Missing(String),
    /// The database cannot do it.
    Database(redb::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "there is nothing under the name `{name}`; `kv list` shows what there is"),
            Self::Database(error) => write!(f, "the database: {error}"),
        }
    }
}

impl<E: Into<redb::Error>> From<E> for Error {
    fn from(error: E) -> Self {
        Self::Database(error.into())
    }
}

/// Values under names, in a file.
pub struct Store(Database);

impl Store {
    /// Opens the file, or makes it.
    pub fn open(file: &Path) -> Result<Self, Error> {
        let database = Database::create(file)?;
        // So that there is a table to read from the beginning.
        let change = database.begin_write()?;
        change.open_table(VALUES)?;
        change.commit()?;
        Ok(Self(database))
    }

    /// Keeps a value.
    pub fn set(&self, name: &str, value: &str) -> Result<(), Error> {
        let change = self.0.begin_write()?;
        change.open_table(VALUES)?.insert(name, value)?;
        Ok(change.commit()?)
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Result<String, Error> {
        let values = self.0.begin_read()?.open_table(VALUES)?;
        let found = values.get(name)?.ok_or_else(|| Error::Missing(name.to_owned()))?;
        Ok(found.value().to_owned())
    }

    /// Forgets a name.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let change = self.0.begin_write()?;
        let gone = change.open_table(VALUES)?.remove(name)?.is_some();
        change.commit()?;
        if gone { Ok(()) } else { Err(Error::Missing(name.to_owned())) }
    }

    /// All names that begin like this, in order, and their values.
    pub fn list(&self, start: &str) -> Result<Vec<(String, String)>, Error> {
        let values = self.0.begin_read()?.open_table(VALUES)?;
        let mut found = Vec::new();
        for entry in values.range(start..)? {
            let (name, value) = entry?;
            if !name.value().starts_with(start) {
                break;
            }
            found.push((name.value().to_owned(), value.value().to_owned()));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_until_they_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kv.redb");
        for (name, value) in [("fern", "3"), ("fennel", "2"), ("rose", "1"), ("fern", "4")] {
            Store::open(&file).unwrap().set(name, value).unwrap();
        }
        let store = Store::open(&file).unwrap();
        assert_eq!(store.get("fern").unwrap(), "4");
        let names: Vec<String> = store.list("fe").unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["fennel", "fern"]);
        store.remove("fern").unwrap();
        assert!(store.get("fern").unwrap_err().to_string().contains("`fern`"));
        assert!(store.remove("fern").is_err());
    }
}
