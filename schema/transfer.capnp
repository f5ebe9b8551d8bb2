@0xe6b1d8f2a4c97350;
# Transfer volumes: disks that carry files between this machine and others.

using A = import "annotations.capnp";
using Label = import "authority.capnp".Label;
using Storage = import "storage.capnp";

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

  volumes @0 () -> (volumes :List(TransferVolume))
      $A.tool("list_volumes") $A.category(readOnly) $A.abortable $A.untrusted;
  # Lists the transfer volumes that are attached: FAT and ISO 9660 disks such as USB sticks.

  list @1 (volume :Text, path :Text) -> (entries :List(Storage.EntryInfo), leftOut :UInt32)
      $A.tool("list_volume_folder") $A.category(readOnly) $A.abortable $A.untrusted;
  # Lists a folder of a transfer volume; the path "." is its top. Entries with names that break the rules are left out and
  # counted.

  importFile @2 (volume :Text, path :Text, to :Text) -> (copied :CopiedFile)
      $A.tool("import_file") $A.category(mutating) $A.abortable $A.timeoutMs(600000);
  # Copies a file from a transfer volume to a new file of the home directory. A copy that was cut continues where it stopped.

  exportFile @3 (path :Text, volume :Text, to :Text, label :Label $A.runner $A.optional) -> (copied :CopiedFile)
      $A.tool("export_file") $A.category(outbound) $A.abortable $A.timeoutMs(600000);
  # Copies a file of the home directory to a new file on a transfer volume, which leaves this machine with it.

  open @4 (volume :Text) -> (directory :Storage.Directory);
  # The volume's files and folders; those of an ISO 9660 volume cannot be changed. Data with a label cannot be written.
}
