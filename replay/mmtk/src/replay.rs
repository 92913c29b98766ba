//! The loop: the events of a schedule, done in a heap.

use std::hint::black_box;
use std::slice;

use tare_schedule::{stamp, stamped_bytes, Digest, Event, Events, FinalGraph};

use crate::heap::Heap;
use crate::object::{Object, WORD};
use crate::world::WORLD;

/// Written to the lines of an object after the first; not a pointer, because it is odd.
const LINE_MARK: u64 = 1;
const LINE_BYTES: usize = 64;

/// No heap could have an object of so many bytes.
#[derive(Debug)]
pub struct TooLarge(pub u64);

/// Replays `events`. With `TOUCH`, every line of an object is written at its birth; otherwise only
/// the first. With `POLL` the collector may stop the thread between events, and not only when it
/// allocates.
pub fn replay<const P: u8, const B: u8, const POST: bool, const TOUCH: bool, const POLL: bool>(
    heap: &mut Heap<P, B, POST>,
    events: Events<'_>,
    table: *mut Object,
    slots: usize,
) -> Result<(), TooLarge> {
    // The collector moves objects and writes their new addresses while this thread waits in
    // `allocate`, so entries are read anew for each event.
    let at = |slot: u32| {
        debug_assert!((slot as usize) < slots);
        // SAFETY: slots of a checked schedule are in the table.
        unsafe { table.add(slot as usize) }
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
                unsafe { initialise::<TOUCH>(object, size, slot) };
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
            Event::Thread { .. } => {}
        }
        if POLL {
            WORLD.safepoint();
        }
    }
    Ok(())
}

#[inline(always)]
unsafe fn initialise<const TOUCH: bool>(object: Object, size: u64, slot: u32) {
    if stamped_bytes(size) == WORD as u64 {
        // SAFETY: the object has a word.
        unsafe { object.contents().cast::<u64>().write(stamp(slot)) };
        if TOUCH {
            // SAFETY: the caller promises the size.
            unsafe { write_lines(object.contents(), size as usize) };
        }
    } else if size > 0 {
        // SAFETY: the object has a byte.
        unsafe { object.contents().write(stamp(slot) as u8) };
    }
}

/// Writes a word in each line of an object but the first.
#[inline(always)]
unsafe fn write_lines(contents: *mut u8, size: usize) {
    let mut offset = LINE_BYTES;
    while offset + WORD <= size {
        // SAFETY: the word lies in the object, by the caller's promise.
        unsafe { contents.add(offset).cast::<u64>().write(LINE_MARK) };
        offset += LINE_BYTES;
    }
}

/// Reads a byte of each line of an object.
#[inline(always)]
unsafe fn read_lines(contents: *const u8, size: usize) {
    let mut offset = 0;
    while offset < size {
        // SAFETY: the byte lies in the object, by the caller's promise.
        black_box(unsafe { contents.add(offset).read_volatile() });
        offset += LINE_BYTES;
    }
}

/// The digest of what lies in memory, at the places where the final graph must be.
///
/// # Safety
/// The replay is done, `table` is its, and no collection is under way.
pub unsafe fn digest_of(graph: &FinalGraph, table: *const Object) -> u64 {
    // SAFETY: the slots of the graph are in the table.
    let get = |slot: u32| unsafe { table.add(slot as usize).read() };
    let mut digest = Digest::default();
    for object in &graph.objects {
        let contents = get(object.slot).contents();
        // SAFETY: the object is alive and always had those bytes.
        let kept = unsafe { slice::from_raw_parts(contents, object.kept_bytes as usize) };
        let intact = stamp(object.slot).to_le_bytes().starts_with(kept);
        digest.add_object(object.slot, object.size, intact);
    }
    for field in &graph.fields {
        let place = get(field.source).word(field.offset);
        // SAFETY: the source is alive and the word lies in it.
        let found = unsafe { (place as *const usize).read() };
        let target = Some(field.target).filter(|&target| found == get(target).0);
        digest.add_field(field.source, field.offset, target);
    }
    digest.value()
}
