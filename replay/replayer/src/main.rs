//! `tare-replay`: makes schedules of heap traces, and follows them under a manager.

mod arguments;
mod heap;
mod marksweep;
mod measure;
mod objects;
mod own_heap;
mod pages;
mod region;
mod replay;
mod threads;

use std::fmt::{self, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::FromRawFd;
use std::path::Path;
use std::process::ExitCode;
use std::slice;
use std::sync::atomic::AtomicPtr;
use std::time::Instant;

use tare_schedule::{
    compile, stamp, Digest, Events, Field, FinalGraph, Mapping, Object, Schedule, Streams,
};

use crate::arguments::{Arguments, Backend, Compile, Run};
use crate::heap::{Collections, Heap, Malloc, Null};
use crate::marksweep::MarkSweep;
use crate::measure::Resident;
use crate::objects::Objects;
use crate::own_heap::OwnHeap;
use crate::region::{Bump, Emulated, Reap, Regions};
use crate::replay::{Replay, Stopped, LINE_BYTES};
use crate::threads::replay_by_threads;

#[global_allocator]
static OWN_HEAP: OwnHeap = OwnHeap::new();

const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;
/// The manager gave no memory.
const OUT_OF_MEMORY: u8 = 3;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let done = match Arguments::parse(&words) {
        Err(problem) => {
            eprintln!("tare-replay: {problem}\n{}", arguments::USAGE);
            return ExitCode::from(WRONG_USAGE);
        }
        Ok(Arguments::Compile(compile)) => compile_rows(&compile).map(|()| ExitCode::SUCCESS),
        Ok(Arguments::Show(path)) => show(&path).map(|()| ExitCode::SUCCESS),
        Ok(Arguments::Run(run)) => run_schedule(&run),
    };
    done.unwrap_or_else(|problem| {
        eprintln!("tare-replay: {problem}");
        ExitCode::from(FAILED)
    })
}

fn compile_rows(asked: &Compile) -> Result<(), String> {
    let path = asked.output.display();
    let output = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&asked.output)
        .map_err(|error| format!("{path} cannot be written: {error}"))?;
    // SAFETY: the caller of the program left the file open for this.
    let stores = asked.stores.map(|file| unsafe { File::from_raw_fd(file) });
    let rows = io::stdin().lock();
    let header = compile(rows, stores, output, asked.what).map_err(|error| error.to_string())?;
    let compiler_bytes = measure::peak_resident_bytes().map_err(|error| error.to_string())?;
    println!(
        "{{\"words\": {}, \"slots\": {}, \"threads\": {}, \"events\": {}, \"objects\": {}, \
         \"resizes\": {}, \"frees\": {}, \"touches\": {}, \"stores\": {}, \
         \"allocated_bytes\": {}, \"peak_bytes\": {}, \"peak_objects\": {}, \"regions\": {}, \
         \"compiler_bytes\": {compiler_bytes}}}",
        header.words,
        header.slots,
        header.threads,
        header.events(),
        header.objects,
        header.resizes,
        header.frees,
        header.touches,
        header.stores,
        header.allocated_bytes,
        header.peak_bytes,
        header.peak_objects,
        header.regions
    );
    Ok(())
}

/// Prints a line per event.
fn show(path: &Path) -> Result<(), String> {
    let schedule = Schedule::open(path).map_err(|error| error.to_string())?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    for event in schedule.events() {
        writeln!(out, "{event:?}").map_err(|error| error.to_string())?;
    }
    out.flush().map_err(|error| error.to_string())
}

fn run_schedule(asked: &Run) -> Result<ExitCode, String> {
    let schedule = Schedule::open(&asked.schedule).map_err(|error| error.to_string())?;
    let graph = FinalGraph::of(&schedule);
    match asked.backend {
        Backend::Malloc => measured(Malloc, asked, &schedule, &graph),
        Backend::Emulation => {
            let heap = Regions::<Emulated>::new(schedule.header());
            measured(heap, asked, &schedule, &graph)
        }
        Backend::Region => {
            let heap = Regions::<Bump>::new(schedule.header());
            measured(heap, asked, &schedule, &graph)
        }
        Backend::Reap => {
            let heap = Regions::<Reap>::new(schedule.header());
            measured(heap, asked, &schedule, &graph)
        }
        Backend::MarkSweep(period) => {
            let heap = MarkSweep::new(period, schedule.header(), asked.untimed);
            measured(heap, asked, &schedule, &graph)
        }
        Backend::Null => {
            let mut word = 0u64;
            let object = (&raw mut word).cast();
            measured(Null { object }, asked, &schedule, &graph)
        }
    }
}

