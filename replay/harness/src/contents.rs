//! What a replayer writes to objects, and what must be there at the end.

use std::hint::black_box;
use std::slice;

use tare_schedule::{stamp, Digest, FinalGraph};

use crate::platform::{LINE_BYTES, WORD};

/// Written to the lines of an object after the first. Never the address of an object: it is odd.
const LINE_MARK: u64 = 1;

/// Stamps an object. With `TOUCH`, every line of it is written, otherwise only the first.
///
/// # Safety
/// The contents have so many bytes.
#[inline(always)]
pub unsafe fn initialise<const TOUCH: bool>(contents: *mut u8, size: usize, slot: u32) {
    if size >= WORD {
        // SAFETY: the object has a word.
        unsafe { contents.cast::<u64>().write_unaligned(stamp(slot)) };
        if TOUCH {
            // SAFETY: the caller promises the size.
            unsafe { write_lines(contents, size) };
        }
    } else if size > 0 {
        // SAFETY: the object has a byte.
        unsafe { contents.write(stamp(slot) as u8) };
    }
}

/// Writes a word in each line of an object but the first.
///
/// # Safety
/// The contents have so many bytes.
#[inline(always)]
pub unsafe fn write_lines(contents: *mut u8, size: usize) {
    let mut offset = LINE_BYTES;
    while offset + WORD <= size {
        // SAFETY: the word lies in the object, by the caller's promise.
        let line = unsafe { contents.add(offset) };
        // SAFETY: as above.
        unsafe { line.cast::<u64>().write_unaligned(LINE_MARK) };
        offset += LINE_BYTES;
    }
}

/// Reads a byte of each line of an object.
///
/// # Safety
/// The contents have so many bytes.
#[inline(always)]
pub unsafe fn read_lines(contents: *const u8, size: usize) {
    let mut offset = 0;
    while offset < size {
        // SAFETY: the byte lies in the object, by the caller's promise.
        let line = unsafe { contents.add(offset) };
        // SAFETY: as above.
        black_box(unsafe { line.read_volatile() });
        offset += LINE_BYTES;
    }
}

/// The digest of what lies in memory, at the places where the final graph must be. `object` gives
/// the address of the object in a slot; its contents begin `HEADER_BYTES` after that.
///
/// # Safety
/// The schedule of the graph was replayed to its end, and nothing moves the objects.
pub unsafe fn digest_of<const HEADER_BYTES: usize>(
    graph: &FinalGraph,
    object: impl Fn(u32) -> *const u8,
) -> u64 {
    // SAFETY: an object has that header.
    let contents = |slot| unsafe { object(slot).add(HEADER_BYTES) };
    let mut digest = Digest::default();
    for found in &graph.objects {
        let kept_bytes = found.kept_bytes as usize;
        let intact = kept_bytes == 0 || {
            // SAFETY: the object is alive and had so many bytes for all of its life.
            let kept = unsafe { slice::from_raw_parts(contents(found.slot), kept_bytes) };
            stamp(found.slot).to_le_bytes().starts_with(kept)
        };
        digest.add_object(found.slot, found.size, intact);
    }
    for field in &graph.fields {
        // SAFETY: the source is alive and the word lies in it.
        let place = unsafe { contents(field.source).add(field.offset as usize) };
        // SAFETY: as above.
        let found = unsafe { place.cast::<*const u8>().read_unaligned() };
        let target = Some(field.target).filter(|&target| found == object(target));
        digest.add_field(field.source, field.offset, target);
    }
    digest.value()
}
