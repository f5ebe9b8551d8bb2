@0xe1f5a1c0d3b70100;
# Annotations for the test schema: names and identifiers of the real ones.

enum Category {
  readOnly @0;
  mutating @1;
  destructive @2;
  outbound @3;
  admin @4;
}

annotation tool @0xb1a7c0de5c4e3a02 (method) :Text;
annotation category @0xb1a7c0de5c4e3a03 (method) :Category;
annotation abortable @0xb1a7c0de5c4e3a04 (method) :Void;
annotation timeoutMs @0xb1a7c0de5c4e3a05 (method) :UInt32;
annotation untrusted @0xb1a7c0de5c4e3a07 (method) :Void;
annotation label @0xb1a7c0de5c4e3a08 (method) :Text;
annotation text @0xb1a7c0de5c4e3a0a (field, param) :Void;
annotation optional @0xb1a7c0de5c4e3a0c (field, param) :Void;
