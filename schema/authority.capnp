@0xd3f1a0c5b2e94706;
# Authority: sessions, decisions, approvals, labels.

using A = import "annotations.capnp";
using Kernel = import "kernel.capnp";
using Models = import "models.capnp";
using Store = import "store.capnp";

enum Provenance {
  trusted @0;    # The system or the person at the terminal.
  untrusted @1;  # Everything else.
}

struct Label {
  # Confidentiality of a value. Joined on use, checked at every egress.
  classes @0 :List(Text);  # Empty: public. Otherwise pii.redacted, pii.*, secret.*
}

enum Profile {
  operator @0;
  guest @1;
  anonymous @2;
}

enum Decision {
  auto @0;
  consented @1;
  denied @2;
  stepUpSucceeded @3;
  stepUpFailed @4;
  forbidden @5;
}

enum Reply {
  # A person's reply to the question about a call.
  notAsked @0;
  agreed @1;
  declined @2;
  interrupted @3;    # Ctrl-C.
  late @4;           # There was no reply in time.
  lost @5;           # The terminal with the question has ended.
  elsewhere @6;      # The surface does not ask this, but the console does.
  withdrawn @7;      # The program that asked has ended before there was a reply.
}

enum Span {
  # How long a person's consent is valid.
  once @0;     # For the one call.
  turn @1;     # Until the end of the turn.
  session @2;  # Until the end of the session.
}

struct ConsentReach {
  # The calls of a tool that a consent covers, and for how long. Whatever it covers, it is no step-up.
  span @0 :Span;
  pattern @1 :Text;
  # Empty: calls with exactly the same arguments. Otherwise all calls whose argument with the annotation `pattern` matches this
  # directory or name.
}

struct ToolPermission {
  category @0 :Text;
  methodName @1 :Text;
  tool @2 :Text;
  mode @3 :Models.PermissionMode;
  suppressed @4 :Bool;    # Not shown either.
}

struct SessionLimits {
  maxIterations @0 :UInt32 = 16;         # Model calls in one turn.
  maxTokens @1 :UInt64 = 200000;         # Tokens in one session.
  maxSeconds @2 :UInt64 = 86400;         # Wall clock of one session.
  toolTimeoutMs @3 :UInt32 = 30000;      # If the tool names none, and is of no kind below.
  approvalTimeoutMs @4 :UInt32 = 300000;
  maxTokensPerCall @5 :UInt32 = 1024;
  maxRequestsPerMinute @6 :UInt32 = 600; # Requests to models; a request starts each window of a minute.
  maxJobs @7 :UInt32 = 4;                # Programs, or pipelines of them, that run at the same time.
  programTimeoutMs @8 :UInt32 = 300000;  # Of a tool that runs a program, if it names none.
  outboundTimeoutMs @9 :UInt32 = 60000;  # Of a tool that sends data off the machine, if it names none.
}

struct ToolQuestion {
  # The question about one tool call.
  interfaceId @0 :UInt64;
  methodName @1 :Text;
  tool @2 :Text;
  category @3 :Text;
  arguments @4 :Text;        # Canonical JSON.
  conversation @5 :Text;
  turn @6 :UInt32;
  callId @7 :Text;
  labels @8 :Label;          # Of everything that the model saw in this turn.
  descriptor @9 :Data;       # SHA-256 of the tool's description as the model saw it.
}

enum Risk {
  # How much harm a call could do.
  low @0;
  medium @1;
  high @2;
}

struct PolicyInfo {
  # The policy bundle of a session: what it may do, until a time.
  version @0 :Text;   # A digest of the permissions: 32 hexadecimal digits.
  issued @1 :UInt64;  # In nanoseconds since boot.
  expires @2 :UInt64; # The same. From then on nothing runs until the session is resumed.
}

struct SessionInfo {
  id @0 :Text;
  principal @1 :Text;
  profile @2 :Profile;
  limits @3 :SessionLimits;
  modelAllowed @4 :Bool;
  user @5 :Bool;             # The principal is a user of the data volume.
  failedAttempts @6 :UInt32; # Of a user: wrong keys before this login, since the one before it.
  lockSeconds @7 :UInt32;    # Of a user: how long the terminal may be idle before it is locked; 0: for ever.
  notice @8 :Text;           # What the session is opened without, and why.
  telemetry @9 :Bool;        # The events of its runs go to the system log.
  policy @10 :PolicyInfo;
  offset @11 :Int16;         # Minutes by which the person's time is ahead of UTC.
  offer @12 :List(Text);     # Capabilities whose tools on request models are offered from the start, by name.
}

