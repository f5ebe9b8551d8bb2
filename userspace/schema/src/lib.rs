//! Generated types, clients, servers and reflection data
