@0xd3f1a0c5b2e94704;
# System services: status, logs, supervision, launching, power.

using A = import "annotations.capnp";
using Kernel = import "kernel.capnp";
using Label = import "authority.capnp".Label;
using Directory = import "storage.capnp".Directory;

enum ServiceState {
  stopped @0 $A.concern;
  starting @1;
  running @2;
  failed @3 $A.concern;      # Its restarts are used up.
  restarting @4 $A.concern;
  unneeded @5;   # Its purpose does not exist on this system; lastExit names it.
}

struct ServiceInfo {
  name @0 :Text;
  state @1 :ServiceState;
  restarts @2 :UInt32;         # Since boot.
  maxRestarts @3 :UInt32 $A.detail;
  lastExit @4 :Text $A.zero("");  # How it last ended, or why it is not needed, as text; empty if it never ended.
  frames @5 :UInt64 $A.unit(pages) $A.heading("memory");  # 4 KiB frames that it holds.
  description @6 :Text;
}

interface SystemStatus {
  # The state of the machine and its services.

  summary @0 () -> (timeUnix :Int64 $A.unit(unixSeconds) $A.heading("time") $A.zero("unknown"),
                    uptimeSeconds :UInt64 $A.unit(seconds) $A.heading("up for"), memoryBytes :UInt64 $A.unit(bytes),
                    freeBytes :UInt64 $A.unit(bytes),
                    processors :UInt32, processes :UInt32, services :UInt32)
      $A.tool("system_status") $A.category(readOnly) $A.abortable;
  # Tells the time, uptime, memory, processors and how many processes and services run.

  services @1 () -> (services :List(ServiceInfo))
      $A.tool("list_services") $A.category(readOnly) $A.abortable;
  # Lists every service with its state and restarts.

  statistics @2 () -> (statistics :Kernel.MachineStatistics);
}

enum LogLevel {
  debug @0;
  info @1;
  warning @2;
  error @3;
}

struct LogEntry {
  sequence @0 :UInt64 $A.detail;
  nanoseconds @1 :UInt64 $A.unit(nanoseconds) $A.heading("since boot");  # Since boot.
  level @2 :LogLevel;
  service @3 :Text;
  text @4 :Text;
}

interface Logger {
  # Writes to the log for one service; the service's name is bound to the capability.
  write @0 (level :LogLevel, text :Text) -> ();
}

interface LogReader {
  read @0 (service :Text = "", minimum :LogLevel = info, lastSeconds :UInt64 = 3600,
           max :UInt32 = 100) -> (entries :List(LogEntry))
      $A.tool("read_log") $A.category(readOnly) $A.abortable $A.untrusted $A.label("pii.log");
  # Reads the newest log entries, of one service or of all, at this level or above.
}

interface LogService {
  logger @0 (service :Text) -> (logger :Logger);
  reader @1 () -> (reader :LogReader);
}

interface ServiceSupervisor {
  status @0 (name :Text) -> (info :ServiceInfo)
      $A.tool("service_status") $A.category(readOnly) $A.abortable;
  # Tells the state of one service.

  restart @1 (name :Text) -> (info :ServiceInfo)
      $A.tool("restart_service") $A.category(mutating) $A.timeoutMs(30000);
  # Stops one service and starts it again. A trusted one is refused: it keeps what must outlast the session that asks.

  stop @2 (name :Text) -> ()
      $A.tool("stop_service") $A.category(destructive) $A.done("{name} is stopped.");
  # Stops one service until it is restarted. A trusted one is refused.
}

interface StateKeeper {
  # Keeps a few bytes for one service over its restarts. So a crash does not reset what the service counts against a
  # principal. Each service has its own; they end with the machine.
  load @0 () -> (state :Data);
  # Returns what was stored last; empty if nothing was.
  store @1 (state :Data) -> ();
  # Replaces what was stored; at most 16 KiB.
}

interface FaultInjector {
  # Ends services as faults would, including trusted ones, for programs that test supervision. No session may hold it.
  kill @0 (name :Text) -> ();
  # Kills its process; supervision acts as it does after a fault.
}

