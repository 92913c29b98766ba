//! What the replay and the collector share: one thread of the program, its roots, and its pauses.
//!
//! Only the program's thread touches the roots, and the collector while that thread is stopped.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use mmtk::{Mutator, MMTK};
use serde::Serialize;
use tare_harness::report::seconds;

use crate::account::Account;
use crate::object::Object;

pub static WORLD: World = World::new();

/// Pauses that are kept one by one.
const MOST_PAUSES: usize = 4_000;

/// What MMTk collects for.
#[derive(Default)]
pub struct Tare;

pub struct World {
    mmtk: OnceLock<&'static MMTK<Tare>>,
    program: UnsafeCell<Program>,
    stop: AtomicBool,
    is_stopped: Mutex<bool>,
    changed: Condvar,
    pub collections: AtomicU64,
    pub nursery_collections: AtomicU64,
    peak_reserved_pages: AtomicUsize,
    copy_reserve_pages: AtomicUsize,
}

/// The program's thread.
pub struct Program {
    pub mutator: *mut Mutator<Tare>,
    /// By slot, the address of each object that has not died, 0 where there is none. Each is a
    /// root.
    pub table: *mut [Object],
    /// Slots that got an object since the last collection; only for collectors with a nursery.
    pub young: Vec<u32>,
    /// Objects that died, and that a collection is to keep all the same.
    pub dead: Vec<Object>,
    pub pauses: Pauses,
    /// None where it was not asked for.
    pub account: Option<Account>,
}

#[derive(Clone, Default, Serialize)]
pub struct Pauses {
    #[serde(rename = "pauses")]
    count: u64,
    #[serde(rename = "collector_seconds", serialize_with = "seconds")]
    sum: Duration,
    #[serde(rename = "max_pause_seconds", serialize_with = "seconds")]
    longest: Duration,
    /// The first `MOST_PAUSES`.
    #[serde(rename = "pause_nanoseconds")]
    each: Vec<u64>,
}

// SAFETY: `program` is reached only as the module says.
unsafe impl Sync for World {}

impl World {
    const fn new() -> World {
        World {
            mmtk: OnceLock::new(),
            program: UnsafeCell::new(Program {
                mutator: ptr::null_mut(),
                table: ptr::slice_from_raw_parts_mut(ptr::null_mut(), 0),
                young: Vec::new(),
                dead: Vec::new(),
                pauses: Pauses {
                    count: 0,
                    sum: Duration::ZERO,
                    longest: Duration::ZERO,
                    each: Vec::new(),
                },
                account: None,
            }),
            stop: AtomicBool::new(false),
            is_stopped: Mutex::new(false),
            changed: Condvar::new(),
            collections: AtomicU64::new(0),
            nursery_collections: AtomicU64::new(0),
            peak_reserved_pages: AtomicUsize::new(0),
            copy_reserve_pages: AtomicUsize::new(0),
        }
    }

    /// Done once, before anything else.
    pub fn set_mmtk(&self, mmtk: &'static MMTK<Tare>) {
        assert!(self.mmtk.set(mmtk).is_ok(), "one heap in a process");
    }

    pub fn mmtk(&self) -> &'static MMTK<Tare> {
        self.mmtk.get().expect("set before the replay begins")
    }

    /// The program's state: for its own thread, and for the collector while that is stopped. Only
    /// fields are read and written through it, so no reference to all of it lives for long.
    pub fn program(&self) -> *mut Program {
        self.program.get()
    }

    /// Lets the collector have the heap, if it wants to.
    #[inline(always)]
    pub fn safepoint(&self) {
        if self.stop.load(Ordering::Relaxed) {
            self.wait_for_collection();
        }
    }

    /// Stops the program's thread, which calls this, until the collector is done.
    pub fn wait_for_collection(&self) {
        let begun = Instant::now();
        self.tell(true);
        self.wait_until(false);
        // SAFETY: this is the program's thread, and it goes on.
        let pauses = unsafe { &mut (*self.program()).pauses };
        pauses.add(begun.elapsed());
    }

    /// For the collector: returns once the program's thread has stopped.
    pub fn stop_program(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wait_until(true);
        self.note_reserved_pages();
    }

    pub fn resume_program(&self) {
        self.stop.store(false, Ordering::Relaxed);
        self.tell(false);
    }

    fn tell(&self, is_stopped: bool) {
        *self.is_stopped() = is_stopped;
        self.changed.notify_all();
    }

    fn wait_until(&self, is_stopped: bool) {
        let mut now = self.is_stopped();
        while *now != is_stopped {
            let waited = self.changed.wait(now);
            now = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn is_stopped(&self) -> MutexGuard<'_, bool> {
        let locked = self.is_stopped.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    /// Pages grow until a collection or the end, so looking there finds the peak.
    pub fn note_reserved_pages(&self) {
        let plan = self.mmtk().get_plan();
        let pages = plan.get_reserved_pages();
        if pages > self.peak_reserved_pages.fetch_max(pages, Ordering::Relaxed) {
            let reserve = plan.get_collection_reserved_pages();
            self.copy_reserve_pages.store(reserve, Ordering::Relaxed);
        }
    }

    /// Of the pages at the peak, those that are kept free for objects to be copied to.
    pub fn copy_reserve_pages(&self) -> usize {
        self.copy_reserve_pages.load(Ordering::Relaxed)
    }

    pub fn peak_reserved_pages(&self) -> usize {
        self.peak_reserved_pages.load(Ordering::Relaxed)
    }
}

impl Pauses {
    fn add(&mut self, pause: Duration) {
        self.count += 1;
        self.sum += pause;
        self.longest = self.longest.max(pause);
        if self.each.len() < MOST_PAUSES {
            self.each.push(pause.as_nanos() as u64);
        }
    }
}
