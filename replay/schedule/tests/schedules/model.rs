//! What a schedule of a trace must be.

use std::collections::{HashMap, HashSet, VecDeque};

use tare_schedule::{Death, Event, Header, Schedule};

use crate::trace::{Object, Store, Trace, NEVER};

/// Nanoseconds after which a thread is told of the time again.
const STEP: u64 = 100_000;

/// Of what happens at one moment: the order in which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    FirstUse,
    LastUse,
    End,
    Birth,
}

/// Objects by their numbers in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Birth {
        object: u64,
    },
    Resize {
        object: u64,
        from: u64,
    },
    FirstUse {
        object: u64,
    },
    LastUse {
        object: u64,
    },
    End {
        object: u64,
    },
    Store {
        source: u64,
        offset: u64,
        target: Option<u64>,
    },
}

impl Expected {
    fn of(order: Order, object: u64) -> Expected {
        match order {
            Order::FirstUse => Expected::FirstUse { object },
            Order::LastUse => Expected::LastUse { object },
            Order::End => Expected::End { object },
            Order::Birth => Expected::Birth { object },
        }
    }
}

/// What is to happen, in steps; within a step in any order.
#[derive(Default)]
struct Plan {
    steps: VecDeque<Vec<Expected>>,
    pending: Vec<(u64, Order, u64)>,
    live: HashSet<u64>,
}

impl Plan {
    fn of(trace: &Trace) -> Plan {
        let mut plan = Plan::default();
        let mut stores = trace.stores.iter().flatten().peekable();
        for (object, number) in trace.objects.iter().zip(1..) {
            while let Some(store) = stores.next_if(|store| store.time < object.birth) {
                plan.store(trace, store);
            }
            plan.birth(trace, object, number);
        }
        for store in stores {
            plan.store(trace, store);
        }
        plan.advance((NEVER, Order::FirstUse), NEVER);
        plan
    }

    /// All that happens before `bound`; gives whether the object of the number `but` ended, which is
    /// left out.
    fn advance(&mut self, bound: (u64, Order), but: u64) -> bool {
        let (mut due, pending) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition::<Vec<_>, _>(|&(time, order, _)| (time, order) < bound);
        self.pending = pending;
        due.sort_unstable();
        let is_left_out = |&(_, order, object): &_| order == Order::End && object == but;
        let ended = due.iter().any(is_left_out);
        due.retain(|happens| !is_left_out(happens));
        for &(_, order, object) in &due {
            if order == Order::End {
                self.live.remove(&object);
            }
        }
        let same_moment = |a: &(u64, Order, u64), b: &(u64, Order, u64)| (a.0, a.1) == (b.0, b.1);
        self.steps.extend(due.chunk_by(same_moment).map(|step| {
            let expected = |&(_, order, object): &_| Expected::of(order, object);
            step.iter().map(expected).collect::<Vec<_>>()
        }));
        ended
    }

    fn birth(&mut self, trace: &Trace, object: &Object, number: u64) {
        let from = object.resized_from;
        let expected = if self.advance((object.birth, Order::Birth), from) {
            self.live.remove(&from);
            Expected::Resize {
                object: number,
                from,
            }
        } else {
            Expected::Birth { object: number }
        };
        self.steps.push_back(vec![expected]);
        self.live.insert(number);
        let end = end_of(object, trace.asked.death).max(object.birth);
        let mut expect = |time: u64, order| {
            if time != NEVER {
                let time = time.clamp(object.birth, end);
                self.pending.push((time, order, number));
            }
        };
        expect(end, Order::End);
        if trace.asked.uses {
            expect(object.first_use, Order::FirstUse);
            expect(object.last_use, Order::LastUse);
        }
    }

    /// After the uses of its moment, and before the ends.
    fn store(&mut self, trace: &Trace, store: &Store) {
        self.advance((store.time, Order::End), NEVER);
        let Store { source, offset, .. } = *store;
        if !self.live.contains(&source) {
            return;
        }
        let size = trace.objects[source as usize - 1].size;
        if offset.checked_add(8).is_none_or(|end| end > size) {
            return;
        }
        let target = Some(store.target).filter(|target| self.live.contains(target));
        self.steps.push_back(vec![Expected::Store {
            source,
            offset,
            target,
        }]);
    }
}

fn end_of(object: &Object, death: Death) -> u64 {
    match death {
        Death::Free => object.free,
        Death::Unreachable => object.free.min(object.unreachable),
        Death::LastUse if object.last_use == NEVER => object.birth,
        Death::LastUse => object.last_use,
    }
}

/// Follows a schedule, and counts what its header must say.
pub struct Model<'a> {
    trace: &'a Trace,
    steps: VecDeque<Vec<Expected>>,
    /// Numbers of threads, by those recorded.
    threads: HashMap<u64, u32>,
    /// Objects by slot.
    live: HashMap<u32, u64>,
    /// By object; a resize leaves an object in its first one.
    regions: HashMap<u64, Option<u32>>,
    /// Of each number the region as recorded, and how many objects it has.
    live_regions: HashMap<u32, (u64, u64)>,
    slots: Slots,
    live_bytes: u64,
    counted: Header,
}