struct NamedGrant {
  name @0 :Text;
  capability @1 :Kernel.Object;
  interface @2 :UInt64;
  readOnly @3 :Bool;        # The read-only form: its changing methods reject every call, and are no tools.
  from @4 :Text;            # `SERVICE.INTERFACE` in the manifest; empty if it was made for the session.
}

interface UserSession {
  # A session's authority, as the broker issued it.

  info @0 () -> (info :SessionInfo);

  bundle @1 (from :UInt16 = 0) -> (grants :List(NamedGrant), next :UInt16, total :UInt16);
  # The capabilities of this session, by profile, beginning with number `from`: a message carries at most 16. `next` is the
  # number of the first that is not in this part; 0 if there is none. `total` is how many there are: if two parts differ in it,
  # the list has changed, and is asked for from its beginning. The first part also has the session's audit writer.

  permissions @2 (tools :List(ToolPermission)) -> (tools :List(ToolPermission));
  # Fills in the mode and suppression of each tool, from its category, method and name.

  decide @3 (question :ToolQuestion, mode :Models.PermissionMode, reply :Reply, reach :ConsentReach)
      -> (decision :Decision, reason :Text);
  # Decides on one call by the broker's own map, and records that in the audit log with the person's reply. A consent
  # counts only if the map says consent. `reach` is how far it reaches; one that the tool does not permit counts for this call.

  stepUp @4 (question :ToolQuestion, passphrase :Text) -> (decision :Decision, reason :Text, lease :Lease $A.optional);
  # Authenticates again for exactly this call. The lease is present if the decision is stepUpSucceeded.

  model @5 (id :Text = "") -> (model :Models.LanguageModel, info :Models.ModelInfo)
      $A.abortable;
  # Opens a model for this session; the profile's default if no id is given. The broker counts requests and answers as
  # they pass, for every holder. It rejects a request (overloaded), with the reason, if the tokens of the session or of
  # the principal are used up, or after too many recent requests. It cuts a request for more tokens than one call may
  # have, or than are left.

  models @6 () -> (models :List(Models.ModelInfo));
  # Those that this session may use.

  remaining @7 () -> (tokens :UInt64);
  # Returns the tokens that are left of the session's and the principal's budget, whichever is less. An exception
  # (overloaded) if none is left.

  end @8 () -> ();

  review @9 (question :ToolQuestion) -> (mode :Models.PermissionMode, reason :Text, note :Text, approval :Text,
      risk :Risk);
  # Tells what this call needs, before the person is asked about it: `forbidden` with a reason, or a mode at least as
  # strict as the tool's own. The note tells the person what the call would cost them. `approval` is the id of an earlier
  # consent that covers the call, so that the person is not asked. It decides and records nothing.

  unlock @10 (passphrase :Text) -> (valid :Bool, why :Text);
  # Tries the passphrase of the session's person, at a terminal that was locked. Attempts count as those of a login. `why`
  # tells what was wrong.

  beginRun @11 (conversation :Text, turn :UInt32, leastTokens :UInt64, mostTokens :UInt64, used :List(UInt64))
      -> (run :Run $A.optional, answer :BudgetAnswer);
  # Begins a run with its budget, and ends the session's run so far. The tokens are an estimate. A run whose least is more
  # than what is left is not begun; the answer tells why. A run of the same conversation and turn continues with what it has
  # used: as the broker knows, or as `used` says by dimension if that is more.

  budget @12 () -> (lines :List(BudgetLine), steps :List(BudgetStep));
  # The budgets of the session and of its run, and the steps of the run, the latest last.

  renewPolicy @13 () -> (policy :PolicyInfo, changes :List(Text));
  # Issues a policy bundle from the settings as they are now, in place of the one so far. Consents for further calls and
  # capabilities end with the old one; `bundle` gives new capabilities. `changes` tells what is permitted otherwise now. An
  # exception if the session's time is over, or its principal has no longer its profile: they have to log in again.

  policy @14 () -> (policy :PolicyInfo, validSeconds :UInt64, rules :List(PolicyRule));
  # What the policy bundle permits. `validSeconds` is how long it is still valid.

