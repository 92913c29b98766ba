//! Events, and how they are written as words.
//!
//! A word has the kind in its lowest 4 bits, then 28 bits of slot, then an operand of 32 bits:
//!
//! | kind | slot | operand |
//! | --- | --- | --- |
//! | 0 `EXTEND` | 60 bits that belong to the next word, in place of slot and operand | |
//! | 1 `ALLOCATE`, 2 `ALLOCATE_ZEROED` | the object | lower half of its size |
//! | 3 `RESIZE` | the object | lower half of its new size |
//! | 4 `FREE` | the object | 1 where it goes with its region, else 0 |
//! | 5 `WRITE`, 6 `READ` | the object | its size, or the greatest number where that is less |
//! | 7 `STORE` | the object written to | target + 1 or 0 (28 bits), the field (4 bits) |
//! | 8 `THREAD` | the number of a thread | how many words follow that are its own |
//! | 9 `UNTIL` | lower 28 bits of nanoseconds | upper 32 bits of them |
//!
//! The extension of an allocation holds the upper half of its size in 32 bits, then the binary
//! logarithm of its alignment in 6, and its region + 1 or 0 in 22; that of a store the offset in
//! bytes, where the field is 15.

use std::convert::Infallible;

pub(crate) const KIND_BITS: u32 = 4;
const SLOT_BITS: u32 = 28;
const OPERAND_SHIFT: u32 = KIND_BITS + SLOT_BITS;
pub(crate) const KIND_MASK: u64 = (1 << KIND_BITS) - 1;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
const UPPER_SIZE_BITS: u32 = 32;
const REGION_SHIFT: u32 = UPPER_SIZE_BITS + 6;

pub(crate) const EXTEND: u64 = 0;
pub(crate) const ALLOCATE: u64 = 1;
const ALLOCATE_ZEROED: u64 = 2;
const RESIZE: u64 = 3;
pub(crate) const FREE: u64 = 4;
const WRITE: u64 = 5;
const READ: u64 = 6;
const STORE: u64 = 7;
const THREAD: u64 = 8;
const UNTIL: u64 = 9;

const FIELD_BYTES: u64 = 8;
const FIELD_IS_EXTENDED: u64 = 15;

/// The most slots that a schedule can have, and so the most objects that can live at once.
pub const MOST_SLOTS: usize = SLOT_MASK as usize;
/// The largest object, in bytes; larger than any address space.
pub const LARGEST_OBJECT: u64 = 1 << 56;
/// The most regions that can have objects at once.
pub const MOST_REGIONS: usize = (1 << 22) - 1;
/// The latest time, in nanoseconds; after more than any run can last.
pub const LATEST_UNTIL: u64 = (1 << (SLOT_BITS + 32)) - 1;
/// The most threads.
pub const MOST_THREADS: u32 = 1 << 16;

/// One thing that the program did. Slots are below [`crate::Header::slots`], sizes and offsets in
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An object begins to live in `slot`. An `alignment` of 0 is none asked for; a `region` has
    /// objects until the last of those that are in it at one time is dead.
    Allocate {
        slot: u32,
        size: u64,
        alignment: u64,
        zeroed: bool,
        region: Option<u32>,
    },
    /// The live object in `slot` gets another size, as by realloc.
    Resize { slot: u32, size: u64 },
    /// The object in `slot` is dead; `with_region` says that its region ended, and not it alone.
    Free { slot: u32, with_region: bool },
    /// The first use of the object, of which `size` bytes are written.
    Write { slot: u32, size: u32 },
    /// The last use of the object, of which `size` bytes are read.
    Read { slot: u32, size: u32 },
    /// A pointer to the object in `target`, or to none, is stored `offset` bytes into `source`.
    Store {
        source: u32,
        offset: u64,
        target: Option<u32>,
    },
    /// The next `words` words, counted by [`crate::Events::skip_words`], are what `thread` did.
    Thread { thread: u32, words: u32 },
    /// What comes next of this thread happened so long after the first event.
    Until { nanoseconds: u64 },
}

#[inline(always)]
fn word(kind: u64, slot: u32, operand: u64) -> u64 {
    debug_assert!(u64::from(slot) <= SLOT_MASK && operand < 1 << 32);
    kind | u64::from(slot) << KIND_BITS | operand << OPERAND_SHIFT
}

