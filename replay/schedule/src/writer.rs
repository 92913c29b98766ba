//! Writes a schedule: events in order, counted on the way.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::counts::Counts;
use crate::event::{Event, LARGEST_OBJECT, MOST_SLOTS, MOST_THREADS};
use crate::header::{Death, Header};

const BUFFER_WORDS: usize = 1 << 17;
/// An event with its extension, after the word that begins a run.
const MOST_WORDS_AT_ONCE: usize = 3;

/// Writes events to a file, and the header once all are there.
///
/// The caller gives events in an order that [`crate::Schedule::open`] accepts.
pub struct Writer {
    file: File,
    counts: Counts,
    /// Words that are not written yet are the first `waiting`.
    buffer: Box<[u64; BUFFER_WORDS]>,
    waiting: usize,
    run: Option<Run>,
}

/// What one thread does, until the next one's turn.
#[derive(Clone, Copy)]
struct Run {
    thread: u32,
    /// Where the word that counts the others waits in the buffer.
    start: usize,
}

impl Writer {
    /// A schedule in `file`, which is empty. With `threads`, events belong to threads, and
    /// [`Writer::of_thread`] comes before the first.
    pub fn new(file: File, death: Death, threads: bool) -> io::Result<Writer> {
        file.write_all_at(&[0; Header::BYTES], 0)?;
        // Not put together on the stack, for which it is too large.
        let zeros = vec![0; BUFFER_WORDS].into_boxed_slice();
        let buffer = zeros.try_into().map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut writer = Writer {
            file,
            counts: Counts::new(death),
            buffer,
            waiting: 0,
            run: None,
        };
        if threads {
            writer.begin_run(0);
        }
        Ok(writer)
    }

    /// What follows is done by `thread`, counted from 0; without effect where threads are not kept.
    #[inline(always)]
    pub fn of_thread(&mut self, thread: u32) {
        debug_assert!(thread < MOST_THREADS);
        if self.run.is_some_and(|run| run.thread != thread) {
            self.end_run();
            self.begin_run(thread);
        }
    }

    /// The next event: `size` is that of its object, before it for a resize.
    #[inline(always)]
    pub fn write(&mut self, event: Event, size: u64) -> io::Result<()> {
        self.count(event, size);
        if self.waiting > BUFFER_WORDS - MOST_WORDS_AT_ONCE {
            self.flush()?;
        }
        let [extension, word] = event.words();
        let mut at = self.waiting;
        if extension != 0 {
            self.buffer[at] = extension;
            at += 1;
        }
        self.buffer[at] = word;
        self.waiting = at + 1;
        Ok(())
    }

    fn begin_run(&mut self, thread: u32) {
        let start = self.waiting;
        self.run = Some(Run { thread, start });
        self.waiting += 1;
    }

    /// Counts the words of the run, or takes it back where there are none.
    fn end_run(&mut self) {
        let Some(Run { thread, start }) = self.run else {
            return;
        };
        let words = (self.waiting - start - 1) as u32;
        if words == 0 {
            self.waiting = start;
            return;
        }
        self.counts.thread(thread);
        let [_, word] = Event::Thread { thread, words }.words();
        self.buffer[start] = word;
    }

    #[cold]
    fn flush(&mut self) -> io::Result<()> {
        self.end_run();
        let bytes = bytemuck::cast_slice(&self.buffer[..self.waiting]);
        let end = Header::BYTES as u64 + self.counts.header.words * 8;
        self.file.write_all_at(bytes, end)?;
        self.counts.header.words += self.waiting as u64;
        self.waiting = 0;
        if let Some(run) = self.run {
            self.begin_run(run.thread);
        }
        Ok(())
    }

    #[inline(always)]
    fn count(&mut self, event: Event, size: u64) {
        let counts = &mut self.counts;
        match event {
            Event::Allocate {
                slot, size, region, ..
            } => {
                debug_assert!((slot as usize) < MOST_SLOTS && size <= LARGEST_OBJECT);
                counts.header.slots = counts.header.slots.max(u64::from(slot) + 1);
                counts.allocate(size, region);
            }
            Event::Resize { size: now, .. } => {
                counts.resize(size, now);
            }
            Event::Free { .. } => counts.free(size),
            Event::Write { .. } | Event::Read { .. } => counts.header.touches += 1,
            Event::Store { .. } => counts.header.stores += 1,
            Event::Thread { .. } | Event::Until { .. } => {}
        }
    }

    /// Writes the header; the schedule is whole.
    pub fn finish(mut self) -> io::Result<Header> {
        self.flush()?;
        self.file.write_all_at(&self.counts.header.to_bytes(), 0)?;
        Ok(self.counts.header)
    }
}
