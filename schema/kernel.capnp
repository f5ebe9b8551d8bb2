@0xd3f1a0c5b2e94701;
# Kernel objects. A process invokes them like any capability: CALL with interface, method and
# parameters. Capability parameters of kernel methods are taken in order from the entry's
# capability array.

struct Limits {
  # The most that an account may hold. Carved from the parent's share.
  frames @0 :UInt64;        # 4 KiB frames: memory, page tables, rings.
  capabilities @1 :UInt32;  # Capability slots.
  threads @2 :UInt32;       # Threads.
  processes @3 :UInt32;     # Processes.
  objects @4 :UInt32;       # Other kernel objects, including ended threads that a capability still designates.
  priority @5 :Int8;        # The highest priority of its threads: see Thread.setPriority. Never above the parent's.
  cpuNanoseconds @6 :UInt64;
  # CPU time that its threads may use in total from when this is set. 0: no limit of its own; it uses its parent's, if
  # there is one.
}

struct Usage {
  # What an account holds now, its children's carvings included.
  frames @0 :UInt64;
  capabilities @1 :UInt32;
  threads @2 :UInt32;
  processes @3 :UInt32;
  objects @4 :UInt32;
  cpuNanoseconds @5 :UInt64;  # CPU time that its own threads have used, and those of ended children.
}

struct NamedCapability {
  # One entry of a process's CapSet.
  name @0 :Text;
  id @1 :UInt64;         # Identifier in the process's own table.
  interface @2 :UInt64;  # Interface that it offers.
}

struct LaunchRecord {
  # What a process is told about itself when it starts.
  name @0 :Text;
  arguments @1 :List(Text);
  environment @2 :List(Text);
  capabilities @3 :List(NamedCapability);
  processors @4 :UInt32;
  # The number of processors that run threads.
}

interface Object {
  # Any capability, where the type does not matter.
}

interface ResourceAccount {
  # Pays for kernel resources. Holding it is the authority to use memory at all.
  #
  # It retires with its process, or, if it was carved, with the last capability to it. Then it pays for nothing more,
  # and the unused part of its limits returns to its parent. The rest returns as the objects in use end.

  createMemory @0 (bytes :UInt64) -> (memory :MemoryObject);
  # Anonymous memory, zeroed, rounded up to 4 KiB, paid for at once.

  createPagedMemory @1 (bytes :UInt64, pager :Pager) -> (memory :MemoryObject);
  # Memory whose pages the pager supplies on first touch. Its pages live in the page cache, are shared read-only by all
  # mappings and are evicted under pressure. It is never writable. If the pager's capability is revoked, no page comes
  # in any more. A process that touches an absent one then ends with a report.

  createEndpoint @2 () -> (endpoint :Endpoint);
  # A place to receive calls.

  createNotification @3 () -> (notification :Notification);
  # A word of 64 signal bits.

  createProcess @4 (name :Text, limits :Limits) -> (process :Process);
  # An empty process: no memory, no capabilities, no threads; its account is carved from this one.

  carve @5 (limits :Limits) -> (account :ResourceAccount);
  # A child account. It counts as an object of this account, in addition to its limits.

  usage @6 () -> (usage :Usage, limits :Limits, cpuLeft :UInt64);
  # Returns what the account holds and may hold: nothing once it has retired. `cpuLeft` is the CPU time that it may
  # still use, of its own or of its parent's; all bits are set if there is no limit.

  cut @7 (limits :Limits) -> (limits :Limits);
  # Lowers the account's limits to at most these, and returns the new limits. None falls below what is in use, and the
  # parent gets the difference at once. A limit of CPU time counts from now on, and is set if there was none. The
  # priority stays. Needs the manage right.
}

struct ExitInfo {
  # How a process or a thread ended. A thread also ends by the end of its process.
  enum Cause {
    exited @0;   # By EXIT; `code` is its code.
    killed @1;   # By a holder of its capability.
    fault @2;    # By a fault; `report` says which.
    cpuTime @3;  # By the limit of its account's CPU time, which was used up.
  }
  cause @0 :Cause;
  code @1 :Int32;
  report @2 :Text;  # One line of text, for people.
}

