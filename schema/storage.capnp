@0xd3f1a0c5b2e94702;
# Files, directories and block devices.

using A = import "annotations.capnp";
using Kernel = import "kernel.capnp";
using Label = import "authority.capnp".Label;

struct BlockRun {
  # Blocks of a disk that follow each other.
  block @0 :UInt64;
  count @1 :UInt32;
}

interface BlockDevice {
  # A disk. Held by file systems, never by sessions.

  info @0 () -> (blockBytes :UInt32, blocks :UInt64, readOnly :Bool);
  read @1 (block :UInt64, count :UInt32, memory :Kernel.MemoryObject, offset :UInt64) -> ();
  # Fills memory from `offset` on with `count` blocks; the device writes the memory itself, nothing is copied.
  write @2 (block :UInt64, count :UInt32, memory :Kernel.MemoryObject, offset :UInt64, durable :Bool = false) -> ();
  # With `durable` it answers when these blocks are on the medium. Otherwise they may be lost until a `flush`.
  flush @3 () -> ();
  # Answers when earlier requests are done, and written data is on the medium. After an error no write since the last
  # `flush` that succeeded may be on the medium.
  readRuns @4 (runs :List(BlockRun), memory :Kernel.MemoryObject, offset :UInt64) -> ();
  # Reads all runs at once. Memory has their blocks from `offset` on, run after run: at most 63 pages of it.
  writeRuns @5 (runs :List(BlockRun), memory :Kernel.MemoryObject, offset :UInt64, flush :Bool = false) -> ();
  # Writes all runs at once, in any order. With `flush` it then does what `flush` does. No block may be in two runs.
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
  # Drives that answered when the controller was started, optical ones first.
  open @1 (port :UInt32) -> (device :BlockDevice);
  # Opens a drive with its current medium. When the medium is removed or changed, calls of the opened device are
  # rejected until the drive is opened again.
}

enum DiskContent {
  # What a disk holds. Its blocks decide, never its port or its place among others.
  unreadable @0;       # No medium, an error, or blocks of a size that is not supported; `problem` tells.
  bootMedium @1;       # The volume that this system runs from.
  dataDisk @2;         # A volume of capOS for what lasts; `id` is its UUID.
  iso9660 @3;          # An ISO 9660 volume.
  fat @4;              # A FAT12, FAT16 or FAT32 volume.
  partitionTable @5;   # A GPT or MBR partition table.
  blank @6;            # Zeros in every place that was looked at.
  unknown @7;          # Something else.
}

struct DiskInfo {
  place @0 :Text;          # Where it is attached, with the drive's model if it tells one.
  content @1 :DiskContent;
  details @2 :Text;        # The content in words: a volume's name and kind.
  id @3 :Text;             # The UUID of a data disk.
  blockBytes @4 :UInt32;
  blocks @5 :UInt64;
  readOnly @6 :Bool;
  optical @7 :Bool;
  problem @8 :Text;        # The error that the disk reported when it was looked at; empty if there was none.
}

interface Disks {
  # The disks of the machine. It tells what they are, and gives no access to their blocks.

  list @0 () -> (disks :List(DiskInfo));
  # Looks at every disk and tells what it holds now.
}

interface DiskAccess {
  # Disks for the store, held by it alone.

  list @0 () -> (disks :List(DiskInfo));
  # As `Disks.list`.
  open @1 (disk :Text) -> (device :BlockDevice);
  # The disk at this place. The boot medium and optical drives are rejected.
}

enum EntryKind {
  file @0;
  directory @1;
  link @2;
}

struct EntryInfo {
  name @0 :Text;
  kind @1 :EntryKind;
  bytes @2 :UInt64 $A.unit(bytes) $A.heading("size");
  modifiedUnix @3 :Int64 $A.unit(unixSeconds) $A.zero("unknown");  # Seconds since 1970, 0 if unknown.
}

