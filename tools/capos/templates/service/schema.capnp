@0x@id@;
# What the service `@name@` offers.

using A = import "annotations.capnp";

interface @Type@ {
  # Notes, kept until the service ends.

  add @0 (text :Text) -> (count :UInt32 $A.heading("notes"))
      $A.tool("add_@tool@") $A.category(mutating);
  # Keeps a note and says how many there are.

  list @1 () -> (notes :List(Text))
      $A.tool("list_@tool@") $A.category(readOnly) $A.abortable $A.untrusted;
  # All notes, oldest first.
}