impl<'a> Model<'a> {
    pub fn new(trace: &'a Trace) -> Model<'a> {
        let mut threads = HashMap::new();
        for object in &trace.objects {
            for recorded in [object.thread, freer_of(object)] {
                let next = u32::try_from(threads.len()).expect("few threads");
                threads.entry(recorded).or_insert(next);
            }
        }
        Model {
            trace,
            steps: Plan::of(trace).steps,
            threads,
            live: HashMap::new(),
            regions: HashMap::new(),
            live_regions: HashMap::new(),
            slots: Slots::default(),
            live_bytes: 0,
            counted: Header::empty(trace.asked.death),
        }
    }

    pub fn follow(&mut self, schedule: &Schedule) {
        let mut events = schedule.events();
        let mut run: Option<(u32, usize)> = None;
        let mut told: HashMap<Option<u32>, u64> = HashMap::new();
        loop {
            let left = events.words_left();
            let Some(event) = events.next() else { break };
            let taken = left - events.words_left();
            self.counted.words += taken as u64;
            if let Event::Thread { thread, words } = event {
                assert!(self.trace.asked.threads, "threads that nobody asked for");
                assert!(run.is_none_or(|(_, left)| left == 0), "a run in a run");
                run = Some((thread, words as usize));
                self.counted.threads = self.counted.threads.max(u64::from(thread) + 1);
                continue;
            }
            let thread = run.as_mut().map(|(thread, left)| {
                *left = left.checked_sub(taken).expect("an event in its run");
                *thread
            });
            assert_eq!(thread.is_some(), self.trace.asked.threads);
            let told = told.entry(thread).or_insert(0);
            if let Event::Until { nanoseconds } = event {
                assert!(self.trace.asked.pace, "times that nobody asked for");
                assert!(nanoseconds >= *told + STEP, "a time that is no news");
                *told = nanoseconds;
                continue;
            }
            let does = self.event(event, thread.unwrap_or(0));
            if let (Event::Allocate { slot, .. }, true) = (event, self.trace.asked.pace) {
                let since = self.object(self.live[&slot]).birth - self.trace.objects[0].birth;
                assert!((*told..*told + STEP).contains(&since), "at another time");
            }
            if let Some(thread) = thread {
                assert_eq!(thread, self.threads[&does], "{event:?}");
            }
        }
        assert!(run.is_none_or(|(_, left)| left == 0), "a run that goes on");
        assert!(self.steps.is_empty(), "events are missing");
    }

    pub fn compare(&self, header: &Header) {
        assert_eq!(self.counted, *header);
        if !self.trace.asked.threads {
            assert_eq!(header.slots, header.peak_objects);
        }
    }

    fn object(&self, number: u64) -> &'a Object {
        &self.trace.objects[number as usize - 1]
    }

    fn in_slot(&self, slot: u32) -> u64 {
        *self.live.get(&slot).expect("an object that lives")
    }

    /// Takes out of the step that it is the turn of.
    fn take(&mut self, expected: Expected) {
        let step = self.steps.front_mut().expect("no more events");
        let place = step.iter().position(|&each| each == expected);
        let place = place.unwrap_or_else(|| panic!("{expected:?} in place of one of {step:?}"));
        step.swap_remove(place);
        if step.is_empty() {
            self.steps.pop_front();
        }
    }

    /// Gives the thread, as recorded, that does it.
    fn event(&mut self, event: Event, thread: u32) -> u64 {
        match event {
            Event::Allocate { slot, .. } => self.allocate(event, slot, thread),
            Event::Resize { slot, size } => self.resize(slot, size),
            Event::Free { slot, with_region } => self.free(slot, with_region),
            Event::Write { slot, size } | Event::Read { slot, size } => {
                let object = self.in_slot(slot);
                self.take(if matches!(event, Event::Write { .. }) {
                    Expected::FirstUse { object }
                } else {
                    Expected::LastUse { object }
                });
                let found = self.object(object);
                assert_eq!(u64::from(size), found.size.min(u64::from(u32::MAX)));
                self.counted.touches += 1;
                found.thread
            }
            Event::Store {
                source,
                offset,
                target,
            } => {
                let source = self.in_slot(source);
                let target = target.map(|slot| self.in_slot(slot));
                self.take(Expected::Store {
                    source,
                    offset,
                    target,
                });
                self.counted.stores += 1;
                self.object(source).thread
            }
            Event::Thread { .. } | Event::Until { .. } => unreachable!("taken before"),
        }
    }