  explain @15 (question :ToolQuestion)
      -> (steps :List(Text), mode :Models.PermissionMode, reason :Text, risk :Risk);
  # Tells what would become of a call, and by which rules. It decides nothing. The settings `audit.denied_checks` and
  # `audit.allowed_checks` say whether the answer is recorded.

  beginPart @16 (number :UInt32) -> (part :SessionPart $A.optional, answer :BudgetAnswer);
  # Begins a part of the session with this number: for a run in parallel with the session's own. The part has half of what the
  # session's budget has left. That is reserved here, and what was not used is free again at its end. A session has at most two
  # parts at one time. The answer tells why none was begun.
}

interface SessionPart {
  # A part of a session, in which one run proceeds. Decisions and tools are those of the session. The runner holds it, and no tool
  # or program does. It ends with its last holder, or with the session.

  beginRun @0 (conversation :Text, turn :UInt32, leastTokens :UInt64, mostTokens :UInt64, used :List(UInt64))
      -> (run :Run $A.optional, answer :BudgetAnswer);
  # As `UserSession.beginRun`, with the budget of the part. At a limit the run ends without a question.

  model @1 (id :Text = "") -> (model :Models.LanguageModel, info :Models.ModelInfo)
      $A.abortable;
  # As `UserSession.model`. What it is asked counts in this part.

  remaining @2 () -> (tokens :UInt64);
  # Returns the tokens that are left of the part. An exception (overloaded) if none is left.

  end @3 () -> ();
  # Ends the part. A run of it that is not over can be continued in the session, or in a later one.
}

struct PolicyRule {
  # An entry of a policy bundle.
  tool @0 :Text;             # Or `LLM.Call`.
  category @1 :Text;
  mode @2 :Models.PermissionMode;
  hidden @3 :Bool;
  risk @4 :Risk;
  source @5 :Text;           # Where the mode comes from.
  bounds @6 :List(Text);     # What its arguments have to keep to, each with where that comes from.
}

enum BudgetDimension {
  # What a budget limits.
  wallClock @0;  # Milliseconds since the run or the session began.
  steps @1;      # Tool calls.
  tokens @2;     # Tokens that models read and write.
  cost @3;       # Price of what models did, in millionths of a dollar.
  cpu @4;        # Milliseconds of CPU time of programs.
  memory @5;     # Memory of programs over time: a KiB for a millisecond.
  egress @6;     # Bytes that leave this machine.
  writes @7;     # Bytes that are written to the home directory.
}

enum BudgetPolicy {
  # What happens at the limit.
  stop @0;  # The run ends as failed.
  ask @1;   # The run pauses, and the person is asked for more.
  warn @2;  # The person is told, and the run continues.
}

struct BudgetLine {
  # One dimension of the budget of a principal, a session or a run.
  scope @0 :Text;       # `principal`, `session` or `run`.
  dimension @1 :BudgetDimension;
  used @2 :UInt64;
  reserved @3 :UInt64;  # By calls in progress.
  limit @4 :UInt64;     # With all extensions. All bits are set if there is none.
  policy @5 :BudgetPolicy;
  unmeasured @6 :Text;  # Why it is not measured here; empty if it is.
}

struct BudgetStep {
  # What one step of a run used: a tool call, or a request to a model.
  number @0 :UInt32;
  name @1 :Text;                  # Of the tool or the model.
  promptTokens @2 :UInt64;
  answerTokens @3 :UInt64;
  used @4 :List(UInt64);          # By dimension, in the order of `BudgetDimension`.
  remaining @5 :List(UInt64);     # Of the run after it; all bits are set where there is no limit.
}

struct BudgetAnswer {
  # What a budget says to a step that is about to begin.
  number @0 :UInt64;              # Of the reservation; 0 if nothing was reserved.
  notices @1 :List(Text);         # For the person: limits that come near.
  exceeded @2 :Text;              # Which limit is reached and how to raise it; empty if the step may begin.
  asks @3 :Bool;                  # The person may extend the budget: `Run.extend`.
  session @4 :Bool;               # The budget that is used up is the session's, not the run's.
  dimension @5 :BudgetDimension;
  suggested @6 :UInt64;           # How much more to ask for.
}

