//! A mark-sweep collector over the malloc of this process, exact: an object lives while its slot
//! holds it, or while another that lives points to it by a store of the schedule.
//!
//! Nothing of it lies in the objects. It knows each by the place of its *cell* in a table, because
//! a slot may have another object long before its last one is reclaimed.

use std::ptr::null_mut;
use std::time::Instant;

use tare_harness::platform::WORD;
use tare_schedule::Header;

use crate::arguments::Period;
use crate::heap::{Collections, Heap, Malloc, Wanted};
use crate::pages::ActivePages;

/// The place of no cell.
const NONE: u32 = u32::MAX;
/// With no period given, collections are so far apart at least.
const LEAST_PERIOD: u64 = 4 << 20;

/// An object that was not reclaimed yet.
#[derive(Clone, Copy)]
struct Cell {
    object: *mut u8,
    /// As asked for at its birth.
    size: usize,
}

pub struct MarkSweep {
    period: Period,
    since_collection: u64,
    next_collection: u64,
    /// By slot, the cell of the object that has not died; these are the roots.
    roots: Vec<u32>,
    cells: Vec<Cell>,
    marks: Vec<bool>,
    unused: Vec<u32>,
    /// By cell, the targets of its words up to the last that was stored to; empty where the
    /// schedule has no stores.
    fields: Vec<Vec<u32>>,
    has_stores: bool,
    mark_stack: Vec<u32>,
    /// Cells that lost their root since the last sweep, where nothing else holds an object and time
    /// does not matter: these are the garbage then, and nothing is marked.
    dead: Option<Vec<u32>>,
    field_bytes: u64,
    peak_field_bytes: u64,
    pages: ActivePages,
    /// Of all objects that were not reclaimed.
    held_bytes: u64,
    /// Of all objects that have not died.
    rooted_bytes: u64,
    counted: Collections,
}

impl MarkSweep {
    /// Its tables take memory only as they are used, for they are given room for all that the
    /// schedule can need.
    pub fn new(period: Period, header: &Header, untimed: bool) -> MarkSweep {
        let births = (header.objects + header.resizes) as usize;
        let has_stores = header.stores > 0;
        MarkSweep {
            period,
            since_collection: 0,
            next_collection: period.after(0),
            roots: vec![NONE; header.slots as usize],
            cells: Vec::with_capacity(births),
            marks: Vec::with_capacity(births),
            unused: Vec::with_capacity(births),
            fields: Vec::with_capacity(if has_stores { births } else { 0 }),
            has_stores,
            mark_stack: Vec::new(),
            dead: (untimed && !has_stores).then(Vec::new),
            field_bytes: 0,
            peak_field_bytes: 0,
            pages: ActivePages::new(),
            held_bytes: 0,
            rooted_bytes: 0,
            counted: Collections::default(),
        }
    }

    #[inline(always)]
    fn count(&mut self, size: usize) {
        let size = size as u64;
        self.since_collection = self.since_collection.saturating_add(size);
        if self.since_collection > self.next_collection {
            self.collect();
            self.since_collection = size;
        }
    }

    #[inline(always)]
    fn add(&mut self, slot: u32, object: *mut u8, size: usize) {
        self.held_bytes += size as u64;
        self.rooted_bytes += size as u64;
        if self.pages.add(object, size) {
            self.counted.live_at_peak = self.rooted_bytes;
            self.counted.garbage_at_peak = self.held_bytes - self.rooted_bytes;
        }
        let cell = Cell { object, size };
        let place = if let Some(place) = self.unused.pop() {
            self.cells[place as usize] = cell;
            place
        } else {
            self.cells.push(cell);
            self.marks.push(false);
            if self.has_stores {
                self.fields.push(Vec::new());
            }
            (self.cells.len() - 1) as u32
        };
        self.roots[slot as usize] = place;
    }

    /// Has a name by which the instrument finds it.
    #[export_name = "tare_replay_collection"]
    #[cold]
    #[inline(never)]
    fn collect(&mut self) {
        let begun = Instant::now();
        let live_bytes = self.live_bytes();
        self.counted.count += 1;
        self.counted.marked_bytes += live_bytes;
        if self.period.reclaim > 0 && self.counted.count % self.period.reclaim == 0 {
            self.counted.swept_bytes += self.sweep();
        } else {
            self.marks.fill(false);
        }
        self.next_collection = self.period.after(live_bytes);
        let pause = begun.elapsed();
        self.counted.pauses += pause;
        self.counted.longest_pause = self.counted.longest_pause.max(pause);
    }

    /// Of what can be reached, which is marked unless it is known.
    fn live_bytes(&mut self) -> u64 {
        match self.dead {
            Some(_) => self.rooted_bytes,
            None => self.mark(),
        }
    }

    /// Marks what can be reached, and gives its bytes.
    fn mark(&mut self) -> u64 {
        let mut bytes = 0;
        for slot in 0..self.roots.len() {
            let root = self.roots[slot];
            if root == NONE {
                continue;
            }
            bytes += self.mark_cell(root);
            while let Some(cell) = self.mark_stack.pop() {
                for word in 0..self.fields[cell as usize].len() {
                    let target = self.fields[cell as usize][word];
                    if target != NONE {
                        bytes += self.mark_cell(target);
                    }
                }
            }
        }
        bytes
    }

