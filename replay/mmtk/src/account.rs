//! What a heap holds: the parts that its pages go to, in a collection of all of it.

use mmtk::plan::Plan;
use mmtk::util::constants::BYTES_IN_PAGE;
use mmtk::vm::VMBinding;
use mmtk::{memory_manager, MMTK};
use serde::Serialize;

/// Of the heap's size, in bytes, right before a collection. What is left of it could not be used.
#[derive(Clone, Copy, Default, Serialize)]
pub struct Parts {
    /// Of objects that live, with their headers.
    #[serde(rename = "heap_live_bytes")]
    pub live: usize,
    /// Of pages that the collection gave back.
    #[serde(rename = "heap_garbage_bytes")]
    pub garbage: usize,
    /// Of pages that it could not give back, beside the objects that live.
    #[serde(rename = "heap_fragmentation_bytes")]
    pub fragmentation: usize,
    #[serde(rename = "heap_metadata_bytes")]
    pub metadata: usize,
    #[serde(rename = "heap_copy_reserve_bytes")]
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
    pub fn before_collection<VM: VMBinding>(&mut self, mmtk: &MMTK<VM>) {
        let plan = mmtk.get_plan();
        self.before = pages(plan);
        self.copy_reserve = plan.get_collection_reserved_pages();
    }

    /// The whole heap was collected, and the program is about to go on.
    pub fn after_collection<VM: VMBinding>(&mut self, mmtk: &MMTK<VM>) {
        let counted = memory_manager::live_bytes_in_last_gc(mmtk);
        let live = counted.values().map(|space| space.live_bytes).sum();
        if live < self.fullest.live {
            return;
        }
        let before = self.before.data * BYTES_IN_PAGE;
        let after = pages(mmtk.get_plan()).data * BYTES_IN_PAGE;
        self.fullest = Parts {
            live,
            garbage: before.saturating_sub(after),
            fragmentation: after.min(before).saturating_sub(live),
            metadata: self.before.metadata * BYTES_IN_PAGE,
            copy_reserve: self.copy_reserve * BYTES_IN_PAGE,
        };
    }
}

fn pages<VM: VMBinding>(plan: &dyn Plan<VM = VM>) -> Pages {
    let mut pages = Pages::default();
    plan.for_each_space(&mut |space| {
        let data = space.get_page_resource().reserved_pages();
        pages.data += data;
        pages.metadata += space.reserved_pages() - data;
    });
    pages
}
