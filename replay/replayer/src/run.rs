//! A replay, measured.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use tare_harness::contents::digest_of;
use tare_harness::platform::{process_time, LINE_BYTES};
use tare_harness::report::{print_proof, Report, Took};
use tare_harness::OUT_OF_MEMORY;
use tare_schedule::{Events, FinalGraph, Schedule, Streams};

use crate::arguments::{Backend, Run};
use crate::heap::{Collections, Heap, Malloc, Null};
use crate::marksweep::MarkSweep;
use crate::measure::{self, Others};
use crate::objects::Objects;
use crate::reap::Reap;
use crate::region::{Bump, Emulated, Regions};
use crate::replay::{Replay, Stopped};
use crate::threads::{replay_by_threads, Once};

pub fn run_schedule(asked: &Run) -> Result<ExitCode, Box<dyn Error>> {
    let schedule = Schedule::open(&asked.schedule)?;
    let graph = FinalGraph::of(&schedule);
    let (schedule, graph, header) = (&schedule, &graph, schedule.header());
    match asked.backend {
        Backend::Malloc => measured(Malloc, asked, schedule, graph),
        Backend::Emulation => measured(Regions::<Emulated>::new(header), asked, schedule, graph),
        Backend::Region => measured(Regions::<Bump>::new(header), asked, schedule, graph),
        Backend::Reap => measured(Regions::<Reap>::new(header), asked, schedule, graph),
        Backend::MarkSweep(period) => {
            let heap = MarkSweep::new(period, header, asked.untimed);
            measured(heap, asked, schedule, graph)
        }
        Backend::Null => {
            let mut word = 0u64;
            let object = (&raw mut word).cast();
            measured(Null { object }, asked, schedule, graph)
        }
    }
}

/// Replays the schedule, and says what it took.
fn measured<H: Heap>(
    mut heap: H,
    asked: &Run,
    schedule: &Schedule,
    graph: &FinalGraph,
) -> Result<ExitCode, Box<dyn Error>> {
    let mut streams = asked.threads.then(|| Arc::new(Streams::of(schedule)));
    let shares = streams.as_ref().map(|all| Shares {
        threads: all.threads(),
        waits: all.waits(),
    });
    let objects = Objects::new(schedule.header().slots as usize)?;
    measure::forget_peak()?;
    let others = Others::now()?;
    let before = others.resident()?;

    let mut clock = Clock::default();
    let ended = match (streams.take(), asked.touch) {
        (None, true) => replay::<H, true>(&mut heap, schedule, objects, &others, &mut clock),
        (None, false) => replay::<H, false>(&mut heap, schedule, objects, &others, &mut clock),
        (Some(streams), true) => {
            clock.run(|| replay_by_threads(&streams, Once::<true>(objects), &mut || {}))
        }
        (Some(streams), false) => {
            clock.run(|| replay_by_threads(&streams, Once::<false>(objects), &mut || {}))
        }
    };
    let peak = measure::peak_resident_bytes()?;
    let at_end = others.resident()?.heap;
    match ended {
        Ok(()) => {}
        Err(Stopped::OutOfMemory(bytes)) => {
            eprintln!("tare-replay: the manager had no memory for an object of {bytes} bytes");
            return Ok(ExitCode::from(OUT_OF_MEMORY));
        }
        Err(Stopped::NoThread(error)) => {
            return Err(format!("the system gave no thread: {error}").into());
        }
    }
    let digest = if H::KEEPS_CONTENTS {
        // SAFETY: the schedule was replayed with these, to its end.
        unsafe { digest_of::<0>(graph, |slot| objects.get(slot)) }
    } else {
        0
    };
    let header = schedule.header();
    let reserved = peak
        .saturating_sub(before.others + heap.own_bytes())
        .max(clock.heap_at_peak)
        .max(at_end);
    let was_touched = H::KEEPS_CONTENTS && asked.touch && header.resizes == 0 && shares.is_none();
    // The last line of an object may lie in a page that nothing was written to.
    let untouched = header.peak_objects * LINE_BYTES as u64;
    if was_touched && reserved + untouched < header.peak_bytes {
        return Err(format!(
            "{reserved} bytes were resident while {} bytes were alive: was memory swapped out?",
            header.peak_bytes
        )
        .into());
    }
    print_proof(graph, digest);
    if let Some(path) = &asked.report {
        let more = More {
            shares,
            collections: heap.collections(),
        };
        Report::of(header, clock.took, reserved, digest, more).write(path)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct More {
    #[serde(flatten)]
    shares: Option<Shares>,
    #[serde(flatten)]
    collections: Option<Collections>,
}

#[derive(Serialize)]
struct Shares {
    threads: u32,
    waits: u64,
}

/// All events of a schedule, under a name by which the instrument finds them.
#[export_name = "tare_replay_events"]
#[inline(never)]
fn in_events(replay: &mut dyn FnMut()) {
    replay();
}

/// What was measured of the events that were done so far.
#[derive(Default)]
struct Clock {
    took: Took,
    /// When most bytes were alive.
    heap_at_peak: u64,
}

impl Clock {
    fn run(&mut self, events: impl FnOnce() -> Result<(), Stopped>) -> Result<(), Stopped> {
        let processor = process_time();
        let begun = Instant::now();
        let mut ended = Ok(());
        let mut once = Some(events);
        in_events(&mut || {
            if let Some(events) = once.take() {
                ended = events();
            }
        });
        self.took.elapsed += begun.elapsed();
        self.took.processor += process_time().saturating_sub(processor);
        ended
    }
}

fn replay<H: Heap, const TOUCH: bool>(
    heap: &mut H,
    schedule: &Schedule,
    objects: Objects,
    others: &Others,
    clock: &mut Clock,
) -> Result<(), Stopped> {
    let mut replay = Replay::<H, TOUCH> { heap, objects };
    let (before, after) = schedule.events_around_peak();
    clock.run(|| follow(before, &mut replay))?;
    if let Ok(resident) = others.resident() {
        clock.heap_at_peak = resident.heap;
    }
    clock.run(|| follow(after, &mut replay))
}

#[inline(never)]
fn follow<H: Heap, const TOUCH: bool>(
    events: Events,
    replay: &mut Replay<H, TOUCH>,
) -> Result<(), Stopped> {
    events.follow(replay)
}
