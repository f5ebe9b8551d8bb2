//! ISO 9660 and Rock Ridge reader