interface Run {
  # The budget of one run: a turn with its steps. The runner holds it, and no tool or program does. It ends with its last holder.

  look @0 () -> (answer :BudgetAnswer);
  # Tells whether the next request to a model may begin.

  reserve @1 (tool :Text, callId :Text, writes :UInt64) -> (answer :BudgetAnswer);
  # Reserves one tool call, and `writes` bytes if it states how many it writes. It is kept before this returns.

  settle @2 (number :UInt64, began :Bool) -> (notices :List(Text));
  # The call has ended: what it used is counted in place of what was reserved. A call that never began counts as nothing.

  extend @3 (session :Bool, dimension :BudgetDimension, more :UInt64, reply :Reply) -> (granted :Bool, why :Text);
  # The person's reply to the question about more of a budget that asks. It is recorded. No more is granted to a run than its
  # session has left.

  end @4 (outcome :Text, over :Bool) -> (notices :List(Text));
  # Ends the run. What it used is recorded. The use of a run that is not over is kept, and counts when it is continued.

  used @5 () -> (used :List(UInt64), granted :List(UInt64));
  # What the run has used, and what was added to its limits, by dimension.

  split @6 (conversation :Text, shares :List(UInt64), leastTokens :UInt64, mostTokens :UInt64)
      -> (run :Run $A.optional, answer :BudgetAnswer);
  # Begins a child run, which is turn 1 of this conversation, and ends the child run so far. Its limits are a part of what this run
  # has left: `shares` by dimension, where 0 is half of it. They are reserved here, and what the child has not used is free again at
  # its end. At a limit a child run ends without a question. It has no child runs itself. If a share is more than what is left,
  # it is not begun; the answer tells why. The tokens are an estimate.
}

interface ChildRuns {
  # Has the model of a run hand out tasks. The broker permits its tool in sessions that may use a model. The runner runs the child,
  # and no object serves this interface.

  delegate @0 (task :Text, tools :List(Text), tokens :UInt64 = 0, modelCalls :UInt32 = 0, toolCalls :UInt32 = 0, seconds :UInt32 = 0)
      -> (answer :Text)
      $A.tool("delegate") $A.onRequest $A.category(readOnly) $A.abortable $A.untrusted $A.timeoutMs(600000);
  # Gives a task to a helper that works alone, and returns its answer. The helper knows only the text of the task. It may use the
  # tools that are named, and no others. It gets a part of what you may use: tokens, model calls, tool calls and seconds; 0 is half of
  # what is left.
}

interface Reminders {
  # Has the model of a run set reminders for the person at the console. The broker permits its tool in operators' sessions that may use a
  # model. The console keeps the reminders itself, so no object serves this interface. They end with the session.

  remind @0 (text :Text, afterSeconds :UInt64 = 0, time :Text = "") -> (reminder :Text)
      $A.tool("remind") $A.category(mutating) $A.abortable;
  # Shows the person a text later. Give either `afterSeconds`, as 1200 for 20 minutes, or `time`, when the clock shows it next, as
  # 18:00. The text is shown only if the session lasts until then.
}

interface Lease {
  # The permission to run exactly one call, once, before it expires.
  redeem @0 (question :ToolQuestion) -> ();
}

