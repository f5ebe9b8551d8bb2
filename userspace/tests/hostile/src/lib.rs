//! Hostile processes
