//! Random traces, and their rows as the compiler is given them.

use std::ops::Range;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tare_schedule::{Asked, Death};

pub const NEVER: u64 = u64::MAX;

/// Moments are those of one clock, however the rows have them.
#[derive(Debug)]
pub struct Object {
    pub birth: u64,
    pub size: u64,
    pub zeroed: bool,
    pub freed_with_region: bool,
    pub alignment_logarithm: u32,
    pub thread: u64,
    /// 0: the same.
    pub free_thread: u64,
    pub first_use: u64,
    pub last_use: u64,
    pub free: u64,
    pub unreachable: u64,
    pub resized_from: u64,
    pub region: u64,
}

#[derive(Debug)]
pub struct Store {
    pub time: u64,
    pub source: u64,
    pub offset: u64,
    pub target: u64,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Clone, Copy, Debug)]
pub struct What {
    pub death: Death,
    pub uses: bool,
    pub threads: bool,
    pub pace: bool,
    pub clocks: bool,
}

impl What {
    pub fn asked(self) -> Asked {
        Asked {
            death: self.death,
            uses: self.uses,
            threads: self.threads,
            pace: self.pace,
            clocks: self.clocks,
        }
    }
}

#[derive(Debug)]
pub struct Trace {
    pub asked: What,
    /// The first is number 1.
    pub objects: Vec<Object>,
    /// In the order of time.
    pub stores: Option<Vec<Store>>,
    rows_in_a_batch: usize,
}

impl Trace {
    pub fn object_rows(&self) -> Vec<u8> {
        let rows: Vec<[u64; 9]> = self.objects.iter().map(|o| self.row(o)).collect();
        batches(&rows, self.rows_in_a_batch)
    }

    pub fn store_rows(&self) -> Option<Vec<u8>> {
        let stores = self.stores.as_ref()?.iter();
        let rows: Vec<[u64; 4]> = stores
            .map(|store| [store.time, store.source, store.offset, store.target])
            .collect();
        Some(batches(&rows, self.rows_in_a_batch))
    }

    fn row(&self, object: &Object) -> [u64; 9] {
        let about = u64::from(object.zeroed)
            | u64::from(object.freed_with_region) << 1
            | u64::from(object.alignment_logarithm) << 8
            | object.thread << 16
            | object.free_thread << 40;
        let Object {
            birth,
            first_use,
            last_use,
            free,
            unreachable,
            ..
        } = *object;
        let after = |time: u64, origin: u64| {
            if self.asked.clocks || time == NEVER {
                time
            } else {
                time - origin
            }
        };
        [
            birth,
            object.size,
            if about == 0 { NEVER } else { about },
            after(first_use, birth),
            after(last_use, first_use),
            after(free, if last_use == NEVER { birth } else { last_use }),
            after(unreachable, birth),
            object.resized_from,
            object.region,
        ]
    }
}

/// A column without a number is left out of its batch.
fn batches<const COLUMNS: usize>(rows: &[[u64; COLUMNS]], rows_in_a_batch: usize) -> Vec<u8> {
    let mut words = Vec::new();
    for batch in rows.chunks(rows_in_a_batch) {
        let is_there = |&column: &usize| batch.iter().any(|row| row[column] != NEVER);
        let there: Vec<usize> = (0..COLUMNS).filter(is_there).collect();
        words.push(batch.len() as u64);
        words.push(there.iter().map(|column| 1 << column).sum());
        for &column in &there {
            words.extend(batch.iter().map(|row| row[column]));
        }
    }
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// Mostly so short that much happens at one moment.
fn any_time() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..3u64,
        4 => 0..30u64,
        1 => 0..3000u64,
        1 => 0..1u64 << 40,
    ]
}

fn any_size() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 0..200u64,
        2 => 0..100_000u64,
        1 => (1 << 32) - 2..1u64 << 40,
    ]
}

/// As recorded: not dense.
fn any_thread() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(1u64), 2 => Just(0u64), 2 => Just(17u64), 1 => Just((1 << 24) - 1)]
}

/// What is drawn for an object, with distances in place of moments and of numbers of objects.
#[derive(Clone, Debug)]
struct Drawn {
    since_birth_before: u64,
    size: u64,
    bits: [bool; 4],
    alignment_logarithm: u32,
    threads: (u64, Option<u64>),
    first_use: Option<u64>,
    last_use: Option<u64>,
    free: Option<u64>,
    unreachable: Option<u64>,
    resized: Option<usize>,
    region: Option<u64>,
}

