//! Shell with agent mode
