//! What every [`FileTree`] does, as tests: each implementation runs [`all`].
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may fail")]

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use capos_schema::authority::Label;

use crate::{
    Basis, FileTree, Info, Kind, NodeId, Opening, PathError, Removal, Tree, TreeError, WriteAt, compare, copy_file,
    find, search,
};

const ROOT: NodeId = Tree::ROOT;
/// What the trees of these tests may hold, in bytes.
pub const BUDGET: u64 = 10_000;
/// Opens a file to write and makes it.
pub const CREATE: Opening = Opening { write: true, create: true, exclusive: false, truncate: false, writable: true };
/// Opens what there is, to read.
pub const READ: Opening = Opening { write: false, create: false, exclusive: false, truncate: false, writable: true };

/// The value of a future that waits for nothing outside this process.
pub fn done<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a tree in the same process answers at once"),
    }
}

/// A label of these classes.
#[must_use]
pub fn label(classes: &[&str]) -> Label {
    Label { classes: classes.iter().map(ToString::to_string).collect() }
}

/// The same methods without waiting.
struct Now<T>(T);

impl<T: FileTree> Now<T> {
    fn put(&self, path: &str, data: &[u8]) -> Result<(), TreeError> {
        done(self.0.store(ROOT, path, data, false, &Label::default(), 0)).map(drop)
    }

    fn make(&self, path: &str) {
        done(self.0.make_directory(ROOT, path, 1)).unwrap();
    }

    fn find(&self, path: &str) -> Result<NodeId, TreeError> {
        Ok(done(self.0.status(ROOT, path))?.0)
    }

    fn open(&self, path: &str, opening: Opening) -> Result<NodeId, TreeError> {
        Ok(done(self.0.open_at(ROOT, path, opening, 5))?.0)
    }

    fn info(&self, path: &str) -> Info {
        done(self.0.status(ROOT, path)).unwrap().1
    }

    fn bytes(&self, id: NodeId) -> Result<Vec<u8>, TreeError> {
        Ok(done(self.0.read(id, 0, 1 << 20))?.0)
    }

    fn content(&self, path: &str) -> Result<Vec<u8>, TreeError> {
        self.bytes(self.find(path)?)
    }

    fn label(&self, path: &str) -> Label {
        done(self.0.read(self.find(path).unwrap(), 0, 0)).unwrap().1
    }

    fn write(&self, id: NodeId, at: WriteAt, data: &[u8]) -> Result<u64, TreeError> {
        done(self.0.write(id, at, data, &Label::default(), 3))
    }

    fn truncate(&self, id: NodeId, length: u64) -> Result<(), TreeError> {
        done(self.0.truncate(id, length, &Label::default(), 4))
    }

    fn remove(&self, path: &str, what: Removal) -> Result<(), TreeError> {
        done(self.0.remove(ROOT, path, what, 7))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), TreeError> {
        done(self.0.rename(ROOT, from, to, 8))
    }

    fn names(&self, path: &str, after: &str, most: usize) -> (Vec<String>, bool) {
        let listing = done(self.0.list_after(ROOT, path, after, most)).unwrap();
        (listing.entries.into_iter().map(|(_, info)| info.name).collect(), listing.more)
    }
}

/// Runs all tests, each on a tree of its own that `make` makes: empty, with room for [`BUDGET`] bytes.
pub fn all<T: FileTree>(make: impl Fn(u64) -> T) {
    let tree = || Now(make(BUDGET));
    files_are_kept(&tree());
    opening_does_what_the_options_say(&tree());
    labels_are_joined_and_never_lowered(&tree());
    only_the_change_that_was_shown_is_made(&tree().0);
    refusals_change_nothing(&tree());
    a_removed_node_is_gone(&tree());
    a_file_stays_for_its_holders(&tree());
    names_change_in_one_step(&tree());
    removal_tells_files_from_directories(&tree());
    lists_come_in_parts(&tree());
    what_was_removed_takes_no_space(&tree());
    copies_and_moves_replace_nothing(&tree());
    what_is_below_is_found(&tree());
    what_is_deep_below_is_found(&Now(make(100 * BUDGET)));
}

