//! A schedule as what each of its threads does, and where one waits for another.
//!
//! Threads run side by side, and what they do to one object happens in the order of the schedule: an
//! event waits until the last event of another thread with the same object is done, and a store of a
//! pointer until its target was born. No thread runs far ahead: the schedule is cut into parts, and
//! a part begins when all but the one before it are done. What waits does so for something earlier
//! in the schedule, so there is always a thread that can go on.

use std::collections::HashMap;

use crate::event::Event;
use crate::events::Events;
use crate::reader::Schedule;

/// Of the whole schedule.
const WORDS_IN_A_PART: usize = 1 << 13;

pub struct Streams {
    by_thread: Vec<Stream>,
    first: u32,
    parts: Vec<u32>,
    meeting: u32,
    waits: u64,
}

/// What one thread does.
#[derive(Default)]
pub struct Stream {
    words: Vec<u64>,
    /// In order.
    pub steps: Vec<Step>,
}

/// What a thread does besides its events, `after` so many of its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub after: usize,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Wait until `thread` has done so many of its words, which it will tell.
    Wait { thread: u32, words: usize },
    /// Tell others how many words are done.
    Tell,
    /// Start a thread, whose first event comes next.
    Start { thread: u32 },
    /// Wait until a thread has ended, whose last event was long ago.
    Join { thread: u32 },
    /// Begin a part.
    Enter { part: u32 },
    /// All of a part is done that is this thread's.
    Leave { part: u32 },
    /// Wait until all threads that there are have come here.
    Meet,
}

impl Stream {
    /// The events of some of its words.
    #[inline(always)]
    pub fn events(&self, words: std::ops::Range<usize>) -> Events<'_> {
        Events::of(&self.words[words])
    }

    pub fn words(&self) -> usize {
        self.words.len()
    }

    fn step(&mut self, what: What) {
        let after = self.words.len();
        self.steps.push(Step { after, what });
    }
}

impl Streams {
    pub fn of(schedule: &Schedule) -> Streams {
        Builder::new(schedule).build(None)
    }

    /// The same; threads meet when most bytes are alive, or before where that is at once.
    pub fn meeting_at_peak(schedule: &Schedule) -> Streams {
        Builder::new(schedule).build(Some(schedule.peak_word()))
    }

    pub fn threads(&self) -> u32 {
        self.by_thread.len() as u32
    }

    /// The thread that there is from the beginning.
    pub fn first(&self) -> u32 {
        self.first
    }

    pub fn stream(&self, thread: u32) -> &Stream {
        &self.by_thread[thread as usize]
    }

    /// How many threads have a share in each part.
    pub fn parts(&self) -> &[u32] {
        &self.parts
    }

    /// How many threads meet.
    pub fn meeting(&self) -> u32 {
        self.meeting
    }

    /// How often a thread waits for an event of another.
    pub fn waits(&self) -> u64 {
        self.waits
    }
}

/// An event of a thread, by how many of the thread's words are done then.
#[derive(Clone, Copy)]
struct Done {
    thread: u32,
    words: usize,
    part: u32,
}

/// The last events with the object of a slot, and the last that gave it an address.
#[derive(Clone, Copy)]
struct Touched {
    last: Done,
    address: Done,
}

const NOTHING: Done = Done {
    thread: u32::MAX,
    words: 0,
    part: 0,
};

struct Builder<'a> {
    schedule: &'a Schedule,
    streams: Vec<Stream>,
    /// By thread, how many words of it others wait for.
    told: Vec<Vec<usize>>,
    /// By a thread that waits and one that it waits for, how many words it has waited for.
    known: HashMap<(u32, u32), usize>,
    touched: Vec<Touched>,
    /// The part that each thread is in.
    part_of: Vec<Option<u32>>,
    parts: Vec<u32>,
    waits: u64,
    /// Threads that are not joined yet, the next to end last, with where their last words end.
    ending: Vec<(usize, u32)>,
    /// How many threads meet; none yet.
    meeting: u32,
    started: Vec<bool>,
    joined: Vec<bool>,
}

impl<'a> Builder<'a> {
    fn new(schedule: &'a Schedule) -> Self {
        let threads = schedule.header().threads as usize;
        let nothing = Touched {
            last: NOTHING,
            address: NOTHING,
        };
        Builder {
            schedule,
            streams: (0..threads).map(|_| Stream::default()).collect(),
            told: vec![Vec::new(); threads],
            known: HashMap::new(),
            touched: vec![nothing; schedule.header().slots as usize],
            part_of: vec![None; threads],
            parts: vec![0; schedule.words().len() / WORDS_IN_A_PART + 1],
            waits: 0,
            ending: Vec::new(),
            meeting: 0,
            started: vec![false; threads],
            joined: vec![false; threads],
        }
    }

