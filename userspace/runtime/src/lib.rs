//! Process runtime: entry, allocator, executor, ring client, typed capabilities
