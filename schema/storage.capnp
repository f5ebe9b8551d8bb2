@0xd3f1a0c5b2e94702;
# Files, directories and block devices.

using A = import "annotations.capnp";
using Kernel = import "kernel.capnp";
using Label = import "authority.capnp".Label;

interface BlockDevice {
  # A disk. Held by file systems, never by sessions.

  info @0 () -> (blockBytes :UInt32, blocks :UInt64, readOnly :Bool);
  read @1 (block :UInt64, count :UInt32, memory :Kernel.MemoryObject, offset :UInt64) -> ();
  # Fills memory from `offset` on with `count` blocks; the device writes the memory itself, nothing is copied.
  write @2 (block :UInt64, count :UInt32, memory :Kernel.MemoryObject, offset :UInt64) -> ();
  flush @3 () -> ();
  # Answers when what was asked for before is done, and what was written is on the medium.
}

struct Drive {
  # A drive at a port of a disk controller.
  port @0 :UInt32;
  model @1 :Text;     # As the drive says.
  optical @2 :Bool;   # Its medium can be changed, and cannot be written.
}

interface DiskController {
  # A controller with several drives. Held by file systems, never by sessions.

  drives @0 () -> (drives :List(Drive));
  # Those that answered when the controller was started, optical ones first.
  open @1 (port :UInt32) -> (device :BlockDevice);
  # One of them, with the medium that is in it now. When that is taken out or changed, whoever opened it is refused until
  # the drive is opened again.
}

enum EntryKind {
  file @0;
  directory @1;
  link @2;
}

struct EntryInfo {
  name @0 :Text;
  kind @1 :EntryKind;
  bytes @2 :UInt64;
  modifiedUnix @3 :Int64;  # Seconds since 1970, 0 where unknown.
}

enum FileError {
  # Why a path was refused, told apart so that a program can act on it. What is wrong with the call itself, or with
  # the server, is an exception as everywhere.
  none @0;          # It was done.
  notFound @1;      # Nothing of this name, or a folder on the way to it is missing.
  exists @2;        # The name is taken.
  isDirectory @3;   # A folder where a file is needed.
  notDirectory @4;  # A file where a folder is needed.
  notEmpty @5;      # The folder has entries.
  readOnly @6;      # The tree, or this way into it, cannot be changed.
  noSpace @7;       # The volume's budget does not cover it.
  tooLarge @8;      # Past what a file can be.
  badPath @9;       # The path holds what no path holds, or leads out of the directory.
  tooLong @10;      # The path, or a name in it, is too long.
  isLink @11;       # A link where none is to be followed, or too many on the way.
  intoItself @12;   # A folder cannot be moved into itself.
  notLink @13;      # Something else where a link is needed.
}

struct FileStatus {
  # What a program asks of a file or folder.
  kind @0 :EntryKind;
  bytes @1 :UInt64;                # Length of a file.
  modifiedMilliseconds @2 :Int64;  # Since 1970, 0 where unknown.
  id @3 :UInt64;                   # Of all names and handles of one file while the server runs; 0 where it has none.
}

struct DirectoryEntry {
  name @0 :Text;
  status @1 :FileStatus;
}

struct OpenOptions {
  write @0 :Bool;      # To write: the answer is a File, otherwise a ReadOnlyFile. Folders cannot be written.
  create @1 :Bool;     # Make the file where it does not exist.
  exclusive @2 :Bool;  # With `create`: refuse where the name is taken, by a link too.
  truncate @3 :Bool;   # With `write`: begin empty.
  noFollow @4 :Bool;   # Refuse a link as the path's last name.
}

interface ReadOnlyFile {
  # A file that can be read.

  info @0 () -> (info :EntryInfo);
  read @1 (offset :UInt64, count :UInt32) -> (data :Data) $A.results(270336);
  # At most 256 KiB; shorter at the end of the file.
  memory @2 () -> (memory :Kernel.MemoryObject, bytes :UInt64);
  # The whole file as paged memory, read-only, shared by all who map it.
  readInto @3 (offset :UInt64, bytes :UInt64, memory :Kernel.MemoryObject, memoryOffset :UInt64) -> ();
  # Fills memory (whole blocks of 4,096 from multiples of 4,096); what lies past the end is zero.
  status @4 () -> (status :FileStatus);
  lock @5 (exclusive :Bool, wait :Bool) -> (held :Bool);
  # As of a File.
  unlock @6 () -> ();
}

interface File {
  # A file that can be written.

