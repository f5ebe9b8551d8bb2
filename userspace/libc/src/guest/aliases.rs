//! Names that C has twice on this processor: files have been of 64 bits from the beginning.

use core::arch::naked_asm;

macro_rules! aliases {
    ($($name:ident = $target:literal),* $(,)?) => {
        $(
            /// The same function under C's other name.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name() {
                naked_asm!(concat!("jmp ", $target))
            }
        )*
    };
}

aliases!(
    open = "open64",
    openat = "openat64",
    stat = "stat64",
    lstat = "lstat64",
    fstat = "fstat64",
    fstatat = "fstatat64",
    lseek = "lseek64",
    pread = "pread64",
    pwrite = "pwrite64",
    preadv = "preadv64",
    pwritev = "pwritev64",
    ftruncate = "ftruncate64",
    truncate = "truncate64",
    readdir = "readdir64",
    sendfile = "sendfile64",
    mmap = "mmap64",
);
