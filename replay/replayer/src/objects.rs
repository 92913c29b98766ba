//! Where the object of each slot is.

use std::sync::atomic::{AtomicPtr, Ordering};

/// The address of the object of each slot, null where there is none. Threads may share it: what
/// they do to one object they do one after the other.
#[derive(Clone, Copy)]
pub struct Objects(&'static [AtomicPtr<u8>]);

impl Objects {
    pub fn new(table: &'static [AtomicPtr<u8>]) -> Objects {
        Objects(table)
    }

    #[inline(always)]
    fn place(self, slot: u32) -> &'static AtomicPtr<u8> {
        debug_assert!((slot as usize) < self.0.len());
        // SAFETY: slots of a checked schedule are in the table.
        unsafe { self.0.get_unchecked(slot as usize) }
    }

    #[inline(always)]
    pub fn get(self, slot: u32) -> *mut u8 {
        self.place(slot).load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub fn set(self, slot: u32, object: *mut u8) {
        self.place(slot).store(object, Ordering::Relaxed);
    }
}
