//! How many pages hold an object.

use tare_harness::platform::{ADDRESS_BITS, PAGE_SHIFT};

/// Pages are counted in leaves of 1 GiB, under a root for all addresses that a program can have.
const LEAF_SHIFT: u32 = 30;
const LEAF_PAGES: usize = 1 << (LEAF_SHIFT - PAGE_SHIFT);

/// Of each page the objects that lie in it.
pub struct ActivePages {
    leaves: Vec<Vec<u32>>,
    active: u64,
    peak: u64,
}

impl ActivePages {
    pub fn new() -> ActivePages {
        ActivePages {
            leaves: vec![Vec::new(); 1 << (ADDRESS_BITS - LEAF_SHIFT)],
            active: 0,
            peak: 0,
        }
    }

    pub fn peak_bytes(&self) -> u64 {
        self.peak << PAGE_SHIFT
    }

    /// Whether the pages that hold an object are more than ever now.
    #[inline(always)]
    pub fn add(&mut self, object: *const u8, size: usize) -> bool {
        for page in pages_of(object, size) {
            let objects = self.objects_in(page);
            *objects += 1;
            if *objects == 1 {
                self.active += 1;
            }
        }
        let is_peak = self.active > self.peak;
        if is_peak {
            self.peak = self.active;
        }
        is_peak
    }

    #[inline(always)]
    pub fn remove(&mut self, object: *const u8, size: usize) {
        for page in pages_of(object, size) {
            let objects = self.objects_in(page);
            *objects -= 1;
            if *objects == 0 {
                self.active -= 1;
            }
        }
    }

    #[inline(always)]
    fn objects_in(&mut self, page: usize) -> &mut u32 {
        let leaf = &mut self.leaves[page / LEAF_PAGES];
        if leaf.is_empty() {
            *leaf = vec![0; LEAF_PAGES];
        }
        &mut leaf[page % LEAF_PAGES]
    }
}

/// The pages of an object; one of no bytes has that where it begins.
#[inline(always)]
fn pages_of(object: *const u8, size: usize) -> std::ops::RangeInclusive<usize> {
    let first = object as usize;
    let last = first + size.saturating_sub(1);
    first >> PAGE_SHIFT..=last >> PAGE_SHIFT
}
