//! Capability table and derivation tree, pure logic
