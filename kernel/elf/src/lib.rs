//! ELF64 program loader arithmetic, pure logic
