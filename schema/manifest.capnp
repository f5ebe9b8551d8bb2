@0xd3f1a0c5b2e94709;
# The system manifest in the boot package: the checked form of iso_root/etc/manifest.toml.

using Authority = import "authority.capnp";
using Kernel = import "kernel.capnp";
using Models = import "models.capnp";

struct Manifest {
  services @0 :List(Service);   # In the order of their start: each after those that it calls.
  programs @1 :List(Service);   # Programs that the launcher may start.
  medium @2 :Text;              # The service whose Directory is the boot medium's root.
  mediumOrdinal @3 :UInt16;     # Which of its provided interfaces that is.
  profiles @4 :List(SessionProfile);  # The capabilities of sessions; empty if no service issues sessions.
}

struct SessionProfile {
  # The capabilities of the sessions of one profile, and the modes of its tools.
  profile @0 :Authority.Profile;
  grants @1 :List(SessionGrant);
  modes @2 :List(CategoryMode);  # One for each category.
}

struct SessionGrant {
  # A capability of each session of a profile, derived from one of its issuer.
  name @0 :Text;       # In the session.
  held @1 :Text;       # In the issuer: `SERVICE.INTERFACE`.
  interface @2 :UInt64;
  rights @3 :UInt32;
  readOnly @4 :Bool;   # The read-only form of a directory.
  ofPrincipal @5 :Bool;  # Each principal has their own: the service provides `Homes`.
}

struct CategoryMode {
  # The mode of a category's tools, before the configuration's rules.
  category @0 :Text;
  mode @1 :Models.PermissionMode;
}

interface SessionProfiles {
  # The manifest's statements about sessions. Held by their issuer.
  list @0 () -> (profiles :List(SessionProfile));
  services @1 () -> (services :List(ServiceEnd));
  # The effect of restarting or stopping each service.
}

struct ServiceEnd {
  # The effect of a service's end on others.
  name @0 :Text;
  trusted @1 :Bool;    # No session may cause it.
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
  maxRestarts @8 :UInt32;       # Restarts permitted within `perSeconds`; after one more the service has failed.
  perSeconds @9 :UInt32;
  when @10 :Text;               # A path on the medium; the service starts only if it exists. Empty: always.
  clients @11 :List(Text);      # Names of its clients; the number of a client is its index plus 1.
  trusted @12 :Bool;            # Keeps records or decisions about sessions, so no session restarts or stops it.
  loses @13 :Text;              # What is lost when it is restarted or stopped, as text; `nothing` if nothing is; empty
                                # if not stated.
  settings @14 :List(Setting);  # Of a program: the values that it takes when it is started.
}

struct Setting {
  # A value that a program requires. It is checked before the program's process is made.
  name @0 :Text;
  kind @1 :Text;       # `text`, `number`, `flag` or `path`.
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
      service @3 :Text;      # The provider; `init` for the first process.
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
      class @15 :UInt32;     # Class, subclass and programming interface, instead of both; 0 if vendor and devices are
                             # given.
    }
    kernel @11 :Text;        # Name of a capability of the first process, passed on unchanged.
    powerOff @12 :Void;      # The ports that turn the machine off, from ACPI.
  }
  from @13 :Text;        # The source, as named in the manifest's text.
  readOnly @14 :Bool;    # The read-only form of a directory.
}