fn copies_and_moves_replace_nothing<T: FileTree>(tree: &Now<T>) {
    let copy = |from: &str, to: &str| done(copy_file(&tree.0, (ROOT, from, to), &label(&["pii.mail"]), 7));
    let go = |from: &str, to: &str| done(tree.0.rename_new(ROOT, from, to, 8));
    tree.make("notes");
    done(tree.0.store(ROOT, "a", b"content", false, &label(&["pii.log"]), 0)).unwrap();
    tree.put("taken", b"mine").unwrap();
    tree.put("large", &[b'x'; 6000]).unwrap();
    assert_eq!(copy("a", "notes/b"), Ok(7));
    assert_eq!(
        (tree.content("notes/b").unwrap(), tree.label("notes/b")),
        (b"content".to_vec(), label(&["pii.log", "pii.mail"]))
    );
    assert_eq!(tree.label("a"), label(&["pii.log"]));
    let before = (tree.names(".", "", 9999), tree.names("notes", "", 9999));
    for to in ["taken", "notes", "notes/", "a", "./notes/../a"] {
        assert_eq!(copy("a", to), Err(TreeError::Exists(to.into())));
        assert_eq!(go("large", to), Err(TreeError::Exists(to.into())));
    }
    assert_eq!(copy("notes", "other"), Err(TreeError::IsDirectory("notes".into())));
    assert!(matches!(copy("none", "b"), Err(TreeError::NotFound(_))));
    assert!(matches!(copy("a", "none/b"), Err(TreeError::NotFound(_))));
    assert!(matches!(copy("large", "b"), Err(TreeError::NoSpace { .. } | TreeError::Quota { .. })));
    assert_eq!((tree.names(".", "", 9999), tree.names("notes", "", 9999)), before);
    assert_eq!(tree.content("taken").unwrap(), b"mine");
    go("notes", "old").unwrap();
    go("a", "old/a").unwrap();
    assert_eq!((tree.content("old/a").unwrap(), tree.label("old/a")), (b"content".to_vec(), label(&["pii.log"])));
    assert!(matches!(go("old", "old/in"), Err(TreeError::IntoItself(_))));
    assert!(matches!(go("none", "c"), Err(TreeError::NotFound(_))));
}

fn what_is_below_is_found<T: FileTree>(tree: &Now<T>) {
    tree.make("notes");
    tree.make("notes/old");
    tree.put("notes/Plan.txt", b"buy MILK\nand eggs").unwrap();
    done(tree.0.store(ROOT, "notes/old/plan.md", b"milk", false, &label(&["pii.log"]), 0)).unwrap();
    tree.put("b.txt", b"no").unwrap();
    let (found, _) = done(find(&tree.0, (ROOT, "."), "plan", 9999, &async || ())).unwrap();
    let names: Vec<String> = found.into_iter().map(|info| info.name).collect();
    assert_eq!(names, ["notes/Plan.txt", "notes/old/plan.md"]);
    let found = done(search(&tree.0, (ROOT, "notes"), "milk", 9999, &async || ())).unwrap();
    let lines: Vec<(&str, u32)> = found.matches.iter().map(|found| (found.path.as_str(), found.line)).collect();
    assert_eq!((lines, found.label), (vec![("notes/Plan.txt", 1), ("notes/old/plan.md", 1)], label(&["pii.log"])));
    let mut seen = Label::default();
    let changes = done(compare(&tree.0, ROOT, ("b.txt", "notes/old/plan.md"), &mut seen)).unwrap();
    assert!(changes.contains("-no") && changes.contains("+milk"), "{changes}");
    assert_eq!(seen, label(&["pii.log"]));
}

/// A folder below others can have a path that is too long for a call.
fn what_is_deep_below_is_found<T: FileTree>(tree: &Now<T>) {
    for chain in ["u", "v"] {
        let mut path = String::from(chain);
        tree.make(&path);
        for _ in 0..39 {
            path.push_str("/d");
            tree.make(&path);
        }
        tree.put(&alloc::format!("{path}/deep"), b"needle").unwrap();
    }
    let bottom = alloc::format!("u{}", "/d".repeat(39));
    tree.rename("v", &alloc::format!("{bottom}/v")).unwrap();
    let found = done(search(&tree.0, (ROOT, "."), "needle", 9999, &async || ())).unwrap();
    assert_eq!(found.matches.len(), 2);
}

