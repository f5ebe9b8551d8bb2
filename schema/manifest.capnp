@0xd3f1a0c5b2e94709;
# The system manifest as it lies in the boot package: the checked form of iso_root/etc/manifest.toml.

using Authority = import "authority.capnp";
using Kernel = import "kernel.capnp";
using Models = import "models.capnp";

struct Manifest {
  services @0 :List(Service);   # In the order in which they are started: each after those that it calls.
  programs @1 :List(Service);   # What the launcher may start.
  medium @2 :Text;              # The service whose Directory is the boot medium's root.
  mediumOrdinal @3 :UInt16;     # Which of its provided interfaces that is.
  profiles @4 :List(SessionProfile);  # What sessions hold; empty where no service issues any.
}

struct SessionProfile {
  # What the sessions of one profile hold, and how the tools in it are permitted.
  profile @0 :Authority.Profile;
  grants @1 :List(SessionGrant);
  modes @2 :List(CategoryMode);  # One for each category.
}

struct SessionGrant {
  # A capability that each session of a profile derives from one of its issuer.
  name @0 :Text;       # In the session.
  held @1 :Text;       # In the issuer: `SERVICE.INTERFACE`.
  interface @2 :UInt64;
  rights @3 :UInt32;
  readOnly @4 :Bool;   # The read-only form of a directory.
}

struct CategoryMode {
  # The mode of a category's tools, before the configuration's rules.
  category @0 :Text;
  mode @1 :Models.PermissionMode;
}

interface SessionProfiles {
  # What the manifest says of sessions. Held by their issuer.
  list @0 () -> (profiles :List(SessionProfile));
  services @1 () -> (services :List(ServiceEnd));
  # What it means to restart or stop each service.
}

struct ServiceEnd {
  # What a service's end means for others.
  name @0 :Text;
  trusted @1 :Bool;    # No session may bring it about.
  loses @2 :Text;      # As in `Service`.
}

struct Service {
  # A process that the first process starts and supervises, or a program that it launches.
  name @0 :Text;
  description @1 :Text;
  program @2 :Text;             # `boot:NAME` in the boot package, otherwise a path on the medium.
  arguments @3 :List(Text);
  environment @4 :List(Text);   # `KEY=VALUE`.
  provides @5 :List(Provided);
  grants @6 :List(Grant);
  limits @7 :Kernel.Limits;
  maxRestarts @8 :UInt32;       # In `perSeconds`; one more and the service has failed.
  perSeconds @9 :UInt32;
  when @10 :Text;               # Path on the medium without which it is not started; empty: always.
  clients @11 :List(Text);      # Names of its clients; the number of a client is its index plus 1.
  trusted @12 :Bool;            # Keeps records or decisions about sessions: none of them restarts or stops it.
  loses @13 :Text;              # What is lost when it is restarted or stopped, in words; `nothing`; empty: not said.
}

struct Provided {
  name @0 :Text;       # Of the interface.
  interface @1 :UInt64;
}

struct Grant {
  # One capability of a process.
  name @0 :Text;
  interface @1 :UInt64;
  rights @2 :UInt32;
  source :union {
    service :group {
      service @3 :Text;      # Who provides it; `init` for the first process.
      ordinal @4 :UInt16;    # Which of its provided interfaces.
      client @5 :UInt16;     # The client's number there.
    }
    ports :group {
      first @6 :UInt16;
      count @7 :UInt32;
    }
    interrupt @8 :UInt8;     # ISA line.
    pci :group {
      vendor @9 :UInt16;
      devices @10 :List(UInt16);
      class @15 :UInt32;     # Class, subclass and programming interface, in place of both; 0 where they say it.
    }
    kernel @11 :Text;        # Name of a capability of the first process, passed on as it is.
    powerOff @12 :Void;      # The ports that turn the machine off, as ACPI tells.
  }
  from @13 :Text;        # The source as the manifest's text names it.
  readOnly @14 :Bool;    # The read-only form of a directory.
}
