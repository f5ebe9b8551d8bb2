//! Files and databases in them.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};

#[test]
fn memmap2() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, b"mapped content").unwrap();
    let file = fs::File::open(&path).unwrap();
    // A private mapping of a writable file is a copy.
    #[expect(unsafe_code, reason = "mapping is unsafe by its nature")]
    // SAFETY: no other process writes the file.
    let map = unsafe { memmap2::MmapOptions::new().map_copy(&file) }.unwrap();
    assert_eq!(&map[..6], b"mapped");
    let mut anonymous = memmap2::MmapMut::map_anon(1 << 20).unwrap();
    anonymous[1 << 19] = 1;
    assert_eq!(anonymous.iter().map(|byte| u32::from(*byte)).sum::<u32>(), 1);
}

#[test]
fn redb() {
    use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
    const PLANTS: TableDefinition<&str, u64> = TableDefinition::new("plants");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plants.redb");
    {
        let database = Database::create(&path).unwrap();
        let change = database.begin_write().unwrap();
        for (name, days) in [("fern", 3), ("rose", 2)] {
            change.open_table(PLANTS).unwrap().insert(name, days).unwrap();
        }
        change.commit().unwrap();
        let undone = database.begin_write().unwrap();
        undone.open_table(PLANTS).unwrap().remove("fern").unwrap();
        undone.abort().unwrap();
    }
    let database = Database::open(&path).unwrap();
    let plants = database.begin_read().unwrap().open_table(PLANTS).unwrap();
    assert_eq!(plants.get("fern").unwrap().unwrap().value(), 3);
    let names: Vec<String> = plants.iter().unwrap().map(|entry| entry.unwrap().0.value().to_owned()).collect();
    assert_eq!(names, ["fern", "rose"]);
}

#[test]
fn tempfile() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"for a while").unwrap();
    file.seek(SeekFrom::Start(4)).unwrap();
    let mut rest = String::new();
    file.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "a while");
    let path = file.path().to_owned();
    drop(file);
    assert!(!path.exists());
}

#[test]
fn walkdir() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("a/b")).unwrap();
    fs::write(folder.path().join("a/b/c.txt"), "c").unwrap();
    let found = walkdir::WalkDir::new(folder.path()).sort_by_file_name().into_iter();
    let names: Vec<String> = found.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(names[1..], ["a", "b", "c.txt"]);
}
