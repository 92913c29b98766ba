//! A schedule followed again and again, as a service does for weeks what it did in a minute.
//!
//! What is alive at the end of a round stays until the next round gives another object its slot, so
//! that each round begins in the heap that the one before has left.

use std::error::Error;
use std::fs;
use std::process::ExitCode;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use serde::Serialize;
use tare_harness::report::{json, seconds};
use tare_harness::OUT_OF_MEMORY;
use tare_schedule::{Event, Events, Follow, Schedule};

use crate::arguments::Soak;
use crate::heap::{Heap, Malloc};
use crate::measure::Others;
use crate::objects::Objects;
use crate::replay::{Replay, Stopped};

/// Rounds whose memory is looked at, evenly over the time.
const LOOKS: u32 = 400;

#[derive(Serialize)]
struct Report {
    soak: u32,
    rounds: u64,
    #[serde(serialize_with = "seconds")]
    seconds: Duration,
    /// The most bytes alive at one moment of a round, and at its end.
    peak_bytes: u64,
    end_bytes: u64,
    looks: Vec<Look>,
}

/// Resident bytes of the manager, when most bytes of a round are alive and at its end.
#[derive(Serialize)]
struct Look {
    round: u64,
    at_peak: u64,
    at_end: u64,
}

pub fn soak_schedule(asked: &Soak) -> Result<ExitCode, Box<dyn Error>> {
    let schedule = Schedule::open(&asked.schedule)?;
    let objects = Objects::new(schedule.header().slots as usize)?;
    let others = Others::now()?;
    let mut report = Report {
        soak: 1,
        rounds: 0,
        seconds: Duration::ZERO,
        peak_bytes: schedule.header().peak_bytes,
        end_bytes: bytes_at_end(&schedule),
        looks: Vec::new(),
    };
    let begun = Instant::now();
    let mut next_look = Duration::ZERO;
    while begun.elapsed() < asked.time {
        let looks = begun.elapsed() >= next_look;
        let (before, after) = schedule.events_around_peak();
        let mut at_peak = 0;
        let ended = follow(before, objects).and_then(|()| {
            if looks {
                at_peak = others.resident().map_or(0, |resident| resident.heap);
            }
            follow(after, objects)
        });
        match ended {
            Ok(()) => {}
            Err(Stopped::OutOfMemory(bytes)) => {
                eprintln!("tare-replay: the manager had no memory for an object of {bytes} bytes");
                return Ok(ExitCode::from(OUT_OF_MEMORY));
            }
            Err(Stopped::NoThread(error)) => return Err(error.into()),
        }
        report.rounds += 1;
        if looks {
            let at_end = others.resident()?.heap;
            report.looks.push(Look {
                round: report.rounds,
                at_peak,
                at_end,
            });
            next_look += asked.time / LOOKS;
        }
    }
    report.seconds = begun.elapsed();
    fs::write(&asked.report, json(&report)?)
        .map_err(|error| format!("{} cannot be written: {error}", asked.report.display()))?;
    println!("followed");
    Ok(ExitCode::SUCCESS)
}

#[inline(never)]
fn follow(events: Events, objects: Objects) -> Result<(), Stopped> {
    let replay = Replay::<Malloc, true> {
        heap: &mut Malloc,
        objects,
    };
    events.follow(&mut Again { replay })
}

struct Again<'a> {
    replay: Replay<'a, Malloc, true>,
}

impl Follow for Again<'_> {
    type Stop = Stopped;

    #[inline(always)]
    fn event(&mut self, event: Event) -> Result<(), Stopped> {
        if let Event::Allocate { slot, .. } = event {
            let left = self.replay.objects.get(slot);
            if !left.is_null() {
                self.replay.objects.set(slot, null_mut());
                // SAFETY: it is of the round before, in which nothing freed it, and the address is
                // gone.
                unsafe { self.replay.heap.free(slot, left, false) };
            }
        }
        self.replay.event(event)
    }
}

fn bytes_at_end(schedule: &Schedule) -> u64 {
    let mut sizes = vec![0; schedule.header().slots as usize];
    for event in schedule.events() {
        match event {
            Event::Allocate { slot, size, .. } | Event::Resize { slot, size } => {
                sizes[slot as usize] = size;
            }
            Event::Free { slot, .. } => sizes[slot as usize] = 0,
            _ => {}
        }
    }
    sizes.iter().sum()
}