  info @0 () -> (info :EntryInfo);
  read @1 (offset :UInt64, count :UInt32) -> (data :Data) $A.results(270336);
  write @2 (offset :UInt64, data :Data) -> (written :UInt32);
  # `overloaded` where the volume's budget does not cover it; nothing is written then. So do `truncate` and `append`.
  truncate @3 (bytes :UInt64) -> ();
  status @4 () -> (status :FileStatus);
  append @5 (data :Data) -> (offset :UInt64);
  # Writes at the end, wherever that is by now; says where it was.
  setModified @6 (milliseconds :Int64) -> ();
  lock @7 (exclusive :Bool, wait :Bool) -> (held :Bool);
  # Keeps others who lock the same file away: all with `exclusive`, otherwise those who want it so. The lock is this
  # opened file's, in place of the one that it had; it ends by `unlock` and when nobody holds the capability any more.
  # Nobody who does not lock is kept from reading or writing. `overloaded` where too many wait already.
  unlock @8 () -> ();
}

interface Directory {
  # A tree of files with this directory as its root. Paths are `/`-separated and begin there, with a leading `/` or
  # without; `..` never leaves the root.

  list @0 (path :Text) -> (entries :List(EntryInfo))
      $A.tool("list_directory") $A.category(readOnly) $A.abortable $A.untrusted;
  # Lists the files and folders at a path of the home directory; the path "." is the top.

  stat @1 (path :Text) -> (info :EntryInfo)
      $A.tool("file_info") $A.category(readOnly) $A.abortable;
  # Tells the kind, size and time of one file or folder.

  open @2 (path :Text) -> (file :ReadOnlyFile);
  # Opens a file to read.

  create @3 (path :Text) -> (file :File);
  # Opens a file to write, made where it does not exist.

  openDirectory @4 (path :Text) -> (directory :Directory);
  # A narrower tree.

  readText @5 (path :Text, offset :UInt32 = 0, length :UInt32 = 0)
      -> (text :Text, start :UInt64 $A.runner, bytes :UInt64 $A.runner, label :Label $A.runner)
      $A.tool("read_file") $A.category(readOnly) $A.abortable $A.untrusted $A.pieces $A.results(270336);
  # Reads a whole text file (UTF-8, at most 16 KiB) from the home directory. Of a longer one it reads the part from offset on,
  # and tells where the next begins.

  writeText @6 (path :Text, text :Text, append :Bool = false, label :Label $A.runner $A.optional) -> ()
      $A.tool("write_file") $A.category(mutating);
  # Writes a whole text file in the home directory, replacing what was there. With append, adds the text at its end.

  remove @7 (path :Text) -> ()
      $A.tool("delete_file") $A.category(destructive);
  # Deletes one file, or one empty folder, in the home directory.

  makeDirectory @8 (path :Text) -> ()
      $A.tool("make_directory") $A.category(mutating);
  # Makes a folder in the home directory.

  readOnly @9 () -> (directory :Directory);
  # The same tree, its changing methods refused.

  # For programs: what follows tells why a path was refused.

  openWith @10 (path :Text, options :OpenOptions)
      -> (error :FileError, status :FileStatus, file :File $A.optional, reader :ReadOnlyFile $A.optional,
          directory :Directory $A.optional);
  # Opens whatever the path names: one of the three. A file that was opened stays readable and writable by its
  # holders when its name is removed.

  status @11 (path :Text, follow :Bool = true) -> (error :FileError, status :FileStatus);
  # Without `follow`, a link as the path's last name is what is asked about.

  entries @12 (path :Text, after :Text) -> (error :FileError, entries :List(DirectoryEntry), more :Bool)
      $A.results(270336);
  # Entries of a folder whose names come after `after`, in the order of their bytes; `more` where not all of them.

  createDirectory @13 (path :Text) -> (error :FileError);
  removeFile @14 (path :Text) -> (error :FileError);
  removeDirectory @15 (path :Text) -> (error :FileError);

  rename @16 (from :Text, to :Text) -> (error :FileError);
  # In one step; a file, or an empty folder, at `to` is replaced by one of its kind.

  setModified @17 (path :Text, milliseconds :Int64) -> (error :FileError);
  readLink @18 (path :Text) -> (error :FileError, target :Text);

  # Files have labels, which copies keep: what is written joins its label to the file's, and nothing but a new file lowers it.

  labelled @19 (label :Label) -> (directory :Directory);
  # The same tree for one holder, such as a program: whatever is written through it, and through all that is opened by it,
  # carries `label` and the labels of all that was read through it.

  label @20 () -> (label :Label);
  # What is written through this directory carries now; empty where it was not made by `labelled`.
}
