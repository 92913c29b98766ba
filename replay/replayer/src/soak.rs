//! A schedule followed again and again, as a service does for weeks what it did in a minute.
//!
//! What is alive at the end of a round stays until the next round gives another object its slot, so
//! that each round begins in the heap that the one before has left.

use std::error::Error;
use std::fs;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tare_harness::report::{json, seconds};
use tare_harness::OUT_OF_MEMORY;
use tare_schedule::{Event, Schedule, Streams};

use crate::again::{Pace, Round};
use crate::arguments::Soak;
use crate::measure::Others;
use crate::objects::Objects;
use crate::replay::Stopped;
use crate::threads::{replay_by_threads, Doing};

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
    let streams = asked
        .threads
        .then(|| Arc::new(Streams::meeting_at_peak(&schedule)));
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
        let mut at_peak = 0;
        let mut look = || {
            if looks {
                at_peak = others.resident().map_or(0, |resident| resident.heap);
            }
        };
        let pace = asked.pace.map(|factor| Pace {
            begun: Instant::now(),
            factor,
        });
        let round = Round { objects, pace };
        let ended = if let Some(streams) = &streams {
            replay_by_threads(streams, round, &mut look)
        } else {
            let (before, after) = schedule.events_around_peak();
            round.follow(before).and_then(|()| {
                look();
                round.follow(after)
            })
        };
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
