@0xd3f1a0c5b2e9470b;
# What lasts: the data volume, and the namespaces of the store on it.

using A = import "annotations.capnp";
using Storage = import "storage.capnp";

enum StoreFault {
  # Why the store did not do something, so that a holder can act on it. A fault of the call itself is an exception. If the
  # store ends meanwhile, the call is rejected as disconnected, and whether a commit was done is unknown: a commit can be
  # repeated, since it says what values are to be and not how they change.
  none @0;      # It was done.
  locked @1;    # The volume is not open yet; it opens when somebody logs in.
  full @2;      # The disk has no room for it.
  quota @3;     # The namespace's quota does not cover it.
  readOnly @4;  # The volume is open for reading alone.
  damaged @5;   # A block is not what was written there last.
  medium @6;    # The disk failed or is gone.
  changed @7;   # Somebody else has changed the namespace since the version that the commit is based on.
  lost @8;      # The disk failed, and commits of this holder that were not durable were taken back. It is told once, at the
                # holder's next commit or sync, which is not done; what was durable is there.
}

struct KeyValue {
  key @0 :Data;    # 1 to 1,024 bytes.
  value @1 :Data;  # At most 262,144 bytes.
}

enum ChangeKind {
  put @0;          # The key gets the value.
  remove @1;       # The key goes, if it was there.
  removeRange @2;  # All keys from `key` up to, and without, the one that `value` gives go; up to the table's end if it is empty.
  count @3;
  # The key's value is a number of 8 bytes, little-endian, 0 if there is none. It changes by what the changes before this one
  # in the batch add to, or free of, what the namespace takes. `value` is empty, or the most that the number may become by
  # growing, in 8 bytes: if it would be more, the fault is `quota` and nothing is done.
}

struct Change {
  table @0 :Text;  # 1 to 64 bytes.
  kind @1 :ChangeKind;
  key @2 :Data;
  value @3 :Data;
}

struct NamespaceInfo {
  limit @0 :UInt64;     # Bytes that it may take: keys, values, and 32 for each entry.
  used @1 :UInt64;
  version @2 :UInt64;   # Grows with each commit.
  lasting @3 :Bool;     # It is on a data disk. Otherwise it is in memory and ends with the machine.
  readOnly @4 :Bool;
  asides @5 :UInt32;    # How often it was set aside.
}

interface Namespace {
  # One holder's part of the store: tables of keys and values, in the order of the keys' bytes. Nobody can name another's.

  info @0 () -> (fault :StoreFault, why :Text, info :NamespaceInfo);
  get @1 (table :Text, key :Data) -> (fault :StoreFault, why :Text, found :Bool, value :Data) $A.results(270336);
  range @2 (table :Text, from :Data, to :Data, reverse :Bool, most :UInt32, keysOnly :Bool)
      -> (fault :StoreFault, why :Text, entries :List(KeyValue), more :Bool) $A.results(540672);
  # At most `most` entries from the key `from` up to, and without, `to`; up to the table's end if that is empty. With
  # `reverse` the last ones come first. Fewer come if they would not fit; `more` says whether any are left.
  commit @3 (changes :List(Change), durable :Bool, based :UInt64)
      -> (fault :StoreFault, why :Text, version :UInt64);
  # Does all of them, in their order, or none. With `durable` it answers when they are on the medium; otherwise they are with
  # the next durable commit or `sync` of any holder. `based` is the version that the changes are based on, or 0.
  sync @4 () -> (fault :StoreFault, why :Text);
  # Makes earlier commits durable.
  opened @5 () -> (lasting :Bool) $A.abortable;
  # Waits until the volume is open, or it is known that there is none.
  watch @6 () -> () $A.abortable;
  # Never answers. The caller learns when this process of the store has ended, and with it what is not on a disk.

  protect @7 (part :Text, owner :Text, tables :List(Text), named :List(Text))
      -> (fault :StoreFault, why :Text, sealed :Bool);
  # Keeps tables under the key of this user's home from now on: those whose names are `part` and one of `tables` or `named`.
  # What they hold is sealed in the same commit. Values are sealed, and in `named` also what follows the first 8 bytes of a
  # key. Such keys are in the order of their sealed forms. A range of them ends at 8 bytes. It begins at 8 bytes, at a key, or
  # behind a key, which is that key with a zero byte. Before the user has logged in, calls of these tables answer `locked`; whole tables can
  # be removed all the same. The same call again changes nothing. `sealed` is false if the owner has no such key, and nothing
  # else happens then: `why` tells the reason, where there is one.

  setAside @8 () -> (fault :StoreFault, why :Text, number :UInt32);
  # Begins the namespace anew, empty, and keeps what it held: for a holder whose tables a damaged block has made unusable. What is
  # written from then on needs no block of before. The table `name` of the part that was set aside is read as `aside/NUMBER/name`.
}