    /// Threads meet before the word `meets_at`, if any.
    fn build(mut self, meets_at: Option<usize>) -> Streams {
        let first = self.find_ends();
        let words = self.schedule.words();
        let mut events = self.schedule.events();
        let (mut thread, mut run_end) = (first, 0);
        loop {
            let at = words.len() - events.words_left();
            if self.meeting == 0 && meets_at.is_some_and(|peak| at >= peak) {
                self.meet(first);
            }
            let Some(event) = events.next() else { break };
            let end = words.len() - events.words_left();
            if let Event::Thread {
                thread: next,
                words,
            } = event
            {
                self.start(thread, next, first, at);
                (thread, run_end) = (next, end + words as usize);
                continue;
            }
            // Without a run, an event is of the first thread.
            let of = if at < run_end { thread } else { first };
            self.add(of, event, &words[at..end], at);
        }
        for (stream, part) in self.streams.iter_mut().zip(&self.part_of) {
            if let &Some(part) = part {
                stream.step(What::Leave { part });
            }
        }
        for (stream, told) in self.streams.iter_mut().zip(&mut self.told) {
            stream.tell(told);
        }
        Streams {
            by_thread: self.streams,
            first,
            parts: self.parts,
            meeting: self.meeting,
            waits: self.waits,
        }
    }

    /// Finds where each thread ends; gives the first one.
    fn find_ends(&mut self) -> u32 {
        let words = self.schedule.words();
        let mut events = self.schedule.events();
        let mut ends = vec![0; self.streams.len()];
        let mut first = None;
        while let Some(event) = events.next() {
            if let Event::Thread { thread, words: run } = event {
                first.get_or_insert(thread);
                events.skip_words(run);
                ends[thread as usize] = words.len() - events.words_left();
            }
        }
        let first = first.unwrap_or(0);
        self.ending = ends
            .into_iter()
            .zip(0..)
            .filter(|&(end, thread)| end > 0 && thread != first)
            .collect();
        self.ending.sort_unstable_by(|a, b| b.cmp(a));
        first
    }

    /// A run of `next` begins after one of `before`, which starts it where it is new, once those
    /// that have ended by then are gone.
    fn start(&mut self, before: u32, next: u32, first: u32, at: usize) {
        if next == first || std::mem::replace(&mut self.started[next as usize], true) {
            return;
        }
        let starter = &mut self.streams[before as usize];
        while let Some(&(end, thread)) = self.ending.last() {
            if end > at || thread == before {
                break;
            }
            self.ending.pop();
            self.joined[thread as usize] = true;
            starter.step(What::Join { thread });
        }
        starter.step(What::Start { thread: next });
    }

    /// All threads that were started and not joined wait for each other. They leave their parts, lest
    /// one waits here for what another may not begin yet.
    fn meet(&mut self, first: u32) {
        for thread in 0..self.streams.len() {
            let is_there = self.streams[thread].words() > 0 && !self.joined[thread];
            if !is_there && thread as u32 != first {
                continue;
            }
            let stream = &mut self.streams[thread];
            if let Some(part) = self.part_of[thread].take() {
                stream.step(What::Leave { part });
            }
            stream.step(What::Meet);
            self.meeting += 1;
        }
    }

    fn add(&mut self, thread: u32, event: Event, words: &[u64], at: usize) {
        let part = (at / WORDS_IN_A_PART) as u32;
        self.enter(thread, part);
        let stream = &mut self.streams[thread as usize];
        let words_after = stream.words() + words.len();
        let done = Done {
            thread,
            words: words_after,
            part,
        };
        let (slot, has_address) = match event {
            Event::Allocate { slot, .. } | Event::Resize { slot, .. } => (slot, true),
            Event::Free { slot, .. } | Event::Write { slot, .. } | Event::Read { slot, .. } => {
                (slot, false)
            }
            Event::Store { source, target, .. } => {
                if let Some(target) = target {
                    self.wait(thread, part, self.touched[target as usize].address);
                }
                (source, false)
            }
            Event::Until { .. } => {
                self.streams[thread as usize].words.extend(words);
                return;
            }
            Event::Thread { .. } => return,
        };
        self.wait(thread, part, self.touched[slot as usize].last);
        let touched = &mut self.touched[slot as usize];
        touched.last = done;
        if has_address {
            touched.address = done;
        }
        self.streams[thread as usize].words.extend(words);
    }

    fn enter(&mut self, thread: u32, part: u32) {
        let before = self.part_of[thread as usize];
        if before == Some(part) {
            return;
        }
        let stream = &mut self.streams[thread as usize];
        if let Some(before) = before {
            stream.step(What::Leave { part: before });
        }
        stream.step(What::Enter { part });
        self.part_of[thread as usize] = Some(part);
        self.parts[part as usize] += 1;
    }

    /// `thread`, in `part`, waits for what another has done, where it does not know it yet: from
    /// before, or because that part is over.
    fn wait(&mut self, thread: u32, part: u32, done: Done) {
        if done.words == 0 || done.thread == thread || done.part + 1 < part {
            return;
        }
        let known = self.known.entry((thread, done.thread)).or_default();
        if *known >= done.words {
            return;
        }
        *known = done.words;
        self.waits += 1;
        self.told[done.thread as usize].push(done.words);
        self.streams[thread as usize].step(What::Wait {
            thread: done.thread,
            words: done.words,
        });
    }
}

impl Stream {
    /// Adds the steps that tell, each before all others at its place: these may wait for what others
    /// do once they were told.
    fn tell(&mut self, told: &mut Vec<usize>) {
        told.sort_unstable();
        told.dedup();
        self.steps.extend(told.iter().map(|&after| Step {
            after,
            what: What::Tell,
        }));
        self.steps
            .sort_by_key(|step| (step.after, step.what != What::Tell));
    }
}
