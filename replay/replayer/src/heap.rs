//! What can serve the objects of a replay.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::Duration;

use serde::Serialize;
use tare_harness::report::seconds;

/// An object that is to be. An `alignment` of 0 is none asked for.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub slot: u32,
    pub size: usize,
    pub alignment: usize,
    pub zeroed: bool,
    pub region: Option<u32>,
}

/// Gives memory for objects. A replay is compiled for each, so calls are inlined.
pub trait Heap {
    /// Memory for an object, null where there is none.
    fn allocate(&mut self, wanted: Wanted) -> *mut u8;

    /// # Safety
    /// `object` is that of `slot`, and not used any more where another one is given for it.
    unsafe fn resize(&mut self, slot: u32, object: *mut u8, size: usize) -> *mut u8;

    /// # Safety
    /// `object` is that of `slot`, and not used any more.
    unsafe fn free(&mut self, slot: u32, object: *mut u8, with_region: bool);

    /// A pointer to the object of `target`, or to none, is being stored into that of `source`.
    #[inline(always)]
    fn note_store(&mut self, _source: u32, _offset: u64, _target: Option<u32>) {}

    /// What a heap that collects has counted.
    fn collections(&self) -> Option<Collections> {
        None
    }

    /// Memory of its own tables that it took since it was made.
    fn own_bytes(&self) -> u64 {
        0
    }

    /// Whether what is written to an object can be read from it.
    const KEEPS_CONTENTS: bool = true;
}

#[derive(Clone, Copy, Default, Serialize)]
#[serde(tag = "collector", rename = "marksweep")]
pub struct Collections {
    #[serde(rename = "collections")]
    pub count: u64,
    #[serde(rename = "collector_seconds", serialize_with = "seconds")]
    pub pauses: Duration,
    #[serde(rename = "max_pause_seconds", serialize_with = "seconds")]
    pub longest_pause: Duration,
    pub marked_bytes: u64,
    pub swept_bytes: u64,
    /// The most bytes of pages that held an object at one moment.
    pub peak_active_bytes: u64,
    /// Of objects that had not died then, as asked for.
    #[serde(rename = "heap_live_bytes")]
    pub live_at_peak: u64,
    /// Of objects that had died then, and were not freed yet.
    #[serde(rename = "heap_garbage_bytes")]
    pub garbage_at_peak: u64,
}

/// The malloc of this process: whichever allocator it runs under.
pub struct Malloc;

impl Heap for Malloc {
    #[inline(always)]
    fn allocate(&mut self, wanted: Wanted) -> *mut u8 {
        let Wanted {
            size,
            alignment,
            zeroed,
            ..
        } = wanted;
        if alignment > size_of::<usize>() {
            return aligned(size, alignment);
        }
        let object = if zeroed {
            // SAFETY: any size may be asked for.
            unsafe { libc::calloc(1, size) }
        } else {
            // SAFETY: as above.
            unsafe { libc::malloc(size) }
        };
        object.cast()
    }

    #[inline(always)]
    unsafe fn resize(&mut self, _: u32, object: *mut u8, size: usize) -> *mut u8 {
        // realloc to nothing would free the object; the program then has one of no bytes, too.
        // SAFETY: the caller promises that it is an object of this malloc.
        unsafe { libc::realloc(object.cast(), size.max(1)) }.cast()
    }

    #[inline(always)]
    unsafe fn free(&mut self, _: u32, object: *mut u8, _: bool) {
        // SAFETY: the caller promises that it is an object of this malloc.
        unsafe { libc::free(object.cast()) }
    }
}

#[cold]
fn aligned(size: usize, alignment: usize) -> *mut u8 {
    let mut object: *mut c_void = null_mut();
    // SAFETY: the alignment is a power of two, and at least that of a pointer.
    match unsafe { libc::posix_memalign(&raw mut object, alignment, size) } {
        0 => object.cast(),
        _ => null_mut(),
    }
}

/// A heap that costs nothing, to see what the replay itself does: every object is the same.
pub struct Null {
    pub object: *mut u8,
}

impl Heap for Null {
    const KEEPS_CONTENTS: bool = false;

    #[inline(always)]
    fn allocate(&mut self, _: Wanted) -> *mut u8 {
        self.object
    }

    #[inline(always)]
    unsafe fn resize(&mut self, _: u32, object: *mut u8, _: usize) -> *mut u8 {
        object
    }

    #[inline(always)]
    unsafe fn free(&mut self, _: u32, _: *mut u8, _: bool) {}
}
