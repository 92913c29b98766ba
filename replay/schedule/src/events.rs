//! The events of a list of words.

use std::slice;

use crate::event::{
    allocation, free, hand_over, Event, Follow, ALLOCATE, EXTEND, FREE, KIND_BITS, KIND_MASK,
};

/// As `hand_over`, for what is not so frequent that it should stand in the loop.
#[inline(never)]
fn hand_over_other<F: Follow>(extension: u64, word: u64, follower: &mut F) -> Result<(), F::Stop> {
    hand_over(extension, word, follower)
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
            Event::Until {
                nanoseconds: crate::event::LATEST_UNTIL,
            },
            Event::Until { nanoseconds: 1 },
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
