//! Authority broker
