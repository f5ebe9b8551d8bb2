@0xd3f1a0c5b2e94706;
# Who may do what: sessions, decisions, approvals, labels.

using A = import "annotations.capnp";
using Kernel = import "kernel.capnp";
using Models = import "models.capnp";

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
  # What a person replied when they were asked about a call.
  notAsked @0;
  agreed @1;
  declined @2;
  interrupted @3;    # Ctrl-C.
  late @4;           # Nobody replied in time.
  lost @5;           # The terminal that the question was on is gone.
}

struct ToolPermission {
  category @0 :Text;
  methodName @1 :Text;
  tool @2 :Text;
  mode @3 :Models.PermissionMode;
  suppressed @4 :Bool;    # Not even shown.
}

struct SessionLimits {
  maxIterations @0 :UInt32 = 16;         # Model calls in one turn.
  maxTokens @1 :UInt64 = 200000;         # Tokens in one session.
  maxSeconds @2 :UInt64 = 86400;         # Wall clock of one session.
  toolTimeoutMs @3 :UInt32 = 30000;      # Where the tool names none.
  approvalTimeoutMs @4 :UInt32 = 300000;
  maxTokensPerCall @5 :UInt32 = 1024;
  maxRequestsPerMinute @6 :UInt32 = 600; # Requests to models; each window of a minute begins with one.
  maxJobs @7 :UInt32 = 4;                # Programs, or pipelines of them, that run at one time.
}

struct ToolQuestion {
  # What is asked about one tool call.
  interfaceId @0 :UInt64;
  methodName @1 :Text;
  tool @2 :Text;
  category @3 :Text;
  arguments @4 :Text;        # Canonical JSON.
  conversation @5 :Text;
  turn @6 :UInt32;
  callId @7 :Text;
  labels @8 :Label;          # Of all that the model saw in this turn.
}

struct SessionInfo {
  id @0 :Text;
  principal @1 :Text;
  profile @2 :Profile;
  limits @3 :SessionLimits;
  modelAllowed @4 :Bool;
}

struct NamedGrant {
  name @0 :Text;
  capability @1 :Kernel.Object;
  interface @2 :UInt64;
  readOnly @3 :Bool;        # The read-only form: its methods that change something refuse, and are no tools.
  from @4 :Text;            # `SERVICE.INTERFACE` in the manifest; empty where it was made for the session.
}

interface UserSession {
  # A session's authority, as the broker issued it.

  info @0 () -> (info :SessionInfo);

  bundle @1 () -> (grants :List(NamedGrant));
  # The capabilities of this session, by profile.

  permissions @2 (tools :List(ToolPermission)) -> (tools :List(ToolPermission));
  # Fills in mode and suppression for each tool (category, method and name given).

  decide @3 (question :ToolQuestion, mode :Models.PermissionMode, reply :Reply) -> (decision :Decision, reason :Text);
  # The broker's decision on one call, checked against its own map, recorded in the audit log with what the person replied.
  # A consent counts only where the map says consent.

  stepUp @4 (question :ToolQuestion, passphrase :Text) -> (decision :Decision, reason :Text, lease :Lease $A.optional);
  # Authenticates again for exactly this call. The lease is there where the decision is stepUpSucceeded.

  model @5 (id :Text = "") -> (model :Models.LanguageModel, info :Models.ModelInfo)
      $A.abortable;
  # A model for this session; the profile's default where no id is given. What is asked through it, and what it answers,
  # the broker counts as it passes, whoever asks: where the tokens of the session or of the principal are used up, or
  # there were too many requests lately, a request is refused (overloaded) with the reason, and what asks for more tokens
  # than one call may have, or than are left, is cut to that.

  models @6 () -> (models :List(Models.ModelInfo));
  # Those that this session may use.

  remaining @7 () -> (tokens :UInt64);
  # Tokens that are left of the session's and the principal's budget, whichever is less; an exception (overloaded) where
  # none is.

  end @8 () -> ();

  review @9 (question :ToolQuestion) -> (mode :Models.PermissionMode, reason :Text, note :Text);
  # What just this call takes, before anybody is asked about it: `forbidden`, for which there is a reason, or a mode that
  # is at least the tool's own. The note is for the person who is asked: what the call would cost them. Nothing is decided
  # or recorded by it.
}

interface Lease {
  # Leave to run exactly one call, once, before it expires.
  redeem @0 (question :ToolQuestion) -> ();
}

interface AuthorityBroker {
  # Issues sessions. Held by the login.
  profiles @0 () -> (profiles :List(Profile), initial :Profile);
  login @1 (profile :Profile, principal :Text, passphrase :Text) -> (session :UserSession);
  # The initial profile, that of whoever sits at the console, takes no passphrase. An operator's session takes it where
  # operator is not the initial profile: it is the one that the configuration holds, and no login sets or changes it.
  # Attempts count for the whole system. Where the configuration names a principal, the initial profile's is that one.
}

struct Approval {
  id @0 :Text;
  title @1 :Text;
  tool @2 :Text;
  arguments @3 :Text;
  risk @4 :Text;
  state @5 :Text;      # What came of it, in words.
}

interface ApprovalClient {
  # What a session sees of what its person was asked and answered. A question that is still open is not in it.
  list @0 () -> (approvals :List(Approval));
}