enum FileError {
  # Why a path was rejected, so that a program can act on it. A fault of the call itself, or of the server, is an
  # exception as everywhere.
  none @0;          # It was done.
  notFound @1;      # Nothing of this name, or a folder on the way to it is missing.
  exists @2;        # The name is taken.
  isDirectory @3;   # A folder instead of a file.
  notDirectory @4;  # A file instead of a folder.
  notEmpty @5;      # The folder has entries.
  readOnly @6;      # The tree, or this capability to it, is read-only.
  noSpace @7;       # The volume's budget does not cover it.
  tooLarge @8;      # Larger than a file can be.
  badPath @9;       # The path is malformed, or leads out of the directory.
  tooLong @10;      # The path, or a name in it, is too long.
  isLink @11;       # A link that must not be followed, or too many on the path.
  intoItself @12;   # A folder cannot be moved into itself.
  notLink @13;      # Something other than a link.
}

struct FileStatus {
  # The status of a file or folder.
  kind @0 :EntryKind;
  bytes @1 :UInt64;                # Length of a file.
  modifiedMilliseconds @2 :Int64;  # Since 1970, 0 if unknown.
  id @3 :UInt64;                   # The same for all names and handles of one file while the server runs; 0 if it has
                                   # none.
}

struct DirectoryEntry {
  name @0 :Text;
  status @1 :FileStatus;
}

struct OpenOptions {
  write @0 :Bool;      # Open to write: the answer is a File, otherwise a ReadOnlyFile. Folders cannot be written.
  create @1 :Bool;     # Make the file if it does not exist.
  exclusive @2 :Bool;  # With `create`: reject a name that is taken, also by a link.
  truncate @3 :Bool;   # With `write`: begin empty.
  noFollow @4 :Bool;   # Reject a link as the path's last name.
}

interface ReadOnlyFile {
  # A file that can be read.

  info @0 () -> (info :EntryInfo);
  read @1 (offset :UInt64, count :UInt32) -> (data :Data) $A.results(270336);
  # At most 256 KiB; shorter at the end of the file.
  memory @2 () -> (memory :Kernel.MemoryObject, bytes :UInt64);
  # The whole file as paged memory, read-only, shared by all who map it.
  readInto @3 (offset :UInt64, bytes :UInt64, memory :Kernel.MemoryObject, memoryOffset :UInt64) -> ();
  # Fills memory (whole blocks of 4,096 from multiples of 4,096); bytes past the end are zero.
  status @4 () -> (status :FileStatus);
  lock @5 (exclusive :Bool, wait :Bool) -> (held :Bool);
  # As for a File.
  unlock @6 () -> ();
  sync @7 () -> ();
  # As for a File.
}

interface File {
  # A file that can be written.

  info @0 () -> (info :EntryInfo);
  read @1 (offset :UInt64, count :UInt32) -> (data :Data) $A.results(270336);
  write @2 (offset :UInt64, data :Data) -> (written :UInt32);
  # `overloaded` if the volume's budget does not cover it; nothing is written then. The same holds for `truncate` and
  # `append`.
  truncate @3 (bytes :UInt64) -> ();
  status @4 () -> (status :FileStatus);
  append @5 (data :Data) -> (offset :UInt64);
  # Writes at the current end and returns its offset.
  setModified @6 (milliseconds :Int64) -> ();
  lock @7 (exclusive :Bool, wait :Bool) -> (held :Bool);
  # Locks the file against other locks: against all with `exclusive`, otherwise against exclusive ones. The lock belongs
  # to this opened file and replaces its earlier one. It ends by `unlock`, or with the last capability to the opened
  # file. The lock is advisory: it stops no read or write. `overloaded` if too many wait already.
  unlock @8 () -> ();
  sync @9 () -> ();
  # Answers when every change so far is on the medium, as far as the server has one. It fails if an earlier change to this
  # opened file was lost.
}

