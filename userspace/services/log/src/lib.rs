//! Log service