interface AuthorityBroker {
  # Issues sessions. Held by the login.
  profiles @0 () -> (profiles :List(Profile), initial :Profile);
  login @1 (profile :Profile, principal :Text, passphrase :Text) -> (session :UserSession);
  # The initial profile, that of the person at the console, needs no passphrase. An operator's session needs one if
  # operator is not the initial profile. It is the passphrase in the configuration; no login sets or changes it.
  # Attempts count for the whole system. If the configuration names a principal, the initial profile's is that one.
  # A machine with a data volume is different: its users log in with their own passphrases. A session of a user, which
  # `principal` names, has the profile that the user has, whatever `profile` says.
  volume @2 () -> (info :Store.VolumeInfo);
  # What the data disk is, and whether it has to be set up or unlocked before a login.
  setUp @3 (name :Text, passphrase :Text) -> (recoveryCode :Text);
  # Makes the volume on a blank disk, with its first user, an operator.
  unlock @4 (name :Text, secret :Text, kind :Store.KeyKind) -> (opened :Bool, why :Text);
  # Opens the volume. `why` tells what was wrong. Attempts count as those of a login. The next login of this name, within
  # a minute, needs no passphrase.
  decline @5 () -> ();
  # Leaves a blank disk as it is. Nothing is kept, unless an operator's session sets it up (`MachineSetup`).
  renew @6 (name :Text, passphrase :Text) -> ();
  # Gives this user another passphrase, once after `unlock` with the recovery code.
  changePassphrase @7 (name :Text, current :Text, passphrase :Text) -> (changed :Bool, why :Text);
  # Gives a user another passphrase. `why` tells why `current` is not the one so far.
  backups @8 () -> (backups :List(FoundBackup));
  # The backups on the transfer volumes, while a blank disk waits to be set up.
  restore @9 (backup :FoundBackup, name :Text, secret :Text, kind :Store.KeyKind, passphrase :Text)
      -> (recoveryCode :Text, why :Text);
  # Makes the volume on the blank disk with what a backup holds. The secret is a passphrase of the user, or the recovery code
  # of the machine that made the backup. With the code, `passphrase` is the user's new one. `why` tells what was wrong with
  # the secret. Attempts at a backup are not counted: whoever has the medium can try anywhere.
  progress @10 () -> (state :Store.BackupState);
  # How far the restore is.
  confirm @11 (state :Store.VolumeState) -> ();
  # Does what the plan of the volume says, if this is its state. It has a plan only after a key has opened it.
  setClock @12 (time :Text) -> ();
  # Sets a clock that is not set, to this time in UTC.
}

struct FoundBackup {
  volume @0 :Text;  # The transfer volume.
  folder @1 :Text;  # A folder at its top.
  time @2 :UInt64;  # Of the latest backup in it, in milliseconds since 1970.
}

struct LogFile {
  name @0 :Text;      # At the top of the volume.
  first @1 :UInt64;   # Sequence of its first record.
  records @2 :UInt64;
  bytes @3 :UInt64;
  head @4 :Text;      # Of its last record: sequence and hash, as the login shows it.
}

interface Backups {
  # What leaves for transfer volumes to be kept: backups of the data volume, and the audit log. For operators; there are none
  # without a data volume.

  backUp @0 (volume :Text) -> (state :Store.BackupState)
      $A.tool("back_up") $A.category(outbound) $A.person $A.abortable;
  # Writes a backup to a transfer volume, encrypted with the keys of the data volume.

  progress @1 () -> (state :Store.BackupState);
  # How far the backup is.

  exportLog @2 (volume :Text, file :Text) -> (written :LogFile)
      $A.tool("export_log") $A.category(outbound) $A.person $A.abortable;
  # Writes all records of the audit log to a new file of a transfer volume; without a name, it is called by the time.

  archiveLog @3 (volume :Text, file :Text) -> (written :LogFile)
      $A.tool("archive_log") $A.category(destructive) $A.person;
  # Moves all records of the audit log to a new file of a transfer volume. The log continues the chain: its first record names
  # the file and its last record. A record is removed only once the file is on the medium and was read back.
}

struct UserInfo {
  # A user of the data volume.
  name @0 :Text;
  profile @1 :Profile;
  createdUnix @2 :Int64 $A.unit(unixSeconds) $A.zero("unknown");  # Seconds since 1970.
  quota @3 :Text $A.zero("default");  # What the home may take: as `200MiB`, `50%`, `none`; empty for the default, the setting
                           # `session.home_quota`.
  quotaBytes @4 :UInt64 $A.unit(bytes) $A.zero("no limit") $A.heading("home may take");  # The same in bytes; 0 if there is no quota.
  usedBytes @5 :UInt64 $A.unit(bytes) $A.heading("home takes");  # What the home takes.
}

interface Users {
  # The users of the data volume, each with a passphrase. For operators; there is none without a data volume.

  list @0 () -> (users :List(UserInfo))
      $A.tool("list_users") $A.onRequest $A.category(readOnly) $A.abortable;
  # Lists the users of this machine, with their profiles, what their homes take, and what these may take.

  add @1 (name :Text, profile :Profile, quota :Text) -> (passphrase :Text $A.runner)
      $A.tool("add_user") $A.onRequest $A.category(admin) $A.timeoutMs(60000) $A.done("The user {name} is added.");
  # Adds a user. The terminal shows the person, and nobody else, the new user's first passphrase. `quota` is what the home may
  # take, as `200MiB`, `50%` of what all homes may take, or `none`; empty for the default.

