//! Tutorial service and client
