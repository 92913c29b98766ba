//! `tare-replay-mmtk`: follows a schedule under one of MMTk's collectors.

#![allow(
    // A block is of what one reason makes safe.
    clippy::multiple_unsafe_ops_per_block,
    // The methods in question belong to traits of MMTk that cannot be named.
    clippy::redundant_closure_for_method_calls
)]

mod account;
mod arguments;
mod binding;
mod heap;
mod object;
mod plan;
mod replay;
mod world;

use std::error::Error;
use std::panic;
use std::process::{self, ExitCode};
use std::ptr;
use std::sync::atomic::Ordering;
use std::time::Instant;

use mmtk::util::constants::BYTES_IN_PAGE;
use mmtk::util::opaque_pointer::{OpaquePointer, VMMutatorThread, VMThread};
use mmtk::util::Address;
use mmtk::{memory_manager, MMTKBuilder};
use serde::Serialize;
use tare_harness::contents::digest_of;
use tare_harness::platform::{table_of_addresses, thread_time, WORD};
use tare_harness::report::{print_proof, Report, Took};
use tare_harness::{CRASHED, OUT_OF_MEMORY};
use tare_schedule::{Events, FinalGraph, Header, Schedule};

use crate::account::{Account, Parts};
use crate::arguments::Arguments;
use crate::binding::RECLAIM;
use crate::heap::{barrier, kind_of, place, Heap};
use crate::object::Object;
use crate::plan::Plan;
use crate::replay::{replay, TooLarge};
use crate::world::{Pauses, Tare, WORLD};

const DEFAULT_HEAP_PER_PEAK: u64 = 4;
/// The least of a default heap: where objects are few, plans need whole blocks all the same.
const LEAST_DEFAULT_HEAP: u64 = 4 << 20;

fn main() -> ExitCode {
    tare_harness::run("tare-replay-mmtk", arguments::USAGE, Arguments::parse, run)
}

fn run(asked: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
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
    let schedule = Schedule::open(&asked.schedule)?;
    let graph = FinalGraph::of(&schedule);
    let header = schedule.header();
    let table = table_of_addresses(header.slots as usize)?;
    let table = ptr::from_ref(table) as *mut [Object];
    let heap_bytes = heap_bytes(asked, header);
    begin(asked, heap_bytes, table)?;

    let (begun, worked) = (Instant::now(), thread_time());
    let ended = replay_under(asked, &schedule, table);
    // Its own thread's time is without collections, which others do.
    let took = Took {
        elapsed: begun.elapsed(),
        processor: thread_time().saturating_sub(worked),
    };

    WORLD.note_reserved_pages();
    if let Err(TooLarge(bytes)) = ended {
        eprintln!("tare-replay-mmtk: no heap can have an object of {bytes} bytes");
        return Ok(ExitCode::from(OUT_OF_MEMORY));
    }
    // SAFETY: the slots of the graph are in the table.
    let object =
        |slot: u32| unsafe { table.cast::<Object>().add(slot as usize).read() }.0 as *const u8;
    // SAFETY: the replay is done, and collections begin only where this thread allocates, or at a
    // safepoint.
    let digest = unsafe { digest_of::<WORD>(&graph, object) };
    print_proof(&graph, digest);
    if let Some(path) = &asked.report {
        let reserved = (WORLD.peak_reserved_pages() * BYTES_IN_PAGE) as u64;
        let mut more = More::of(asked.plan, heap_bytes);
        // Last, because the heap may have to be collected for it.
        more.parts = parts_of_heap();
        Report::of(header, took, reserved, digest, more).write(path)?;
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
fn begin(asked: &Arguments, heap_bytes: u64, table: *mut [Object]) -> Result<(), String> {
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
        (*program).account = asked.account.then(Account::default);
    }
    memory_manager::initialize_collection(WORLD.mmtk(), VMThread(itself));
    Ok(())
}

/// Replays with the loop that was compiled for what the plan needs.
fn replay_under(
    asked: &Arguments,
    schedule: &Schedule,
    table: *mut [Object],
) -> Result<(), TooLarge> {
    use barrier::{NONE, OBJECT, SNAPSHOT};
    use place::{BUMP, CALL, IMMIX};
    let touching = match kind_of(asked.plan) {
        (BUMP, NONE, false) => touching::<BUMP, NONE, false, false>,
        (BUMP, OBJECT, false) => touching::<BUMP, OBJECT, false, false>,
        (IMMIX, NONE, false) => touching::<IMMIX, NONE, false, false>,
        (IMMIX, OBJECT, true) => touching::<IMMIX, OBJECT, true, false>,
        (_, NONE, _) => touching::<CALL, NONE, true, false>,
        (_, SNAPSHOT, _) => touching::<CALL, SNAPSHOT, true, true>,
        _ => touching::<CALL, OBJECT, true, false>,
    };
    touching(asked, schedule.events(), table)
}

fn touching<const P: u8, const B: u8, const POST: bool, const POLL: bool>(
    asked: &Arguments,
    events: Events<'_>,
    table: *mut [Object],
) -> Result<(), TooLarge> {
    let mut heap = Heap::<P, B, POST>::new(asked.period_bytes, asked.reclaim > 1);
    if asked.touch {
        replay::<P, B, POST, true, POLL>(&mut heap, events, table)
    } else {
        replay::<P, B, POST, false, POLL>(&mut heap, events, table)
    }
}

/// What a report says of a collector.
#[derive(Serialize)]
struct More {
    collector: String,
    heap_bytes: u64,
    collections: u64,
    nursery_collections: u64,
    copy_reserve_bytes: usize,
    #[serde(flatten)]
    pauses: Pauses,
    #[serde(flatten)]
    parts: Option<Parts>,
}

impl More {
    fn of(plan: Plan, heap_bytes: u64) -> More {
        // SAFETY: this is the program's thread.
        let pauses: &Pauses = unsafe { &(*WORLD.program()).pauses };
        More {
            collector: collector_name(plan),
            heap_bytes,
            collections: WORLD.collections.load(Ordering::Relaxed),
            nursery_collections: WORLD.nursery_collections.load(Ordering::Relaxed),
            copy_reserve_bytes: WORLD.copy_reserve_pages() * BYTES_IN_PAGE,
            pauses: pauses.clone(),
            parts: None,
        }
    }
}

/// The parts of the heap, if they were asked for. A heap that never had to be collected is accounted
/// for as it is at the end.
fn parts_of_heap() -> Option<Parts> {
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
    fullest()
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