enum VolumeState {
  searching @0;     # The disks are still being looked at.
  none @1;          # No disk can hold a volume; everything is in memory.
  blank @2;         # A blank disk can be set up.
  foreign @3;       # The only disk holds something else.
  locked @4;        # There is a volume; it needs a key.
  open @5;
  otherVersion @6;  # The volume, or a part of the store in it, has a format that this version of capOS does not know.
  damaged @7;       # No header of the volume is whole.
  several @8;       # There are several volumes.
  older @9;         # The volume is unlocked, and parts of the store have older formats: `confirm` migrates them.
  declined @10;     # A blank disk was not set up, and everything is in memory. `create` still sets it up.
}

enum KeyKind {
  passphrase @0;
  recoveryCode @1;
  keyFile @2;
}

struct KeyInfo {
  slot @0 :UInt32;
  kind @1 :KeyKind;
  name @2 :Text;  # Whose it is.
}

struct VolumeInfo {
  state @0 :VolumeState;
  disk @1 :Text;              # Where it is attached.
  details @2 :Text;           # State and way out, as a sentence.
  id @3 :Text;                # UUID.
  bytes @4 :UInt64;           # Of the disk.
  keys @5 :List(KeyInfo);
  failedAttempts @6 :UInt32;  # Wrong keys since the last right one, earlier boots included.
  head @7 :Text;              # Of an open volume: how many syncs there have been, and a digest of its state.
  readOnly @8 :Bool;
  plan @9 :List(Text);        # What `confirm` does, a sentence each. Without them there is nothing to confirm.
  lost @10 :Text;             # What damaged blocks have cost of what was saved last, as a sentence; empty if nothing.
}

struct BackupState {
  # How far a backup or a restore is, or how much it has written and read.
  time @0 :UInt64;     # When it was begun, in milliseconds since 1970: its name in the folder.
  bytes @1 :UInt64;    # Of the records so far.
  total @2 :UInt64;    # Of all records, about. 0 if that is not known.
  chunks @3 :UInt64;
  kept @4 :UInt64;     # Chunks that were in the folder already.
  records @5 :UInt64;  # At the end.
  sha256 @6 :Text;     # At the end: of all records. Two stores with the same one are equal.
}

struct RestoreRequest {
  folder @0 :Text;      # The name that errors call the folder by.
  time @1 :UInt64;      # Which backup.
  name @2 :Text;        # The user of the new volume.
  secret @3 :Text;      # Opens the backup.
  kind @4 :KeyKind;
  passphrase @5 :Text;  # The first key of the new volume.
}

interface Vault {
  # The data volume and its keys. Held by the broker. Keys never leave the store's process.

  status @0 () -> (info :VolumeInfo);
  create @1 (disk :Text, name :Text, secret :Text, kind :KeyKind) -> (recoveryCode :Text);
  # Makes a volume on the disk at this place, with one key of this name, a passphrase or a key file; it is open then. A
  # disk that is not blank is rejected. If it was declined before, what is in memory is copied to it.
  open @2 (name :Text, secret :Text, kind :KeyKind) -> (opened :Bool, why :Text);
  # Tries a secret, on the keys of this name or on all if it is empty. `why` tells what was wrong.
  verify @3 (name :Text, secret :Text) -> (valid :Bool, why :Text);
  # Tries a passphrase of this name while the volume is open.
  add @4 (name :Text, passphrase :Text) -> ();
  # One more key.
  replace @5 (name :Text, passphrase :Text) -> ();
  # The passphrase of this name becomes another.
  remove @6 (name :Text) -> ();
  # All keys of this name go. The last passphrase cannot be removed.
  renewRecoveryCode @7 () -> (recoveryCode :Text);
  decline @8 () -> ();
  # A locked disk stays locked until the next start, and a blank one blank until `create`: everything is in memory until then.

  backUp @9 (folder :Storage.Directory, time :UInt64) -> (state :BackupState) $A.abortable;
  # Writes a backup of the open volume into a folder, encrypted. Chunks that are there are kept, so one that was aborted
  # continues with the next.

  restore @10 (disk :Text, folder :Storage.Directory, request :RestoreRequest)
      -> (recoveryCode :Text, why :Text, state :BackupState);
  # Makes a volume on a blank disk, with what a backup holds; it is open then. `why` tells why the secret is not one of the
  # backup. If anything else fails, the disk is blank again.

  progress @11 () -> (state :BackupState);
  # How far the backup or the restore is.

  confirm @12 (state :VolumeState) -> ();
  # Does what `plan` says, once, and the volume is open then. `older`: migrates all parts of the store in one transaction.
  # `otherVersion`: opens it for reading alone. Rejected if this is not the state.

  lock @13 (name :Text) -> ();
  # Forgets the key of this user's home until a secret of the user is given again.
}
