//! First process: reads the manifest, starts and supervises services
