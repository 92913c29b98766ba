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
//!
//! The extension of an allocation holds the upper half of its size in 32 bits, then the binary
//! logarithm of its alignment in 6, and its region + 1 or 0 in 22; that of a store the offset in
//! bytes, where the field is 15.

use std::convert::Infallible;
use std::slice;

const KIND_BITS: u32 = 4;
const SLOT_BITS: u32 = 28;
const OPERAND_SHIFT: u32 = KIND_BITS + SLOT_BITS;
const KIND_MASK: u64 = (1 << KIND_BITS) - 1;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
const UPPER_SIZE_BITS: u32 = 32;
const REGION_SHIFT: u32 = UPPER_SIZE_BITS + 6;

const EXTEND: u64 = 0;
const ALLOCATE: u64 = 1;
const ALLOCATE_ZEROED: u64 = 2;
const RESIZE: u64 = 3;
const FREE: u64 = 4;
const WRITE: u64 = 5;
const READ: u64 = 6;
const STORE: u64 = 7;
const THREAD: u64 = 8;

const FIELD_BYTES: u64 = 8;
const FIELD_IS_EXTENDED: u64 = 15;

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
    /// The next `words` words, counted by [`Events::skip_words`], are what `thread` did.
    Thread { thread: u32, words: u32 },
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
        }
    }

    /// The reverse of [`Event::words`]; None for a kind that there is not.
    #[inline]
    fn decode(extension: u64, word: u64) -> Option<Event> {
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

    /// # Errors
    /// To be told no more.
    fn event(&mut self, event: Event) -> Result<(), Self::Stop>;
}

/// Tells `follower` of the event of a word; of nothing where there is no such kind. Each kind has a
/// call of its own, so that a follower is compiled for each and no event is ever put together.
#[inline(always)]
fn hand_over<F: Follow>(extension: u64, word: u64, follower: &mut F) -> Result<(), F::Stop> {
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
        _ => Ok(()),
    }
}

/// As `hand_over`, for what is not so frequent that it should stand in the loop.
#[inline(never)]
fn hand_over_other<F: Follow>(extension: u64, word: u64, follower: &mut F) -> Result<(), F::Stop> {
    hand_over(extension, word, follower)
}

#[inline(always)]
fn size_of(extension: u64, word: u64) -> u64 {
    word >> OPERAND_SHIFT | (extension & 0xffff_ffff) << 32
}

#[inline(always)]
fn allocation(extension: u64, word: u64, zeroed: bool) -> Event {
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
fn free(word: u64) -> Event {
    Event::Free {
        slot: (word >> KIND_BITS & SLOT_MASK) as u32,
        with_region: word >> OPERAND_SHIFT != 0,
    }
}

/// The events of a part of a schedule, in order.
#[derive(Clone)]
pub struct Events<'a> {
    words: slice::Iter<'a, u64>,
    malformed: bool,
}

impl<'a> Events<'a> {
    pub(crate) fn of(words: &'a [u64]) -> Self {
        Events {
            words: words.iter(),
            malformed: false,
        }
    }

    /// Passes over the words that an [`Event::Thread`] counts.
    pub fn skip_words(&mut self, words: u32) {
        if words > 0 {
            self.words.nth(words as usize - 1);
        }
    }

    /// Tells `follower` of all events that are left, faster than the iterator gives them.
    ///
    /// # Errors
    /// What the follower stops with.
    #[inline(always)]
    pub fn follow<F: Follow>(self, follower: &mut F) -> Result<(), F::Stop> {
        let words = self.words.as_slice();
        let word_at = |at: usize| words.get(at).copied().unwrap_or(0);
        let (mut at, mut next) = (0, word_at(0));
        while at < words.len() {
            let word = next;
            at += 1;
            // Which kind comes next is anybody's guess, so the processor often guesses wrong. It
            // finds out sooner if the next word is there before this one is obeyed.
            next = word_at(at);
            let kind = word & KIND_MASK;
            if kind == FREE {
                follower.event(free(word))?;
            } else if kind == ALLOCATE {
                follower.event(allocation(0, word, false))?;
            } else if kind == EXTEND {
                hand_over_other(word >> KIND_BITS, next, follower)?;
                at += 1;
                next = word_at(at);
            } else {
                hand_over_other(0, word, follower)?;
            }
        }
        Ok(())
    }

    /// The words that are left, events and extensions.
    #[must_use]
    pub fn words_left(&self) -> usize {
        self.words.len()
    }

    /// Whether the events ended at a word that is none.
    pub(crate) fn is_malformed(&self) -> bool {
        self.malformed
    }

    #[cold]
    fn extended(&mut self, extension: u64) -> Option<Event> {
        let event = match self.words.next() {
            Some(&word) if word & KIND_MASK != EXTEND => {
                Event::decode(extension >> KIND_BITS, word)
            }
            _ => None,
        };
        self.malformed |= event.is_none();
        event
    }
}

impl Iterator for Events<'_> {
    type Item = Event;

    #[inline(always)]
    fn next(&mut self) -> Option<Event> {
        let &word = self.words.next()?;
        if word & KIND_MASK == EXTEND {
            return self.extended(word);
        }
        let event = Event::decode(0, word);
        self.malformed |= event.is_none();
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_survives_its_words() {
        let slot = (1 << 28) - 2;
        let allocate = |size, alignment, zeroed, region| Event::Allocate {
            slot,
            size,
            alignment,
            zeroed,
            region,
        };
        let store = |offset, target| Event::Store {
            source: slot,
            offset,
            target,
        };
        let events = [
            allocate(0, 0, false, None),
            allocate(u64::from(u32::MAX), 0, true, None),
            allocate(1 << 40, 1 << 21, false, Some(0)),
            allocate(8, 64, true, Some((1 << 22) - 2)),
            Event::Resize {
                slot,
                size: 5 << 32 | 7,
            },
            Event::Free {
                slot,
                with_region: false,
            },
            Event::Free {
                slot: 0,
                with_region: true,
            },
            Event::Write {
                slot,
                size: u32::MAX,
            },
            Event::Read { slot, size: 1 },
            store(0, None),
            store(112, Some(slot)),
            store(120, Some(0)),
            store(3, Some(2)),
            Event::Thread {
                thread: 65_535,
                words: u32::MAX,
            },
        ];
        let words: Vec<u64> = events
            .iter()
            .flat_map(|event| event.words().into_iter().filter(|&word| word != 0))
            .collect();
        let mut read = Events::of(&words);
        assert_eq!(read.by_ref().collect::<Vec<_>>(), events);
        assert!(!read.is_malformed());
    }

    #[test]
    fn an_unknown_kind_and_a_lone_extension_are_malformed() {
        for words in [&[15u64][..], &[16], &[16, 16], &[16, 15]] {
            let mut read = Events::of(words);
            assert_eq!(read.by_ref().count(), 0, "{words:?}");
            assert!(read.is_malformed(), "{words:?}");
        }
    }
}
