//! What happens to objects during the births of a few rows, sorted by time.

/// Fewer are sorted by comparing them.
const FEW: usize = 64;
const MOST_DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << MOST_DIGIT_BITS;
const LAST: (u64, u32) = (u64::MAX, 0);

/// Keys with their values.
pub(crate) struct Due {
    /// Of these, the keys are the first `count`, and the greatest of all comes behind them.
    sorted: Vec<(u64, u32)>,
    count: usize,
    next: usize,
    /// Room to sort in, and how many keys have a digit, or where the next of them goes.
    other: Vec<(u64, u32)>,
    places: [u32; DIGITS],
}

impl Due {
    pub(crate) fn new() -> Due {
        Due {
            sorted: vec![LAST],
            count: 0,
            next: 0,
            other: Vec::new(),
            places: [0; DIGITS],
        }
    }

    pub(crate) fn clear(&mut self) {
        (self.count, self.next) = (0, 0);
        self.sorted[0] = LAST;
    }

    /// All are added before any is taken. A key that is not `wanted` is written over by the next.
    #[inline(always)]
    pub(crate) fn add(&mut self, key: u64, value: u32, wanted: bool) {
        if self.count == self.sorted.len() {
            self.reserve(1);
        }
        self.sorted[self.count] = (key, value);
        self.count += usize::from(wanted);
    }

    pub(crate) fn add_all(&mut self, keys: &[(u64, u32)]) {
        self.reserve(keys.len());
        self.sorted[self.count..][..keys.len()].copy_from_slice(keys);
        self.count += keys.len();
    }

    /// Makes room for so many more.
    #[cold]
    fn reserve(&mut self, more: usize) {
        let room = self.count + more;
        if room > self.sorted.len() {
            self.sorted.resize(room.next_power_of_two(), (0, 0));
        }
    }

    /// Keys that are equal stay in their order, unless there are few.
    pub(crate) fn sort(&mut self) {
        self.sort_keys();
        self.add(LAST.0, LAST.1, false);
    }

    fn sort_keys(&mut self) {
        let keys = &mut self.sorted[..self.count];
        if keys.len() < FEW {
            keys.sort_unstable_by_key(|&(key, _)| key);
            return;
        }
        let first = keys[0].0;
        let differing = keys.iter().fold(0, |bits, &(key, _)| bits | (key ^ first));
        if differing == 0 {
            return;
        }
        self.other.resize(self.sorted.len(), (0, 0));
        let (lowest, end) = (differing.trailing_zeros(), differing.ilog2() + 1);
        let digits = (end - lowest).div_ceil(MOST_DIGIT_BITS);
        let digit_bits = (end - lowest).div_ceil(digits);
        for shift in (lowest..end).step_by(digit_bits as usize) {
            self.sort_by_digit(shift, digit_bits);
        }
    }

    fn sort_by_digit(&mut self, shift: u32, bits: u32) {
        let mask = (1u64 << bits) - 1;
        let digit = |key: u64| (key >> shift & mask) as usize % DIGITS;
        let places = &mut self.places;
        places[..=mask as usize].fill(0);
        let keys = &self.sorted[..self.count];
        for &(key, _) in keys {
            places[digit(key)] += 1;
        }
        let mut place = 0;
        for count in &mut places[..=mask as usize] {
            place += std::mem::replace(count, place);
        }
        for &(key, value) in keys {
            let place = &mut places[digit(key)];
            self.other[*place as usize] = (key, value);
            *place += 1;
        }
        std::mem::swap(&mut self.sorted, &mut self.other);
    }

    /// The least key, if it is below `bound`, taken out.
    #[inline(always)]
    pub(crate) fn pop_before(&mut self, bound: u64) -> Option<(u64, u32)> {
        let (key, value) = self.sorted[self.next];
        if key >= bound {
            return None;
        }
        self.next += 1;
        Some((key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::Due;

    #[test]
    fn keys_come_out_in_order() {
        for count in [0, 1, 63, 64, 5000] {
            for shift in [63, 40, 8, 1] {
                let mut due = Due::new();
                let mut expected = Vec::new();
                let mut random = 1u64;
                due.clear();
                for value in 0..count {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let key = (1 << 62) + (random >> shift);
                    due.add(key, value, true);
                    due.add(0, value, false);
                    expected.push(key);
                }
                due.sort();
                expected.sort_unstable();
                let mut taken = Vec::new();
                while let Some((key, _)) = due.pop_before(u64::MAX) {
                    taken.push(key);
                }
                assert_eq!(taken, expected);
            }
        }
    }
}
