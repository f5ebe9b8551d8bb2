//! Reflection: tool descriptors, JSON to Cap'n Proto and back