impl Event {
    /// The words of the event; the first is 0 where one word is enough.
    #[inline(always)]
    pub(crate) fn words(self) -> [u64; 2] {
        match self {
            Event::Allocate {
                slot,
                size,
                alignment,
                zeroed,
                region,
            } => {
                let kind = if zeroed { ALLOCATE_ZEROED } else { ALLOCATE };
                let logarithm = u64::from(alignment.max(1).trailing_zeros());
                let region = region.map_or(0, |region| u64::from(region) + 1);
                let extension = size >> 32 | logarithm << UPPER_SIZE_BITS | region << REGION_SHIFT;
                [
                    EXTEND | extension << KIND_BITS,
                    word(kind, slot, size & 0xffff_ffff),
                ]
            }
            Event::Resize { slot, size } => [
                EXTEND | (size >> 32) << KIND_BITS,
                word(RESIZE, slot, size & 0xffff_ffff),
            ],
            Event::Free { slot, with_region } => [0, word(FREE, slot, u64::from(with_region))],
            Event::Write { slot, size } => [0, word(WRITE, slot, u64::from(size))],
            Event::Read { slot, size } => [0, word(READ, slot, u64::from(size))],
            Event::Store {
                source,
                offset,
                target,
            } => {
                let target = target.map_or(0, |slot| u64::from(slot) + 1);
                let field = offset / FIELD_BYTES;
                if offset % FIELD_BYTES == 0 && field < FIELD_IS_EXTENDED {
                    [0, word(STORE, source, target | field << SLOT_BITS)]
                } else {
                    let operand = target | FIELD_IS_EXTENDED << SLOT_BITS;
                    [EXTEND | offset << KIND_BITS, word(STORE, source, operand)]
                }
            }
            Event::Thread { thread, words } => [0, word(THREAD, thread, u64::from(words))],
            Event::Until { nanoseconds } => {
                let slot = (nanoseconds & SLOT_MASK) as u32;
                [0, word(UNTIL, slot, nanoseconds >> SLOT_BITS)]
            }
        }
    }

    /// The reverse of [`Event::words`]; None for a kind that there is not.
    #[inline]
    pub(crate) fn decode(extension: u64, word: u64) -> Option<Event> {
        struct Keep(Option<Event>);
        impl Follow for Keep {
            type Stop = Infallible;
            #[inline(always)]
            fn event(&mut self, event: Event) -> Result<(), Infallible> {
                self.0 = Some(event);
                Ok(())
            }
        }
        let mut kept = Keep(None);
        let Ok(()) = hand_over(extension, word, &mut kept);
        kept.0
    }
}

/// Is told of events, one after the other.
pub trait Follow {
    /// Why it wants no more.
    type Stop;

    fn event(&mut self, event: Event) -> Result<(), Self::Stop>;
}

/// Tells `follower` of the event of a word; of nothing where there is no such kind. Each kind has a
/// call of its own, so that a follower is compiled for each and no event is ever put together.
#[inline(always)]
pub(crate) fn hand_over<F: Follow>(
    extension: u64,
    word: u64,
    follower: &mut F,
) -> Result<(), F::Stop> {
    let slot = (word >> KIND_BITS & SLOT_MASK) as u32;
    let operand = word >> OPERAND_SHIFT;
    match word & KIND_MASK {
        ALLOCATE => follower.event(allocation(extension, word, false)),
        ALLOCATE_ZEROED => follower.event(allocation(extension, word, true)),
        RESIZE => follower.event(Event::Resize {
            slot,
            size: size_of(extension, word),
        }),
        FREE => follower.event(free(word)),
        WRITE => follower.event(Event::Write {
            slot,
            size: operand as u32,
        }),
        READ => follower.event(Event::Read {
            slot,
            size: operand as u32,
        }),
        STORE => follower.event(Event::Store {
            source: slot,
            offset: match operand >> SLOT_BITS {
                FIELD_IS_EXTENDED => extension,
                field => field * FIELD_BYTES,
            },
            target: ((operand & SLOT_MASK) as u32).checked_sub(1),
        }),
        THREAD => follower.event(Event::Thread {
            thread: slot,
            words: operand as u32,
        }),
        UNTIL => follower.event(Event::Until {
            nanoseconds: u64::from(slot) | operand << SLOT_BITS,
        }),
        _ => Ok(()),
    }
}

#[inline(always)]
fn size_of(extension: u64, word: u64) -> u64 {
    word >> OPERAND_SHIFT | (extension & 0xffff_ffff) << 32
}

#[inline(always)]
pub(crate) fn allocation(extension: u64, word: u64, zeroed: bool) -> Event {
    Event::Allocate {
        slot: (word >> KIND_BITS & SLOT_MASK) as u32,
        size: size_of(extension, word),
        alignment: match extension >> UPPER_SIZE_BITS & 63 {
            0 => 0,
            logarithm => 1 << logarithm,
        },
        zeroed,
        region: ((extension >> REGION_SHIFT) as u32).checked_sub(1),
    }
}

#[inline(always)]
pub(crate) fn free(word: u64) -> Event {
    Event::Free {
        slot: (word >> KIND_BITS & SLOT_MASK) as u32,
        with_region: word >> OPERAND_SHIFT != 0,
    }
}
