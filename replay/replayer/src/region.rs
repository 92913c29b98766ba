//! Objects in regions: single ones of malloc, or those of a pointer that is bumped.
//! What is in no region comes from the malloc of this process.

use std::ptr::null_mut;

use tare_harness::platform::MALLOC_ALIGNMENT;
use tare_schedule::Header;

use crate::heap::{Heap, Malloc, Wanted};

const FIRST_CHUNK: usize = 8 << 10;
const LARGEST_CHUNK: usize = 1 << 20;

/// How the objects of one region are served.
pub trait Region: Default {
    fn allocate(&mut self, wanted: Wanted) -> *mut u8;

    /// Frees one object before its region ends; does nothing where regions cannot.
    ///
    /// # Safety
    /// `object` is of this region, and not used any more.
    unsafe fn free(&mut self, object: *mut u8);

    /// Another size for an object of this region. `before` is the one that it has.
    ///
    /// # Safety
    /// `object` is of this region, and not used any more where another one is given for it.
    unsafe fn resize(&mut self, object: *mut u8, before: usize, wanted: Wanted) -> *mut u8 {
        let moved = self.allocate(wanted);
        if !moved.is_null() {
            let kept = before.min(wanted.size);
            // SAFETY: both objects have so many bytes, and they do not overlap: both live.
            unsafe { moved.copy_from_nonoverlapping(object, kept) };
            // SAFETY: the caller gives it up.
            unsafe { self.free(object) };
        }
        moved
    }

    /// Frees all objects; `left` says whether any was not freed on its own.
    ///
    /// # Safety
    /// No object of this region is used any more.
    unsafe fn end(&mut self, left: bool);
}

/// The regions of a schedule, each a `R`.
pub struct Regions<R> {
    regions: Vec<Counted<R>>,
    /// Of each slot the size of its object and its region, where it has one.
    placed: Vec<(usize, Option<u32>)>,
}

#[derive(Default)]
struct Counted<R> {
    region: R,
    objects: u64,
    left: bool,
}

impl<R: Region> Regions<R> {
    pub fn new(header: &Header) -> Regions<R> {
        Regions {
            regions: (0..header.regions).map(|_| Counted::default()).collect(),
            placed: vec![(0, None); header.slots as usize],
        }
    }
}

impl<R: Region> Heap for Regions<R> {
    #[inline(always)]
    fn allocate(&mut self, wanted: Wanted) -> *mut u8 {
        self.placed[wanted.slot as usize] = (wanted.size, wanted.region);
        match wanted.region {
            None => Malloc.allocate(wanted),
            Some(region) => {
                let of = &mut self.regions[region as usize];
                of.objects += 1;
                of.region.allocate(wanted)
            }
        }
    }

    #[inline(always)]
    unsafe fn resize(&mut self, slot: u32, object: *mut u8, size: usize) -> *mut u8 {
        let place = &mut self.placed[slot as usize];
        let before = std::mem::replace(&mut place.0, size);
        let Some(region) = place.1 else {
            // SAFETY: as the caller promises, of malloc.
            return unsafe { Malloc.resize(slot, object, size) };
        };
        let wanted = Wanted {
            slot,
            size: size.max(1),
            alignment: 0,
            zeroed: false,
            region: Some(region),
        };
        let of = &mut self.regions[region as usize].region;
        // SAFETY: as the caller promises, of this region.
        unsafe { of.resize(object, before, wanted) }
    }

    #[inline(always)]
    unsafe fn free(&mut self, slot: u32, object: *mut u8, with_region: bool) {
        let Some(region) = self.placed[slot as usize].1 else {
            // SAFETY: as the caller promises, of malloc.
            unsafe { Malloc.free(slot, object, with_region) };
            return;
        };
        let of = &mut self.regions[region as usize];
        of.objects -= 1;
        if with_region {
            of.left = true;
        } else {
            // SAFETY: as the caller promises, of this region.
            unsafe { of.region.free(object) };
        }
        if of.objects == 0 {
            // SAFETY: each of its objects was given up.
            unsafe { of.region.end(of.left) };
            of.left = false;
        }
    }
}

/// A region in which each object is one of malloc, freed when the region ends.
#[derive(Default)]
pub struct Emulated {
    objects: Vec<*mut u8>,
}

impl Region for Emulated {
    #[inline(always)]
    fn allocate(&mut self, wanted: Wanted) -> *mut u8 {
        let object = Malloc.allocate(wanted);
        self.objects.push(object);
        object
    }

    #[inline(always)]
    unsafe fn free(&mut self, _: *mut u8) {}

    unsafe fn end(&mut self, _: bool) {
        for object in self.objects.drain(..) {
            // SAFETY: it is of malloc, and nobody uses it.
            unsafe { Malloc.free(0, object, true) };
        }
    }
}

/// A region that bumps a pointer through chunks of malloc, each twice as large as the one before.
#[derive(Default)]
pub struct Bump {
    chunks: Vec<*mut u8>,
    position: usize,
    limit: usize,
    next_chunk: usize,
    /// What the first chunk has room for; it is kept when the region ends.
    first_chunk: usize,
}

impl Region for Bump {
    #[inline(always)]
    fn allocate(&mut self, wanted: Wanted) -> *mut u8 {
        let alignment = wanted.alignment.max(MALLOC_ALIGNMENT);
        let size = wanted.size.max(1);
        let start = self.position.next_multiple_of(alignment);
        let object = if start <= self.limit && size <= self.limit - start {
            self.position = start + size;
            start as *mut u8
        } else {
            self.allocate_in_new_chunk(size, alignment)
        };
        if wanted.zeroed && !object.is_null() {
            // SAFETY: the object has so many bytes.
            unsafe { object.write_bytes(0, wanted.size) };
        }
        object
    }

    #[inline(always)]
    unsafe fn free(&mut self, _: *mut u8) {}

    unsafe fn end(&mut self, _: bool) {
        for chunk in self.chunks.drain(1.min(self.chunks.len())..) {
            // SAFETY: it is of malloc, and nothing in it is used.
            unsafe { libc::free(chunk.cast()) };
        }
        let Some(&first) = self.chunks.first() else {
            return;
        };
        self.position = first as usize;
        self.limit = self.position + self.first_chunk;
        self.next_chunk = self.first_chunk;
    }
}

impl Bump {
    #[cold]
    fn allocate_in_new_chunk(&mut self, size: usize, alignment: usize) -> *mut u8 {
        let usual = (self.next_chunk * 2).clamp(FIRST_CHUNK, LARGEST_CHUNK);
        let Some(bytes) = size.checked_add(alignment).map(|least| least.max(usual)) else {
            return null_mut();
        };
        // SAFETY: any size may be asked for.
        let chunk = unsafe { libc::malloc(bytes) }.cast::<u8>();
        if chunk.is_null() {
            return null_mut();
        }
        if self.chunks.is_empty() {
            self.first_chunk = bytes;
        }
        self.chunks.push(chunk);
        self.next_chunk = usual;
        let start = (chunk as usize).next_multiple_of(alignment);
        self.position = start + size;
        self.limit = chunk as usize + bytes;
        start as *mut u8
    }
}
