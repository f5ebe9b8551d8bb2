//! System manifest and scenario configuration
