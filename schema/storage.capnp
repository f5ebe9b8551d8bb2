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

interface ReadOnlyFile {
  # A file that can be read.

  info @0 () -> (info :EntryInfo);
  read @1 (offset :UInt64, count :UInt32) -> (data :Data) $A.results(270336);
  # At most 256 KiB; shorter at the end of the file.
  memory @2 () -> (memory :Kernel.MemoryObject, bytes :UInt64);
  # The whole file as paged memory, read-only, shared by all who map it.
  readInto @3 (offset :UInt64, bytes :UInt64, memory :Kernel.MemoryObject, memoryOffset :UInt64) -> ();
  # Fills memory (whole blocks of 4,096 from multiples of 4,096); what lies past the end is zero.
}

interface File {
  # A file that can be written.

  info @0 () -> (info :EntryInfo);
  read @1 (offset :UInt64, count :UInt32) -> (data :Data) $A.results(270336);
  write @2 (offset :UInt64, data :Data) -> (written :UInt32);
  truncate @3 (bytes :UInt64) -> ();
}

interface Directory {
  # A tree of files with this directory as its root. Paths are relative, `/`-separated; `..` never
  # leaves the root.

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

  readText @5 (path :Text) -> (text :Text)
      $A.tool("read_file") $A.category(readOnly) $A.abortable $A.untrusted $A.redact $A.results(270336);
  # Reads a whole text file (UTF-8, at most 256 KiB) from the home directory.

  writeText @6 (path :Text, text :Text) -> ()
      $A.tool("write_file") $A.category(mutating);
  # Writes a whole text file in the home directory, replacing what was there.

  remove @7 (path :Text) -> ()
      $A.tool("delete_file") $A.category(destructive);
  # Deletes one file, or one empty folder, in the home directory.

  makeDirectory @8 (path :Text) -> ()
      $A.tool("make_directory") $A.category(mutating);
  # Makes a folder in the home directory.

  readOnly @9 () -> (directory :Directory);
  # The same tree, its changing methods refused.
}
