//! Block device driver
