//! What is to be done with a store, from the versions that its parts have.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::{Format, Step, Tables};

/// A part that has another version.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub format: &'static Format,
    /// The version that it has.
    pub found: u32,
}

impl Part {
    /// The steps to the version that is known.
    fn steps(self) -> &'static [Step] {
        let done = usize::try_from(self.found.saturating_sub(1)).unwrap_or(usize::MAX);
        self.format.steps.get(done..).unwrap_or_default()
    }

    /// Takes the steps. The caller writes the version.
    ///
    /// # Errors
    /// Which part could not be migrated, and why.
    pub fn migrate(self, tables: &mut dyn Tables) -> Result<(), String> {
        let run = |step: &Step| (step.run)(&mut *tables);
        self.steps()
            .iter()
            .try_for_each(run)
            .map_err(|why| format!("the {} could not go from format {}: {why}", self.format.name, self.found))
    }

    /// What is done with it, a sentence for each step.
    fn sentences(self) -> impl Iterator<Item = String> {
        (self.found..).zip(self.steps()).map(move |(from, step)| {
            let name = self.format.name;
            format!("Format {from} to {} of the {name}: they {}.", from.saturating_add(1), step.says)
        })
    }
}

/// What is to be done.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Parts of older versions, which can be migrated.
    pub older: Vec<Part>,
    /// Parts of versions that are not known.
    pub newer: Vec<Part>,
}

impl Plan {
    /// The plan for a store. `version` tells the bytes that a part has for its version, if it has any. Bytes that are no
    /// version are left to the service that keeps the part.
    ///
    /// # Errors
    /// What `version` returns.
    pub fn new<E>(
        formats: &'static [Format],
        mut version: impl FnMut(&str) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Self, E> {
        let mut plan = Self::default();
        for format in formats {
            let bytes = version(format.namespace)?;
            let found = bytes.and_then(|bytes| Some(u32::from_le_bytes(bytes.try_into().ok()?)));
            let Some(found) = found.filter(|found| *found > 0) else { continue };
            let part = Part { format, found };
            match found.cmp(&format.version()) {
                core::cmp::Ordering::Less => plan.older.push(part),
                core::cmp::Ordering::Equal => {}
                core::cmp::Ordering::Greater => plan.newer.push(part),
            }
        }
        Ok(plan)
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.older.is_empty() && self.newer.is_empty()
    }

    /// Whether a part has the version that is known, or none.
    #[must_use]
    pub fn knows(&self, namespace: &str) -> bool {
        !self.older.iter().chain(&self.newer).any(|part| part.format.namespace == namespace)
    }

    /// What the migration does, a sentence for each step.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        self.older.iter().copied().flat_map(Part::sentences).collect()
    }

    /// Which parts have versions that are not known.
    #[must_use]
    pub fn unknown(&self) -> String {
        let parts: Vec<String> = self
            .newer
            .iter()
            .map(|part| {
                let (name, known) = (part.format.name, part.format.version());
                format!("the {name} have format {}, and this version of capOS knows {known}", part.found)
            })
            .collect();
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::string::ToString;

    use super::*;

    fn add(tables: &mut dyn Tables) -> Result<(), String> {
        let mut value = tables.get("t", b"k")?.ok_or("there is no k")?;
        value.push(b'+');
        tables.put("t", b"k", &value)
    }

    const STEPS: [Step; 3] = [
        Step { says: "get one", run: add },
        Step { says: "get another", run: add },
        Step { says: "get a third", run: add },
    ];
    static FORMATS: [Format; 2] = [
        Format { namespace: "a", name: "apples", steps: &STEPS },
        Format { namespace: "b", name: "pears", steps: &[] },
    ];

    struct Map(BTreeMap<(String, Vec<u8>), Vec<u8>>);

    impl Tables for Map {
        fn get(&mut self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
            Ok(self.0.get(&(table.to_string(), key.to_vec())).cloned())
        }

        fn after(&mut self, _: &str, _: &[u8]) -> Result<Option<crate::Entry>, String> {
            Ok(None)
        }

        fn put(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result<(), String> {
            self.0.insert((table.to_string(), key.to_vec()), value.to_vec());
            Ok(())
        }

        fn remove(&mut self, _: &str, _: &[u8]) -> Result<(), String> {
            Ok(())
        }
    }

    fn plan(a: &[u8], b: &[u8]) -> Plan {
        let version = |namespace: &str| Ok::<_, ()>(Some(if namespace == "a" { a.to_vec() } else { b.to_vec() }));
        Plan::new(&FORMATS, version).unwrap()
    }

    #[test]
    fn each_version_is_known_older_or_newer() {
        assert_eq!((FORMATS[0].version(), FORMATS[1].version()), (4, 1));
        assert!(plan(&[4, 0, 0, 0], &[1, 0, 0, 0]).is_empty());
        assert!(Plan::new(&FORMATS, |_| Ok::<_, ()>(None)).unwrap().is_empty(), "nothing was kept yet");
        // What is no version is the service's to judge.
        assert!(plan(&[4, 0, 0], &[0; 4]).is_empty() && plan(&[], &[1; 5]).is_empty());
        let older = plan(&[2, 0, 0, 0], &[1, 0, 0, 0]);
        assert_eq!(
            older.sentences(),
            ["Format 2 to 3 of the apples: they get another.", "Format 3 to 4 of the apples: they get a third."]
        );
        assert!(
            !older.is_empty() && older.newer.is_empty() && !older.knows("a") && older.knows("b") && older.knows("c")
        );
        let newer = plan(&[5, 0, 0, 0], &[9, 1, 0, 0]);
        assert_eq!(
            newer.unknown(),
            "the apples have format 5, and this version of capOS knows 4; the pears have format 265, and this version of \
             capOS knows 1"
        );
        assert!(!newer.is_empty() && newer.older.is_empty() && newer.sentences().is_empty());
    }

    #[test]
    fn the_steps_from_a_version_are_taken_in_their_order() {
        for (found, left) in [(1, "k+++"), (3, "k+"), (4, "k")] {
            let mut map = Map(BTreeMap::from([(("t".to_string(), b"k".to_vec()), b"k".to_vec())]));
            Part { format: &FORMATS[0], found }.migrate(&mut map).unwrap();
            assert_eq!(map.get("t", b"k").unwrap().unwrap(), left.as_bytes(), "from {found}");
        }
        let why = Part { format: &FORMATS[0], found: 2 }.migrate(&mut Map(BTreeMap::new())).unwrap_err();
        assert_eq!(why, "the apples could not go from format 2: there is no k");
    }

    /// A service that begins with a version that has no step, or a part twice, would be a mistake of this file.
    #[test]
    fn parts_have_names_of_their_own() {
        let mut names: Vec<&str> = crate::ALL.iter().map(|format| format.namespace).collect();
        names.sort_unstable();
        assert_eq!(names, ["\0keys", "audit", "broker", "conversations", "files"]);
    }
}
