//! Opens a schedule, from wherever it comes.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::event::{Event, LARGEST_OBJECT, MOST_SLOTS, MOST_THREADS};
use crate::events::Events;
use crate::header::Header;
use crate::slots::SLOTS_AT_ONCE;

const GREATEST_ALIGNMENT: u64 = 1 << 30;

/// A schedule that was checked: slots are in bounds, an object is allocated before anything else
/// happens to it and freed once, offsets lie inside, and the header tells the truth.
pub struct Schedule {
    words: Vec<u64>,
    header: Header,
    peak_word: usize,
}

/// Why a file is no schedule that can be replayed.
#[derive(Debug)]
pub struct OpenError {
    path: PathBuf,
    problem: Problem,
}

#[derive(Debug)]
enum Problem {
    System(io::Error),
    NoSchedule,
    Version(u64),
    Broken { word: u64, what: &'static str },
    Header(&'static str),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Problem::System(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.problem {
            Problem::System(error) => write!(out, "{path} cannot be read: {error}"),
            Problem::NoSchedule => write!(out, "{path} is not a schedule"),
            Problem::Version(version) => {
                write!(
                    out,
                    "{path} has version {version} of the format; compile it again"
                )
            }
            Problem::Broken { word, what } => {
                write!(
                    out,
                    "{path} is damaged: at word {word}, {what}; compile it again"
                )
            }
            Problem::Header(what) => {
                write!(
                    out,
                    "{path} is damaged: its header has another number of {what}"
                )
            }
        }
    }
}

impl std::error::Error for OpenError {}

impl Schedule {
    /// Reads `path`, whole, and checks every event of it.
    ///
    /// # Errors
    /// Where the file cannot be read, or is no sound schedule.
    pub fn open(path: &Path) -> Result<Schedule, OpenError> {
        let checked = read(path).and_then(|(header, words)| {
            let peak_word = check(&header, &words)?;
            Ok(Schedule {
                words,
                header,
                peak_word,
            })
        });
        checked.map_err(|problem| OpenError {
            path: path.to_owned(),
            problem,
        })
    }

    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// All events. Where [`Header::threads`] is more than 1, each thread's come after an
    /// [`Event::Thread`] that counts their words.
    #[must_use]
    pub fn events(&self) -> Events<'_> {
        Events::of(self.words())
    }

    /// All events, in two parts: after the first, most bytes are alive at once.
    #[must_use]
    pub fn events_around_peak(&self) -> (Events<'_>, Events<'_>) {
        let (before, after) = self.words().split_at(self.peak_word);
        (Events::of(before), Events::of(after))
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }
}

fn read(path: &Path) -> Result<(Header, Vec<u64>), Problem> {
    let mut file = File::open(path)?;
    let facts = file.metadata()?;
    let bytes = usize::try_from(facts.len()).map_err(|_| Problem::NoSchedule)?;
    if !facts.is_file() || bytes < Header::BYTES || bytes % 8 != 0 {
        return Err(Problem::NoSchedule);
    }
    let mut start = [0; Header::BYTES];
    file.read_exact(&mut start)?;
    let header = match Header::from_bytes(&start) {
        None => return Err(Problem::NoSchedule),
        Some(Err(version)) => return Err(Problem::Version(version)),
        Some(Ok(header)) => header,
    };
    let count = (bytes - Header::BYTES) / 8;
    let mut words = Vec::new();
    words.try_reserve_exact(count).map_err(io::Error::from)?;
    words.resize(count, 0);
    file.read_exact(bytemuck::cast_slice_mut(&mut words))?;
    Ok((header, words))
}

/// Gives the word after which most bytes are alive.
fn check(header: &Header, words: &[u64]) -> Result<usize, Problem> {
    if header.words != words.len() as u64 {
        return Err(Problem::Header("words"));
    }
    // Each slot has been allocated at least once, or is one of a few that a thread got at the
    // same time: this bounds the memory of the check.
    if header.threads > u64::from(MOST_THREADS) {
        return Err(Problem::Header("threads"));
    }
    let most_slots = header.words + header.threads * u64::from(SLOTS_AT_ONCE);
    if header.slots > most_slots.min(MOST_SLOTS as u64) {
        return Err(Problem::Header("slots"));
    }
    let mut events = Events::of(words);
    let mut checker = Checker::new(header);
    let broken = |at: usize, what| Problem::Broken {
        word: at as u64,
        what,
    };
    loop {
        let at = words.len() - events.words_left();
        let Some(event) = events.next() else { break };
        let end = words.len() - events.words_left();
        if let Err(what) = checker.check(event, at, end) {
            return Err(broken(at, what));
        }
    }
    if events.is_malformed() {
        let at = words.len() - events.words_left();
        return Err(broken(at, "there is no such event"));
    }
    let peak_word = checker.peak_word;
    checker.compare(header)?;
    Ok(peak_word)
}

