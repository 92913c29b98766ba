//! The loop: the events of a schedule, done in a heap.

use tare_harness::contents::{initialise, read_lines, write_lines};
use tare_harness::platform::WORD;
use tare_schedule::{Event, Events};

use crate::heap::Heap;
use crate::object::Object;
use crate::world::WORLD;

/// No heap could have an object of so many bytes.
#[derive(Debug)]
pub struct TooLarge(pub u64);

/// Replays `events`. With `TOUCH`, every line of an object is written at its birth; otherwise only
/// the first. With `POLL` the collector may stop the thread between events, and not only when it
/// allocates.
pub fn replay<const P: u8, const B: u8, const POST: bool, const TOUCH: bool, const POLL: bool>(
    heap: &mut Heap<P, B, POST>,
    events: Events<'_>,
    table: *mut [Object],
) -> Result<(), TooLarge> {
    // The collector moves objects and writes their new addresses while this thread waits in
    // `allocate`, so entries are read anew for each event.
    let at = |slot: u32| {
        debug_assert!((slot as usize) < table.len());
        // SAFETY: slots of a checked schedule are in the table.
        unsafe { table.cast::<Object>().add(slot as usize) }
    };
    // SAFETY: as above.
    let get = |slot: u32| unsafe { at(slot).read() };
    // SAFETY: as above.
    let set = |slot: u32, object: Object| unsafe { at(slot).write(object) };
    for event in events {
        match event {
            Event::Allocate { slot, size, .. } => {
                let object = heap.allocate(slot, size).ok_or(TooLarge(size))?;
                // SAFETY: the heap just gave so many bytes.
                unsafe { initialise::<TOUCH>(object.contents(), size as usize, slot) };
                set(slot, object);
            }
            Event::Resize { slot, size } => {
                // SAFETY: the object is alive, as was checked.
                let has = unsafe { get(slot).cell_bytes() } - WORD;
                if size > has as u64 {
                    let grown = heap.allocate(slot, size).ok_or(TooLarge(size))?;
                    let old = get(slot);
                    // SAFETY: both are alive, and the new one is larger.
                    // A new object needs no barrier for the pointers that it begins with.
                    unsafe { grown.take_contents(old) };
                    set(slot, grown);
                    heap.give_up(old);
                }
            }
            Event::Free { slot, .. } => {
                let object = get(slot);
                set(slot, Object(0));
                heap.give_up(object);
            }
            Event::Write { slot, size } => {
                // SAFETY: the object is alive and has that size, as was checked.
                unsafe { write_lines(get(slot).contents(), size as usize) };
            }
            Event::Read { slot, size } => {
                // SAFETY: the object is alive and has that size, as was checked.
                unsafe { read_lines(get(slot).contents(), size as usize) };
            }
            Event::Store {
                source,
                offset,
                target,
            } => {
                // A pointer in an odd place is none to a collector, and none of the final graph.
                if offset % WORD as u64 == 0 {
                    // SAFETY: both are alive, and the word lies in the source, as was checked.
                    unsafe { heap.store(get(source), offset, target.map(get)) };
                }
            }
            Event::Thread { .. } | Event::Until { .. } => {}
        }
        if POLL {
            WORLD.safepoint();
        }
    }
    Ok(())
}
