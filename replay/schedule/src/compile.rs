//! Makes a schedule of the rows of a heap trace.
//!
//! Objects come in the order of their births, and are taken a few at a time. What happens until the
//! last of these is born is sorted by time, and goes between the births; what happens later waits in
//! a queue. So memory is bounded by the objects that live at once.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use crate::due::Due;
use crate::event::{Event, LATEST_UNTIL, MOST_THREADS};
use crate::hash::Numbered;
use crate::header::Header;
use crate::pending::Pending;
use crate::regions::Regions;
use crate::row::{Asked, Row, Store, BIRTH, END, FIRST_USE, NEVER, OBJECT_COLUMNS, STORE_COLUMNS};
use crate::rows::Rows;
use crate::slots::Slots;
use crate::writer::Writer;

/// So many objects are taken at a time: so few that what is kept of them stays in the cache.
const ROWS_AT_A_TIME: usize = 1024;
/// In place of a slot, before the object has one: the number of its row among those.
const OF_ROW: u32 = 1 << 31;
/// A thread is told of the time again once so many nanoseconds have gone by: much less cannot be
/// slept.
const STEP: u64 = 100_000;

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

/// Compiles objects, and stores of pointers if any, into `output`, which is empty.
///
/// The rows of objects have the columns birth, size, a word about the object, first use, last use,
/// free, the moment it was found unreachable, the number of the object that a realloc made this one
/// of, and the number of its region. Bit 0 of the word says that it is zeroed, bit 1 that it goes
/// with its region, bits 8 to 12 are the logarithm of the alignment asked for, bits 16 to 39 the
/// thread, and bits 40 to 63 the thread that frees it (0: the same). The rows of stores have the
/// columns time, source, offset, and target. Objects are numbered from 1; times are below 2 to the
/// 61; all ones stand for never and for none.
pub fn compile(
    objects: impl Read,
    stores: Option<impl Read>,
    output: File,
    asked: Asked,
) -> Result<Header, CompileError> {
    // What most replays need is compiled for itself.
    if asked.uses || asked.threads || asked.pace || stores.is_some() {
        Compiler::<false>::new(output, asked, stores.is_some())?.compile(objects, stores, asked)
    } else {
        Compiler::<true>::new(output, asked, false)?.compile(objects, stores, asked)
    }
}

fn read_store<R: Read>(
    stores: Option<&mut Rows<R, STORE_COLUMNS>>,
) -> Result<Option<Store>, CompileError> {
    let row = stores.map_or(Ok(None), Rows::next)?;
    Ok(row.map(Store::of))
}

/// With `ALONE` there are births and ends of objects only, of no thread in particular.
struct Compiler<const ALONE: bool> {
    writer: Writer,
    // Keys are times, followed by the order within one.
    /// What happens to the last object at its birth, the last first.
    at_birth: Vec<(u64, u32)>,
    /// What happens before the key `due_before`.
    due: Due,
    due_before: u64,
    /// Of those rows whose objects are born already.
    slots_of_rows: [u32; ROWS_AT_A_TIME],
    /// What happens to the objects of the rows after that, which waits until these have slots.
    later_of_rows: Vec<(u64, u32)>,
    /// What happens after that.
    later: Pending,
    /// By slot.
    objects: Vec<Object>,
    slots: Slots,
    slot_of: Option<SlotOf>,
    /// Dense numbers of the threads as recorded, where threads are kept.
    threads: Option<HashMap<u64, u32>>,
    regions: Regions,
    /// Where times are to be told, by thread the last that was.
    told: Option<Vec<u64>>,
    /// When the first object was born.
    begun: u64,
}

/// The last object of a slot.
#[derive(Clone, Copy, Default)]
struct Object {
    id: u64,
    size: u64,
    region: Option<u32>,
    freed_with_region: bool,
    /// Who took the slot, who allocates and uses the object, and who frees it.
    owner: u16,
    user: u16,
    freer: u16,
}

impl<const ALONE: bool> Compiler<ALONE> {
    fn new(output: File, asked: Asked, has_stores: bool) -> io::Result<Self> {
        Ok(Compiler {
            writer: Writer::new(output, asked.death, asked.threads)?,
            at_birth: Vec::new(),
            due: Due::new(),
            due_before: 0,
            slots_of_rows: [0; ROWS_AT_A_TIME],
            later_of_rows: Vec::new(),
            later: Pending::new(),
            objects: Vec::new(),
            slots: Slots::new(asked.threads),
            slot_of: has_stores.then(SlotOf::default),
            threads: asked.threads.then(HashMap::new),
            regions: Regions::default(),
            told: asked.pace.then(Vec::new),
            begun: NEVER,
        })
    }