    /// Gives the bytes of the cell, or 0 where it was marked before.
    #[inline(always)]
    fn mark_cell(&mut self, cell: u32) -> u64 {
        let at = cell as usize;
        if std::mem::replace(&mut self.marks[at], true) {
            return 0;
        }
        if self.has_stores && !self.fields[at].is_empty() {
            self.mark_stack.push(cell);
        }
        self.cells[at].size as u64
    }

    /// Frees what is garbage, and gives its bytes.
    fn sweep(&mut self) -> u64 {
        if let Some(mut dead) = self.dead.take() {
            dead.sort_unstable(); // as below: the order decides which memory is used again
            let bytes = dead.drain(..).map(|cell| self.reclaim(cell)).sum();
            self.dead = Some(dead);
            return bytes;
        }
        let mut bytes = 0;
        for at in 0..self.cells.len() {
            let is_marked = std::mem::replace(&mut self.marks[at], false);
            if !is_marked && !self.cells[at].object.is_null() {
                bytes += self.reclaim(at as u32);
            }
        }
        bytes
    }

    /// Frees the object of a cell, and gives its bytes.
    fn reclaim(&mut self, cell: u32) -> u64 {
        let at = cell as usize;
        let Cell { object, size } = self.cells[at];
        self.pages.remove(object, size);
        self.held_bytes -= size as u64;
        // SAFETY: it is of this malloc, and neither a slot nor a pointer leads to it.
        unsafe { Malloc.free(0, object, false) };
        self.cells[at].object = null_mut();
        self.unused.push(cell);
        if self.has_stores {
            self.field_bytes -= bytes_of(&self.fields[at]);
            self.fields[at] = Vec::new();
        }
        size as u64
    }

    /// The object of a cell has lost its root.
    #[inline(always)]
    fn note_death(&mut self, cell: u32) {
        self.rooted_bytes -= self.cells[cell as usize].size as u64;
        if let Some(dead) = &mut self.dead {
            dead.push(cell);
        }
    }

    fn set_fields(&mut self, cell: u32, change: impl FnOnce(&mut Vec<u32>)) {
        let fields = &mut self.fields[cell as usize];
        let before = bytes_of(fields);
        change(fields);
        self.field_bytes = self.field_bytes - before + bytes_of(fields);
        self.peak_field_bytes = self.peak_field_bytes.max(self.field_bytes);
    }
}

fn bytes_of(fields: &Vec<u32>) -> u64 {
    (fields.capacity() * size_of::<u32>()) as u64
}

impl Heap for MarkSweep {
    #[inline(always)]
    fn allocate(&mut self, wanted: Wanted) -> *mut u8 {
        self.count(wanted.size);
        // An object without an address could not be told from a cell that is not used.
        let size = wanted.size.max(1);
        let object = Malloc.allocate(Wanted { size, ..wanted });
        if !object.is_null() {
            self.add(wanted.slot, object, wanted.size);
        }
        object
    }

    /// As collectors do it: a larger size is a new object, and the old one is garbage.
    unsafe fn resize(&mut self, slot: u32, object: *mut u8, size: usize) -> *mut u8 {
        let old = self.roots[slot as usize];
        let held = self.cells[old as usize].size;
        if size <= held {
            if self.has_stores {
                self.set_fields(old, |fields| fields.truncate(size / WORD));
            }
            return object;
        }
        let grown = self.allocate(Wanted {
            slot,
            size,
            alignment: 0,
            zeroed: false,
            region: None,
        });
        if !grown.is_null() {
            self.note_death(old);
            // SAFETY: both objects have so many bytes, and they do not overlap: both live.
            unsafe { grown.copy_from_nonoverlapping(object, held) };
            if self.has_stores {
                let copied = self.fields[old as usize].clone();
                let new = self.roots[slot as usize];
                self.set_fields(new, |fields| *fields = copied);
            }
        }
        grown
    }

    #[inline(always)]
    unsafe fn free(&mut self, slot: u32, _: *mut u8, _: bool) {
        let cell = std::mem::replace(&mut self.roots[slot as usize], NONE);
        self.note_death(cell);
    }

    #[inline(always)]
    fn note_store(&mut self, source: u32, offset: u64, target: Option<u32>) {
        // A pointer in an odd place is none to a collector, and none of the final graph.
        if offset % WORD as u64 != 0 {
            return;
        }
        let word = offset as usize / WORD;
        let value = target.map_or(NONE, |target| self.roots[target as usize]);
        self.set_fields(self.roots[source as usize], |fields| {
            if word >= fields.len() {
                if value == NONE {
                    return;
                }
                fields.resize(word + 1, NONE);
            }
            fields[word] = value;
        });
    }

    fn collections(&self) -> Option<Collections> {
        Some(Collections {
            peak_active_bytes: self.pages.peak_bytes(),
            ..self.counted
        })
    }

    fn own_bytes(&self) -> u64 {
        let fields = if self.has_stores {
            size_of::<Vec<u32>>()
        } else {
            0
        };
        let cell = size_of::<Cell>() + size_of::<bool>() + size_of::<u32>() + fields;
        (self.cells.len() * cell) as u64 + self.peak_field_bytes
    }
}

impl Period {
    /// How many bytes may be allocated once so many are alive.
    fn after(self, live_bytes: u64) -> u64 {
        match self.every {
            0 => live_bytes.max(LEAST_PERIOD),
            every => every,
        }
    }
}