fn files_are_kept<T: FileTree>(tree: &Now<T>) {
    tree.make("notes");
    tree.put("notes/a.txt", b"hello").unwrap();
    let id = tree.find("notes/../notes/a.txt").unwrap();
    assert_eq!(done(tree.0.read(id, 1, 100)).unwrap().0, b"ello");
    assert_eq!(done(tree.0.read(id, 1, 2)).unwrap().0, b"el");
    assert_eq!(done(tree.0.read(id, 9, 2)).unwrap().0, b"");
    assert_eq!(tree.write(id, WriteAt::Offset(8), b"!"), Ok(8));
    assert_eq!(tree.bytes(id).unwrap(), b"hello\0\0\0!");
    assert_eq!(tree.write(id, WriteAt::End, b"?"), Ok(9));
    assert_eq!(tree.info("notes/a.txt").modified, 3);
    tree.truncate(id, 2).unwrap();
    tree.truncate(id, 4).unwrap();
    assert_eq!(tree.bytes(id).unwrap(), b"he\0\0");
    let info = done(tree.0.info(id)).unwrap();
    assert_eq!(info, Info { name: "a.txt".into(), kind: Kind::File, bytes: 4, modified: 4 });
    done(tree.0.set_modified(id, -9)).unwrap();
    assert_eq!(tree.info("notes/a.txt").modified, -9);
    assert_eq!(tree.info("notes").kind, Kind::Directory);
    assert_eq!((tree.info(".").kind, tree.info("/").name), (Kind::Directory, String::new()));
    done(tree.0.set_modified(tree.find("notes").unwrap(), 77)).unwrap();
    done(tree.0.set_modified(ROOT, 78)).unwrap();
    assert_eq!((tree.info("notes").modified, tree.info(".").modified), (77, 78));
    assert_eq!(tree.names(".", "", 1000), (vec!["notes".into()], false));
    // Below a directory that is not the root.
    let notes = tree.find("notes").unwrap();
    assert_eq!(done(tree.0.status(notes, "a.txt")).unwrap().0, id);
    assert_eq!(done(tree.0.status(notes, "../notes")), Err(TreeError::Path(PathError::Escapes)));
    done(tree.0.sync(tree.0.losses())).unwrap();
}

fn opening_does_what_the_options_say<T: FileTree>(tree: &Now<T>) {
    let id = tree.open("f", CREATE).unwrap();
    assert_eq!(tree.open("f", CREATE), Ok(id));
    tree.write(id, WriteAt::End, b"text").unwrap();
    assert_eq!(tree.open("f", Opening { exclusive: true, ..CREATE }), Err(TreeError::Exists("f".into())));
    assert_eq!(tree.open("f", READ), Ok(id));
    let may_not = Opening { writable: false, ..CREATE };
    for (path, opening) in [("f", may_not), ("g", may_not), ("g", Opening { write: false, ..may_not })] {
        assert!(matches!(tree.open(path, opening), Err(TreeError::ReadOnly(_))), "{path}");
    }
    assert_eq!(tree.open("f", Opening { write: false, ..may_not }), Ok(id));
    assert_eq!(tree.open("g", READ), Err(TreeError::NotFound("g".into())));
    assert_eq!(tree.bytes(id).unwrap(), b"text");
    assert_eq!(tree.open("f", Opening { truncate: true, ..CREATE }), Ok(id));
    assert_eq!(tree.bytes(id).unwrap(), b"");
    tree.make("d");
    assert_eq!(tree.open("d", CREATE), Err(TreeError::IsDirectory("d".into())));
    assert_eq!(tree.open("d", READ), tree.find("d"));
    assert_eq!(tree.open("f/g", CREATE), Err(TreeError::NotDirectory("f".into())));
    assert_eq!(tree.open("none/g", CREATE), Err(TreeError::NotFound("none".into())));
    assert!(tree.open("new", Opening { exclusive: true, ..CREATE }).is_ok());
}

