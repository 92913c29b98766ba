//! Writes a schedule: events in order, counted on the way.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

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
    header: Header,
    /// Words that are not written yet are the first `waiting`.
    buffer: Box<[u64; BUFFER_WORDS]>,
    waiting: usize,
    live_bytes: u64,
    live_objects: u64,
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
    ///
    /// # Errors
    /// What the file system says.
    pub fn new(file: File, death: Death, threads: bool) -> io::Result<Writer> {
        file.write_all_at(&[0; Header::BYTES], 0)?;
        // Not put together on the stack, for which it is too large.
        let zeros = vec![0; BUFFER_WORDS].into_boxed_slice();
        let buffer = zeros.try_into().map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut writer = Writer {
            file,
            header: Header::empty(death),
            buffer,
            waiting: 0,
            live_bytes: 0,
            live_objects: 0,
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
    ///
    /// # Errors
    /// What the file system says.
    #[inline(always)]
    pub fn write(&mut self, event: Event, size: u64) -> io::Result<()> {
        self.count(event, size);
        if self.waiting + MOST_WORDS_AT_ONCE > BUFFER_WORDS {
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
        self.header.threads = self.header.threads.max(u64::from(thread) + 1);
        let [_, word] = Event::Thread { thread, words }.words();
        self.buffer[start] = word;
    }

    #[cold]
    fn flush(&mut self) -> io::Result<()> {
        self.end_run();
        let bytes = bytemuck::cast_slice(&self.buffer[..self.waiting]);
        let end = Header::BYTES as u64 + self.header.words * 8;
        self.file.write_all_at(bytes, end)?;
        self.header.words += self.waiting as u64;
        self.waiting = 0;
        if let Some(run) = self.run {
            self.begin_run(run.thread);
        }
        Ok(())
    }

    #[inline(always)]
    fn count(&mut self, event: Event, size: u64) {
        let header = &mut self.header;
        match event {
            Event::Allocate {
                slot, size, region, ..
            } => {
                debug_assert!((slot as usize) < MOST_SLOTS && size <= LARGEST_OBJECT);
                header.slots = header.slots.max(u64::from(slot) + 1);
                let region_end = region.map_or(0, |region| u64::from(region) + 1);
                header.regions = header.regions.max(region_end);
                header.objects += 1;
                header.allocated_bytes += size;
                self.live_bytes += size;
                self.live_objects += 1;
                header.peak_objects = header.peak_objects.max(self.live_objects);
                header.peak_bytes = header.peak_bytes.max(self.live_bytes);
            }
            Event::Resize { size: now, .. } => {
                header.resizes += 1;
                header.allocated_bytes += now.saturating_sub(size);
                self.live_bytes = self.live_bytes + now - size;
                header.peak_bytes = header.peak_bytes.max(self.live_bytes);
            }
            Event::Free { .. } => {
                header.frees += 1;
                self.live_bytes -= size;
                self.live_objects -= 1;
            }
            Event::Write { .. } | Event::Read { .. } => header.touches += 1,
            Event::Store { .. } => header.stores += 1,
            Event::Thread { .. } => {}
        }
    }

    /// Writes the header; the schedule is whole.
    ///
    /// # Errors
    /// What the file system says.
    pub fn finish(mut self) -> io::Result<Header> {
        self.flush()?;
        self.file.write_all_at(&self.header.to_bytes(), 0)?;
        Ok(self.header)
    }
}
