//! Where the object of each slot is.

use std::io;
use std::sync::atomic::{AtomicPtr, Ordering};

use tare_harness::platform::table_of_addresses;

/// The address of the object of each slot, null where there is none. Threads may share it: what
/// they do to one object they do one after the other.
#[derive(Clone, Copy)]
pub struct Objects(&'static [AtomicPtr<u8>]);

impl Objects {
    /// A table for so many slots, which stays until the process ends.
    pub fn new(slots: usize) -> io::Result<Objects> {
        table_of_addresses(slots).map(Objects)
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
