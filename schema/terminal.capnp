@0xd3f1a0c5b2e94703;
# The terminal. One service owns the device and sanitises all output.

enum Style {
  plain @0;
  bold @1;
  dim @2;
  heading @3;
  warning @4;
  error @5;
  tool @6;
  prompt @7;
  model @8;     # Text of the model.
  question @9;
  success @10;
}

struct Span {
  # A piece of output. Text is data: control sequences in it are shown, never executed.
  text @0 :Text;
  style @1 :Style;
}

enum LineEnd {
  entered @0;      # The line was entered.
  interrupted @1;  # Ctrl-C.
  endOfInput @2;   # Ctrl-D on an empty line.
  cancelled @3;    # The reader gave up the read.
}

interface TerminalSession {
  # One session's use of the terminal.

  write @0 (spans :List(Span)) -> ();
  readLine @1 (prompt :List(Span), history :Bool, completions :List(Text), typedAhead :Bool) -> (line :Text, end :LineEnd);
  # Reads a line with editing. Only one reader at a time. Tab completes the start of the line to one of `completions`,
  # each of which starts a line. Input typed before the prompt was shown counts with `typedAhead`; without it, it is
  # dropped.
  readSecret @2 (prompt :List(Span)) -> (line :Text, end :LineEnd);
  # Without echo, without history.
  ask @3 (question :List(Span), details :List(Span)) -> (answer :Text, end :LineEnd);
  # As readLine, but drops input typed before the question was shown.
  waitInterrupt @4 () -> (count :UInt64);
  # Answers at the next Ctrl-C that no reader receives.
  size @5 () -> (columns :UInt16, rows :UInt16);
  clear @6 () -> ();
  giveUp @7 () -> ();
  # Ends the read in progress, which answers `cancelled`. Without one, it does nothing.
  status @8 (text :Text, style :Style) -> ();
  # Shows a line of progress below all other output until the next output. It takes at most one row, and is not shown
  # while a line is being read.
  idle @9 () -> (milliseconds :UInt64);
  # Since anything was typed, or since the terminal was started.
}

interface Terminal {
  # Opens sessions. Held by the session manager.
  open @0 (label :Text) -> (session :TerminalSession);
}
