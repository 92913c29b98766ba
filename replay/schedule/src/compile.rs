//! Makes a schedule of the rows of a heap trace.
//!
//! Objects come in the order of their births. What happens to one later waits in a queue until a
//! birth or a store is later still, so memory is bounded by the objects that live at once.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{self, Read};

use crate::event::Event;
use crate::header::{Death, Header};
use crate::pending::Pending;
use crate::rows::Rows;
use crate::writer::Writer;
use crate::{LARGEST_OBJECT, MOST_REGIONS, MOST_SLOTS, MOST_THREADS};

/// birth, size, about, first use, last use, free, unreachable, resized from, region
const OBJECT_COLUMNS: usize = 9;
/// time, source, offset, target
const STORE_COLUMNS: usize = 4;

/// In place of a time, for what never happens.
const NEVER: u64 = u64::MAX;
const LATEST: u64 = 1 << 61;

const ABOUT_ZEROED: u64 = 1;
const ABOUT_FREED_WITH_REGION: u64 = 2;
const ABOUT_ALIGNMENT_SHIFT: u32 = 8;
const ABOUT_ALIGNMENT_MASK: u64 = 31;
const ABOUT_THREAD_SHIFT: u32 = 16;
const ABOUT_FREE_THREAD_SHIFT: u32 = 40;
const ABOUT_THREAD_MASK: u64 = (1 << 24) - 1;

/// Of what happens at one moment: the order in which it does.
const FIRST_USE: u64 = 0;
const LAST_USE: u64 = 1;
const END: u64 = 2;
const BIRTH: u64 = 3;

/// Why there is no schedule.
#[derive(Debug)]
pub enum CompileError {
    System(io::Error),
    /// A row, counted from 1, and what is wrong with it.
    Row(u64, &'static str),
}

impl fmt::Display for CompileError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::System(error) => error.fmt(out),
            CompileError::Row(row, what) => write!(out, "object {row} of the trace: {what}"),
        }
    }
}

impl std::error::Error for CompileError {}

impl From<io::Error> for CompileError {
    fn from(error: io::Error) -> Self {
        CompileError::System(error)
    }
}

/// What is compiled of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub death: Death,
    /// First and last uses become events.
    pub uses: bool,
    /// The schedule says which thread does what.
    pub threads: bool,
    /// Moments are clocks; otherwise each is a distance from the one before, as traces store them.
    pub clocks: bool,
}

/// Compiles objects, and stores of pointers if any, into `output`, which is empty.
///
/// The rows of objects have the columns birth, size, a word about the object, first use, last use,
/// free, the moment it was found unreachable, the number of the object that a realloc made this one
/// of, and the number of its region. Bit 0 of the word says that it is zeroed, bit 1 that it goes
/// with its region, bits 8 to 12 are the logarithm of the alignment asked for, bits 16 to 39 the
/// thread, and bits 40 to 63 the thread that frees it (0: the same). The rows of stores have the
/// columns time, source, offset, and target. Objects are numbered from 1; times are below 2 to the
/// 61; all ones stand for never and for none.
///
/// # Errors
/// Where input or output fail, or a row cannot be.
pub fn compile(
    objects: impl Read,
    stores: Option<impl Read>,
    output: File,
    asked: Asked,
) -> Result<Header, CompileError> {
    let Asked { death, threads, .. } = asked;
    let mut compiler = Compiler {
        writer: Writer::new(output, death, threads)?,
        pending: Pending::new(),
        slots: Vec::new(),
        free: vec![Vec::new()],
        slot_of: stores.is_some().then(SlotOf::default),
        threads: threads.then(HashMap::new),
        regions: Regions::default(),
    };
    let mut objects = Rows::<_, OBJECT_COLUMNS>::new(objects);
    let mut stores = stores.map(Rows::<_, STORE_COLUMNS>::new);
    let mut next_store = read_store(stores.as_mut())?;
    let (mut id, mut before) = (0, 0);
    while let Some(row) = objects.next()? {
        id += 1;
        let object = Row::of(row, asked).map_err(|what| CompileError::Row(id, what))?;
        if object.birth < before {
            return Err(CompileError::Row(
                id,
                "its birth is before that of the one before it",
            ));
        }
        before = object.birth;
        while let Some(store) = next_store.filter(|store| store.time < object.birth) {
            compiler.store(store)?;
            next_store = read_store(stores.as_mut())?;
        }
        compiler.object(id, &object)?;
    }
    while let Some(store) = next_store {
        compiler.store(store)?;
        next_store = read_store(stores.as_mut())?;
    }
    compiler.advance(NEVER)?;
    Ok(compiler.writer.finish()?)
}

fn read_store<R: Read>(
    stores: Option<&mut Rows<R, STORE_COLUMNS>>,
) -> Result<Option<Store>, CompileError> {
    let row = match stores {
        Some(stores) => stores.next()?,
        None => None,
    };
    Ok(row.map(|[time, source, offset, target]| Store {
        time: time.min(LATEST),
        source,
        offset,
        target,
    }))
}

