//! Random traces, compiled and read, against a model that keeps lists and searches them.
//!
//! The model says which events may come next: what is to happen at one moment to several objects
//! comes in any order. Which slot an object has, and which number a region, is the compiler's to
//! choose, so that is taken from the schedule and held to the rules.

// Miri lets nobody read files.
#![cfg(not(miri))]

mod model;
mod trace;

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use proptest::sample::Index;
use tare_schedule::{compile, Event, FinalGraph, Follow, Header, Schedule, Streams, What};

use model::Model;
use trace::{any_trace, Trace};

/// A file of its own for each case, gone with it.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Temporary {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{made}.schedule", std::process::id());
        Temporary(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn compiled(trace: &Trace, path: &Path) -> Header {
    let output = File::create(path).expect("a file for the schedule");
    let objects = trace.object_rows();
    let stores = trace.store_rows();
    compile(
        objects.as_slice(),
        stores.as_deref(),
        output,
        trace.asked.asked(),
    )
    .expect("a trace that can be")
}

/// Events as a follower is told of them.
#[derive(Default)]
struct Told(Vec<Event>);

impl Follow for Told {
    type Stop = Infallible;

    fn event(&mut self, event: Event) -> Result<(), Infallible> {
        self.0.push(event);
        Ok(())
    }
}

/// All that a replay reads of a schedule, whose header tells the truth.
fn read_all(schedule: &Schedule) {
    let events: Vec<Event> = schedule.events().collect();
    let mut told = Told::default();
    let Ok(()) = schedule.events().follow(&mut told);
    assert_eq!(told.0, events);
    let (before, after) = schedule.events_around_peak();
    assert!(before.chain(after).eq(events.iter().copied()));
    let header = schedule.header();
    let live = FinalGraph::of(schedule).objects.len() as u64;
    assert_eq!(live, header.objects - header.frees);
    assert_eq!(schedule.events().words_left() as u64, header.words);
    let count = |is_one: fn(&Event) -> bool| events.iter().filter(|event| is_one(event)).count();
    for (found, told) in [
        (
            count(|event| matches!(event, Event::Allocate { .. })),
            header.objects,
        ),
        (
            count(|event| matches!(event, Event::Resize { .. })),
            header.resizes,
        ),
        (
            count(|event| matches!(event, Event::Free { .. })),
            header.frees,
        ),
        (
            count(|event| matches!(event, Event::Write { .. } | Event::Read { .. })),
            header.touches,
        ),
        (
            count(|event| matches!(event, Event::Store { .. })),
            header.stores,
        ),
    ] {
        assert_eq!(found as u64, told);
    }
    let (before_peak, _) = schedule.events_around_peak();
    assert_eq!(live_bytes(before_peak), header.peak_bytes);
}

/// Bytes that live after some events of which none is before the first.
fn live_bytes(events: impl Iterator<Item = Event>) -> u64 {
    let mut sizes = HashMap::new();
    for event in events {
        match event {
            Event::Allocate { slot, size, .. } | Event::Resize { slot, size } => {
                sizes.insert(slot, size);
            }
            Event::Free { slot, .. } => {
                sizes.remove(&slot);
            }
            _ => {}
        }
    }
    sizes.values().sum()
}

/// The slot that an event is about.
fn slot_of(event: Event) -> u32 {
    match event {
        Event::Allocate { slot, .. }
        | Event::Resize { slot, .. }
        | Event::Free { slot, .. }
        | Event::Write { slot, .. }
        | Event::Read { slot, .. }
        | Event::Store { source: slot, .. } => slot,
        Event::Thread { .. } | Event::Until { .. } => unreachable!("no event of an object"),
    }
}

/// Lets the threads of a schedule take turns of one step each, as `turns` has them, and gives the
/// events in the order in which they were done. Where all meet, `met` gets those so far.
fn interleaved(streams: &Streams, turns: &[usize], met: impl Fn(&[Event])) -> Vec<Event> {
    let threads = streams.threads() as usize;
    let mut started = vec![false; threads];
    let (mut done, mut step_of, mut told) = (vec![0; threads], vec![0; threads], vec![0; threads]);
    let mut ended = vec![false; threads];
    let mut parts = streams.parts().to_vec();
    let mut came = HashSet::new();
    let mut events = Vec::new();
    let mut turn = turns.iter().cycle();
    started[streams.first() as usize] = true;
    loop {
        let left: Vec<usize> = (0..threads)
            .filter(|&thread| started[thread] && !ended[thread])
            .collect();
        if left.is_empty() {
            assert!(parts.iter().all(|&left| left == 0));
            assert_eq!(came.len(), streams.meeting() as usize);
            return events;
        }
        // Whose turn it is may have to wait; then it is the next one's.
        let from = turn.next().expect("turns") % left.len();
        let moved = (0..left.len()).any(|offset| {
            let thread = left[(from + offset) % left.len()];
            let stream = streams.stream(thread as u32);
            let step = stream.steps.get(step_of[thread]);
            let until = step.map_or(stream.words(), |step| step.after);
            if done[thread] < until {
                events.extend(stream.events(done[thread]..until));
                done[thread] = until;
                return true;
            }
            let Some(step) = step else {
                ended[thread] = true;
                return true;
            };
            match step.what {
                What::Wait { thread, words } if told[thread as usize] < words => return false,
                What::Join { thread } if !ended[thread as usize] => return false,
                What::Enter { part } => {
                    let before = (part as usize).saturating_sub(1);
                    if parts[..before].iter().any(|&left| left > 0) {
                        return false;
                    }
                }
                What::Leave { part } => parts[part as usize] -= 1,
                What::Meet if came.insert(thread) => {
                    if came.len() == streams.meeting() as usize {
                        met(&events);
                    }
                    return true;
                }
                What::Meet if came.len() < streams.meeting() as usize => return false,
                What::Tell => told[thread] = done[thread],
                What::Start { thread } => {
                    assert!(!std::mem::replace(&mut started[thread as usize], true));
                }
                What::Wait { .. } | What::Join { .. } | What::Meet => {}
            }
            step_of[thread] += 1;
            true
        });
        assert!(moved, "all threads wait for each other");
    }
}

/// By slot, what happens to its objects, each with how often the target of a pointer got an address
/// before.
fn by_slot(events: impl Iterator<Item = Event>) -> HashMap<u32, Vec<(Event, usize)>> {
    let mut found: HashMap<u32, Vec<(Event, usize)>> = HashMap::new();
    let mut addresses: HashMap<u32, usize> = HashMap::new();
    for event in events {
        let slot = slot_of(event);
        let mut of_target = 0;
        match event {
            Event::Allocate { .. } | Event::Resize { .. } => {
                *addresses.entry(slot).or_default() += 1;
            }
            Event::Store {
                target: Some(target),
                ..
            } => of_target = addresses.get(&target).copied().unwrap_or(0),
            _ => {}
        }
        found.entry(slot).or_default().push((event, of_target));
    }
    found
}

/// What happens to each object happens in the order of the schedule, whoever's turn it is, and
/// pointers are stored to what is there.
fn compare_streams(schedule: &Schedule, turns: &[usize]) {
    compare_order(schedule, interleaved(&Streams::of(schedule), turns, |_| {}));
    let at_peak = |events: &[Event]| {
        let live = live_bytes(events.iter().copied());
        assert_eq!(live, schedule.header().peak_bytes);
    };
    let meeting = Streams::meeting_at_peak(schedule);
    compare_order(schedule, interleaved(&meeting, turns, at_peak));
}

fn compare_order(schedule: &Schedule, done: Vec<Event>) {
    let is_of_object = |event: &Event| !matches!(event, Event::Thread { .. } | Event::Until { .. });
    let expected = by_slot(schedule.events().filter(is_of_object));
    let found = by_slot(done.into_iter().filter(is_of_object));
    assert_eq!(found.len(), expected.len());
    for (slot, expected) in expected {
        let found = &found[&slot];
        assert_eq!(found.len(), expected.len());
        for (&(event, addresses), expected) in found.iter().zip(expected) {
            assert_eq!(event, expected.0);
            assert!(addresses >= expected.1, "a pointer to what is not there");
        }
    }
}

fn compare(trace: &Trace, turns: &[usize]) {
    let file = Temporary::new();
    let header = compiled(trace, &file.0);
    let schedule = Schedule::open(&file.0).expect("what was compiled is sound");
    assert_eq!(*schedule.header(), header);
    read_all(&schedule);
    let mut model = Model::new(trace);
    model.follow(&schedule);
    model.compare(&header);
    compare_streams(&schedule, turns);
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        // A failure prints its case; a file beside the sources would be found by the next checkout.
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn what_is_compiled_is_what_is_read(
        trace in any_trace(0..120),
        turns in proptest::collection::vec(any::<usize>(), 1..50),
    ) {
        compare(&trace, &turns);
    }
}

proptest! {
    #![proptest_config(config(5))]

    /// More rows than are taken at a time, more words than are in a part, and free slots that come
    /// round again.
    #[test]
    fn what_is_compiled_of_many_rows_is_what_is_read(
        trace in any_trace(3000..5000),
        turns in proptest::collection::vec(any::<usize>(), 1..50),
    ) {
        compare(&trace, &turns);
    }
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn a_damaged_schedule_is_refused_or_read(
        trace in any_trace(0..40),
        changes in proptest::collection::vec((any::<Index>(), 1..=u8::MAX), 24),
        ends in proptest::collection::vec(any::<Index>(), 8),
    ) {
        let file = Temporary::new();
        compiled(&trace, &file.0);
        let whole = fs::read(&file.0).expect("a schedule");
        for end in ends {
            fs::write(&file.0, &whole[..end.index(whole.len())]).expect("room");
            prop_assert!(Schedule::open(&file.0).is_err(), "a part was taken for the whole");
        }
        for (place, change) in changes {
            let mut damaged = whole.clone();
            damaged[place.index(whole.len())] ^= change;
            fs::write(&file.0, &damaged).expect("room");
            if let Ok(schedule) = Schedule::open(&file.0) {
                read_all(&schedule);
                compare_streams(&schedule, &[0, 1]);
            }
        }
    }
}
