//! Line editor, output sanitiser, UTF-8
