//! What a header says, counted event by event.

use crate::header::{Death, Header};

pub(crate) struct Counts {
    pub(crate) header: Header,
    live_bytes: u64,
}

impl Counts {
    pub(crate) fn new(death: Death) -> Counts {
        Counts {
            header: Header::empty(death),
            live_bytes: 0,
        }
    }

    /// Gives whether more bytes are alive than ever before.
    #[inline(always)]
    pub(crate) fn allocate(&mut self, size: u64, region: Option<u32>) -> bool {
        if let Some(region) = region {
            self.header.regions = self.header.regions.max(u64::from(region) + 1);
        }
        self.header.objects += 1;
        let live = self.header.objects - self.header.frees;
        self.header.peak_objects = self.header.peak_objects.max(live);
        self.grow(0, size)
    }

    /// As `allocate`.
    #[inline(always)]
    pub(crate) fn resize(&mut self, before: u64, now: u64) -> bool {
        self.header.resizes += 1;
        self.grow(before, now)
    }

    #[inline(always)]
    pub(crate) fn free(&mut self, size: u64) {
        self.header.frees += 1;
        self.live_bytes -= size;
    }

    pub(crate) fn thread(&mut self, thread: u32) {
        self.header.threads = self.header.threads.max(u64::from(thread) + 1);
    }

    #[inline(always)]
    fn grow(&mut self, before: u64, now: u64) -> bool {
        self.header.allocated_bytes += now.saturating_sub(before);
        self.live_bytes = self.live_bytes - before + now;
        let is_peak = self.live_bytes > self.header.peak_bytes;
        if is_peak {
            self.header.peak_bytes = self.live_bytes;
        }
        is_peak
    }
}
