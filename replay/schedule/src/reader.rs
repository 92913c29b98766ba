//! Opens a schedule, from wherever it comes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::counts::Counts;
use crate::event::{Event, LARGEST_OBJECT, MOST_SLOTS, MOST_THREADS};
use crate::events::Events;
use crate::header::Header;
use crate::slots::SLOTS_AT_ONCE;

const GREATEST_ALIGNMENT: u64 = 1 << 30;
const TOO_LARGE: &str = "an object too large to be one";

/// A schedule that was checked: slots are in bounds, an object is allocated before anything else
/// happens to it and freed once, offsets lie inside, and the header tells the truth.
pub struct Schedule {
    words: Vec<u64>,
    header: Header,
    peak_word: usize,
}

impl Schedule {
    /// Reads `path`, whole, and checks every event of it. An error is a sentence.
    pub fn open(path: &Path) -> Result<Schedule, String> {
        let checked = read(path).and_then(|(header, words)| {
            let peak_word = check(&header, &words)?;
            Ok(Schedule {
                words,
                header,
                peak_word,
            })
        });
        checked.map_err(|problem| format!("{} {problem}", path.display()))
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// All events. Where [`Header::threads`] is more than 1, each thread's come after an
    /// [`Event::Thread`] that counts their words.
    pub fn events(&self) -> Events<'_> {
        Events::of(self.words())
    }

    /// After so many words most bytes are alive at once.
    pub(crate) fn peak_word(&self) -> usize {
        self.peak_word
    }

    /// All events, in two parts: after the first, most bytes are alive at once.
    pub fn events_around_peak(&self) -> (Events<'_>, Events<'_>) {
        let (before, after) = self.words().split_at(self.peak_word);
        (Events::of(before), Events::of(after))
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }
}

fn read(path: &Path) -> Result<(Header, Vec<u64>), String> {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    let no_schedule = || "is not a schedule".to_owned();
    let mut file = File::open(path).map_err(unreadable)?;
    let facts = file.metadata().map_err(unreadable)?;
    let bytes = facts.len() as usize;
    if !facts.is_file() || bytes < Header::BYTES || bytes % 8 != 0 {
        return Err(no_schedule());
    }
    let mut start = [0; Header::BYTES];
    file.read_exact(&mut start).map_err(unreadable)?;
    let header = Header::from_bytes(&start).ok_or_else(no_schedule)?;
    let header = header
        .map_err(|version| format!("has version {version} of the format; compile it again"))?;
    let count = (bytes - Header::BYTES) / 8;
    if header.words != count as u64 {
        return Err(other_number("words"));
    }
    let mut words = vec![0; count];
    let content = bytemuck::cast_slice_mut(&mut words);
    file.read_exact(content).map_err(unreadable)?;
    Ok((header, words))
}

/// Gives the word after which most bytes are alive.
fn check(header: &Header, words: &[u64]) -> Result<usize, String> {
    // Each slot has been allocated at least once, or is one of a few that a thread got at the
    // same time: this bounds the memory of the check.
    if header.threads > u64::from(MOST_THREADS) {
        return Err(other_number("threads"));
    }
    let most_slots = header.words + header.threads * u64::from(SLOTS_AT_ONCE);
    if header.slots > most_slots.min(MOST_SLOTS as u64) {
        return Err(other_number("slots"));
    }
    let mut events = Events::of(words);
    let mut checker = Checker::new(header);
    let broken = |at, what| format!("is damaged: at word {at}, {what}; compile it again");
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
    checker.compare(header)?;
    Ok(checker.peak_word)
}

fn other_number(what: &str) -> String {
    format!("is damaged: its header has another number of {what}")
}

/// Follows a schedule and counts what its header must say.
struct Checker {
    /// Of each slot its object's size, or `DEAD`.
    sizes: Vec<u64>,
    counts: Counts,
    run_end: usize,
    peak_word: usize,
}

const DEAD: u64 = u64::MAX;

impl Checker {
    fn new(header: &Header) -> Checker {
        Checker {
            sizes: vec![DEAD; header.slots as usize],
            counts: Counts::new(header.death),
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
        let mut is_peak = false;
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
                if alignment > GREATEST_ALIGNMENT {
                    return Err(TOO_LARGE);
                }
                self.check_growth(0, size)?;
                is_peak = self.counts.allocate(size, region);
            }
            Event::Resize { slot, size } => {
                let before = std::mem::replace(self.live(slot)?, size);
                self.check_growth(before, size)?;
                is_peak = self.counts.resize(before, size);
            }
            Event::Free { slot, .. } => {
                let size = std::mem::replace(self.live(slot)?, DEAD);
                self.counts.free(size);
            }
            Event::Write { slot, size } | Event::Read { slot, size } => {
                if u64::from(size) > *self.live(slot)? {
                    return Err("a use beyond the end of its object");
                }
                self.counts.header.touches += 1;
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
                self.counts.header.stores += 1;
            }
            Event::Thread { thread, words } => {
                if thread >= MOST_THREADS || start < self.run_end {
                    return Err("a thread out of order");
                }
                self.counts.thread(thread);
                self.run_end = end + words as usize;
            }
            Event::Until { .. } => {}
        }
        if is_peak {
            self.peak_word = end;
        }
        Ok(())
    }

    /// What lives was allocated, so where that can be counted, all can.
    #[inline]
    fn check_growth(&self, before: u64, now: u64) -> Result<(), &'static str> {
        if now > LARGEST_OBJECT {
            return Err(TOO_LARGE);
        }
        let allocated = self.counts.header.allocated_bytes;
        match allocated.checked_add(now.saturating_sub(before)) {
            Some(_) => Ok(()),
            None => Err("more bytes than can be counted"),
        }
    }

    fn compare(&self, header: &Header) -> Result<(), String> {
        let found = &self.counts.header;
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
            (self.run_end as u64 <= header.words, "words"),
        ];
        match equal.into_iter().find(|(same, _)| !same) {
            Some((_, what)) => Err(other_number(what)),
            None => Ok(()),
        }
    }
}
