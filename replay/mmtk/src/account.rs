//! What a heap holds: the parts that its pages go to, in a collection of all of it.

use mmtk::memory_manager;
use mmtk::plan::Plan;

use crate::binding::Tare;
use crate::world::WORLD;
use crate::PAGE_BYTES;

/// Of the heap's size, in bytes, right before a collection. What is left of it could not be used.
#[derive(Clone, Copy, Default)]
pub struct Parts {
    /// Of objects that live, with their headers.
    pub live: usize,
    /// Of pages that the collection gave back.
    pub garbage: usize,
    /// Of pages that it could not give back, beside the objects that live.
    pub fragmentation: usize,
    pub metadata: usize,
    pub copy_reserve: usize,
}

/// Pages of objects, and of the plan's tables for them.
#[derive(Clone, Copy, Default)]
struct Pages {
    data: usize,
    metadata: usize,
}

#[derive(Default)]
pub struct Account {
    before: Pages,
    copy_reserve: usize,
    /// At the collection of the whole heap after which the most bytes lived.
    pub fullest: Parts,
}

impl Account {
    /// The program has stopped, and nothing was collected yet.
    pub fn before_collection(&mut self) {
        let plan = WORLD.mmtk().get_plan();
        self.before = pages(plan);
        self.copy_reserve = plan.get_collection_reserved_pages();
    }

    /// The whole heap was collected, and the program is about to go on.
    pub fn after_collection(&mut self) {
        let counted = memory_manager::live_bytes_in_last_gc(WORLD.mmtk());
        let live = counted.values().map(|space| space.live_bytes).sum();
        if live < self.fullest.live {
            return;
        }
        let before = self.before.data * PAGE_BYTES;
        let after = pages(WORLD.mmtk().get_plan()).data * PAGE_BYTES;
        self.fullest = Parts {
            live,
            garbage: before.saturating_sub(after),
            fragmentation: after.min(before).saturating_sub(live),
            metadata: self.before.metadata * PAGE_BYTES,
            copy_reserve: self.copy_reserve * PAGE_BYTES,
        };
    }
}

fn pages(plan: &dyn Plan<VM = Tare>) -> Pages {
    let mut pages = Pages::default();
    plan.for_each_space(&mut |space| {
        let data = space.get_page_resource().reserved_pages();
        pages.data += data;
        pages.metadata += space.reserved_pages() - data;
    });
    pages
}
