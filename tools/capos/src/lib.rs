//! Host command line: keys, signing, images, scenarios, benchmarks