struct FileBasis {
  # What a file has to hold before it is changed: what it held when a person was shown the change.
  hash @0 :Text;
  # SHA-256 in hexadecimal digits. Empty: there was no file.
}

struct TextMatch {
  # A line of a file in which a text was found.
  path @0 :Text;
  line @1 :UInt32;  # Its number, from 1 on.
  text @2 :Text;    # Of a long line the part around the text.
}

interface Directory {
  # A tree of files with this directory as its root. Paths are `/`-separated and begin there, with a leading `/` or
  # without; `..` never leaves the root.

  list @0 (path :Text $A.path $A.pattern(directory)) -> (entries :List(EntryInfo), leftOut :UInt64 $A.zero(""))
      $A.tool("list_directory") $A.category(readOnly) $A.abortable $A.untrusted;
  # Lists the files and folders at a path of the home directory; the path "." is the top.

  stat @1 (path :Text $A.path $A.pattern(directory)) -> (info :EntryInfo)
      $A.tool("file_info") $A.category(readOnly) $A.abortable;
  # Tells the kind, size and time of one file or folder.

  open @2 (path :Text) -> (file :ReadOnlyFile);
  # Opens a file to read.

  create @3 (path :Text) -> (file :File);
  # Opens a file to write, and makes it if it does not exist.

  openDirectory @4 (path :Text) -> (directory :Directory);
  # A narrower tree.

  readText @5 (path :Text $A.path $A.pattern(directory), offset :UInt32 = 0, length :UInt32 = 0)
      -> (text :Text, start :UInt64 $A.runner, bytes :UInt64 $A.runner, label :Label $A.runner)
      $A.tool("read_file") $A.category(readOnly) $A.abortable $A.untrusted $A.pieces $A.results(270336);
  # Reads a whole text file (UTF-8, at most 16 KiB) from the home directory. Of a longer one it reads the part from offset on,
  # and tells where the next begins.

  writeText @6 (path :Text $A.path $A.pattern(directory), text :Text, append :Bool = false, label :Label $A.runner $A.optional,
      basis :FileBasis $A.runner $A.optional) -> ()
      $A.tool("write_file") $A.category(mutating) $A.done("{path} is written.");
  # Writes a whole text file in the home directory, replacing what was there. With append, adds the text at its end.

  remove @7 (path :Text $A.path) -> ()
      $A.tool("delete_file") $A.category(destructive) $A.done("{path} is deleted.");
  # Deletes one file, or one empty folder, in the home directory.

  makeDirectory @8 (path :Text $A.path $A.pattern(directory)) -> ()
      $A.tool("make_directory") $A.category(mutating) $A.done("The folder {path} is made.");
  # Makes a folder in the home directory.

  readOnly @9 () -> (directory :Directory);
  # The same tree; its changing methods are rejected.

  # For programs: what follows tells why a path was refused.

  openWith @10 (path :Text, options :OpenOptions)
      -> (error :FileError, status :FileStatus, file :File $A.optional, reader :ReadOnlyFile $A.optional,
          directory :Directory $A.optional);
  # Opens the object that the path names and returns one of the three. An opened file stays readable and writable by its
  # holders when its name is removed.

  status @11 (path :Text, follow :Bool = true) -> (error :FileError, status :FileStatus);
  # Without `follow`, the status of a link that is the path's last name is its own.

  entries @12 (path :Text, after :Text) -> (error :FileError, entries :List(DirectoryEntry), more :Bool)
      $A.results(270336);
  # Returns the entries of a folder whose names come after `after`, in the order of their bytes. `more` is set if there
  # are others.

  createDirectory @13 (path :Text) -> (error :FileError);
  removeFile @14 (path :Text) -> (error :FileError);
  removeDirectory @15 (path :Text) -> (error :FileError);

  rename @16 (from :Text, to :Text) -> (error :FileError);
  # Atomic. It replaces a file, or an empty folder, at `to` by one of the same kind.

