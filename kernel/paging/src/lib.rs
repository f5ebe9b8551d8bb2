//! Addresses, page-table arithmetic, frame allocator, page-cache index, pure logic