/// Follows a schedule and counts what its header must say.
struct Checker {
    /// Of each slot its object's size, or `DEAD`.
    sizes: Vec<u64>,
    found: Header,
    live_bytes: u64,
    live_objects: u64,
    run_end: usize,
    peak_word: usize,
}

const DEAD: u64 = u64::MAX;

impl Checker {
    fn new(header: &Header) -> Checker {
        Checker {
            sizes: vec![DEAD; usize::try_from(header.slots).unwrap_or(0)],
            found: Header {
                words: header.words,
                slots: header.slots,
                ..Header::empty(header.death)
            },
            live_bytes: 0,
            live_objects: 0,
            run_end: 0,
            peak_word: 0,
        }
    }

    /// The size of the live object in `slot`.
    #[inline]
    fn live(&mut self, slot: u32) -> Result<&mut u64, &'static str> {
        match self.sizes.get_mut(slot as usize) {
            Some(size) if *size != DEAD => Ok(size),
            _ => Err("an object that is not alive"),
        }
    }

    #[inline]
    fn check(&mut self, event: Event, start: usize, end: usize) -> Result<(), &'static str> {
        if start < self.run_end && end > self.run_end {
            return Err("an event that two threads share");
        }
        match event {
            Event::Allocate {
                slot,
                size,
                alignment,
                region,
                ..
            } => {
                match self.sizes.get_mut(slot as usize) {
                    Some(place) if *place == DEAD => *place = size,
                    _ => return Err("a slot that is taken or not there"),
                }
                if size > LARGEST_OBJECT || alignment > GREATEST_ALIGNMENT {
                    return Err("an object too large to be one");
                }
                let region_end = region.map_or(0, |region| u64::from(region) + 1);
                self.found.regions = self.found.regions.max(region_end);
                self.found.objects += 1;
                self.grow(0, size, end)?;
                self.live_objects += 1;
                self.found.peak_objects = self.found.peak_objects.max(self.live_objects);
            }
            Event::Resize { slot, size } => {
                if size > LARGEST_OBJECT {
                    return Err("an object too large to be one");
                }
                let before = std::mem::replace(self.live(slot)?, size);
                self.found.resizes += 1;
                self.grow(before, size, end)?;
            }
            Event::Free { slot, .. } => {
                let size = std::mem::replace(self.live(slot)?, DEAD);
                self.live_bytes -= size;
                self.live_objects -= 1;
                self.found.frees += 1;
            }
            Event::Write { slot, size } | Event::Read { slot, size } => {
                if u64::from(size) > *self.live(slot)? {
                    return Err("a use beyond the end of its object");
                }
                self.found.touches += 1;
            }
            Event::Store {
                source,
                offset,
                target,
            } => {
                let size = *self.live(source)?;
                if offset.checked_add(8).is_none_or(|end| end > size) {
                    return Err("a store beyond the end of its object");
                }
                if let Some(target) = target {
                    self.live(target)?;
                }
                self.found.stores += 1;
            }
            Event::Thread { thread, words } => {
                if thread >= MOST_THREADS || start < self.run_end {
                    return Err("a thread out of order");
                }
                self.found.threads = self.found.threads.max(u64::from(thread) + 1);
                self.run_end = end + words as usize;
            }
        }
        Ok(())
    }

    #[inline]
    fn grow(&mut self, before: u64, now: u64, end: usize) -> Result<(), &'static str> {
        // What lives was allocated, so what cannot overflow here cannot below.
        self.found.allocated_bytes = self
            .found
            .allocated_bytes
            .checked_add(now.saturating_sub(before))
            .ok_or("more bytes than can be counted")?;
        self.live_bytes = self.live_bytes - before + now;
        if self.live_bytes > self.found.peak_bytes {
            self.found.peak_bytes = self.live_bytes;
            self.peak_word = end;
        }
        Ok(())
    }

    fn compare(self, header: &Header) -> Result<(), Problem> {
        let Checker {
            found,
            sizes,
            run_end,
            ..
        } = self;
        let equal = [
            (found.objects == header.objects, "objects"),
            (found.resizes == header.resizes, "resizes"),
            (found.frees == header.frees, "frees"),
            (found.touches == header.touches, "touches"),
            (found.stores == header.stores, "stores"),
            (found.threads == header.threads, "threads"),
            (found.regions == header.regions, "regions"),
            (
                found.allocated_bytes == header.allocated_bytes,
                "allocated bytes",
            ),
            (found.peak_bytes == header.peak_bytes, "peak bytes"),
            (found.peak_objects == header.peak_objects, "peak objects"),
            (sizes.len() as u64 == header.slots, "slots"),
            (run_end as u64 <= header.words, "words"),
        ];
        match equal.into_iter().find(|(same, _)| !same) {
            Some((_, what)) => Err(Problem::Header(what)),
            None => Ok(()),
        }
    }
}