    fn compile(
        mut self,
        objects: impl Read,
        stores: Option<impl Read>,
        asked: Asked,
    ) -> Result<Header, CompileError> {
        let mut objects = Rows::<_, OBJECT_COLUMNS>::new(objects);
        let mut stores = stores.map(Rows::<_, STORE_COLUMNS>::new);
        let mut next_store = read_store(stores.as_mut())?;
        let mut rows = Vec::with_capacity(ROWS_AT_A_TIME);
        let (mut id, mut before) = (0, 0);
        while let Some(columns) = objects.next_batch()? {
            let mut start = 0;
            while start < columns[0].len() {
                let count = ROWS_AT_A_TIME.min(columns[0].len() - start);
                let some = columns.map(|column| &column[start..][..count]);
                start += count;
                rows.clear();
                self.expect(some[0][count - 1]);
                for row in 0..count {
                    let row = Row::of::<ALONE>(some.map(|column| column[row]), asked);
                    let number = rows.len() as u32;
                    let row = row.checked(before);
                    let row =
                        row.map_err(|what| CompileError::Row(id + u64::from(number) + 1, what))?;
                    before = row.birth;
                    self.expect_of(number, &row);
                    rows.push(row);
                }
                self.due.sort();
                for (number, row) in rows.iter().enumerate() {
                    while let Some(store) = next_store.filter(|store| store.time < row.birth) {
                        self.store(store)?;
                        next_store = read_store(stores.as_mut())?;
                    }
                    id += 1;
                    self.object(id, number, row)?;
                }
                for &(key, number) in &self.later_of_rows {
                    self.later.push(key, self.slots_of_rows[number as usize]);
                }
            }
        }
        while let Some(store) = next_store {
            self.store(store)?;
            next_store = read_store(stores.as_mut())?;
        }
        self.advance(NEVER)?;
        Ok(self.writer.finish()?)
    }

    /// Takes what happens until the last of the next rows is born from what waits.
    fn expect(&mut self, last_birth: u64) {
        self.due_before = last_birth << 2 | BIRTH;
        self.later_of_rows.clear();
        let due = &mut self.due;
        due.clear();
        self.later
            .drain_before(self.due_before, |keys| due.add_all(keys));
    }

    /// Adds what happens to the object of one of these rows.
    #[inline(always)]
    fn expect_of(&mut self, number: u32, row: &Row) {
        for (time, order) in row.events::<ALONE>() {
            let key = time << 2 | order;
            if key < self.due_before {
                self.due.add(key, OF_ROW | number, time > row.birth);
            } else if time != NEVER {
                self.later_of_rows.push((key, number));
            }
        }
    }

    /// The next that happens before `bound`.
    #[inline(always)]
    fn next_before(&mut self, bound: u64) -> Option<(u64, u32)> {
        if self.at_birth.last().is_some_and(|&(key, _)| key < bound) {
            return self.at_birth.pop();
        }
        if let Some((key, whose)) = self.due.pop_before(bound) {
            let of_row = self.slots_of_rows[whose as usize % ROWS_AT_A_TIME];
            let is_of_row = whose & OF_ROW != 0;
            return Some((key, if is_of_row { of_row } else { whose }));
        }
        if bound > self.due_before {
            return self.later.pop_before(bound);
        }
        None
    }

    #[inline(always)]
    fn of_thread(&mut self, thread: u32) {
        if !ALONE {
            self.writer.of_thread(thread);
        }
    }

    /// What `thread` does next happened at `time`, which it is told of where that is asked for.
    #[inline(always)]
    fn at(&mut self, thread: u32, time: u64) -> io::Result<()> {
        if ALONE {
            return Ok(());
        }
        self.begun = self.begun.min(time);
        let (thread, since) = (thread as usize, time - self.begun);
        let Some(told) = &mut self.told else {
            return Ok(());
        };
        if told.len() <= thread {
            told.resize(thread + 1, 0);
        }
        if since < told[thread] + STEP {
            return Ok(());
        }
        told[thread] = since;
        let nanoseconds = since.min(LATEST_UNTIL);
        self.writer.write(Event::Until { nanoseconds }, 0)
    }

    /// Slots by the numbers of their objects, where stores are to be told.
    #[inline(always)]
    fn slot_of(&mut self) -> Option<&mut SlotOf> {
        self.slot_of.as_mut().filter(|_| !ALONE)
    }

