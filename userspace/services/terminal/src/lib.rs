//! Serial terminal service
