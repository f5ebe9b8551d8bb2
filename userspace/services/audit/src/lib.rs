//! Audit log service
