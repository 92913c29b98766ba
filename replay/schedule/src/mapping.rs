//! Memory straight from the kernel.

use std::io;
use std::ptr::{null_mut, NonNull};
use std::slice;

/// Fresh memory of zeros; null where there is none. It is this process's own: the kernel would clear
/// it in the child of a fork, which no allocator asks for, and by that it is known from theirs.
#[must_use]
pub fn own_memory(bytes: usize, populated: bool) -> *mut u8 {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let populate = if populated { libc::MAP_POPULATE } else { 0 };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | populate;
    // SAFETY: no address is asked for, so nothing that is mapped is replaced.
    let start = unsafe { libc::mmap(null_mut(), bytes, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return null_mut();
    }
    // SAFETY: so much was mapped there just now.
    unsafe { libc::madvise(start, bytes, libc::MADV_WIPEONFORK) };
    start.cast()
}

/// Memory with a page behind each address, given back when it is dropped.
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to the mapping alone, and is shared only as Rust allows for its bytes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// So many zeros.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn populated(bytes: usize) -> io::Result<Mapping> {
        let bytes = bytes.max(1);
        match NonNull::new(own_memory(bytes, true)) {
            Some(start) => Ok(Mapping { start, bytes }),
            None => Err(io::Error::last_os_error()),
        }
    }

    /// The first `bytes` of what is read. It is a copy, which stays as it is whatever becomes of a
    /// file.
    ///
    /// # Errors
    /// What the kernel says, or that there is less.
    pub fn of(mut from: impl io::Read, bytes: usize) -> io::Result<Mapping> {
        let mapping = Mapping::populated(bytes)?;
        // SAFETY: so many bytes were mapped there, and nobody else knows of them yet.
        let content = unsafe { slice::from_raw_parts_mut(mapping.start(), bytes) };
        from.read_exact(content)?;
        Ok(mapping)
    }

    /// Where it begins: a page.
    #[must_use]
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: so many bytes are mapped there for as long as `self` lives.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody can reach it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
