//! The objects and pointers that are there at the end, and a number that proves them.

use std::collections::{BTreeMap, HashSet};

use crate::event::Event;
use crate::reader::Schedule;

const WORD_BYTES: u64 = 8;

/// How many of its first bytes a replayer stamps at the birth of an object of `size` bytes: a word,
/// or a byte where there is no word.
#[must_use]
pub fn stamped_bytes(size: u64) -> u64 {
    if size >= WORD_BYTES {
        WORD_BYTES
    } else {
        size.min(1)
    }
}

/// What is stamped into an object of `slot`, in little-endian order; never the address of an
/// object.
#[inline(always)]
#[must_use]
pub fn stamp(slot: u32) -> u64 {
    u64::from(slot) << 1 | 1
}

/// An object that lives at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    pub slot: u32,
    pub size: u64,
    /// How many of its stamped bytes it always had, and no store went over.
    pub kept_bytes: u64,
}

/// A pointer in an object that lives at the end, to another that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub source: u32,
    pub offset: u64,
    pub target: u32,
}

/// What must be in memory after a replay, found from the schedule alone.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FinalGraph {
    /// In the order of their slots.
    pub objects: Vec<Object>,
    /// In the order of their sources and offsets. Objects with a pointer at an odd place have none.
    pub fields: Vec<Field>,
}

impl FinalGraph {
    #[must_use]
    pub fn of(schedule: &Schedule) -> FinalGraph {
        let slots = usize::try_from(schedule.header().slots).unwrap_or(0);
        // Of each slot the event, counted from 1, at which its last object was born; 0 when dead.
        let mut born = vec![0u64; slots];
        let mut sizes = vec![0u64; slots];
        let mut kept = vec![0u64; slots];
        // Of each slot the event at which its last object was resized; 0 where it never was.
        let mut resized = vec![0u64; slots];
        for (at, event) in (1..).zip(schedule.events()) {
            match event {
                Event::Allocate { slot, size, .. } => {
                    (born[slot as usize], sizes[slot as usize]) = (at, size);
                    kept[slot as usize] = stamped_bytes(size);
                    resized[slot as usize] = 0;
                }
                Event::Resize { slot, size } => {
                    sizes[slot as usize] = size;
                    kept[slot as usize] = kept[slot as usize].min(size);
                    resized[slot as usize] = at;
                }
                Event::Free { slot, .. } => born[slot as usize] = 0,
                _ => {}
            }
        }
        let stored = if schedule.header().stores > 0 {
            Stored::of(schedule, &born, &resized)
        } else {
            Stored::default()
        };
        let live = (0u32..).zip(&born).filter(|&(_, &born)| born > 0);
        let objects = live
            .map(|(slot, _)| Object {
                slot,
                size: sizes[slot as usize],
                kept_bytes: if stored.goes_over_start(slot) {
                    0
                } else {
                    kept[slot as usize]
                },
            })
            .collect();
        let mut fields: Vec<Field> = stored
            .fields
            .iter()
            .filter_map(|(&(source, offset), &target)| {
                let known = target.filter(|_| !stored.odd.contains(&source));
                known.map(|target| Field {
                    source,
                    offset,
                    target,
                })
            })
            .collect();
        fields.sort_unstable_by_key(|field| (field.source, field.offset));
        FinalGraph { objects, fields }
    }
}

/// The last store to each place of the objects that live at the end.
#[derive(Default)]
struct Stored {
    /// By source and offset; None where it holds no pointer to an object that lives at the end, or
    /// to one that a realloc may have moved since, or where the place was cut off in between.
    fields: BTreeMap<(u32, u64), Option<u32>>,
    /// Sources with a store at an odd place.
    odd: HashSet<u32>,
}

impl Stored {
    fn goes_over_start(&self, slot: u32) -> bool {
        self.odd.contains(&slot) || self.fields.contains_key(&(slot, 0))
    }

    fn of(schedule: &Schedule, born: &[u64], resized: &[u64]) -> Stored {
        let mut stored = Stored::default();
        let is_last = |slot: u32, at: u64| (1..at).contains(&born[slot as usize]);
        for (at, event) in (1..).zip(schedule.events()) {
            match event {
                Event::Store {
                    source,
                    offset,
                    target,
                } if is_last(source, at) => {
                    if offset % WORD_BYTES == 0 {
                        let stays = |slot: &u32| is_last(*slot, at) && resized[*slot as usize] < at;
                        stored.fields.insert((source, offset), target.filter(stays));
                    } else {
                        stored.odd.insert(source);
                    }
                }
                Event::Resize { slot, size } if is_last(slot, at) => {
                    let first_cut = (slot, (size + 1).saturating_sub(WORD_BYTES));
                    for (_, target) in stored.fields.range_mut(first_cut..=(slot, u64::MAX)) {
                        *target = None;
                    }
                }
                _ => {}
            }
        }
        stored
    }
}

/// A number that is the same for every replay that ended with the same objects and pointers,
/// in whatever order they are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(u64);

impl Digest {
    /// An object that was found at the end. `intact` says whether it still held what the replayer
    /// wrote at its birth.
    pub fn add_object(&mut self, slot: u32, size: u64, intact: bool) {
        self.add([1, u64::from(slot), size, u64::from(intact)]);
    }

    /// A pointer that was found at the end: to the object in `target`, or to something else.
    pub fn add_field(&mut self, source: u32, offset: u64, target: Option<u32>) {
        let target = target.map_or(0, |slot| u64::from(slot) + 1);
        self.add([2, u64::from(source), offset, target]);
    }

    /// 48 bits, so that any program reads it without a loss.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0 & ((1 << 48) - 1)
    }

    fn add(&mut self, numbers: [u64; 4]) {
        let mixed = numbers.into_iter().fold(0, |sum, number| mix(sum ^ number));
        self.0 = self.0.wrapping_add(mixed);
    }
}

/// The finaliser of splitmix64, which changes half of the bits for each bit of the input.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
