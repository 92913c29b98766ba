//! What is to happen to objects later: a queue in order of time.
//!
//! Nothing is ever asked for that is earlier than what was taken before, so a radix heap does: keys
//! are kept by the highest digit in which they differ from the last one taken, and by that digit. A
//! key moves to a lower level at most once per digit; most objects die young, and move once.

const DIGIT_BITS: u32 = 6;
const DIGITS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = u64::BITS.div_ceil(DIGIT_BITS) as usize;
/// Keys for which an empty bucket keeps its memory.
const ROOM_KEPT: usize = 1 << 8;

/// Keys with their values, the least first. No key is less than the last one taken.
pub(crate) struct Pending {
    /// The keys that differ from `last` in the digit `level`, and in none above.
    levels: [Level; LEVELS],
    /// A bit for each level that is not empty.
    filled: u16,
    last: u64,
}

struct Level {
    buckets: [Bucket; DIGITS],
    /// A bit for each bucket that is not empty.
    filled: u64,
}

struct Bucket {
    least: u64,
    keys: Vec<(u64, u32)>,
}

impl Pending {
    pub(crate) fn new() -> Pending {
        Pending {
            levels: std::array::from_fn(|_| Level {
                buckets: std::array::from_fn(|_| Bucket {
                    least: u64::MAX,
                    keys: Vec::new(),
                }),
                filled: 0,
            }),
            filled: 0,
            last: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, key: u64, value: u32) {
        debug_assert!(key >= self.last);
        let level = ((key ^ self.last) | 1).ilog2() / DIGIT_BITS;
        let digit = (key >> (level * DIGIT_BITS)) as usize % DIGITS;
        let into = &mut self.levels[level as usize];
        let bucket = &mut into.buckets[digit];
        bucket.keys.push((key, value));
        bucket.least = bucket.least.min(key);
        into.filled |= 1 << digit;
        self.filled |= 1 << level;
    }

    /// The least key below `bound`, taken out. Keys that are equal come in any order.
    #[inline]
    pub(crate) fn pop_before(&mut self, bound: u64) -> Option<(u64, u32)> {
        loop {
            let (level, digit) = self.lowest_below(bound)?;
            let bucket = &mut self.levels[level].buckets[digit];
            if level > 0 && bucket.keys.len() > 1 {
                self.spread(level, digit);
                continue;
            }
            let taken = bucket.keys.pop();
            if bucket.keys.is_empty() {
                self.last = std::mem::replace(&mut bucket.least, u64::MAX);
                self.emptied(level, digit);
            }
            return taken;
        }
    }

    /// Takes out all keys below `bound`, in any order, and gives them to `take`, some at a time.
    pub(crate) fn drain_before(&mut self, bound: u64, mut take: impl FnMut(&[(u64, u32)])) {
        while let Some((level, digit)) = self.lowest_below(bound) {
            let bucket = &mut self.levels[level].buckets[digit];
            // Above the lowest digit of a level, all keys of a bucket are the same.
            let width = 1 << (level as u32 * DIGIT_BITS);
            let greatest = bucket.least | (width - 1);
            if greatest >= bound && bucket.keys.len() > 1 {
                self.spread(level, digit);
                continue;
            }
            self.last = std::mem::replace(&mut bucket.least, u64::MAX);
            take(&bucket.keys);
            bucket.keys.clear();
            bucket.keys.shrink_to(ROOM_KEPT);
            self.emptied(level, digit);
        }
    }

    /// The level and the digit of the least keys, where those are below `bound`.
    #[inline]
    fn lowest_below(&self, bound: u64) -> Option<(usize, usize)> {
        let level = self.filled.trailing_zeros() as usize;
        let from = self.levels.get(level)?;
        let digit = from.filled.trailing_zeros() as usize % DIGITS;
        (from.buckets[digit].least < bound).then_some((level, digit))
    }

    /// Moves the keys of the lowest bucket to levels below its own.
    #[inline(never)]
    fn spread(&mut self, level: usize, digit: usize) {
        let bucket = &mut self.levels[level].buckets[digit];
        self.last = std::mem::replace(&mut bucket.least, u64::MAX);
        let mut keys = std::mem::take(&mut bucket.keys);
        self.emptied(level, digit);
        for (key, value) in keys.drain(..) {
            self.push(key, value);
        }
        keys.shrink_to(ROOM_KEPT);
        self.levels[level].buckets[digit].keys = keys;
    }

    #[inline(always)]
    fn emptied(&mut self, level: usize, digit: usize) {
        let filled = &mut self.levels[level].filled;
        *filled &= !(1 << digit);
        if *filled == 0 {
            self.filled &= !(1 << level);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pending;

    #[test]
    fn what_is_drained_is_what_would_be_popped() {
        let (mut popped, mut drained) = (Pending::new(), Pending::new());
        let mut random = 1u64;
        for now in (0..300_000u64).step_by(1000) {
            for _ in 0..100 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let key = now + (random >> 32) % (1 << ((random >> 20) % 20));
                popped.push(key, key as u32);
                drained.push(key, key as u32);
            }
            let (mut expected, mut found) = (Vec::new(), Vec::new());
            while let Some(taken) = popped.pop_before(now + 1000) {
                expected.push(taken);
            }
            drained.drain_before(now + 1000, |keys| found.extend_from_slice(keys));
            found.sort_unstable();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn keys_come_out_in_order_however_they_go_in() {
        let mut pending = Pending::new();
        let mut expected = Vec::new();
        let (mut random, mut taken) = (1u64, Vec::new());
        for now in (0..200_000u64).step_by(7) {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let key = now + (random >> 32) % (1 << ((random >> 20) % 20));
            pending.push(key, (key % 1000) as u32);
            expected.push(key);
            while let Some((key, value)) = pending.pop_before(now) {
                assert!(key < now && u64::from(value) == key % 1000);
                taken.push(key);
            }
        }
        while let Some((key, _)) = pending.pop_before(u64::MAX) {
            taken.push(key);
        }
        expected.sort_unstable();
        assert_eq!(taken, expected);
    }
}
