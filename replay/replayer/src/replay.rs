//! The loop: the events of a schedule, done with the objects of a heap.

use std::ptr::null_mut;

use tare_harness::contents::{initialise, read_lines, write_lines};
use tare_harness::platform::WORD;
use tare_schedule::{Event, Follow};

use crate::heap::{Heap, Wanted};
use crate::objects::Objects;

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
                let has = if H::KEEPS_CONTENTS { bytes } else { WORD };
                // SAFETY: the heap just gave so many bytes; the null heap's object is a word.
                unsafe { initialise::<TOUCH>(object, has, slot) };
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
            Event::Thread { .. } | Event::Until { .. } => {}
        }
        Ok(())
    }
}
