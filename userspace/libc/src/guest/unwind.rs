//! What the unwinder asks for: where the program's headers lie.

use core::ffi::{c_char, c_int, c_void};

unsafe extern "C" {
    /// The program's first bytes, which the linker puts into the first segment.
    static __ehdr_start: libc::Elf64_Ehdr;
}

type Callback = unsafe extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int;

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn dl_iterate_phdr(callback: Callback, data: *mut c_void) -> c_int {
    let headers = headers();
    let mut info = libc::dl_phdr_info {
        // Programs lie where they were linked.
        dlpi_addr: 0,
        dlpi_name: c"".as_ptr(),
        dlpi_phdr: headers.as_ptr(),
        dlpi_phnum: u16::try_from(headers.len()).unwrap_or(0),
        dlpi_adds: 1,
        dlpi_subs: 0,
        dlpi_tls_modid: 1,
        dlpi_tls_data: core::ptr::null_mut(),
    };
    // SAFETY: the caller's function, for this one object.
    unsafe { callback(&raw mut info, size_of::<libc::dl_phdr_info>(), data) }
}

/// Answer of `_dl_find_object`, as glibc's `<dlfcn.h>` has it on this processor.
#[repr(C)]
struct FoundObject {
    flags: u64,
    start: *const c_void,
    end: *const c_void,
    link_map: *const c_void,
    eh_frame: *const c_void,
    reserved: [u64; 7],
}

/// The program's headers.
fn headers() -> &'static [libc::Elf64_Phdr] {
    let start = &raw const __ehdr_start;
    // SAFETY: the linker puts the headers where it says, aligned, and they are never written.
    unsafe {
        let headers = start.cast::<u8>().add((*start).e_phoff as usize).cast();
        core::slice::from_raw_parts(headers, usize::from((*start).e_phnum))
    }
}

/// First address and end of the program in memory, and where from its first address on, and its index of frames.
fn extent() -> (u64, u64, u64) {
    let (mut end, mut frames) = (0, 0);
    for header in headers() {
        match header.p_type {
            libc::PT_LOAD => end = header.p_vaddr.saturating_add(header.p_memsz).max(end),
            libc::PT_GNU_EH_FRAME => frames = header.p_vaddr,
            _ => {}
        }
    }
    ((&raw const __ehdr_start).addr() as u64, end, frames)
}

/// # Safety
/// As in glibc.
#[unsafe(no_mangle)]
unsafe extern "C" fn _dl_find_object(address: *const c_void, out: *mut FoundObject) -> c_int {
    let (start, end, frames) = extent();
    if !(start..end).contains(&(address.addr() as u64)) || frames == 0 {
        return -1;
    }
    let pointer = |address: u64| core::ptr::with_exposed_provenance(usize::try_from(address).unwrap_or(0));
    let found = FoundObject {
        flags: 0,
        start: pointer(start),
        end: pointer(end),
        link_map: core::ptr::null(),
        eh_frame: pointer(frames),
        reserved: [0; 7],
    };
    // SAFETY: the caller's place for the answer.
    unsafe { out.write(found) };
    0
}

/// The program's thread-local storage, as each thread has it at its start.
pub struct ThreadLocal {
    pub image: *const u8,
    pub image_bytes: usize,
    /// Bytes of a thread's storage: the image, then zeros.
    pub bytes: u64,
    pub align: u64,
}

/// The program's thread-local storage, according to its headers.
pub fn thread_local() -> ThreadLocal {
    let mut found = ThreadLocal { image: core::ptr::null(), image_bytes: 0, bytes: 0, align: 1 };
    for header in headers() {
        if header.p_type == libc::PT_TLS {
            found.image = core::ptr::with_exposed_provenance(usize::try_from(header.p_vaddr).unwrap_or(0));
            found.image_bytes = usize::try_from(header.p_filesz).unwrap_or(0);
            found.bytes = header.p_memsz;
            found.align = header.p_align.max(1);
        }
    }
    found
}

#[unsafe(no_mangle)]
extern "C" fn dlsym(_handle: *mut c_void, _name: *const c_char) -> *mut c_void {
    // Everything is linked already: the functions that a program looks up by name are optional.
    core::ptr::null_mut()
}