fn labels_are_joined_and_never_lowered<T: FileTree>(tree: &Now<T>) {
    let (log, all) = (label(&["pii.log"]), label(&["pii.log", "secret.key"]));
    let store = |path: &str, data: &[u8], append, label: &Label| {
        done(tree.0.store(ROOT, path, data, append, label, 0)).unwrap();
    };
    store("a", b"one", false, &log);
    tree.put("a", b"two").unwrap();
    assert_eq!(tree.label("a"), log);
    store("a", b" three", true, &label(&["secret.key", "public"]));
    assert_eq!(tree.label("a"), all);
    assert_eq!(tree.content("a").unwrap(), b"two three");
    // It goes with the file, and not with its name.
    store("b", b"", true, &Label::default());
    assert_eq!(tree.label("b"), Label::default());
    tree.rename("a", "b").unwrap();
    assert_eq!(tree.label("b"), all);
    tree.remove("b", Removal::Any).unwrap();
    tree.put("b", b"new").unwrap();
    assert_eq!(tree.label("b"), Label::default());
    let id = tree.find("b").unwrap();
    done(tree.0.write(id, WriteAt::End, b"x", &log, 0)).unwrap();
    assert_eq!(tree.label("b"), log);
    done(tree.0.truncate(id, 1, &label(&["secret.key"]), 0)).unwrap();
    assert_eq!(tree.label("b"), all);
}