    #[inline(always)]
    fn object(&mut self, id: u64, number: usize, row: &Row) -> Result<(), CompileError> {
        let resized = self.advance_to_birth(row)?;
        let [user, freer] = self.threads_of(id, row)?;
        self.of_thread(user);
        self.at(user, row.birth)?;
        let (slot, region, owner) = if let Some(slot) = resized {
            let before = self.objects[slot as usize];
            let size = row.size;
            self.writer
                .write(Event::Resize { slot, size }, before.size)?;
            if let Some(slot_of) = self.slot_of() {
                slot_of.remove(&row.resized_from);
            }
            (slot, before.region, before.owner)
        } else {
            let (slot, region) = self.allocate(id, row, user)?;
            (slot, region, user as u16)
        };
        if slot as usize >= self.objects.len() {
            self.objects.resize(slot as usize + 1, Object::default());
        }
        self.objects[slot as usize] = Object {
            id,
            size: row.size,
            region,
            freed_with_region: row.is_freed_with_region(),
            owner,
            user: user as u16,
            freer: freer as u16,
        };
        if let Some(slot_of) = self.slot_of() {
            slot_of.insert(id, slot);
        }
        self.slots_of_rows[number % ROWS_AT_A_TIME] = slot;
        for (time, order) in row.events::<ALONE>().rev() {
            if time == row.birth {
                self.at_birth.push((time << 2 | order, slot));
            }
        }
        Ok(())
    }

    /// Dense numbers of the thread that allocates and uses an object, and of that which frees it.
    #[inline(always)]
    fn threads_of(&mut self, id: u64, row: &Row) -> Result<[u32; 2], CompileError> {
        let numbers = match &mut self.threads {
            Some(numbers) if !ALONE => numbers,
            _ => return Ok([0; 2]),
        };
        let mut dense = [0; 2];
        for (dense, recorded) in dense.iter_mut().zip(row.threads()) {
            let next = numbers.len() as u32;
            *dense = *numbers.entry(recorded).or_insert(next);
            if *dense >= MOST_THREADS {
                let what = "of more threads than can be replayed";
                return Err(CompileError::Row(id, what));
            }
        }
        Ok(dense)
    }

    #[inline(always)]
    fn allocate(
        &mut self,
        id: u64,
        row: &Row,
        thread: u32,
    ) -> Result<(u32, Option<u32>), CompileError> {
        let slot = self.slots.take(thread).ok_or(CompileError::Row(
            id,
            "more objects live at once than can be replayed",
        ))?;
        let region = match row.region() {
            None => None,
            Some(region) => Some(self.regions.enter(region).ok_or(CompileError::Row(
                id,
                "more regions have objects at once than can be replayed",
            ))?),
        };
        let event = Event::Allocate {
            slot,
            size: row.size,
            alignment: row.alignment(),
            zeroed: row.is_zeroed(),
            region,
        };
        self.writer.write(event, row.size)?;
        Ok((slot, region))
    }

    /// Does all that happens before the birth of `row`, and at the same moment. Gives the slot of
    /// the object that it was resized from, where nothing else was born since that one ended: a
    /// recorder sees the end before the call and the birth after it.
    #[inline(always)]
    fn advance_to_birth(&mut self, row: &Row) -> Result<Option<u32>, CompileError> {
        let mut resized = None;
        while let Some((key, slot)) = self.next_before(row.birth << 2 | BIRTH) {
            let is_resized = row.resized_from != NEVER
                && key & 3 == END
                && self.objects[slot as usize].id == row.resized_from;
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
        while let Some((key, slot)) = self.next_before(bound) {
            self.happen(key, slot)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn happen(&mut self, key: u64, slot: u32) -> Result<(), CompileError> {
        let object = self.objects[slot as usize];
        let order = key & 3;
        if ALONE || order == END {
            self.of_thread(object.freer.into());
            self.at(object.freer.into(), key >> 2)?;
            let with_region = object.freed_with_region;
            let event = Event::Free { slot, with_region };
            self.writer.write(event, object.size)?;
            if let Some(region) = object.region {
                self.regions.leave(region);
            }
            self.slots.give_back(slot, object.owner.into());
            let id = object.id;
            if let Some(slot_of) = self.slot_of() {
                slot_of.remove(&id);
            }
            return Ok(());
        }
        self.of_thread(object.user.into());
        self.at(object.user.into(), key >> 2)?;
        let size = u32::try_from(object.size).unwrap_or(u32::MAX);
        let event = match order {
            FIRST_USE => Event::Write { slot, size },
            _ => Event::Read { slot, size },
        };
        self.writer.write(event, object.size)?;
        Ok(())
    }

    /// A store into an object that is alive, inside of it; others leave no event.
    fn store(&mut self, store: Store) -> Result<(), CompileError> {
        self.advance(store.time << 2 | END)?;
        let slot_of = |object| self.slot_of.as_ref()?.get(object).copied();
        let Some(source) = slot_of(&store.source) else {
            return Ok(());
        };
        let target = slot_of(&store.target);
        let end = store.offset.checked_add(8);
        let object = &self.objects[source as usize];
        if end.is_none_or(|end| end > object.size) {
            return Ok(());
        }
        self.writer.of_thread(object.user.into());
        let event = Event::Store {
            source,
            offset: store.offset,
            target,
        };
        self.writer.write(event, object.size)?;
        Ok(())
    }
}

/// Slots of live objects by number, for the stores.
type SlotOf = Numbered<u64, u32>;