  setModified @17 (path :Text, milliseconds :Int64) -> (error :FileError);
  readLink @18 (path :Text) -> (error :FileError, target :Text);

  # Files have labels, which copies keep. A write joins its label to the file's, and only a new file has a lower one.

  labelled @19 (label :Label) -> (directory :Directory);
  # The same tree for one holder, such as a program. Data written through it, or through anything opened by it, carries
  # `label` and the labels of everything that was read through it.

  label @20 () -> (label :Label);
  # The label that data written through this directory gets now; empty if `labelled` did not make it.

  sync @21 () -> ();
  # As for a File, for changes through this directory. The methods that are tools answer when their change is on the medium;
  # the methods for programs may answer before.

  # Of trees that a file server keeps. Boot media and transfer volumes reject them.

  copyFile @22 (from :Text $A.path, to :Text $A.path) -> (bytes :UInt64 $A.unit(bytes))
      $A.tool("copy_file") $A.category(mutating);
  # Copies one file of at most 256 KiB in the home directory to a new path, where nothing may be yet.

  moveFile @23 (from :Text $A.path $A.tree, to :Text $A.path $A.tree) -> ()
      $A.tool("move_file") $A.category(mutating) $A.done("{from} is now {to}.");
  # Moves or renames a file or folder in the home directory to a new path, where nothing may be yet.

  findFiles @24 (name :Text, path :Text $A.path $A.tree $A.pattern(directory))
      -> (entries :List(EntryInfo), leftOut :UInt64 $A.zero(""))
      $A.tool("find_files") $A.category(readOnly) $A.abortable $A.untrusted;
  # Finds files and folders by a part of their name in a folder of the home directory and all folders below it; the path "." is
  # the top. A * in the name stands for any characters, and the name is the whole one then.

  searchText @25 (text :Text, path :Text $A.path $A.tree $A.pattern(directory))
      -> (matches :List(TextMatch), leftOut :UInt64 $A.zero(""), notSearched :UInt64 $A.zero(""), label :Label $A.runner)
      $A.tool("search_files") $A.category(readOnly) $A.abortable $A.untrusted;
  # Finds the lines with a text in a file of the home directory, or in all files of a folder and those below it; the path "." is
  # the top. A text without capitals matches both cases. Files that are no text or have more than 256 KiB are not searched.

  compareFiles @26 (first :Text $A.path, second :Text $A.path)
      -> (changes :Text, label :Label $A.runner)
      $A.tool("compare_files") $A.category(readOnly) $A.abortable $A.untrusted $A.onRequest;
  # Tells how the second of two text files of the home directory differs from the first: its lines with +, those of the first
  # with -. Both have at most 64 KiB and 1,000 lines.
}

struct HomeUsage {
  usedBytes @0 :UInt64;   # 0 for somebody who has no home yet.
  quotaBytes @1 :UInt64;  # 0 if there is no quota.
}

interface Homes {
  # The home directories of all principals, each a tree of its own. Held by the broker.

  of @0 (principal :Text, quota :Text) -> (home :Directory);
  # The home of one principal; a new one begins with the first files of the image. The capability outlives the server. `quota`
  # is what the home may take from now on: as `200MiB`, `50%` of what all homes may take, or `none`.
  remove @1 (principal :Text) -> ();
  # Deletes the home of somebody whom nobody is any more, if there is one, with all of its files.
  limit @2 (principal :Text, quota :Text) -> ();
  # Changes what a home may take. If it takes more already, nothing can be added to it until files are removed.
  usage @3 (principal :Text, quota :Text) -> (usage :HomeUsage);
  # What a home takes, and what it may take by this quota.
  rename @4 (principal :Text, to :Text) -> ();
  # Gives a principal's home to another one who has none. There may be no such home.
  written @5 (principal :Text) -> (bytes :UInt64);
  # How many bytes were written to a principal's home since this service began, as the store counts them.
}
