//! Its test reads every model file with both readers.
