//! What a row of a trace says: an object, or a store of a pointer.

use crate::event::LARGEST_OBJECT;
use crate::header::Death;

/// birth, size, about, first use, last use, free, unreachable, resized from, region
pub(crate) const OBJECT_COLUMNS: usize = 9;
/// time, source, offset, target
pub(crate) const STORE_COLUMNS: usize = 4;

/// In place of a time, for what never happens.
pub(crate) const NEVER: u64 = u64::MAX;
const LATEST: u64 = 1 << 61;

const ABOUT_ZEROED: u64 = 1;
const ABOUT_FREED_WITH_REGION: u64 = 2;
const ABOUT_ALIGNMENT_SHIFT: u32 = 8;
const ABOUT_ALIGNMENT_MASK: u64 = 31;
const ABOUT_THREAD_SHIFT: u32 = 16;
const ABOUT_FREE_THREAD_SHIFT: u32 = 40;
const ABOUT_THREAD_MASK: u64 = (1 << 24) - 1;

/// Of what happens at one moment: the order in which it does.
pub(crate) const FIRST_USE: u64 = 0;
const LAST_USE: u64 = 1;
pub(crate) const END: u64 = 2;
pub(crate) const BIRTH: u64 = 3;

/// What is compiled of a trace.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    pub death: Death,
    /// First and last uses become events.
    pub uses: bool,
    /// The schedule says which thread does what.
    pub threads: bool,
    /// The schedule says when things happened; clocks are nanoseconds.
    pub pace: bool,
    /// Moments are clocks; otherwise each is a distance from the one before, as traces store them.
    pub clocks: bool,
}

pub(crate) struct Row {
    pub(crate) birth: u64,
    pub(crate) size: u64,
    end: u64,
    first_use: u64,
    last_use: u64,
    pub(crate) resized_from: u64,
    region: u64,
    about: u64,
}

impl Row {
    /// Not checked yet. With `ALONE`, without uses.
    #[inline(always)]
    pub(crate) fn of<const ALONE: bool>(columns: [u64; OBJECT_COLUMNS], asked: Asked) -> Row {
        let [birth, size, about, mut first, mut last, mut free, mut gone, resized_from, region] =
            columns;
        if !asked.clocks {
            let later = |origin: u64, distance: u64| {
                if origin == NEVER || distance == NEVER {
                    NEVER
                } else {
                    origin.saturating_add(distance)
                }
            };
            first = later(birth, first);
            last = later(first, last);
            free = later(if last == NEVER { birth } else { last }, free);
            gone = later(birth, gone);
        }
        let end = match asked.death {
            Death::Free => free,
            Death::Unreachable => free.min(gone),
            Death::LastUse if last == NEVER => birth,
            Death::LastUse => last,
        };
        if ALONE || !asked.uses {
            (first, last) = (NEVER, NEVER);
        }
        Row {
            birth,
            size,
            end,
            first_use: first,
            last_use: last,
            resized_from,
            region,
            about: if about == NEVER { 0 } else { about },
        }
    }

    /// With times in their order, or what is wrong.
    #[inline(always)]
    pub(crate) fn checked(mut self, birth_before: u64) -> Result<Row, &'static str> {
        let birth = self.birth;
        let cannot_be = |time: u64| time >= LATEST && time != NEVER;
        let times = [self.end, self.first_use, self.last_use];
        if birth >= LATEST || times.into_iter().any(cannot_be) {
            return Err("a time that no run can last");
        }
        if birth < birth_before {
            return Err("its birth is before that of the one before it");
        }
        if self.size > LARGEST_OBJECT {
            return Err("larger than any memory");
        }
        let end = self.end.max(birth);
        let within = |time: u64| {
            if time == NEVER {
                NEVER
            } else {
                time.clamp(birth, end)
            }
        };
        self.end = end;
        self.first_use = within(self.first_use);
        self.last_use = within(self.last_use);
        Ok(self)
    }

    /// What is to happen to the object, in this order.
    #[inline(always)]
    pub(crate) fn events<const ALONE: bool>(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        let all = [
            (self.first_use, FIRST_USE),
            (self.last_use, LAST_USE),
            (self.end, END),
        ];
        all.into_iter().skip(if ALONE { 2 } else { 0 })
    }

    pub(crate) fn region(&self) -> Option<u64> {
        Some(self.region).filter(|&region| region != NEVER)
    }

    pub(crate) fn is_zeroed(&self) -> bool {
        self.about & ABOUT_ZEROED != 0
    }

    pub(crate) fn is_freed_with_region(&self) -> bool {
        self.about & ABOUT_FREED_WITH_REGION != 0
    }

    pub(crate) fn alignment(&self) -> u64 {
        match self.about >> ABOUT_ALIGNMENT_SHIFT & ABOUT_ALIGNMENT_MASK {
            0 => 0,
            logarithm => 1 << logarithm,
        }
    }

    /// Who allocates it, and who frees it.
    pub(crate) fn threads(&self) -> [u64; 2] {
        let of = |shift: u32| self.about >> shift & ABOUT_THREAD_MASK;
        let thread = of(ABOUT_THREAD_SHIFT);
        match of(ABOUT_FREE_THREAD_SHIFT) {
            0 => [thread; 2],
            freer => [thread, freer],
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Store {
    pub(crate) time: u64,
    pub(crate) source: u64,
    pub(crate) offset: u64,
    pub(crate) target: u64,
}

impl Store {
    pub(crate) fn of([time, source, offset, target]: [u64; STORE_COLUMNS]) -> Store {
        let time = time.min(LATEST);
        Store {
            time,
            source,
            offset,
            target,
        }
    }
}