struct ProgramResult {
  code @0 :Int32 $A.heading("exit code");
  report @1 :Text $A.heading("how it ended");   # How it ended, as text.
  output @2 :Text $A.zero("no output");  # Its output, at most 64 KiB.
}

interface Launcher {
  # Runs the programs that the manifest lists as launchable, each with exactly the grants listed there. A program ends
  # with the call that runs it: if no caller waits for its result any more, it is killed.

  run @0 (program :Text $A.pattern(same), arguments :List(Text) = [], label :Label $A.runner $A.optional,
      approval :UInt64 = 0 $A.runner) -> (result :ProgramResult, label :Label $A.runner)
      $A.tool("run_program") $A.category(mutating) $A.abortable $A.untrusted;
  # Runs an installed program with arguments and returns its output.

  programs @1 () -> (names :List(Text) $A.heading("programs"))
      $A.tool("list_programs") $A.category(readOnly) $A.abortable;
  # Lists the programs that can be run.

  # For a shell, which gives a program only capabilities of its session:

  describe @2 () -> (programs :List(ProgramInfo));
  # The programs and what each needs.

  runWith @3 (program :Text, arguments :List(Text), environment :List(Text), own :List(Text), grants :List(Grant),
      approval :UInt64 = 0) -> (exit :Kernel.ExitInfo) $A.abortable;
  # Runs an installed program with exactly `grants`, which are the caller's, and with those of its grants in the
  # manifest that `own` names. `own` can name only grants that no session needs to hold: see ProgramNeed. Answers when
  # the program has ended, and ends it if no caller waits any more.

  usage @4 () -> (usage :ProgramsUsage);
  # Returns what the programs that were run hold now. A program that has ended holds nothing.

  forSession @5 (from :Text, home :Directory $A.optional) -> (launcher :Launcher, meter :ProgramMeter);
  # The same launcher for one session. Programs whose manifest entry grants a directory of `from`, as in `ProgramNeed`,
  # get `home` for it, if there is one.

  expect @6 (approval :ProgramApproval) -> (number :UInt64);
  # Keeps whom the next program asks before a step. The number goes to `run` or `runWith`, as `approval`, once. A program that is run
  # without one is told that no person can be asked. At most 32 are kept.
}

interface ProgramApproval {
  # Has a program that runs ask the person of its session before a step that cannot be undone. The runner of the session serves it while
  # the call runs. The launcher passes questions on and sets `program`, so a program cannot give another's name. `action` says what the
  # step does, in 1 to 1,000 bytes. If the step is not granted, `why` tells the program the reason. A program may ask 16 times in one call.

  ask @0 (action :Text, program :Text = "") -> (granted :Bool, why :Text)
      $A.tool("ask_before_step") $A.onRequest $A.category(destructive) $A.abortable;
  # Asks the person whether a program that runs may go on with its next step.
}

struct ProgramsSpent {
  cpuNanoseconds @0 :UInt64;
  memoryKibMilliseconds @1 :UInt64;  # The memory of each program over the time for which it held it.
}

interface ProgramMeter {
  # What the programs of one session's launcher have used since it was made. The broker holds it, and no session does.

  spent @0 () -> (spent :ProgramsSpent);

  bound @1 (most :ProgramsSpent) -> ();
  # Ends the programs once they have used this much, and starts no more. All bits set is no bound.
}

struct ProgramsUsage {
  running @0 :UInt32;
  usage @1 :Kernel.Usage;   # What the accounts of all programs hold, including ended programs.
}

struct ProgramInfo {
  name @0 :Text;
  description @1 :Text;
  needs @2 :List(ProgramNeed);
  limits @3 :Kernel.Limits;   # Its limits.
  settings @4 :List(Text);    # The values that it requires, each as `NAME=KIND`.
}

struct ProgramNeed {
  # A capability that a program requests in the manifest.
  name @0 :Text;
  interface @1 :UInt64;
  from @2 :Text;       # `SERVICE.INTERFACE` or `kernel.OBJECT`.
  readOnly @3 :Bool;   # The read-only form of a directory is enough.
  own @4 :Bool;        # The launcher gives it to every caller that runs the program: time, random numbers, or writing
                       # to the log.
}

