//! Hash-chained audit records