interface Process {
  # A process, as its creator holds it.

  addressSpace @0 () -> (space :AddressSpace);
  account @1 () -> (account :ResourceAccount);

  grant @2 (capability :Object, rights :UInt32) -> (id :UInt64);
  # Copies a capability into the process's table with at most these rights. Returns its identifier there.

  table @3 () -> (table :CapabilityTable);
  # The process's own capability table.

  createThread @4 (entry :UInt64, stack :UInt64, argument0 :UInt64, argument1 :UInt64,
                   ring :UInt64, submissionEntries :UInt32, completionEntries :UInt32,
                   threadPointer :UInt64) -> (thread :Thread);
  # Starts a thread at `entry` with rdi, rsi = arguments, rdx = `ring`, rsp = `stack`, FS base = `threadPointer`. Its
  # rings are mapped at `ring` (page aligned, free). It runs only once the caller has its capability: if the call fails,
  # no thread runs. Needs the execute right.

  kill @5 (reason :Text) -> ();
  # Ends the process and returns everything that it held.

  wait @6 () -> (exit :ExitInfo);
  # Answers when the process has ended.

  info @7 () -> (name :Text, id :UInt64, threads :UInt32, alive :Bool);

  currentThread @8 () -> (thread :Thread);
  # The calling thread, if it belongs to this process. Needs the execute right.
}

interface Thread {
  # One thread of a process. The capability outlives the thread, and then keeps only how it ended.

  info @0 () -> (id :UInt64, cpuNanoseconds :UInt64, alive :Bool, name :Text, priority :Int8);

  kill @1 () -> ();
  # Ends the thread and drops its operations in flight. The last thread's end ends the process.

  wait @2 () -> (exit :ExitInfo);
  # Answers when the thread has ended. A thread cannot wait for itself.

  setName @3 (name :Text) -> ();
  # For reports and `info`: 1 to 32 bytes, no control characters. Needs the manage right.

  setPriority @4 (priority :Int8) -> ();
  # -1 background, 0 ordinary (the initial value), 1 high, 2 highest. A thread runs only while no thread with a higher
  # priority can run. Threads with the same priority take turns. The limits of its process set the maximum. Needs the
  # manage right.

  setAffinity @5 (processors :UInt64) -> ();
  # The processors that it may run on, from bit 0; initially all. At least one of them must exist. The thread leaves
  # other processors at once. Needs the manage right.
}

interface AddressSpace {
  struct Access {
    read @0 :Bool;
    write @1 :Bool;
    execute @2 :Bool;
  }

  map @0 (memory :Object, address :UInt64, offset :UInt64, length :UInt64, access :Access) -> ();
  # Maps a MemoryObject, Mmio or DmaRegion. Address, offset and length are multiples of 4,096. A mapping that is
  # writable and executable, or that overlaps another, is rejected. The range can be used once the call has returned.

  unmap @1 (address :UInt64, length :UInt64) -> ();
  # Removes whole mappings or their parts.
}

interface MemoryObject {
  info @0 () -> (bytes :UInt64, residentPages :UInt64, paged :Bool);

  evict @1 () -> (pages :UInt64);
  # Evicts the present pages of paged memory and returns their number. For tests and tuning. Needs the manage right.

  frames @2 (offset :UInt64, count :UInt32) -> (ids :List(UInt64));
  # Identifiers of resident frames (0 where absent), equal where memory is shared. Needs the manage right.

  copy @3 (account :ResourceAccount, offset :UInt64, bytes :UInt64) -> (memory :MemoryObject);
  # Anonymous memory with the content at `offset`, in whole pages, charged to `account` at once and in full. It shares
  # the frames of this memory until one of the two writes: then the writer gets a frame of its own. Absent pages of
  # paged memory come from its pager, and the call is answered once they have come. A page that does not come is an
  # exception that names it. If this memory is written during the call, the copy has of each page what was there at some
  # time of the call, or parts of that if a device may write it. Its content does not depend on the later fate of this
  # memory. Needs the right to read.
}

