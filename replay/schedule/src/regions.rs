//! Numbers of regions.

use std::collections::HashMap;

use crate::event::MOST_REGIONS;

/// Dense numbers of the regions that have objects, used again once a region has none.
#[derive(Default)]
pub(crate) struct Regions {
    numbers: HashMap<u64, u32>,
    /// Of each number the region as recorded, and how many objects it has.
    live: Vec<(u64, u64)>,
    free: Vec<u32>,
}

impl Regions {
    /// The number of the region as recorded that an object is born in; None where there are too
    /// many.
    pub(crate) fn enter(&mut self, region: u64) -> Option<u32> {
        let number = if let Some(&number) = self.numbers.get(&region) {
            number
        } else {
            let number = self.free.pop().unwrap_or(self.live.len() as u32);
            if number as usize >= MOST_REGIONS {
                return None;
            }
            if number as usize == self.live.len() {
                self.live.push((region, 0));
            }
            self.live[number as usize] = (region, 0);
            self.numbers.insert(region, number);
            number
        };
        self.live[number as usize].1 += 1;
        Some(number)
    }

    /// An object of the region is dead.
    pub(crate) fn leave(&mut self, number: u32) {
        let (region, objects) = &mut self.live[number as usize];
        *objects -= 1;
        if *objects == 0 {
            self.numbers.remove(region);
            self.free.push(number);
        }
    }
}
