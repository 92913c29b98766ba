//! The objects and pointers that are there at the end, and a number that proves them.

use std::collections::HashSet;
use std::convert::Infallible;

use crate::event::{Event, Follow};
use crate::hash::Numbered;
use crate::reader::Schedule;

const WORD_BYTES: u64 = 8;

/// How many of its first bytes a replayer stamps at the birth of an object of `size` bytes: a word,
/// or a byte where there is no word.
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
    pub fn of(schedule: &Schedule) -> FinalGraph {
        let slots = usize::try_from(schedule.header().slots).unwrap_or(0);
        let mut lives = Lives {
            at: 0,
            last: vec![Life::default(); slots],
        };
        let Ok(()) = schedule.events().follow(&mut lives);
        let stored = if schedule.header().stores > 0 {
            Stored::of(schedule, &lives.last)
        } else {
            Stored::default()
        };
        let live = (0u32..).zip(&lives.last).filter(|(_, life)| life.born > 0);
        let objects = live
            .map(|(slot, life)| Object {
                slot,
                size: life.size,
                kept_bytes: if stored.goes_over_start(slot) {
                    0
                } else {
                    life.kept_bytes
                },
            })
            .collect();
        let mut fields: Vec<Field> = stored
            .fields
            .iter()
            .filter_map(|(&(source, offset), store)| {
                let target = store.target?;
                let is_known = !stored.odd.contains(&source) && !stored.is_cut(source, offset);
                is_known.then_some(Field {
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

/// The last object of a slot.
#[derive(Clone, Copy, Default)]
struct Life {
    /// The event, counted from 1, at which it was born; 0 when it is dead.
    born: u64,
    /// The event at which it was resized last; 0 where it never was.
    resized: u64,
    size: u64,
    kept_bytes: u64,
}

/// Finds the last object of each slot.
struct Lives {
    at: u64,
    last: Vec<Life>,
}

impl Follow for Lives {
    type Stop = Infallible;

    #[inline(always)]
    fn event(&mut self, event: Event) -> Result<(), Infallible> {
        self.at += 1;
        match event {
            Event::Allocate { slot, size, .. } => {
                self.last[slot as usize] = Life {
                    born: self.at,
                    resized: 0,
                    size,
                    kept_bytes: stamped_bytes(size),
                };
            }
            Event::Resize { slot, size } => {
                let life = &mut self.last[slot as usize];
                life.size = size;
                life.kept_bytes = life.kept_bytes.min(size);
                life.resized = self.at;
            }
            Event::Free { slot, .. } => self.last[slot as usize].born = 0,
            _ => {}
        }
        Ok(())
    }
}

/// The last store to each place of the objects that live at the end.
#[derive(Default)]
struct Stored {
    /// By source and offset.
    fields: Numbered<(u32, u64), LastStore>,
    /// Sources with a store at an odd place.
    odd: HashSet<u32>,
    /// By source, resizes in order: at which event, and from which offset on places were cut off.
    /// One that was followed by a resize to less is left out, so offsets rise.
    cuts: Numbered<u32, Vec<(u64, u64)>>,
}

struct LastStore {
    at: u64,
    /// None where it is no pointer to an object that lives at the end, or one to an object that a
    /// realloc may have moved since.
    target: Option<u32>,
}

impl Stored {
    fn goes_over_start(&self, slot: u32) -> bool {
        self.odd.contains(&slot) || self.fields.contains_key(&(slot, 0))
    }

    /// Whether the place was cut off after the last store to it.
    fn is_cut(&self, source: u32, offset: u64) -> bool {
        let (Some(cuts), Some(store)) =
            (self.cuts.get(&source), self.fields.get(&(source, offset)))
        else {
            return false;
        };
        let next = cuts.partition_point(|&(at, _)| at < store.at);
        cuts.get(next).is_some_and(|&(_, from)| from <= offset)
    }

    fn of(schedule: &Schedule, last: &[Life]) -> Stored {
        let mut finder = StoreFinder {
            at: 0,
            last,
            stored: Stored::default(),
        };
        let Ok(()) = schedule.events().follow(&mut finder);
        finder.stored
    }
}

struct StoreFinder<'a> {
    at: u64,
    last: &'a [Life],
    stored: Stored,
}

impl StoreFinder<'_> {
    fn is_last(&self, slot: u32) -> bool {
        (1..self.at).contains(&self.last[slot as usize].born)
    }
}

impl Follow for StoreFinder<'_> {
    type Stop = Infallible;

    #[inline(always)]
    fn event(&mut self, event: Event) -> Result<(), Infallible> {
        self.at += 1;
        match event {
            Event::Store {
                source,
                offset,
                target,
            } if self.is_last(source) => {
                if offset % WORD_BYTES == 0 {
                    let stays = |&slot: &u32| {
                        self.is_last(slot) && self.last[slot as usize].resized < self.at
                    };
                    let target = target.filter(stays);
                    let store = LastStore {
                        at: self.at,
                        target,
                    };
                    self.stored.fields.insert((source, offset), store);
                } else {
                    self.stored.odd.insert(source);
                }
            }
            Event::Resize { slot, size } if self.is_last(slot) => {
                let from = (size + 1).saturating_sub(WORD_BYTES);
                let cuts = self.stored.cuts.entry(slot).or_default();
                while cuts.last().is_some_and(|&(_, before)| before >= from) {
                    cuts.pop();
                }
                cuts.push((self.at, from));
            }
            _ => {}
        }
        Ok(())
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
