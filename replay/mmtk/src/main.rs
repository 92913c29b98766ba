//! `tare-replay-mmtk`: follows a schedule under one of MMTk's collectors.

mod account;
mod arguments;
mod binding;
mod heap;
mod object;
mod plan;
mod replay;
mod world;

use std::fmt::Write as _;
use std::fs;
use std::panic;
use std::process::{self, ExitCode};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mmtk::util::opaque_pointer::{OpaquePointer, VMMutatorThread, VMThread};
use mmtk::util::Address;
use mmtk::{memory_manager, MMTKBuilder};
use tare_schedule::{FinalGraph, Header, Mapping, Schedule};

use crate::account::Account;
use crate::arguments::Arguments;
use crate::binding::{Tare, RECLAIM};
use crate::heap::{barrier, kind_of, place, Heap};
use crate::object::Object;
use crate::plan::Plan;
use crate::replay::{digest_of, replay, TooLarge};
use crate::world::{Pauses, WORLD};

const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;
/// What lives does not fit into the heap.
const OUT_OF_MEMORY: u8 = 3;
/// The heap would be large enough, and the machine is not.
const NO_MEMORY_FROM_THE_KERNEL: u8 = 4;
/// A collector ran into an error of its own, as some do in a heap that is too small for them.
const CRASHED: u8 = 5;

const PAGE_BYTES: usize = 4096;
const DEFAULT_HEAP_PER_PEAK: u64 = 4;
/// The least of a default heap: where objects are few, plans need whole blocks all the same.
const LEAST_DEFAULT_HEAP: u64 = 4 << 20;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let arguments = match Arguments::parse(&words) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("tare-replay-mmtk: {problem}\n{}", arguments::USAGE);
            return ExitCode::from(WRONG_USAGE);
        }
    };
    panic::set_hook(Box::new(|crash| {
        // Only what it says: users get no stack trace.
        let said = crash.payload();
        let what = said
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| said.downcast_ref::<&str>().copied())
            .unwrap_or("it does not say why");
        eprintln!("tare-replay-mmtk: the collector crashed: {what}");
        process::exit(i32::from(CRASHED));
    }));
    run(&arguments).unwrap_or_else(|problem| {
        eprintln!("tare-replay-mmtk: {problem}");
        ExitCode::from(FAILED)
    })
}

