//! Permission map, profiles, consent and step-up decisions