struct Grant {
  name @0 :Text;
  capability @1 :Kernel.Object;   # It must have the right to be passed on.
  interface @2 :UInt64;
  rights @3 :UInt32 = 0xffffffff; # The most rights that the process gets.
}

interface ProcessSpawner {
  # Starts a program file with exactly the listed capabilities. Few processes hold it.
  spawn @0 (name :Text, program :Text, arguments :List(Text), grants :List(Grant), limits :Kernel.Limits)
      -> (process :Kernel.Process);
}

interface Standard {
  # Output of a launched program: to a terminal, to another program, or to its launcher.

  write @0 (text :Text) -> ();
  # Writes all of it, as `writeBytes` does. An exception if there is no reader any more.

  writeBytes @1 (data :Data, wait :Bool = true) -> (written :UInt32, open :Bool) $A.abortable;
  # Writes all of it, as there is room. Without `wait`, it writes what there is room for now. Data of at most 4,096
  # bytes is written in one piece, all or nothing. Less is written if there is no reader any more: it is not `open`
  # then.

  ready @2 (wait :Bool) -> (ready :Bool, open :Bool) $A.abortable;
  # Tells whether `writeBytes` can proceed without waiting. With `wait`, it answers when that is so.

  screen @3 () -> (terminal :Bool, columns :UInt16, rows :UInt16);
  # Tells whether a person reads it, and the size of their screen.

  close @4 () -> ();
  # Ends the output.
}

interface StandardInput {
  # Input of a launched program: a terminal's lines, or the output of another program.

  read @0 (most :UInt32, wait :Bool = true) -> (data :Data, end :Bool) $A.abortable;
  # Returns at least one byte and at most `most`, or 32 KiB. It returns none at the end, and, without `wait`, if there
  # is none now.

  ready @1 (wait :Bool) -> (ready :Bool, end :Bool, bytes :UInt32) $A.abortable;
  # Tells whether `read` can proceed without waiting, because of `bytes` or the end. With `wait`, it answers when that
  # is so.

  screen @2 () -> (terminal :Bool, columns :UInt16, rows :UInt16);
  # Tells whether a person writes it, and the size of their screen.

  close @3 () -> ();
  # Ends the reading.
}

interface Power {
  powerOff @0 () -> ()
      $A.tool("power_off") $A.category(admin) $A.done("The machine turns itself off.");
  # Turns the machine off.
}

interface PciFunction {
  # One device on the PCI bus, for its driver.
  config @0 () -> (bytes :Data, address :UInt32);
  # Returns its 256 bytes of configuration space, and its bus address.
  bar @1 (index :UInt8) -> (mmio :Kernel.Mmio, bytes :UInt64);
  # One memory window of the device.
  enable @2 () -> ();
  # Lets it decode memory and master the bus.
  interrupt @3 (vector :UInt16) -> (interrupt :Kernel.Interrupt);
  # Makes the vector of MSI-X deliver to an interrupt object. If the device has no MSI-X, it is the only vector of MSI.
}

interface SessionObserver {
  # Hears when a session has ended, after the broker recorded that, or could not. Calls that could not be aborted may
  # still record their ends later.
  ended @0 (session :Text, home :Directory $A.optional) -> ();
  # `home` is the session's home directory, read-only, if it had one.
}

struct ManualPassage {
  page @0 :Text;     # The page's name, for example `setup` or `reference/audit`.
  heading @1 :Text;  # The page's title and the headings above the passage, the nearest last, with ` > ` between them.
  text @2 :Text;     # Paragraphs, items, rows of tables and lines of examples, a line each.
  matchPercent @3 :UInt8;
  # How much of the query it has: per cent of the weight of its words, where rare words weigh more. 0 if the query has only words
  # that every question has, or one other word that is not in the heading.
}

interface Manual {
  search @0 (query :Text, max :UInt8 = 3) -> (passages :List(ManualPassage))
      $A.tool("search_manual") $A.onRequest $A.category(readOnly) $A.abortable;
  # Finds what the manual of capOS says about some words: 1 to 8 passages, the best first.
}
