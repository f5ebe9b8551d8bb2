@0xe1f5a1c0d3b70001;
# One of every thing that a schema can hold.

using Notes = import "annotations.capnp";

enum Colour {
  # A colour.
  red @0;     # Like blood.
  green @1;
  darkBlue @2;
}

struct Scalars {
  # Every scalar.
  nothing @0 :Void;
  flag @1 :Bool;
  int8 @2 :Int8;
  int16 @3 :Int16;
  int32 @4 :Int32;
  int64 @5 :Int64;
  uint8 @6 :UInt8;
  uint16 @7 :UInt16;
  uint32 @8 :UInt32;
  uint64 @9 :UInt64;
  float32 @10 :Float32;
  float64 @11 :Float64;
  colour @12 :Colour;
}

struct Pointers {
  # Every pointer.
  text @0 :Text;
  data @1 :Data;
  note @2 :Data $Notes.text;
  scalars @3 :Scalars;
  flags @4 :List(Bool);
  numbers @5 :List(Int64);
  halves @6 :List(Float32);
  texts @7 :List(Text);
  blobs @8 :List(Data);
  colours @9 :List(Colour);
  structs @10 :List(Scalars);
  nested @11 :List(List(UInt16));
  deep @12 :List(List(List(Text)));
  maybe @13 :Text $Notes.optional;
  nothings @14 :List(Void);
}

struct Defaults {
  # Fields that need not be given.
  count @0 :UInt32 = 7;
  below @1 :Int16 = -3;
  ratio @2 :Float64 = 0.5;
  title @3 :Text = "none";
  colour @4 :Colour = darkBlue;
  on @5 :Bool = true;
  must @6 :UInt8;
}

struct Shape {
  # Nothing but a union.
  union {
    point @0 :Void;
    circle @1 :Float64;   # Its radius.
    label @2 :Text;
    colour @3 :Colour;
    corners @4 :List(Int32);
    inside @5 :Scalars;
    box :group {
      width @6 :UInt32;
      height @7 :UInt32;
    }
  }
}

struct Mixed {
  # Fields, groups, a named union and an unnamed one.
  id @0 :UInt64;
  union {
    plain @1 :Void;
    words @2 :Text;
  }
  state :union {
    idle @3 :Void;
    busy @4 :UInt32;
    broken :group {
      why @5 :Text;
      when @6 :UInt64;
    }
  }
  place :group {
    x @7 :Int32;
    y @8 :Int32;
  }
  type @9 :Text;
}

struct Tree {
  # Holds itself in two ways.
  name @0 :Text;
  children @1 :List(Tree);
  best @2 :Tree;
}

struct Json {
  # Holds itself through a union.
  union {
    null @0 :Void;
    text @1 :Text;
    list @2 :List(Json);
    wrapped @3 :Json;
  }
}

struct Outer {
  struct Inner {
    value @0 :Int32;
  }
  inner @0 :Inner;
  all @1 :List(Inner);
}

interface Marker {
  # Any capability.
}

interface Counter {
  # Counts.
  add @0 (by :Int64) -> (total :Int64);
  # Adds.
  reset @1 () -> ();
}

interface Named {
  name @0 () -> (name :Text);
}

interface NamedCounter extends(Counter, Named) {
  # Both.
  rename @0 (name :Text) -> ();
}

struct Handle {
  # A capability in a struct.
  name @0 :Text;
  counter @1 :Counter;
  any @2 :Capability;
  spare @3 :Counter $Notes.optional;
}

interface Everything {
  # Methods of every shape.

  nothing @0 () -> ();

  scalars @1 Scalars -> Scalars;
  # Both named.

  echo @2 (pointers :Pointers, colour :Colour, data :Data, texts :List(Text), shape :Shape) -> (pointers :Pointers, colour :Colour, data :Data, texts :List(Text), shape :Shape)
    $Notes.tool("echo_all") $Notes.category(readOnly) $Notes.abortable $Notes.timeoutMs(1500) $Notes.untrusted $Notes.label("pii");
  # Returns its argument.

  makeCounter @3 (start :Int64) -> (counter :Counter);

  share @4 (counter :Counter, any :Marker, all :List(Counter)) -> (sum :Int64, badge :UInt64);

  handle @5 (handle :Handle) -> (handle :Handle);

  maybe @6 (text :Text $Notes.optional, counter :Counter $Notes.optional) -> (text :Text $Notes.optional);

  fail @7 (kind :UInt16, reason :Text) -> ();

  tree @8 (tree :Tree, json :Json, mixed :Mixed) -> (tree :Tree, json :Json, mixed :Mixed)
    $Notes.tool("plant_tree") $Notes.category(mutating);

  defaults @9 (count :UInt32 = 7, name :Text = "x", must :Bool) -> (defaults :Defaults);

  match @10 (self :Text, type :Text) -> (type :Text);

  large @11 (bytes :UInt32) -> (data :Data, counter :Counter);

  lookalikes @12 (inner :Outer, value :List(Tree), first :List(Text), item :List(List(Text)), at :Text, number :UInt8) -> (inner :Outer, value :List(Tree), first :List(Text), item :List(List(Text)), at :Text, number :UInt8);
  # Names that generated code uses itself.
}