fn any_drawn() -> impl Strategy<Value = Drawn> {
    (
        any_time(),
        any_size(),
        any::<[bool; 4]>(),
        prop_oneof![4 => Just(0), 1 => 0..=30u32],
        (any_thread(), option::weighted(0.3, any_thread())),
        option::weighted(0.7, any_time()),
        option::weighted(0.7, any_time()),
        option::weighted(0.9, any_time()),
        option::weighted(0.5, any_time()),
        option::weighted(0.2, 1..6usize),
        option::weighted(0.4, prop_oneof![0..4u64, Just(NEVER - 1)]),
    )
        .prop_map(|drawn| Drawn {
            since_birth_before: drawn.0,
            size: drawn.1,
            bits: drawn.2,
            alignment_logarithm: drawn.3,
            threads: drawn.4,
            first_use: drawn.5,
            last_use: drawn.6,
            free: drawn.7,
            unreachable: drawn.8,
            resized: drawn.9,
            region: drawn.10,
        })
}

fn later(origin: u64, distance: Option<u64>) -> u64 {
    match distance {
        Some(distance) if origin != NEVER => origin + distance,
        _ => NEVER,
    }
}

fn object_of(drawn: &Drawn, birth: u64) -> Object {
    let first_use = later(birth, drawn.first_use);
    let last_use = later(first_use, drawn.last_use);
    Object {
        birth,
        size: drawn.size,
        zeroed: drawn.bits[0],
        freed_with_region: drawn.bits[1],
        alignment_logarithm: drawn.alignment_logarithm,
        thread: drawn.threads.0,
        free_thread: drawn.threads.1.unwrap_or(0),
        first_use,
        last_use,
        free: later(if last_use == NEVER { birth } else { last_use }, drawn.free),
        unreachable: later(birth, drawn.unreachable),
        resized_from: NEVER,
        region: drawn.region.unwrap_or(NEVER),
    }
}

/// Ends the object by a realloc at `time`.
fn end_at(object: &mut Object, time: u64) {
    for moment in [&mut object.first_use, &mut object.last_use] {
        if *moment != NEVER {
            *moment = (*moment).min(time);
        }
    }
    object.free = time;
}

fn objects_of(drawn: &[Drawn], clocks: bool) -> Vec<Object> {
    let mut objects: Vec<Object> = Vec::new();
    let mut birth = 0;
    for each in drawn {
        birth += each.since_birth_before;
        let mut object = object_of(each, birth);
        let [.., may_be_odd, moves] = each.bits;
        let before = each
            .resized
            .and_then(|back| objects.len().checked_sub(back));
        if let Some(before) = before {
            object.resized_from = before as u64 + 1;
            // Otherwise the object was resized from one that lives on, or has been dead for long.
            if moves || each.resized == Some(1) {
                end_at(&mut objects[before], birth);
            }
        }
        // Recorders that lose events leave rows which say that, by clocks alone.
        if clocks && may_be_odd && each.size % 7 == 0 {
            std::mem::swap(&mut object.first_use, &mut object.last_use);
            object.free = object.free.min(birth / 2);
        }
        objects.push(object);
    }
    objects
}

#[derive(Clone, Debug)]
struct DrawnStore {
    source: prop::sample::Index,
    target: Option<prop::sample::Index>,
    since_birth: u64,
    offset: u64,
}

fn any_drawn_store() -> impl Strategy<Value = DrawnStore> {
    (
        any::<prop::sample::Index>(),
        option::weighted(0.8, any::<prop::sample::Index>()),
        any_time(),
        prop_oneof![6 => (0..20u64).prop_map(|field| field * 8), 2 => 0..200u64, 1 => any::<u64>()],
    )
        .prop_map(|(source, target, since_birth, offset)| DrawnStore {
            source,
            target,
            since_birth,
            offset,
        })
}

fn stores_of(drawn: &[DrawnStore], objects: &[Object]) -> Vec<Store> {
    if objects.is_empty() {
        return Vec::new();
    }
    let number_of = |which: &prop::sample::Index| which.index(objects.len()) as u64 + 1;
    let of = |store: &DrawnStore| Store {
        time: store.source.get(objects).birth + store.since_birth,
        source: number_of(&store.source),
        offset: store.offset,
        target: store.target.as_ref().map_or(NEVER, number_of),
    };
    let mut stores: Vec<Store> = drawn.iter().map(of).collect();
    stores.sort_by_key(|store| store.time);
    stores
}

/// A trace of so many objects.
pub fn any_trace(objects: Range<usize>) -> impl Strategy<Value = Trace> {
    let most = objects.end;
    let what = (
        prop::sample::select(&Death::ALL[..]),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(death, uses, threads, pace, clocks)| What {
            death,
            uses,
            threads,
            pace,
            clocks,
        });
    (
        what,
        vec(any_drawn(), objects),
        option::of(vec(any_drawn_store(), 0..2 * most)),
        1..=2 * most,
    )
        .prop_map(|(asked, drawn, stores, rows_in_a_batch)| {
            let objects = objects_of(&drawn, asked.clocks);
            let stores = stores.map(|drawn| stores_of(&drawn, &objects));
            Trace {
                asked,
                objects,
                stores,
                rows_in_a_batch,
            }
        })
}