    fn allocate(&mut self, event: Event, slot: u32, thread: u32) -> u64 {
        let Some(&[Expected::Birth { object: number }]) = self.steps.front().map(Vec::as_slice)
        else {
            panic!("{event:?} in place of one of {:?}", self.steps.front());
        };
        self.take(Expected::Birth { object: number });
        let object = self.object(number);
        let Event::Allocate { region, .. } = event else {
            unreachable!("a birth")
        };
        let expected = Event::Allocate {
            slot,
            size: object.size,
            alignment: match object.alignment_logarithm {
                0 => 0,
                logarithm => 1 << logarithm,
            },
            zeroed: object.zeroed,
            region,
        };
        assert_eq!(event, expected);
        self.enter_region(number, region);
        self.slots.take(slot, thread, self.trace.asked.threads);
        assert_eq!(self.live.insert(slot, number), None, "a slot that is taken");
        self.counted.slots = self.counted.slots.max(u64::from(slot) + 1);
        self.counted.objects += 1;
        self.counted.peak_objects = self.counted.peak_objects.max(self.live.len() as u64);
        self.grow(0, object.size);
        object.thread
    }

    fn resize(&mut self, slot: u32, size: u64) -> u64 {
        let from = self.in_slot(slot);
        let Some(&[Expected::Resize { object: number, .. }]) =
            self.steps.front().map(Vec::as_slice)
        else {
            panic!("a resize in place of one of {:?}", self.steps.front());
        };
        self.take(Expected::Resize {
            object: number,
            from,
        });
        let object = self.object(number);
        assert_eq!(size, object.size);
        self.live.insert(slot, number);
        let region = self.regions[&from];
        self.regions.insert(number, region);
        self.counted.resizes += 1;
        self.grow(self.object(from).size, size);
        object.thread
    }

    fn free(&mut self, slot: u32, with_region: bool) -> u64 {
        let number = self.in_slot(slot);
        self.take(Expected::End { object: number });
        let object = self.object(number);
        assert_eq!(with_region, object.freed_with_region);
        self.live.remove(&slot);
        self.slots.give_back(slot);
        if let Some(region) = self.regions[&number] {
            let objects = &mut self.live_regions.get_mut(&region).expect("its region").1;
            *objects -= 1;
            if *objects == 0 {
                self.live_regions.remove(&region);
            }
        }
        self.live_bytes -= object.size;
        self.counted.frees += 1;
        freer_of(object)
    }

    fn grow(&mut self, before: u64, now: u64) {
        self.counted.allocated_bytes += now.saturating_sub(before);
        self.live_bytes = self.live_bytes - before + now;
        self.counted.peak_bytes = self.counted.peak_bytes.max(self.live_bytes);
    }

    /// A region has one number while it has objects, and no other region has it then.
    fn enter_region(&mut self, number: u64, region: Option<u32>) {
        let recorded = self.object(number).region;
        assert_eq!(region.is_some(), recorded != NEVER);
        self.regions.insert(number, region);
        let Some(region) = region else { return };
        let is_live = self.live_regions.values().any(|&(of, _)| of == recorded);
        let entry = self.live_regions.entry(region);
        if is_live {
            let (of, objects) = entry.or_insert((NEVER, 0));
            assert_eq!(*of, recorded);
            *objects += 1;
        } else {
            let (of, objects) = entry.or_insert((recorded, 0));
            assert_eq!((*of, *objects), (recorded, 0));
            *objects = 1;
        }
        // No number is made while one is free.
        let live = self.live_regions.len() as u64;
        self.counted.regions = self.counted.regions.max(live);
    }
}

fn freer_of(object: &Object) -> u64 {
    match object.free_thread {
        0 => object.thread,
        freer => freer,
    }
}

/// Who has which slots, and which are free.
#[derive(Default)]
struct Slots {
    owners: HashMap<u32, u32>,
    /// Those that had objects, the one that died first at the front.
    free: HashMap<u32, VecDeque<u32>>,
}

impl Slots {
    fn take(&mut self, slot: u32, thread: u32, keeps_threads: bool) {
        const IN_A_LINE: u32 = 8;
        const FREE_BEFORE_REUSE: usize = 64;
        let free = self.free.entry(thread).or_default();
        let is_new = !self.owners.contains_key(&slot);
        let owner = *self.owners.entry(slot).or_insert(thread);
        assert_eq!(owner, thread, "a slot of another thread");
        if keeps_threads {
            let line = slot / IN_A_LINE * IN_A_LINE;
            for beside in line..line + IN_A_LINE {
                assert_eq!(*self.owners.get(&beside).unwrap_or(&thread), thread);
            }
            assert_eq!(is_new, free.len() <= FREE_BEFORE_REUSE);
            if !is_new {
                assert_eq!(free.pop_front(), Some(slot));
            }
        } else {
            assert_eq!(is_new, free.is_empty());
            free.retain(|&each| each != slot);
        }
    }

    fn give_back(&mut self, slot: u32) {
        let owner = self.owners[&slot];
        self.free.entry(owner).or_default().push_back(slot);
    }
}