struct Row {
    birth: u64,
    size: u64,
    end: u64,
    first_use: u64,
    last_use: u64,
    resized_from: u64,
    region: Option<u64>,
    about: u64,
}

impl Row {
    #[inline(always)]
    fn of(columns: [u64; OBJECT_COLUMNS], asked: Asked) -> Result<Row, &'static str> {
        let [birth, size, about, mut first, mut last, mut free, mut gone, resized_from, region] =
            columns;
        if !asked.clocks {
            let later = |origin: u64, distance: u64| {
                if origin == NEVER || distance == NEVER {
                    NEVER
                } else {
                    origin.saturating_add(distance)
                }
            };
            first = later(birth, first);
            last = later(first, last);
            free = later(if last == NEVER { birth } else { last }, free);
            gone = later(birth, gone);
        }
        let end = match asked.death {
            Death::Free => free,
            Death::Unreachable => free.min(gone),
            Death::LastUse if last == NEVER => birth,
            Death::LastUse => last,
        };
        if !asked.uses {
            (first, last) = (NEVER, NEVER);
        }
        let cannot_be = |time: u64| time >= LATEST && time != NEVER;
        if birth >= LATEST || cannot_be(end) || cannot_be(first) || cannot_be(last) {
            return Err("a time that no run can last");
        }
        if size > LARGEST_OBJECT {
            return Err("larger than any memory");
        }
        let end = end.max(birth);
        let within = |time: u64| {
            if time == NEVER {
                NEVER
            } else {
                time.clamp(birth, end)
            }
        };
        Ok(Row {
            birth,
            size,
            end,
            first_use: within(first),
            last_use: within(last),
            resized_from,
            region: Some(region).filter(|&region| region != NEVER),
            about: if about == NEVER { 0 } else { about },
        })
    }

    fn alignment(&self) -> u64 {
        match self.about >> ABOUT_ALIGNMENT_SHIFT & ABOUT_ALIGNMENT_MASK {
            0 => 0,
            logarithm => 1 << logarithm,
        }
    }

    fn threads(&self) -> [u64; 2] {
        let of = |shift: u32| self.about >> shift & ABOUT_THREAD_MASK;
        let (thread, free_thread) = (of(ABOUT_THREAD_SHIFT), of(ABOUT_FREE_THREAD_SHIFT));
        [
            thread,
            if free_thread == 0 {
                thread
            } else {
                free_thread
            },
        ]
    }
}

#[derive(Clone, Copy)]
struct Store {
    time: u64,
    source: u64,
    offset: u64,
    target: u64,
}

struct Compiler {
    writer: Writer,
    /// Keys are times, followed by the order within one.
    pending: Pending,
    slots: Vec<Slot>,
    /// Slots to use again, of each thread; of one where threads are not kept.
    free: Vec<Vec<u32>>,
    slot_of: Option<SlotOf>,
    /// Dense numbers of the threads as recorded, where threads are kept.
    threads: Option<HashMap<u64, u32>>,
    regions: Regions,
}

/// Dense numbers of the regions that have objects, used again once a region has none.
#[derive(Default)]
struct Regions {
    numbers: HashMap<u64, u32>,
    /// Of each number the region as recorded, and how many objects it has.
    live: Vec<(u64, u64)>,
    free: Vec<u32>,
}

impl Regions {
    /// The number of the region as recorded that an object is born in; None where there are too
    /// many.
    fn enter(&mut self, region: u64) -> Option<u32> {
        let number = if let Some(&number) = self.numbers.get(&region) {
            number
        } else {
            let number = self.free.pop().unwrap_or(self.live.len() as u32);
            if number as usize >= MOST_REGIONS {
                return None;
            }
            if number as usize == self.live.len() {
                self.live.push((region, 0));
            }
            self.live[number as usize] = (region, 0);
            self.numbers.insert(region, number);
            number
        };
        self.live[number as usize].1 += 1;
        Some(number)
    }

