//! How an object lies in the heap: a word of header, then what the program asked for.
//!
//! The header holds the size of the cell in words (upper 32 bits), how many words of the contents
//! may hold pointers (24 bits), and 8 bits that are MMTk's while it moves the object. A word of the
//! contents is a pointer, or null, or has its lowest bit set; so collectors find pointers without
//! a map of each type.

use std::ptr;

use tare_harness::platform::WORD;

const SIZE_SHIFT: u32 = 32;
const POINTERS_SHIFT: u32 = 8;
const MOST_POINTERS: u64 = (1 << 24) - 1;
/// Compressor marks the first and the last word of an object, so there must be two.
const LEAST_WORDS: u64 = 2;
const MOST_WORDS: u64 = u32::MAX as u64;
const HEADER_BYTES: u64 = WORD as u64;

/// An object in the heap, by the address of its header.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Object(pub usize);

/// The bytes of the cell for an object that the program asked `size` bytes for; None where no heap
/// can have it.
#[inline(always)]
pub fn cell_bytes(size: u64) -> Option<usize> {
    let words = (size + HEADER_BYTES)
        .div_ceil(HEADER_BYTES)
        .max(LEAST_WORDS);
    (words <= MOST_WORDS).then_some(words as usize * WORD)
}

impl Object {
    /// # Safety
    /// The object is a cell of so many bytes, all zero.
    #[inline(always)]
    pub unsafe fn write_header(self, cell_bytes: usize) {
        let words = (cell_bytes / WORD) as u64;
        // SAFETY: the caller promises the cell.
        unsafe { (self.0 as *mut u64).write(words << SIZE_SHIFT) };
    }

    /// # Safety
    /// The object is in the heap and not being moved.
    #[inline(always)]
    unsafe fn header(self) -> u64 {
        // SAFETY: the caller promises that the header is there.
        unsafe { (self.0 as *const u64).read() }
    }

    /// # Safety
    /// As for `header`.
    #[inline(always)]
    pub unsafe fn cell_bytes(self) -> usize {
        // SAFETY: the caller promises the same.
        (unsafe { self.header() } >> SIZE_SHIFT) as usize * WORD
    }

    #[inline(always)]
    pub fn contents(self) -> *mut u8 {
        (self.0 + WORD) as *mut u8
    }

    /// Where a word of the contents lies.
    #[inline(always)]
    pub fn word(self, offset: u64) -> usize {
        self.0 + WORD + offset as usize
    }

    /// Says that a pointer is about to lie at `offset`.
    ///
    /// # Safety
    /// As for `header`.
    #[inline(always)]
    pub unsafe fn note_pointer(self, offset: u64) {
        // SAFETY: the caller promises the same.
        let header = unsafe { self.header() };
        let wanted = (offset / HEADER_BYTES + 1).min(MOST_POINTERS);
        if header >> POINTERS_SHIFT & MOST_POINTERS < wanted {
            let others = header & !(MOST_POINTERS << POINTERS_SHIFT);
            // SAFETY: the header is a word of the object.
            unsafe { (self.0 as *mut u64).write(others | wanted << POINTERS_SHIFT) };
        }
    }

    /// Calls `visit` with the address of each word that holds a pointer.
    ///
    /// # Safety
    /// As for `header`.
    #[inline(always)]
    pub unsafe fn for_each_pointer(self, mut visit: impl FnMut(usize)) {
        // SAFETY: the caller promises the same.
        let header = unsafe { self.header() };
        let noted = header >> POINTERS_SHIFT & MOST_POINTERS;
        let words = if noted == MOST_POINTERS {
            (header >> SIZE_SHIFT) - 1
        } else {
            noted
        };
        for number in 0..words {
            let place = self.word(number * HEADER_BYTES);
            // SAFETY: the word is one of the contents.
            let word = unsafe { (place as *const usize).read() };
            if word != 0 && word & 1 == 0 {
                visit(place);
            }
        }
    }

    /// Copies the contents of `other`, which is smaller, and what its header says of pointers.
    ///
    /// # Safety
    /// As for `header`, for both.
    pub unsafe fn take_contents(self, other: Object) {
        // SAFETY: the caller promises both.
        let (mine, header) = unsafe { (self.header(), other.header()) };
        let pointers = header & MOST_POINTERS << POINTERS_SHIFT;
        // SAFETY: the header is a word of the object.
        unsafe { (self.0 as *mut u64).write(mine | pointers) };
        // SAFETY: the caller promises the other.
        let bytes = unsafe { other.cell_bytes() } - WORD;
        // SAFETY: they are two cells, and this one is larger.
        unsafe { ptr::copy_nonoverlapping(other.contents(), self.contents(), bytes) };
    }
}
