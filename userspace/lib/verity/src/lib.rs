//! fs-verity Merkle trees and signed files
