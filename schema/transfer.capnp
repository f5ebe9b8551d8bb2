@0xe6b1d8f2a4c97350;
# Transfer volumes: disks that carry files between this machine and others.

using A = import "annotations.capnp";
using Label = import "authority.capnp".Label;
using Storage = import "storage.capnp";

interface TransferDisks {
  # Disks with a FAT or ISO 9660 volume, for the service that reads and writes such volumes. It gives no other disk.

  list @0 () -> (disks :List(Storage.DiskInfo));
  # Looks at every disk, optical drives included, and tells which hold such a volume now.

  open @1 (disk :Text) -> (device :Storage.BlockDevice);
  # The disk at this place. It is rejected if it holds anything else now, or is the boot medium.
}

struct TransferVolume {
  name @0 :Text;      # Names the volume in requests: its label with letters, digits, `-` and `_` only.
  place @1 :Text;     # Where its disk is attached.
  content @2 :Storage.DiskContent;
  writable @3 :Bool;  # Nothing forbids to write it. The first write checks the whole volume.
  problem @4 :Text;   # Why it cannot be read; empty if it can.
}

struct CopiedFile {
  bytes @0 :UInt64;    # Of the file.
  resumed @1 :UInt64;  # Bytes that an earlier attempt had copied.
  sha256 @2 :Text;
}

interface TransferVolumes {
  # The FAT and ISO 9660 volumes on the disks of this machine. Disks with other content are never opened.

  volumes @0 () -> (volumes :List(TransferVolume)) $A.abortable;
  # Lists the volumes that are attached now.

  list @1 (volume :Text, path :Text) -> (entries :List(Storage.EntryInfo), leftOut :UInt32) $A.abortable;
  # Lists a folder of a volume; the path "." is its top. Entries with names that break the rules are left out and counted.

  importFile @2 (volume :Text, path :Text, home :Storage.Directory $A.runner, to :Text $A.path) -> (copied :CopiedFile)
      $A.tool("import_file") $A.category(mutating) $A.person $A.abortable;
  # Copies a file from a volume to a new file of the home directory; the same name if `to` is empty. A copy that was cut
  # continues where it stopped.

  exportFile @3 (home :Storage.Directory $A.runner, path :Text $A.path, volume :Text, to :Text, label :Label $A.runner)
      -> (copied :CopiedFile) $A.tool("export_file") $A.category(outbound) $A.person $A.abortable;
  # Copies a file of the home directory to a new file on a volume. It is rejected if the label of the file, or `label`, may
  # not leave this machine.

  open @4 (volume :Text) -> (directory :Storage.Directory);
  # The volume's files and folders; those of an ISO 9660 volume cannot be changed. Data with a label cannot be written.

  copying @5 () -> (done :UInt64, total :UInt64) $A.abortable;
  # How far the copies in progress are, all together, in bytes of their files; 0 if there is none.

  written @6 () -> (bytes :UInt64);
  # How many bytes were written to all volumes since this service began.
}
