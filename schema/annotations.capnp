@0xb1a7c0de5c4e3a01;
# Annotations that the generator and the tool table read.

enum Category {
  # The kind of effect that a method has. It is the key of the permission map.
  readOnly @0;     # Looks, changes nothing.
  mutating @1;     # Changes local state in a way that can be undone.
  destructive @2;  # Destroys data or stops something.
  outbound @3;     # Sends data off the machine.
  admin @4;        # Changes the system or the authority of a session.
}

annotation tool @0xb1a7c0de5c4e3a02 (method) :Text;
# The method may be offered to a model as a tool with this name (snake_case).

annotation category @0xb1a7c0de5c4e3a03 (method) :Category;
# Category of a tool method.

annotation abortable @0xb1a7c0de5c4e3a04 (method) :Void;
# The call may be cancelled at any point without damage. If its caller cancels, ends or loses its capability, the
# server's handler is dropped at its current point, and with it the calls that it has made itself. A method without this
# mark runs to its end.

annotation timeoutMs @0xb1a7c0de5c4e3a05 (method) :UInt32;
# Time limit of one call as a tool, in milliseconds. The session's own limit where absent.

annotation maxResult @0xb1a7c0de5c4e3a06 (method) :UInt32;
# Bytes of the result that may reach a model; `usualMaxResult` where absent.

const usualMaxResult :UInt32 = 16384;

annotation untrusted @0xb1a7c0de5c4e3a07 (method) :Void;
# The result contains text that others wrote: files, logs, network.

annotation person @0xb1a7c0de5c4e3a11 (method) :Void;
# Of a tool: the person calls it by a command of the shell, at the same gate and with the same records. Models are not
# told of it.

annotation onRequest @0xb1a7c0de5c4e3a1b (method) :Void;
# Of a tool: models are offered it only after the person has offered it to them. Few requests need it, and with each further
# tool a small model chooses worse.

annotation label @0xb1a7c0de5c4e3a08 (method) :Text;
# Label that the result carries at least; `public` where absent.

enum Pattern {
  # Which calls of a tool a person may agree to together, by one of its arguments.
  directory @0;  # Those whose argument is a path in a directory, or that directory.
  same @1;       # Those with the same argument.
}

annotation pattern @0xb1a7c0de5c4e3a12 (param) :Pattern;
# Of a tool with one such parameter, of type Text: a person may agree to all calls of a session that this parameter selects,
# whatever the other arguments are.

annotation path @0xb1a7c0de5c4e3a13 (param) :Void;
# Of a tool: the parameter, of type Text, is a path in the home directory. Rules of the policy on paths hold for it.

annotation tree @0xb1a7c0de5c4e3a1a (param) :Void;
# Of a parameter that is such a path: the call reads or moves everything below it, too. A rule that blocks a place below
# rejects it.

enum Unit {
  # What a number counts. A person reads it in a unit of a fitting size; programs and models get the number.
  bytes @0;
  pages @1;             # Of 4,096 bytes.
  seconds @2;
  milliseconds @3;
  nanoseconds @4;
  unixSeconds @5;       # A point in time, since 1970.
  unixMilliseconds @6;  # The same in milliseconds.
}

annotation unit @0xb1a7c0de5c4e3a14 (field, param) :Unit;
# What a number counts.

annotation zero @0xb1a7c0de5c4e3a15 (field, param) :Text;
# What the number 0 or an empty text stands for, for a person. Empty: nothing, so it is not shown.

annotation heading @0xb1a7c0de5c4e3a16 (field, param) :Text;
# What a person reads above or before the value; the words of the field's name where absent.

annotation detail @0xb1a7c0de5c4e3a17 (field) :Void;
# Left out where a person sees a list of such structs as a table.

annotation concern @0xb1a7c0de5c4e3a18 (enumerant) :Void;
# A state that somebody should look at. A table has rows with it first.

annotation done @0xb1a7c0de5c4e3a19 (method) :Text;
# Of a tool without results for the model: what a person reads after a success. A parameter's name in braces stands for its
# value. It is not part of the tool's description.

annotation text @0xb1a7c0de5c4e3a0a (field, param) :Void;
# A Data field whose JSON form is UTF-8 text and not base64.

annotation kernelCalls @0xb1a7c0de5c4e3a0b (interface) :Void;
# Implemented by a process and invoked by the kernel.

annotation optional @0xb1a7c0de5c4e3a0c (field, param) :Void;
# A pointer that may be null: the field is an Option in Rust and optional in JSON.

annotation results @0xb1a7c0de5c4e3a0d (method) :UInt32;
# The most bytes of the results, if that is more than 65,536.

annotation runner @0xb1a7c0de5c4e3a0f (param) :Void;
# Of a tool: a parameter or result that only the runner sees, not the model. Such a parameter is not in the JSON Schema
# and is rejected in a model's arguments. Such a result is not in the text that the model reads. As a parameter, `label
# :Authority.Label` is the label of everything that the model has seen. As a result, it is an additional label of the
# result. The parameter `basis :Storage.FileBasis` says what the file held when the person was shown what the call changes.

annotation pieces @0xb1a7c0de5c4e3a10 (method) :Void;
# Of a tool whose parameters `offset` and `length` select a piece of a text, in bytes. Its results for the runner are
# `start`, where `text` begins, and `bytes`, the length of the whole. The runner asks for more on both sides, so that no
# secret is cut in two before the search for secrets. It tells the model where the rest begins.

annotation inRegisters @0xb1a7c0de5c4e3a0e (method) :Void;
# A method of a kernel object that has no parameters and answers at once with one UInt64. Clients call it by the system
# call INVOKE first. Such a call comes before entries that are queued, and no other task runs meanwhile.
