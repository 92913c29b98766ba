//! Regions that are reaps.

use std::ptr::{null_mut, NonNull};

use tare_harness::platform::MALLOC_ALIGNMENT as ALIGNMENT;

use crate::heap::Wanted;
use crate::region::Region;

/// The layout that reap.h fixes, with what its inlined `reap_malloc` uses.
#[repr(C)]
struct RawReap {
    position: *mut u8,
    limit: *mut u8,
}

extern "C" {
    fn reap_create(parent: *mut RawReap) -> *mut RawReap;
    fn reap_free_all(reap: *mut RawReap);
    fn reap_calloc(reap: *mut RawReap, count: usize, size: usize) -> *mut u8;
    fn reap_aligned_alloc(reap: *mut RawReap, alignment: usize, size: usize) -> *mut u8;
    fn reap_realloc(reap: *mut RawReap, object: *mut u8, size: usize) -> *mut u8;
    fn reap_free(reap: *mut RawReap, object: *mut u8);
    fn reap_malloc_slowly(reap: *mut RawReap, size: usize) -> *mut u8;
}

/// One of managers/reap.
#[derive(Default)]
pub struct Reap(Option<NonNull<RawReap>>);

impl Reap {
    /// The reap, created when it is first needed; None where there is no memory.
    #[inline(always)]
    fn raw(&mut self) -> Option<NonNull<RawReap>> {
        if self.0.is_none() {
            // SAFETY: a reap of its own.
            self.0 = NonNull::new(unsafe { reap_create(null_mut()) });
        }
        self.0
    }
}

/// As the inlined `reap_malloc` of reap.h: four bytes before an object hold its size.
///
/// # Safety
/// The reap lives.
#[inline(always)]
unsafe fn reap_malloc(reap: NonNull<RawReap>, size: usize) -> *mut u8 {
    const HEADER: usize = size_of::<u32>();
    // SAFETY: the caller promises that it lives; nobody else uses it now.
    let fields = unsafe { &mut *reap.as_ptr() };
    let block = size.saturating_add(ALIGNMENT - 1 + HEADER) & !(ALIGNMENT - 1);
    if block > fields.limit as usize - fields.position as usize {
        // SAFETY: the reap lives.
        return unsafe { reap_malloc_slowly(reap.as_ptr(), size) };
    }
    let object = fields.position;
    // SAFETY: the block ends before the limit.
    fields.position = unsafe { object.add(block) };
    // SAFETY: the header of the next object lies before it, in memory of the reap.
    let header = unsafe { object.sub(HEADER) };
    // SAFETY: as above; it is aligned to 4.
    unsafe { header.cast::<u32>().write(size as u32) };
    object
}

impl Region for Reap {
    #[inline(always)]
    fn allocate(&mut self, wanted: Wanted) -> *mut u8 {
        let Some(reap) = self.raw() else {
            return null_mut();
        };
        if wanted.alignment > ALIGNMENT {
            // SAFETY: the reap lives.
            return unsafe { reap_aligned_alloc(reap.as_ptr(), wanted.alignment, wanted.size) };
        }
        if wanted.zeroed {
            // SAFETY: as above.
            return unsafe { reap_calloc(reap.as_ptr(), 1, wanted.size) };
        }
        // SAFETY: as above.
        unsafe { reap_malloc(reap, wanted.size) }
    }

    #[inline(always)]
    unsafe fn free(&mut self, object: *mut u8) {
        if let Some(reap) = self.0 {
            // SAFETY: the caller promises that it is of this reap.
            unsafe { reap_free(reap.as_ptr(), object) };
        }
    }

    unsafe fn resize(&mut self, object: *mut u8, _: usize, wanted: Wanted) -> *mut u8 {
        let Some(reap) = self.0 else {
            return null_mut();
        };
        // SAFETY: the caller promises that it is of this reap.
        unsafe { reap_realloc(reap.as_ptr(), object, wanted.size) }
    }

    unsafe fn end(&mut self, left: bool) {
        if let (true, Some(reap)) = (left, self.0) {
            // SAFETY: the reap lives, and nothing in it is used.
            unsafe { reap_free_all(reap.as_ptr()) };
        }
    }
}
