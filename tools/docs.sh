#!/bin/sh
# Builds the book if mdbook is installed, and the API pages of all crates.
set -eu

if command -v mdbook >/dev/null 2>&1; then
    mdbook build docs
    echo "The book: target/book/index.html"
else
    echo "mdbook is not installed (cargo install mdbook); the book is readable without it, from docs/SUMMARY.md on"
fi
"${CARGO:-cargo}" doc --workspace --no-deps --quiet
echo "The API pages: target/doc/"