fn run(asked: &Arguments) -> Result<ExitCode, String> {
    let schedule = Schedule::open(&asked.schedule).map_err(|error| error.to_string())?;
    let graph = FinalGraph::of(&schedule);
    let header = *schedule.header();
    let table = Mapping::populated(header.slots as usize * size_of::<Object>())
        .map_err(|error| error.to_string())?;
    let heap_bytes = heap_bytes(asked, &header);
    begin(
        asked,
        heap_bytes,
        table.start().cast(),
        header.slots as usize,
    )?;

    let (begun, worked) = (Instant::now(), processor_time());
    let ended = replay_under(asked, &schedule);
    let took = Took {
        elapsed: begun.elapsed(),
        processor: processor_time().saturating_sub(worked),
    };

    WORLD.note_reserved_pages();
    if let Err(TooLarge(bytes)) = ended {
        eprintln!("tare-replay-mmtk: no heap can have an object of {bytes} bytes");
        return Ok(ExitCode::from(OUT_OF_MEMORY));
    }
    // SAFETY: the replay is done, and collections begin only where this thread allocates, or at a
    // safepoint.
    let digest = unsafe { digest_of(&graph, table.start().cast()) };
    println!(
        "graph {digest:012x}: {} objects, {} pointers",
        graph.objects.len(),
        graph.fields.len()
    );
    if let Some(path) = &asked.report {
        let mut report = report(asked, &header, heap_bytes, &took, digest);
        report.push_str(&parts_of_heap());
        report.push('}');
        fs::write(path, report)
            .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn heap_bytes(asked: &Arguments, header: &Header) -> u64 {
    asked.heap_bytes.unwrap_or_else(|| {
        let cells = header.peak_bytes + header.peak_objects * size_of::<Object>() as u64;
        cells
            .saturating_mul(DEFAULT_HEAP_PER_PEAK)
            .max(LEAST_DEFAULT_HEAP)
    })
}

/// Makes the heap and this thread's part of it.
fn begin(
    asked: &Arguments,
    heap_bytes: u64,
    table: *mut Object,
    slots: usize,
) -> Result<(), String> {
    let mut builder = MMTKBuilder::new_no_env_vars();
    let mut options = vec![
        ("plan", asked.plan.name().to_owned()),
        ("gc_trigger", format!("FixedHeapSize:{heap_bytes}")),
        ("threads", asked.threads.to_string()),
        ("count_live_bytes_in_gc", asked.account.to_string()),
    ];
    if let Some(bytes) = asked.nursery_bytes {
        options.push(("nursery", format!("Fixed:{bytes}")));
    }
    for (name, value) in options {
        if !builder.set_option(name, &value) {
            return Err(format!("MMTk does not take {value} for {name}"));
        }
    }
    RECLAIM.store(asked.reclaim, Ordering::Relaxed);
    WORLD.set_mmtk(Box::leak(memory_manager::mmtk_init::<Tare>(&builder)));
    let program = WORLD.program();
    // Any address that is not 0 tells the program's thread from the collector's.
    let itself = OpaquePointer::from_address(Address::from_mut_ptr(program));
    let mutator = memory_manager::bind_mutator(WORLD.mmtk(), VMMutatorThread(VMThread(itself)));
    // SAFETY: the collector does not run yet.
    unsafe {
        (*program).mutator = Box::leak(mutator);
        (*program).table = table;
        (*program).slots = slots;
        (*program).account = asked.account.then(Account::default);
    }
    memory_manager::initialize_collection(WORLD.mmtk(), VMThread(itself));
    Ok(())
}

/// Replays with the loop that was compiled for what the plan needs.
fn replay_under(asked: &Arguments, schedule: &Schedule) -> Result<(), TooLarge> {
    use barrier::{NONE, OBJECT, SNAPSHOT};
    use place::{BUMP, CALL, IMMIX};
    match kind_of(asked.plan) {
        (BUMP, NONE, false) => touching::<BUMP, NONE, false, false>(asked, schedule),
        (BUMP, OBJECT, false) => touching::<BUMP, OBJECT, false, false>(asked, schedule),
        (IMMIX, NONE, false) => touching::<IMMIX, NONE, false, false>(asked, schedule),
        (IMMIX, OBJECT, true) => touching::<IMMIX, OBJECT, true, false>(asked, schedule),
        (_, NONE, _) => touching::<CALL, NONE, true, false>(asked, schedule),
        (_, SNAPSHOT, _) => touching::<CALL, SNAPSHOT, true, true>(asked, schedule),
        _ => touching::<CALL, OBJECT, true, false>(asked, schedule),
    }
}

fn touching<const P: u8, const B: u8, const POST: bool, const POLL: bool>(
    asked: &Arguments,
    schedule: &Schedule,
) -> Result<(), TooLarge> {
    let mut heap = Heap::<P, B, POST>::new(asked.period_bytes, asked.reclaim > 1);
    // SAFETY: this is the program's thread.
    let (table, slots) = unsafe { ((*WORLD.program()).table, (*WORLD.program()).slots) };
    let events = schedule.events();
    if asked.touch {
        replay::<P, B, POST, true, POLL>(&mut heap, events, table, slots)
    } else {
        replay::<P, B, POST, false, POLL>(&mut heap, events, table, slots)
    }
}

/// How long the replay took. `processor` is the time that the program's thread had a processor, so
/// without collections, which are done by others.
struct Took {
    elapsed: Duration,
    processor: Duration,
}

fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock exists on Linux, and the time is this function's own.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// The fields of the report that everything has, without the last brace.
fn report(asked: &Arguments, header: &Header, heap_bytes: u64, took: &Took, digest: u64) -> String {
    // SAFETY: this is the program's thread.
    let pauses: &Pauses = unsafe { &(*WORLD.program()).pauses };
    let mut each = String::new();
    for pause in &pauses.each {
        let separator = if each.is_empty() { "" } else { ", " };
        // A String takes all that is written to it.
        let _ = write!(each, "{separator}{}", pause.as_nanos());
    }
    format!(
        "{{\"collector\": \"{}\", \"heap_bytes\": {heap_bytes}, \"seconds\": {}, \
         \"processor_seconds\": {}, \
         \"collector_seconds\": {}, \"collections\": {}, \"nursery_collections\": {}, \
         \"pauses\": {}, \"max_pause_seconds\": {}, \"reserved_bytes\": {}, \
         \"copy_reserve_bytes\": {}, \"graph_digest\": {digest}, \"events\": {}, \"objects\": {}, \"allocated_bytes\": {}, \
         \"peak_bytes\": {}, \"peak_objects\": {}, \"pause_nanoseconds\": [{each}]",
        collector_name(asked.plan),
        took.elapsed.as_secs_f64(),
        took.processor.as_secs_f64(),
        pauses.sum.as_secs_f64(),
        WORLD.collections.load(Ordering::Relaxed),
        WORLD.nursery_collections.load(Ordering::Relaxed),
        pauses.count,
        pauses.longest.as_secs_f64(),
        WORLD.peak_reserved_pages() * PAGE_BYTES,
        WORLD.copy_reserve_pages() * PAGE_BYTES,
        header.events(),
        header.objects,
        header.allocated_bytes,
        header.peak_bytes,
        header.peak_objects,
    )
}

/// Further fields of the report: the parts of the heap, if they were asked for. A heap that never
/// had to be collected is accounted for as it is at the end.
fn parts_of_heap() -> String {
    let fullest = || {
        // SAFETY: this is the program's thread, and no collection runs.
        let account = unsafe { &(*WORLD.program()).account };
        account.as_ref().map(|account| account.fullest)
    };
    if fullest().is_some_and(|parts| parts.live == 0) {
        // SAFETY: the mutator is never dropped, and this is its thread.
        let itself = unsafe { (*(*WORLD.program()).mutator).mutator_tls };
        WORLD
            .mmtk()
            .handle_user_collection_request(itself, true, true);
    }
    let Some(found) = fullest() else {
        return String::new();
    };
    format!(
        ", \"heap_live_bytes\": {}, \"heap_garbage_bytes\": {}, \
         \"heap_fragmentation_bytes\": {}, \"heap_metadata_bytes\": {}, \
         \"heap_copy_reserve_bytes\": {}",
        found.live, found.garbage, found.fragmentation, found.metadata, found.copy_reserve
    )
}

/// The plan that really runs, as this build has it.
fn collector_name(plan: Plan) -> String {
    let moves = WORLD.mmtk().get_plan().constraints().moves_objects;
    let nonmoving = cfg!(feature = "nonmoving") && plan == Plan::Immix && !moves;
    format!(
        "{}{}",
        plan.name(),
        if nonmoving { "-nonmoving" } else { "" }
    )
}
