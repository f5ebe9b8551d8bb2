@0xd7a9c54be21f3806;
# What the service `notes` offers.

using A = import "annotations.capnp";

interface Notes {
  # Notes, kept until the service ends.

  add @0 (text :Text) -> (count :UInt32 $A.heading("notes"))
      $A.tool("add_notes") $A.category(mutating);
  # Keeps a note and says how many there are.

  list @1 () -> (notes :List(Text))
      $A.tool("list_notes") $A.category(readOnly) $A.abortable $A.untrusted;
  # All notes, oldest first.
}