interface Pager $import "annotations.capnp".kernelCalls {
  # Supplies the pages of paged memory. The kernel calls it on the endpoint of the client capability that
  # createPagedMemory was given. The badge identifies the memory object.

  pageIn @0 (offset :UInt64, bytes :UInt64, window :MemoryObject) -> ();
  # Fills `window` (`bytes` long, zeroed) with the content at `offset`. When the call is answered, the window is revoked
  # and its frames belong to the page cache. An exception makes the touch a fault.
}

interface Endpoint {
  mint @0 (badge :UInt64, interface :UInt64) -> (client :Object);
  # A capability to call this endpoint's receivers. They see the badge and nothing else of the caller. Calls through it
  # may name only `interface`.
}

interface Notification {
  poll @0 () -> (bits :UInt64) $import "annotations.capnp".inRegisters;
  # Takes and clears the bits without waiting.
}

interface InterruptController {
  # The authority over interrupt lines. Held by the first process.

  line @0 (irq :UInt8) -> (interrupt :Interrupt);
  # The interrupt of a legacy ISA line, 0 to 15.

  message @1 () -> (interrupt :Interrupt, address :UInt64, data :UInt32);
  # A message-signalled interrupt: what the device must write where.
}

interface Interrupt {
  bind @0 (notification :Notification, bits :UInt64) -> ();
  # Signals these bits each time the interrupt comes.

  acknowledge @1 () -> ();
  # Unmasks a level-triggered line: each interrupt masks it until this call. Edges, such as those of legacy ISA lines,
  # and messages are never masked.
}

interface IoPorts {
  info @0 () -> (first :UInt16, count :UInt32);
  narrow @1 (first :UInt16, count :UInt32) -> (ports :IoPorts);
  read @2 (port :UInt16, width :UInt8) -> (value :UInt32);
  # `width` is 1, 2 or 4 bytes. `port` is absolute and must lie inside.
  write @3 (port :UInt16, width :UInt8, value :UInt32) -> ();
  writeBytes @4 (port :UInt16, data :Data) -> ();
  # Each byte in turn to one port.
  drain @5 (statusPort :UInt16, mask :UInt8, dataPort :UInt16, max :UInt16) -> (data :Data);
  # While (status & mask) is not 0, reads a byte from the data port.
  readIndexed @6 (indexPort :UInt16, dataPort :UInt16, indices :List(UInt32)) -> (values :List(UInt32));
  # Writes each index to one port and then reads the other, both 4 bytes wide; at most 256.
}

interface Mmio {
  info @0 () -> (address :UInt64, bytes :UInt64);
  narrow @1 (address :UInt64, bytes :UInt64) -> (mmio :Mmio);
  # Never what is RAM.
}

struct DmaSegment {
  address @0 :UInt64;  # As the device sees it.
  bytes @1 :UInt64;
}

interface DmaDomain {
  # The authority to let a device reach memory. A driver names its own regions, never arbitrary memory.

  allocate @0 (bytes :UInt64) -> (region :DmaRegion, address :UInt64);
  # Physically contiguous zeroed memory, cached everywhere, charged to the caller's account.

  pin @1 (memory :MemoryObject, offset :UInt64, bytes :UInt64)
      -> (region :DmaRegion, segments :List(DmaSegment))
      $import "annotations.capnp".results(16384);
  # Lets a device reach memory that the caller holds until the region is released or the memory is
  # revoked.
}

interface DmaRegion {
  info @0 () -> (bytes :UInt64, segments :List(DmaSegment));
}

