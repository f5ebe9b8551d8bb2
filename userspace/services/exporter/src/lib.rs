//! Scenario exporter
