//! What is assumed of the processor and of Linux.

use std::io;
use std::ptr::null_mut;
use std::slice;
use std::sync::atomic::AtomicPtr;
use std::time::Duration;

pub const WORD: usize = size_of::<usize>();
/// Of the cache.
pub const LINE_BYTES: usize = 64;
/// What shares no line of the cache with others.
#[derive(Default)]
#[repr(align(64))]
pub struct OwnLine<T>(pub T);

pub const PAGE_BYTES: usize = 1 << PAGE_SHIFT;
pub const PAGE_SHIFT: u32 = 12;
/// Of any address that a program gets, unless it asks for a larger one.
pub const ADDRESS_BITS: u32 = if cfg!(target_arch = "aarch64") {
    48
} else {
    47
};
/// Of what malloc gives.
pub const MALLOC_ALIGNMENT: usize = 16;

/// Fresh memory of zeros; null where there is none. It is this process's own: the kernel would clear
/// it in the child of a fork, which no allocator asks for, and by that it is known from theirs.
pub fn own_memory(bytes: usize) -> *mut u8 {
    map(bytes, 0)
}

/// Addresses, all null, with a page behind each. They stay until the process ends.
pub fn table_of_addresses(places: usize) -> io::Result<&'static [AtomicPtr<u8>]> {
    let bytes = places * size_of::<AtomicPtr<u8>>();
    let start = map(bytes.max(1), libc::MAP_POPULATE);
    if start.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: so much was mapped, at a page, and nobody else has it; zeros are null.
    Ok(unsafe { slice::from_raw_parts(start.cast(), places) })
}

fn map(bytes: usize, more_flags: i32) -> *mut u8 {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | more_flags;
    // SAFETY: no address is asked for, so nothing that is mapped is replaced.
    let start = unsafe { libc::mmap(null_mut(), bytes, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return null_mut();
    }
    // SAFETY: so much was mapped there just now.
    unsafe { libc::madvise(start, bytes, libc::MADV_WIPEONFORK) };
    start.cast()
}

/// How long processors worked for this process.
pub fn process_time() -> Duration {
    time_of(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// How long a processor worked for this thread.
pub fn thread_time() -> Duration {
    time_of(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn time_of(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock exists on Linux, and the time is this function's own.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}