/// Requirement C38: a write that was shown changes what was shown, or nothing.
pub(crate) fn only_the_change_that_was_shown_is_made<T: FileTree>(tree: &T) {
    // SHA-256 of "one", and of nothing.
    let one = Basis::Hash("7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed");
    let nothing = Basis::Hash("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    let (none, changed) = (Basis::Hash(""), Err(TreeError::Changed("a".into())));
    let store = |basis, data: &[u8], append| {
        done(tree.store_on(basis, (ROOT, "a"), data, append, &Label::default(), 0)).map(drop)
    };
    for basis in [one, nothing] {
        assert_eq!(store(basis, b"never", false), changed, "there is no file");
    }
    assert_eq!(done(tree.status(ROOT, "a")), Err(TreeError::NotFound("a".into())));
    assert_eq!(store(none, b"one", false), Ok(()));
    for basis in [none, nothing] {
        assert_eq!(store(basis, b"never", true), changed);
    }
    assert_eq!(store(one, b" two", true), Ok(()));
    assert_eq!(store(one, b"never", false), changed, "another one wrote meanwhile");
    let (id, _) = done(tree.status(ROOT, "a")).unwrap();
    assert_eq!(done(tree.read(id, 0, 100)).unwrap().0, b"one two");
    assert_eq!(store(Basis::Any, b"", false), Ok(()));
    assert_eq!(store(nothing, b"new", false), Ok(()));
    done(tree.make_directory(ROOT, "d", 0)).unwrap();
    let label = Label::default();
    let into = done(tree.store_on(one, (ROOT, "d"), b"never", false, &label, 0));
    assert_eq!(into, Err(TreeError::IsDirectory("d".into())));
}

fn refusals_change_nothing<T: FileTree>(tree: &Now<T>) {
    let big = vec![0x55; 20_000];
    tree.put("a", b"x").unwrap();
    let id = tree.find("a").unwrap();
    assert_eq!(tree.find("a/b"), Err(TreeError::NotDirectory("a".into())));
    assert_eq!(done(tree.0.make_directory(ROOT, "a", 0)), Err(TreeError::Exists("a".into())));
    assert_eq!(done(tree.0.make_directory(ROOT, ".", 0)), Err(TreeError::Path(PathError::NoName)));
    assert_eq!(done(tree.0.make_directory(ROOT, "x/y", 0)), Err(TreeError::NotFound("x".into())));
    assert_eq!(tree.put(".", b""), Err(TreeError::IsDirectory(String::new())));
    assert!(matches!(tree.put("big", &big), Err(TreeError::NoSpace { .. })));
    assert_eq!(tree.find("big"), Err(TreeError::NotFound("big".into())));
    assert!(matches!(tree.put("a", &big), Err(TreeError::NoSpace { .. })));
    assert!(matches!(tree.write(id, WriteAt::End, &big), Err(TreeError::NoSpace { .. })));
    assert_eq!(tree.write(id, WriteAt::Offset(u64::MAX), b"x"), Err(TreeError::TooLarge));
    assert_eq!(
        done(tree.0.write(ROOT, WriteAt::End, b"x", &Label::default(), 0)).unwrap_err(),
        TreeError::IsDirectory(String::new())
    );
    assert_eq!(done(tree.0.read(ROOT, 0, 1)).unwrap_err(), TreeError::IsDirectory(String::new()));
    assert!(matches!(done(tree.0.list_after(ROOT, "a", "", 99)), Err(TreeError::NotDirectory(_))));
    assert_eq!(tree.bytes(id).unwrap(), b"x");
    assert_eq!(tree.names(".", "", 1000), (vec!["a".into()], false));
}

fn a_removed_node_is_gone<T: FileTree>(tree: &Now<T>) {
    tree.make("d");
    tree.put("d/f", b"12345").unwrap();
    let (id, directory) = (tree.find("d/f").unwrap(), tree.find("d").unwrap());
    assert_eq!(tree.remove("d", Removal::Any), Err(TreeError::NotEmpty("d".into())));
    tree.remove("d/f", Removal::Any).unwrap();
    assert_eq!(tree.info("d").modified, 7);
    assert_eq!(tree.bytes(id), Err(TreeError::Gone));
    tree.put("d/f", b"new").unwrap();
    assert_eq!(tree.bytes(id), Err(TreeError::Gone));
    assert_eq!(done(tree.0.set_modified(id, 0)), Err(TreeError::Gone));
    tree.remove("d/f", Removal::Any).unwrap();
    tree.remove("d", Removal::Any).unwrap();
    for path in ["f", "x/y"] {
        assert_eq!(done(tree.0.status(directory, path)).unwrap_err(), TreeError::Gone);
        assert_eq!(done(tree.0.make_directory(directory, path, 0)).unwrap_err(), TreeError::Gone);
    }
    assert_eq!(done(tree.0.status(directory, ".")).unwrap_err(), TreeError::Gone);
    assert_eq!(done(tree.0.list_after(directory, "", "", 99)).unwrap_err(), TreeError::Gone);
}

fn a_file_stays_for_its_holders<T: FileTree>(tree: &Now<T>) {
    tree.put("f", b"kept").unwrap();
    let id = tree.open("f", READ).unwrap();
    done(tree.0.hold(id)).unwrap();
    tree.remove("f", Removal::File).unwrap();
    assert_eq!(tree.find("f"), Err(TreeError::NotFound("f".into())));
    tree.put("f", b"another").unwrap();
    tree.0.close(id);
    assert_eq!(tree.bytes(id).unwrap(), b"kept");
    tree.write(id, WriteAt::Offset(4), b"!").unwrap();
    done(tree.0.set_modified(id, 99)).unwrap();
    let info = done(tree.0.info(id)).unwrap();
    assert_eq!((info.kind, info.bytes, info.modified), (Kind::File, 5, 99));
    assert_eq!(tree.bytes(id).unwrap(), b"kept!");
    tree.truncate(id, 1).unwrap();
    tree.0.close(id);
    // Its space is free with the next change at the latest.
    tree.remove("f", Removal::File).unwrap();
    assert_eq!(tree.bytes(id), Err(TreeError::Gone));
    assert_eq!(done(tree.0.hold(id)), Err(TreeError::Gone));
    assert_eq!(done(tree.0.hold(ROOT)), Err(TreeError::IsDirectory(String::new())));
    // One that keeps its name outlives its holders.
    let id = tree.open("g", CREATE).unwrap();
    tree.0.close(id);
    tree.put("h", b"").unwrap();
    assert_eq!(tree.find("g"), Ok(id));
}

fn names_change_in_one_step<T: FileTree>(tree: &Now<T>) {
    tree.make("d");
    tree.make("d/e");
    tree.put("a", b"1").unwrap();
    tree.put("b", b"22").unwrap();
    let replaced = tree.open("b", READ).unwrap();
    tree.rename("a", "b").unwrap();
    assert_eq!(tree.content("b").unwrap(), b"1");
    assert_eq!(tree.bytes(replaced).unwrap(), b"22");
    tree.0.close(replaced);
    let open = tree.open("b", READ).unwrap();
    tree.rename("b", "d/longer").unwrap();
    assert_eq!(tree.bytes(replaced), Err(TreeError::Gone));
    assert_eq!(done(tree.0.info(open)).unwrap().name, "longer");
    assert_eq!(tree.bytes(open).unwrap(), b"1");
    assert_eq!((tree.info(".").bytes, tree.info("d").bytes, tree.info("d").modified), (1, 2, 8));
    assert_eq!(tree.rename("d", "d/e/d"), Err(TreeError::IntoItself("d".into())));
    assert_eq!(tree.rename("d", "d/d"), Err(TreeError::IntoItself("d".into())));
    assert_eq!(tree.rename("d/longer", "d/e"), Err(TreeError::IsDirectory("e".into())));
    assert_eq!(tree.rename("d/e", "d/longer"), Err(TreeError::NotDirectory("longer".into())));
    assert_eq!(tree.rename("d/e", "d"), Err(TreeError::NotEmpty("d".into())));
    assert_eq!(tree.rename("none", "x"), Err(TreeError::NotFound("none".into())));
    assert_eq!(tree.rename("d", "none/x"), Err(TreeError::NotFound("none".into())));
    assert_eq!(tree.rename("d", "d/longer/x"), Err(TreeError::IntoItself("d".into())));
    assert_eq!(tree.rename(".", "x"), Err(TreeError::Path(PathError::NoName)));
    tree.rename("d", "d").unwrap();
    tree.rename("d/e", "e").unwrap();
    tree.make("f");
    tree.rename("e", "f").unwrap();
    assert_eq!(tree.names(".", "", 1000), (vec!["d".into(), "f".into()], false));
    // What lies in a directory goes with it.
    tree.rename("d", "f/moved").unwrap();
    assert_eq!(tree.content("f/moved/longer").unwrap(), b"1");
    assert_eq!((tree.info(".").bytes, tree.info("f").bytes), (1, 1));
}

fn removal_tells_files_from_directories<T: FileTree>(tree: &Now<T>) {
    tree.make("d");
    tree.put("f", b"").unwrap();
    assert_eq!(tree.remove("d", Removal::File), Err(TreeError::IsDirectory("d".into())));
    assert_eq!(tree.remove("f", Removal::Directory), Err(TreeError::NotDirectory("f".into())));
    assert_eq!(tree.remove("g", Removal::Any), Err(TreeError::NotFound("g".into())));
    assert_eq!(tree.remove("f/g", Removal::Any), Err(TreeError::NotDirectory("f".into())));
    assert!(matches!(tree.remove(".", Removal::Any), Err(TreeError::Path(PathError::NoName))));
    tree.remove("f", Removal::File).unwrap();
    tree.remove("d", Removal::Directory).unwrap();
    assert_eq!(tree.names(".", "", 1000), (vec![], false));
    assert_eq!(tree.info(".").bytes, 0);
}

fn lists_come_in_parts<T: FileTree>(tree: &Now<T>) {
    tree.make("d");
    for name in ["d/b", "d/a", "d/é", "d/a b", "d/a0"] {
        tree.put(name, b"").unwrap();
    }
    let all: Vec<String> = ["a", "a b", "a0", "b", "é"].map(String::from).into();
    assert_eq!(tree.names("d", "", 10_000), (all.clone(), false));
    assert_eq!(tree.names("d", "a", 10_000), (all[1..].to_vec(), false));
    assert_eq!(tree.names("d", "a1", 10_000), (all[3..].to_vec(), false));
    assert_eq!(tree.names("d", "é", 10_000), (vec![], false));
    assert_eq!(tree.names("d", "", 2 * 80 + 4), (all[..2].to_vec(), true));
    assert_eq!(tree.names("d", "a b", 2 * 80 + 3), (all[2..4].to_vec(), true));
    assert_eq!(tree.names("d", "a0", 2 * 80 + 3), (all[3..].to_vec(), false));
    assert_eq!(tree.names("d/..", "", 1000), (vec!["d".into()], false));
}

fn what_was_removed_takes_no_space<T: FileTree>(tree: &Now<T>) {
    for round in 0..20 {
        tree.make("d");
        tree.put("d/f", &[1; 3000]).unwrap();
        tree.put("d/f", &[2; 3000]).unwrap();
        let id = tree.open("d/f", CREATE).unwrap();
        tree.truncate(id, 100).unwrap();
        tree.put("d/g", &[3; 3000]).unwrap_or_else(|error| panic!("round {round}: {error}"));
        tree.rename("d/g", "d/f").unwrap();
        tree.0.close(id);
        tree.remove("d/f", Removal::File).unwrap();
        tree.remove("d", Removal::Directory).unwrap();
    }
}
