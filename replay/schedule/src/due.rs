//! What happens to objects during the births of a few rows, sorted by time.

/// Fewer are sorted by comparing them.
const FEW: usize = 64;
const DIGIT_BITS: u32 = 8;
const DIGITS: usize = 1 << DIGIT_BITS;

/// Keys with their values.
pub(crate) struct Due {
    sorted: Vec<(u64, u32)>,
    next: usize,
    /// Room to sort in.
    other: Vec<(u64, u32)>,
}

impl Due {
    pub(crate) fn new() -> Due {
        Due {
            sorted: Vec::new(),
            next: 0,
            other: Vec::new(),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.sorted.clear();
        self.next = 0;
    }

    /// All are added before any is taken.
    #[inline(always)]
    pub(crate) fn add(&mut self, key: u64, value: u32) {
        self.sorted.push((key, value));
    }

    pub(crate) fn sort(&mut self) {
        let Some(&(first, _)) = self.sorted.first() else {
            return;
        };
        if self.sorted.len() < FEW {
            self.sorted.sort_unstable_by_key(|&(key, _)| key);
            return;
        }
        let differing = |bits, &(key, _): &(u64, u32)| bits | (key ^ first);
        let differing = self.sorted.iter().fold(0, differing);
        self.other.resize(self.sorted.len(), (0, 0));
        for shift in (0..u64::BITS).step_by(DIGIT_BITS as usize) {
            if differing >> shift & (DIGITS as u64 - 1) != 0 {
                self.sort_by_digit(shift);
            }
        }
    }

    fn sort_by_digit(&mut self, shift: u32) {
        let digit = |key: u64| (key >> shift) as usize % DIGITS;
        let mut places = [0u32; DIGITS];
        for &(key, _) in &self.sorted {
            places[digit(key)] += 1;
        }
        let mut place = 0;
        for count in &mut places {
            place += std::mem::replace(count, place);
        }
        for &(key, value) in &self.sorted {
            let place = &mut places[digit(key)];
            self.other[*place as usize] = (key, value);
            *place += 1;
        }
        std::mem::swap(&mut self.sorted, &mut self.other);
    }

    /// The least key, if it is below `bound`, taken out.
    #[inline(always)]
    pub(crate) fn pop_before(&mut self, bound: u64) -> Option<(u64, u32)> {
        let &(key, value) = self.sorted.get(self.next)?;
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
                    due.add(key, value);
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
