//! Memory straight from the kernel: of a file, or fresh.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::slice;

/// Mapped memory, given back when it is dropped.
///
/// A file must not be cut short by others while it is mapped.
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to the mapping alone, and is shared only as Rust allows for its bytes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The whole of `file`, which is not empty, read into memory.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn of_file(file: &File, bytes: usize) -> io::Result<Mapping> {
        let flags = libc::MAP_PRIVATE | libc::MAP_POPULATE;
        Mapping::map(bytes, libc::PROT_READ, flags, file.as_raw_fd())
    }

    /// Fresh memory of zeros, with a page behind each address already.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn populated(bytes: usize) -> io::Result<Mapping> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        Mapping::map(bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1)
    }

    fn map(bytes: usize, protection: i32, flags: i32, file: i32) -> io::Result<Mapping> {
        let bytes = bytes.max(1);
        // SAFETY: no address is asked for, so nothing that is mapped is replaced.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file, 0) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Mapping { start, bytes })
            }
            _ => Err(io::Error::last_os_error()),
        }
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
