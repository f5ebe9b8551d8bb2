//! Multiboot2 loader that builds the Limine handover
