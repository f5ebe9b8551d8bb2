//! ISO 9660 server: Directory, File and pager
