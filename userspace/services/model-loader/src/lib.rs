//! Verifies weights, pages them, serves the model catalog