    /// An object of the region is dead.
    fn leave(&mut self, number: u32) {
        let (region, objects) = &mut self.live[number as usize];
        *objects -= 1;
        if *objects == 0 {
            self.numbers.remove(region);
            self.free.push(number);
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Slot {
    id: u64,
    /// Who allocates in it, uses the object, and frees it.
    owner: u32,
    user: u32,
    freer: u32,
    region: Option<u32>,
    freed_with_region: bool,
}

impl Compiler {
    #[inline(always)]
    fn object(&mut self, id: u64, row: &Row) -> Result<(), CompileError> {
        let resized = self.advance_to_birth(row)?;
        let [user, freer] = match &mut self.threads {
            None => [0; 2],
            Some(numbers) => {
                let mut dense = [0; 2];
                for (dense, recorded) in dense.iter_mut().zip(row.threads()) {
                    let next = numbers.len() as u32;
                    *dense = *numbers.entry(recorded).or_insert(next);
                    if *dense >= MOST_THREADS {
                        return Err(CompileError::Row(
                            id,
                            "of more threads than can be replayed",
                        ));
                    }
                }
                dense
            }
        };
        self.writer.of_thread(user)?;
        let slot = if let Some(slot) = resized {
            self.writer.write(Event::Resize {
                slot,
                size: row.size,
            })?;
            if let Some(slot_of) = &mut self.slot_of {
                slot_of.remove(&row.resized_from);
            }
            slot
        } else {
            let slot = self.take_slot(user).ok_or(CompileError::Row(
                id,
                "more objects live at once than can be replayed",
            ))?;
            let region = match row.region {
                None => None,
                Some(region) => Some(self.regions.enter(region).ok_or(CompileError::Row(
                    id,
                    "more regions have objects at once than can be replayed",
                ))?),
            };
            self.writer.write(Event::Allocate {
                slot,
                size: row.size,
                alignment: row.alignment(),
                zeroed: row.about & ABOUT_ZEROED != 0,
                region,
            })?;
            self.slots[slot as usize].region = region;
            slot
        };
        let place = &mut self.slots[slot as usize];
        (place.id, place.user, place.freer) = (id, user, freer);
        place.freed_with_region = row.about & ABOUT_FREED_WITH_REGION != 0;
        if let Some(slot_of) = &mut self.slot_of {
            slot_of.insert(id, slot);
        }
        for (time, order) in [
            (row.first_use, FIRST_USE),
            (row.last_use, LAST_USE),
            (row.end, END),
        ] {
            if time != NEVER {
                self.pending.push(time << 2 | order, slot);
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn take_slot(&mut self, thread: u32) -> Option<u32> {
        let thread_index = thread as usize;
        if thread_index >= self.free.len() {
            self.free.resize(thread_index + 1, Vec::new());
        }
        if let Some(slot) = self.free[thread_index].pop() {
            return Some(slot);
        }
        let slot = self.slots.len();
        self.slots.push(Slot {
            owner: thread,
            ..Slot::default()
        });
        (slot < MOST_SLOTS).then_some(slot as u32)
    }

    /// Does all that happens before the birth of `row`, and at the same moment. Gives the slot of
    /// the object that it was resized from, where nothing else was born since that one ended: a
    /// recorder sees the end before the call and the birth after it.
    #[inline(always)]
    fn advance_to_birth(&mut self, row: &Row) -> Result<Option<u32>, CompileError> {
        let mut resized = None;
        while let Some((key, slot)) = self.pending.pop_before(row.birth << 2 | BIRTH) {
            let is_resized = key & 3 == END && self.slots[slot as usize].id == row.resized_from;
            if is_resized {
                resized = Some(slot);
            } else {
                self.happen(key, slot)?;
            }
        }
        Ok(resized)
    }

    /// Does all that has a key below `bound`.
    fn advance(&mut self, bound: u64) -> Result<(), CompileError> {
        while let Some((key, slot)) = self.pending.pop_before(bound) {
            self.happen(key, slot)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn happen(&mut self, key: u64, slot: u32) -> Result<(), CompileError> {
        let of = self.slots[slot as usize];
        let order = key & 3;
        self.writer
            .of_thread(if order == END { of.freer } else { of.user })?;
        if order == END {
            self.writer.write(Event::Free {
                slot,
                with_region: of.freed_with_region,
            })?;
            if let Some(region) = of.region {
                self.regions.leave(region);
            }
            self.free[of.owner as usize].push(slot);
            if let Some(slot_of) = &mut self.slot_of {
                slot_of.remove(&of.id);
            }
            return Ok(());
        }
        let size = u32::try_from(self.writer.size_of(slot)).unwrap_or(u32::MAX);
        self.writer.write(match order {
            FIRST_USE => Event::Write { slot, size },
            _ => Event::Read { slot, size },
        })?;
        Ok(())
    }

    /// A store into an object that is alive, inside of it; others leave no event.
    fn store(&mut self, store: Store) -> Result<(), CompileError> {
        self.advance(store.time << 2 | END)?;
        let Some(slot_of) = &self.slot_of else {
            return Ok(());
        };
        let Some(&source) = slot_of.get(&store.source) else {
            return Ok(());
        };
        let target = slot_of.get(&store.target).copied();
        let end = store.offset.checked_add(8);
        if end.is_none_or(|end| end > self.writer.size_of(source)) {
            return Ok(());
        }
        self.writer.of_thread(self.slots[source as usize].user)?;
        self.writer.write(Event::Store {
            source,
            offset: store.offset,
            target,
        })?;
        Ok(())
    }
}

/// Slots of live objects by number, for the stores.
type SlotOf = HashMap<u64, u32, BuildHasherDefault<Multiply>>;

/// Enough of a hash for numbers that are dense.
#[derive(Default)]
struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        self.0 = (self.0 ^ number).wrapping_mul(GOLDEN).rotate_left(26);
    }
}
