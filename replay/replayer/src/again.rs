//! A round of a soak: events whose slots may still have an object of the round before.

use std::ptr::null_mut;
use std::thread;
use std::time::{Duration, Instant};

use tare_schedule::{Event, Events, Follow};

use crate::heap::{Heap, Malloc};
use crate::objects::Objects;
use crate::replay::{Replay, Stopped};
use crate::threads::Doing;

/// When a round began, and how many times as fast as recorded it goes.
#[derive(Clone, Copy)]
pub struct Pace {
    pub begun: Instant,
    pub factor: f64,
}

impl Pace {
    #[cold]
    fn wait(self, nanoseconds: u64) {
        let seconds = Duration::from_nanos(nanoseconds).as_secs_f64() / self.factor;
        // Beyond what can be told, it is for ever.
        let after = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        if let Some(left) = after.checked_sub(self.begun.elapsed()) {
            thread::sleep(left);
        }
    }
}

#[derive(Clone, Copy)]
pub struct Round {
    pub objects: Objects,
    pub pace: Option<Pace>,
}

impl Doing for Round {
    #[inline(never)]
    fn follow(self, events: Events) -> Result<(), Stopped> {
        let replay = Replay::<Malloc, true> {
            heap: &mut Malloc,
            objects: self.objects,
        };
        let pace = self.pace;
        events.follow(&mut Again { replay, pace })
    }
}

struct Again<'a> {
    replay: Replay<'a, Malloc, true>,
    pace: Option<Pace>,
}

impl Follow for Again<'_> {
    type Stop = Stopped;

    #[inline(always)]
    fn event(&mut self, event: Event) -> Result<(), Stopped> {
        match event {
            Event::Allocate { slot, .. } => {
                let left = self.replay.objects.get(slot);
                if !left.is_null() {
                    self.replay.objects.set(slot, null_mut());
                    // SAFETY: it is of the round before, in which nothing freed it, and the address
                    // is gone.
                    unsafe { self.replay.heap.free(slot, left, false) };
                }
            }
            Event::Until { nanoseconds } => {
                if let Some(pace) = self.pace {
                    pace.wait(nanoseconds);
                }
            }
            _ => {}
        }
        self.replay.event(event)
    }
}
