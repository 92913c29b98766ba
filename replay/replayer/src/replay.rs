//! The loop: the events of a schedule, done with the objects of a heap.

use std::hint::black_box;
use std::ptr::null_mut;

use tare_schedule::{stamp, Event, Follow};

use crate::heap::{Heap, Wanted};
use crate::objects::Objects;

/// Written to the lines of an object after the first; never the address of an object.
const LINE_MARK: u64 = 1;
pub const LINE_BYTES: usize = 64;
const WORD: usize = size_of::<u64>();

/// Why a replay has no end.
#[derive(Debug)]
pub enum Stopped {
    /// The manager had no memory for an object of so many bytes.
    OutOfMemory(u64),
    /// The system gave no thread, and why.
    NoThread(String),
}

/// Does events with the objects of a heap. With `TOUCH`, every line of an object is written at its
/// birth; otherwise only the first.
pub struct Replay<'a, H, const TOUCH: bool> {
    pub heap: &'a mut H,
    pub objects: Objects,
}

impl<H: Heap, const TOUCH: bool> Follow for Replay<'_, H, TOUCH> {
    type Stop = Stopped;

    #[inline(always)]
    fn event(&mut self, event: Event) -> Result<(), Stopped> {
        let objects = self.objects;
        let heap = &mut *self.heap;
        match event {
            Event::Allocate {
                slot,
                size,
                alignment,
                zeroed,
                region,
            } => {
                let bytes = size as usize;
                let object = heap.allocate(Wanted {
                    slot,
                    size: bytes,
                    alignment: alignment as usize,
                    zeroed,
                    region,
                });
                if object.is_null() && size > 0 {
                    return Err(Stopped::OutOfMemory(size));
                }
                // SAFETY: the heap just gave so many bytes.
                unsafe { initialise::<H, TOUCH>(object, bytes, slot) };
                objects.set(slot, object);
            }
            Event::Resize { slot, size } => {
                // SAFETY: a checked schedule resizes only what is alive, and the old address goes.
                let moved = unsafe { heap.resize(slot, objects.get(slot), size as usize) };
                if moved.is_null() {
                    return Err(Stopped::OutOfMemory(size));
                }
                objects.set(slot, moved);
            }
            Event::Free { slot, with_region } => {
                let object = objects.get(slot);
                objects.set(slot, null_mut());
                // SAFETY: a checked schedule frees what is alive, and the address is gone.
                unsafe { heap.free(slot, object, with_region) };
            }
            Event::Write { slot, size } => {
                if H::KEEPS_CONTENTS {
                    // SAFETY: the object is alive and has that size, as was checked.
                    unsafe { write_lines(objects.get(slot), size as usize) };
                }
            }
            Event::Read { slot, size } => {
                if H::KEEPS_CONTENTS {
                    // SAFETY: the object is alive and has that size, as was checked.
                    unsafe { read_lines(objects.get(slot), size as usize) };
                }
            }
            Event::Store {
                source,
                offset,
                target,
            } => {
                let value = target.map_or(null_mut(), |target| objects.get(target));
                heap.note_store(source, offset, target);
                if H::KEEPS_CONTENTS {
                    // SAFETY: the source is alive and the word lies in it, as was checked.
                    let place = unsafe { objects.get(source).add(offset as usize) };
                    // SAFETY: as above.
                    unsafe { place.cast::<*mut u8>().write_unaligned(value) };
                }
            }
            Event::Thread { .. } => {}
        }
        Ok(())
    }
}

#[inline(always)]
unsafe fn initialise<H: Heap, const TOUCH: bool>(object: *mut u8, size: usize, slot: u32) {
    if !H::KEEPS_CONTENTS {
        // SAFETY: the null heap's object is a word.
        unsafe { object.cast::<u64>().write_unaligned(stamp(slot)) };
    } else if size >= WORD {
        // SAFETY: the object has a word.
        unsafe { object.cast::<u64>().write_unaligned(stamp(slot)) };
        if TOUCH {
            // SAFETY: the caller promises the size.
            unsafe { write_lines(object, size) };
        }
    } else if size > 0 {
        // SAFETY: the object has a byte.
        unsafe { object.write(stamp(slot) as u8) };
    }
}

/// Writes a word in each line of an object but the first.
#[inline(always)]
unsafe fn write_lines(object: *mut u8, size: usize) {
    let mut offset = LINE_BYTES;
    while offset + WORD <= size {
        // SAFETY: the word lies in the object, by the caller's promise.
        let line = unsafe { object.add(offset) };
        // SAFETY: as above.
        unsafe { line.cast::<u64>().write_unaligned(LINE_MARK) };
        offset += LINE_BYTES;
    }
}

/// Reads a byte of each line of an object.
#[inline(always)]
unsafe fn read_lines(object: *const u8, size: usize) {
    let mut offset = 0;
    while offset < size {
        // SAFETY: the byte lies in the object, by the caller's promise.
        let line = unsafe { object.add(offset) };
        // SAFETY: as above.
        black_box(unsafe { line.read_volatile() });
        offset += LINE_BYTES;
    }
}