interface Timer {
  now @0 () -> (nanoseconds :UInt64) $import "annotations.capnp".inRegisters;
  # Monotonic time since boot.
  sleepUntil @1 (nanoseconds :UInt64) -> ();
  # Answers when that time has come.
  wallClock @2 () -> (unixMilliseconds :UInt64) $import "annotations.capnp".inRegisters;
  setWallClock @3 (unixMilliseconds :UInt64) -> ();
  # Sets the wall clock, and the machine's battery-backed clock to whole seconds, from 2000 to 2099. Needs the
  # manage right.
}

interface Entropy {
  read @0 (bytes :UInt16) -> (data :Data);
  # 1 to 1,024 random bytes.
}

interface DebugLog {
  write @0 (text :Text) -> ();
  # Writes lines to the kernel's log, each with the process's name before it. Control characters except tabs are written
  # out. A call takes as many lines as fit into it. A line has at most 1 KiB with the name, and ends in `...` if it was
  # longer. The log keeps the newest 256 KiB.
  read @1 (position :UInt64) -> (data :Data, next :UInt64, lost :UInt64);
  # Returns the log's bytes from a position on (at most 16 KiB), and waits if there are none yet. A position behind the
  # end counts as the end. Needs the receive right.
}

struct CapabilityInfo {
  id @0 :UInt64;
  interface @1 :UInt64;
  kind @2 :Text;        # Kind of the kernel object behind it.
  rights @3 :UInt32;
  derived @4 :Bool;     # Whether capabilities derive from it. It may stay true while what was made through released ones lives.
}

interface CapabilityTable {
  # The capabilities of a process.
  list @0 (from :UInt32) -> (capabilities :List(CapabilityInfo), next :UInt32);
  # Those at the places of the table from `from` on: at most 16, of at most 512 places. `next` is the place to go on at; 0 if
  # there are no more. What is given, moved or released between two calls may be missing.
  info @1 (id :UInt64) -> (info :CapabilityInfo);
  derive @2 (id :UInt64, rights :UInt32) -> (id :UInt64);
  # A weaker copy; revoking the original revokes it.
  revoke @3 (id :UInt64) -> (count :UInt32);
  # Revokes everything that derives from it, mappings and calls in flight included. The capability itself stays.
}

struct MachineInfo {
  commandLine @0 :Text;
  bootLoader @1 :Text;
  firmware @2 :Text;          # `bios` or `uefi`.
  memoryBytes @3 :UInt64;     # Usable memory.
  processors @4 :UInt32;
  tscHertz @5 :UInt64;
  powerOffPort @6 :UInt16;    # ACPI PM1a control port, 0 if there is none.
  powerOffValue @7 :UInt16;   # The value to write there.
  pciConfigBase @8 :UInt64;   # Memory-mapped configuration space, 0 if there is none.
}

struct MachineStatistics {
  freeFrames @0 :UInt64;
  totalFrames @1 :UInt64;
  heapBytes @2 :UInt64;          # Kernel heap in use.
  cachedFrames @3 :UInt64;       # Page cache.
  cacheHits @4 :UInt64;          # Faults on a page that was cached.
  cacheMisses @5 :UInt64;        # Faults that went to a pager.
  cacheEvictions @6 :UInt64;
  processes @7 :UInt32;
  threads @8 :UInt32;
  contextSwitches @9 :UInt64;
  kernelEntryTsc @10 :UInt64;    # Time stamp counter when the kernel was entered.
  initStartTsc @11 :UInt64;      # The same at the first instruction of the first process.
  idleNanoseconds @12 :UInt64;   # Time in which the processors were idle.
  heapFrames @13 :UInt64;        # Frames that the kernel heap holds. They are not free.
  timerInterrupts @14 :List(UInt64);  # Interrupts of each processor's timer.
}

interface Machine {
  info @0 () -> (info :MachineInfo);
  statistics @1 () -> (statistics :MachineStatistics);
  framebuffer @2 () -> (address :UInt64, width :UInt32, height :UInt32, pitch :UInt32, bitsPerPixel :UInt16);
  # Address 0 if there is none.
}
