//! The replayer's own memory, so that its tables do not lie among the objects that it replays and
//! its calls do not reach the malloc that it measures.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

use tare_harness::platform::{own_memory, PAGE_BYTES};

const CHUNK_BYTES: usize = 1 << 20;
const LARGEST_CLASS: u32 = 17;
const CLASSES: usize = LARGEST_CLASS as usize + 1;
const SMALLEST_CLASS: u32 = 4;

/// Blocks of powers of two on free lists, cut from chunks of the kernel's; what is larger than any
/// class is mapped for itself.
pub struct OwnHeap(Mutex<Blocks>);

struct Blocks {
    free: [*mut u8; CLASSES],
    chunk: *mut u8,
    chunk_left: usize,
}

// SAFETY: the pointers are to memory that is this heap's own.
unsafe impl Send for Blocks {}

impl OwnHeap {
    pub const fn new() -> OwnHeap {
        OwnHeap(Mutex::new(Blocks {
            free: [null_mut(); CLASSES],
            chunk: null_mut(),
            chunk_left: 0,
        }))
    }
}

/// The class of the blocks for a layout; None for what is mapped for itself.
fn class_of(layout: Layout) -> Option<u32> {
    let bytes = layout.size().max(layout.align()).next_power_of_two();
    let class = bytes.trailing_zeros().max(SMALLEST_CLASS);
    (class <= LARGEST_CLASS).then_some(class)
}

impl Blocks {
    fn take(&mut self, class: u32) -> *mut u8 {
        let head = self.free[class as usize];
        if !head.is_null() {
            // SAFETY: a free block holds the next one of its list in its first word.
            self.free[class as usize] = unsafe { head.cast::<*mut u8>().read() };
            return head;
        }
        let bytes = 1 << class;
        // Chunks begin at a page and blocks are cut in powers of two, so a multiple of the block
        // is where a block of up to a page is aligned; more than a page nobody asks for here.
        let padding = self.chunk.align_offset(bytes.min(PAGE_BYTES));
        if self.chunk_left < padding + bytes {
            self.chunk = own_memory(CHUNK_BYTES);
            self.chunk_left = if self.chunk.is_null() { 0 } else { CHUNK_BYTES };
            if self.chunk.is_null() {
                return null_mut();
            }
            return self.cut(0, bytes);
        }
        self.cut(padding, bytes)
    }

    fn cut(&mut self, padding: usize, bytes: usize) -> *mut u8 {
        // SAFETY: the chunk has that many bytes left.
        let block = unsafe { self.chunk.add(padding) };
        // SAFETY: as above.
        self.chunk = unsafe { block.add(bytes) };
        self.chunk_left -= padding + bytes;
        block
    }
}

// SAFETY: blocks do not overlap, are as large and as aligned as asked for (no layout here wants
// more than a page), and stay until they are given back.
unsafe impl GlobalAlloc for OwnHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > PAGE_BYTES {
            return null_mut();
        }
        match class_of(layout) {
            None => own_memory(layout.size()),
            Some(class) => {
                let mut blocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                blocks.take(class)
            }
        }
    }

    /// What is mapped for itself holds zeros already, and takes memory only once it is used.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller promises a sound layout.
        let block = unsafe { self.alloc(layout) };
        if class_of(layout).is_some() && !block.is_null() {
            // SAFETY: the block is that large.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(class) = class_of(layout) else {
            // SAFETY: it was mapped with this length.
            unsafe { libc::munmap(block.cast(), layout.size()) };
            return;
        };
        let mut blocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the block is at least 16 bytes and nobody uses it any more.
        unsafe { block.cast::<*mut u8>().write(blocks.free[class as usize]) };
        blocks.free[class as usize] = block;
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size is a layout's.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (class_of(layout), class_of(wanted)) {
            (None, None) => {
                // SAFETY: it was mapped with this length.
                let moved = unsafe {
                    libc::mremap(block.cast(), layout.size(), size, libc::MREMAP_MAYMOVE)
                };
                if moved == libc::MAP_FAILED {
                    null_mut()
                } else {
                    moved.cast()
                }
            }
            (before, now) if before == now => block,
            _ => {
                // SAFETY: the layout is sound.
                let new = unsafe { self.alloc(wanted) };
                if !new.is_null() {
                    let bytes = layout.size().min(size);
                    // SAFETY: both are so large, and a new block overlaps no other.
                    unsafe { new.copy_from_nonoverlapping(block, bytes) };
                    // SAFETY: the caller gives the block up.
                    unsafe { self.dealloc(block, layout) };
                }
                new
            }
        }
    }
}
