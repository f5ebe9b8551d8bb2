//! The tool-use loop, its limits and its outcomes
