//! The binary interface between kernel and processes: rings, entries, status codes, validators
