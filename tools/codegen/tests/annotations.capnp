@0xe1f5a1c0d3b70100;
# Annotations for the test schema: the same names as the real ones.

enum Category {
  readOnly @0;
  mutating @1;
  destructive @2;
  outbound @3;
  admin @4;
}

annotation tool @0xe1f5a1c0d3b70101 (method) :Text;
annotation category @0xe1f5a1c0d3b70102 (method) :Category;
annotation abortable @0xe1f5a1c0d3b70103 (method) :Void;
annotation timeoutMs @0xe1f5a1c0d3b70104 (method) :UInt32;
annotation untrusted @0xe1f5a1c0d3b70105 (method) :Void;
annotation label @0xe1f5a1c0d3b70106 (method) :Text;
annotation text @0xe1f5a1c0d3b70107 (field, param) :Void;
annotation optional @0xe1f5a1c0d3b70108 (field, param) :Void;