  remove @2 (name :Text) -> ()
      $A.tool("remove_user") $A.onRequest $A.category(admin) $A.timeoutMs(60000) $A.done("The user {name} is removed.");
  # Removes a user with their keys and all that is kept for them. The last operator cannot be removed, nor the user who asks.

  setProfile @3 (name :Text, profile :Profile) -> ()
      $A.tool("set_user_profile") $A.onRequest $A.category(admin) $A.done("{name} has the profile {profile} from the next login on.");
  # Gives a user another profile, from the next login on. The last operator stays one.

  resetPassphrase @4 (name :Text) -> (passphrase :Text $A.runner)
      $A.tool("reset_passphrase") $A.onRequest $A.category(admin) $A.timeoutMs(60000) $A.done("{name} has a new passphrase.");
  # Replaces the passphrase of a user who has forgotten it. The terminal shows the person, and nobody else, the new one.

  renewRecoveryCode @5 () -> (recoveryCode :Text $A.runner)
      $A.tool("renew_recovery_code") $A.onRequest $A.category(admin) $A.timeoutMs(60000) $A.done("The data disk has a new recovery code.");
  # Makes a new recovery code for the data volume; the old one no longer opens it. The terminal shows it to the person.

  setQuota @6 (name :Text, quota :Text) -> ()
      $A.tool("set_user_quota") $A.onRequest $A.category(admin) $A.done("The quota of {name} is changed.");
  # Changes at once what a user's home may take: as `200MiB`, `50%` of what all homes may take, or `none`; empty for the
  # default.
}

interface MachineSetup {
  # Sets up the machine from a session, after its person has put the questions of the first start off. For operators, as long
  # as the blank disk waits.

  look @0 () -> (text :Text)
      $A.tool("show_setup") $A.category(readOnly) $A.abortable;
  # Shows how far this machine is set up: its disks, whether anything is kept, the clock, and what to do next.

  setUpDisk @1 (user :Text = "", passphrase :Text $A.runner) -> (text :Text, recoveryCode :Text $A.runner)
      $A.tool("set_up_disk") $A.category(mutating) $A.timeoutMs(900000);
  # Sets up this machine: makes the blank disk its data disk, encrypted, and adds its first user, an operator, who is logged in.
  # The terminal asks the person for the passphrase, and for the name if `user` is empty. It shows them the recovery code.
}

struct Setting {
  name @0 :Text;    # The dotted name of a value in `/etc/system.toml`.
  value @1 :Text;
  source @2 :Text;  # The file that has it, `settings`, or `built in`.
}

interface Settings {
  # What the configuration says on this machine. For operators; there are none without a data volume. A change holds from the
  # next login on.

  list @0 () -> (settings :List(Setting))
      $A.tool("list_settings") $A.onRequest $A.category(readOnly) $A.abortable;
  # Lists the settings of this machine, with their values and where each value comes from.

  set @1 (name :Text, value :Text) -> ()
      $A.tool("set_setting") $A.onRequest $A.category(admin) $A.done("{name} is {value} from the next login on.");
  # Changes a setting of this machine, from the next login on.

  reset @2 (name :Text) -> ()
      $A.tool("reset_setting") $A.onRequest $A.category(admin) $A.done("{name} has the value of the image from the next login on.");
  # Gives a setting back the value that the image has for it.

  setClock @3 (time :Text) -> (text :Text)
      $A.tool("set_clock") $A.onRequest $A.category(admin);
  # Sets the machine's clock. The time is `2026-11-26 14:05`, with or without seconds, at the offset of `session.utc_offset`; with a
  # `Z` at its end it is in UTC.
}

struct Approval {
  id @0 :Text;
  title @1 :Text;
  tool @2 :Text;
  arguments @3 :Text;
  risk @4 :Text;
  state @5 :Text;      # The result, as a sentence.
  stands @6 :Bool;     # It is a consent that covers further calls.
}

interface ApprovalClient {
  # A session's view of its person's questions and answers. A question that is still open is not in it.
  list @0 () -> (approvals :List(Approval));

  revoke @1 (id :Text) -> (revoked :UInt32);
  # Ends a consent that covers further calls, or all of them if there is no id. A call that has begun is not stopped.
}
