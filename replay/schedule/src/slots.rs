//! Which slots are free.

use std::collections::VecDeque;
use std::ops::Range;

use crate::event::MOST_SLOTS;

/// Where threads are kept, a thread gets so many new slots at once: their addresses fill a line of
/// the cache, which no other thread writes to.
pub(crate) const SLOTS_AT_ONCE: u32 = 8;
/// And it has so many free ones before it takes one again, lest it wait for the thread that freed it.
const FREE_BEFORE_REUSE: usize = 64;

/// The free slots of one thread.
#[derive(Default)]
struct Free {
    given_back: VecDeque<u32>,
    new: Range<u32>,
}

/// Slots that have no object. A slot belongs to the thread that takes it first.
pub(crate) struct Slots {
    of_thread: Vec<Free>,
    /// Where threads are not kept.
    of_all: Vec<u32>,
    made: u32,
    keeps_threads: bool,
}

impl Slots {
    pub(crate) fn new(keeps_threads: bool) -> Slots {
        Slots {
            of_thread: Vec::new(),
            of_all: Vec::new(),
            made: 0,
            keeps_threads,
        }
    }

    /// None where there are too many.
    #[inline(always)]
    pub(crate) fn take(&mut self, thread: u32) -> Option<u32> {
        if self.keeps_threads {
            return self.take_of(thread as usize);
        }
        let taken = self.of_all.pop();
        taken.or_else(|| self.make(1)?.next())
    }

    fn take_of(&mut self, thread: usize) -> Option<u32> {
        if thread >= self.of_thread.len() {
            self.of_thread.resize_with(thread + 1, Free::default);
        }
        let free = &mut self.of_thread[thread];
        if free.given_back.len() > FREE_BEFORE_REUSE {
            return free.given_back.pop_front();
        }
        if free.new.is_empty() {
            self.of_thread[thread].new = self.make(SLOTS_AT_ONCE)?;
        }
        self.of_thread[thread].new.next()
    }

    #[inline(always)]
    pub(crate) fn give_back(&mut self, slot: u32, thread: u32) {
        if self.keeps_threads {
            self.of_thread[thread as usize].given_back.push_back(slot);
        } else {
            self.of_all.push(slot);
        }
    }

    fn make(&mut self, count: u32) -> Option<Range<u32>> {
        let made = self.made..self.made + count;
        self.made = made.end;
        (made.end as usize <= MOST_SLOTS).then_some(made)
    }
}
