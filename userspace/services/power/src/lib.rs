//! Power control
