//! Generator of clients, servers and reflection data from schema/*.capnp
