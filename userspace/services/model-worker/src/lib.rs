//! Language-model worker
