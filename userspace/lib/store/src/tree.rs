//! The trees that hold the entries. There is one, until a namespace is set aside.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use redb::TableDefinition;

/// The numbers of the first namespaces of all trees but the first, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trees(pub Vec<u64>);

impl Trees {
    /// The tree that has the entries of a namespace.
    pub fn of(&self, namespace: u64) -> Tree {
        self.0.iter().rfind(|first| **first <= namespace).map_or(Tree::FIRST, |first| Tree::from(*first))
    }
}

/// A tree, by its name in the database.
#[derive(Clone, Debug)]
pub(crate) struct Tree(Option<String>);

impl Tree {
    pub const FIRST: Self = Self(None);

    /// The tree of the namespaces from this number on.
    pub fn from(first: u64) -> Self {
        Self(Some(format!("entries {first}")))
    }

    pub fn table(&self) -> TableDefinition<'_, &'static [u8], &'static [u8]> {
        TableDefinition::new(self.0.as_deref().unwrap_or("entries"))
    }
}