/// Replays the schedule, and says what it took.
fn measured<H: Heap>(
    mut heap: H,
    asked: &Run,
    schedule: &Schedule,
    graph: &FinalGraph,
) -> Result<ExitCode, String> {
    let text = |error: io::Error| error.to_string();
    let mut streams = asked.threads.then(|| Streams::of(schedule));
    let shares = streams.as_ref().map(|all| (all.threads(), all.waits()));
    let objects = table_of(schedule).map_err(text)?;
    measure::forget_peak().map_err(text)?;
    let before = Resident::now().map_err(text)?;

    let mut clock = Clock::default();
    let ended = match (streams.take(), asked.touch) {
        (None, true) => replay::<H, true>(&mut heap, schedule, objects, &mut clock),
        (None, false) => replay::<H, false>(&mut heap, schedule, objects, &mut clock),
        (Some(streams), true) => clock.run(|| replay_by_threads::<true>(streams, objects)),
        (Some(streams), false) => clock.run(|| replay_by_threads::<false>(streams, objects)),
    };
    let peak = measure::peak_resident_bytes().map_err(text)?;
    let at_end = Resident::now().map_err(text)?.heap;
    match ended {
        Ok(()) => {}
        Err(Stopped::OutOfMemory(bytes)) => {
            eprintln!("tare-replay: the manager had no memory for an object of {bytes} bytes");
            return Ok(ExitCode::from(OUT_OF_MEMORY));
        }
        Err(Stopped::NoThread(error)) => {
            return Err(format!("the system gave no thread: {error}"));
        }
    }
    let digest = if H::KEEPS_CONTENTS {
        digest_of(graph, objects)
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
        ));
    }
    println!(
        "graph {digest:012x}: {} objects, {} pointers",
        graph.objects.len(),
        graph.fields.len()
    );
    if let Some(path) = &asked.report {
        let mut report = String::new();
        write!(
            report,
            "{{\"seconds\": {}, \"processor_seconds\": {}, \"reserved_bytes\": {}, \"graph_digest\": {digest}, \
             \"events\": {}, \"objects\": {}, \"allocated_bytes\": {}, \"peak_bytes\": {}, \
             \"peak_objects\": {}",
            clock.seconds,
            clock.processor,
            reserved,
            header.events(),
            header.objects,
            header.allocated_bytes,
            header.peak_bytes,
            header.peak_objects
        )
        .map_err(|error| error.to_string())?;
        if let Some((threads, waits)) = shares {
            write!(report, ", \"threads\": {threads}, \"waits\": {waits}")
                .map_err(|error| error.to_string())?;
        }
        if let Some(collections) = heap.collections() {
            write_collections(&mut report, &collections).map_err(|error| error.to_string())?;
        }
        report.push('}');
        fs::write(path, report)
            .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write_collections(report: &mut String, counted: &Collections) -> fmt::Result {
    write!(
        report,
        ", \"collector\": \"marksweep\", \"collections\": {}, \"collector_seconds\": {}, \
         \"max_pause_seconds\": {}, \"marked_bytes\": {}, \"swept_bytes\": {}, \
         \"peak_active_bytes\": {}, \"heap_live_bytes\": {}, \"heap_garbage_bytes\": {}",
        counted.count,
        counted.pauses.as_secs_f64(),
        counted.longest_pause.as_secs_f64(),
        counted.marked_bytes,
        counted.swept_bytes,
        counted.peak_active_bytes,
        counted.live_at_peak,
        counted.garbage_at_peak
    )
}

/// All events of a schedule, under a name by which the instrument finds them.
#[export_name = "tare_replay_events"]
#[inline(never)]
fn in_events(replay: &mut dyn FnMut()) {
    replay();
}

/// A table for the objects of a schedule, which stays until the process ends.
fn table_of(schedule: &Schedule) -> io::Result<Objects> {
    let slots = schedule.header().slots as usize;
    let table = Mapping::populated(slots * size_of::<AtomicPtr<u8>>())?;
    let start = Box::leak(Box::new(table)).start();
    // SAFETY: the mapping begins at a page, is that long, stays, and holds zeros, which are null.
    let places = unsafe { slice::from_raw_parts(start.cast::<AtomicPtr<u8>>(), slots) };
    Ok(Objects::new(places))
}

/// What was measured of the events that were done so far.
#[derive(Default)]
struct Clock {
    seconds: f64,
    processor: f64,
    /// When most bytes were alive.
    heap_at_peak: u64,
}

impl Clock {
    fn run(&mut self, events: impl FnOnce() -> Result<(), Stopped>) -> Result<(), Stopped> {
        let processor = measure::processor_seconds();
        let begun = Instant::now();
        let mut ended = Ok(());
        let mut once = Some(events);
        in_events(&mut || {
            if let Some(events) = once.take() {
                ended = events();
            }
        });
        self.seconds += begun.elapsed().as_secs_f64();
        self.processor += measure::processor_seconds() - processor;
        ended
    }
}

fn replay<H: Heap, const TOUCH: bool>(
    heap: &mut H,
    schedule: &Schedule,
    objects: Objects,
    clock: &mut Clock,
) -> Result<(), Stopped> {
    let mut replay = Replay::<H, TOUCH> { heap, objects };
    let (before, after) = schedule.events_around_peak();
    clock.run(|| follow(before, &mut replay))?;
    if let Ok(resident) = Resident::now() {
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

/// The digest of what lies in memory, at the places where the final graph must be.
fn digest_of(graph: &FinalGraph, objects: Objects) -> u64 {
    let mut digest = Digest::default();
    for &Object {
        slot,
        size,
        kept_bytes,
    } in &graph.objects
    {
        let expected = stamp(slot).to_le_bytes();
        let object = objects.get(slot);
        let intact = expected
            .iter()
            .take(kept_bytes as usize)
            .enumerate()
            .all(|(at, &byte)| {
                // SAFETY: the object is alive and had so many bytes for all of its life.
                let found = unsafe { object.add(at) };
                // SAFETY: as above.
                byte == unsafe { found.read() }
            });
        digest.add_object(slot, size, intact);
    }
    for &Field {
        source,
        offset,
        target,
    } in &graph.fields
    {
        // SAFETY: the source is alive and the word lies in it.
        let place = unsafe { objects.get(source).add(offset as usize) };
        // SAFETY: as above.
        let found = unsafe { place.cast::<*mut u8>().read_unaligned() };
        let target = Some(target).filter(|&target| found == objects.get(target));
        digest.add_field(source, offset, target);
    }
    digest.value()
}
