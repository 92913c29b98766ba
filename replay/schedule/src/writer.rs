//! Writes a schedule: events in order, counted on the way.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::event::Event;
use crate::header::{Death, Header};
use crate::{LARGEST_OBJECT, MOST_SLOTS, MOST_THREADS};

const BUFFER_WORDS: usize = 1 << 17;

/// Writes events to a file, and the header once all are there.
///
/// The caller gives events in an order that [`crate::Schedule::open`] accepts.
pub struct Writer {
    file: File,
    header: Header,
    /// Words that are not written yet.
    buffer: Vec<u64>,
    sizes: Vec<u64>,
    live_bytes: u64,
    live_objects: u64,
    run: Option<Run>,
}

/// What one thread does, until the next one's turn. Its words wait in the buffer.
struct Run {
    thread: u32,
}

impl Writer {
    /// A schedule in `file`, which is empty. With `threads`, events belong to threads, and
    /// [`Writer::of_thread`] comes before the first.
    ///
    /// # Errors
    /// What the file system says.
    pub fn new(file: File, death: Death, threads: bool) -> io::Result<Writer> {
        file.write_all_at(&[0; Header::BYTES], 0)?;
        Ok(Writer {
            file,
            header: Header::empty(death),
            buffer: Vec::with_capacity(BUFFER_WORDS),
            sizes: Vec::new(),
            live_bytes: 0,
            live_objects: 0,
            run: threads.then_some(Run { thread: 0 }),
        })
    }

    /// What follows is done by `thread`, counted from 0; without effect where threads are not kept.
    ///
    /// # Errors
    /// What the file system says.
    #[inline(always)]
    pub fn of_thread(&mut self, thread: u32) -> io::Result<()> {
        debug_assert!(thread < MOST_THREADS);
        match self.run {
            Some(Run { thread: before }) if before != thread => {
                self.end_run()?;
                self.run = Some(Run { thread });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The next event.
    ///
    /// # Errors
    /// What the file system says.
    #[inline(always)]
    pub fn write(&mut self, event: Event) -> io::Result<()> {
        self.count(event);
        let [extension, word] = event.words();
        if extension != 0 {
            self.buffer.push(extension);
        }
        self.buffer.push(word);
        if self.buffer.len() >= BUFFER_WORDS - 1 {
            self.end_run()?;
        }
        Ok(())
    }

    /// Writes the words that wait: all of one thread, where threads are kept.
    #[cold]
    fn end_run(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        if let Some(Run { thread }) = self.run {
            self.header.threads = self.header.threads.max(u64::from(thread) + 1);
            let words = self.buffer.len() as u32;
            let [_, word] = Event::Thread { thread, words }.words();
            self.append(&[word])?;
        }
        let words = std::mem::take(&mut self.buffer);
        self.append(&words)?;
        self.buffer = words;
        self.buffer.clear();
        Ok(())
    }

    fn append(&mut self, words: &[u64]) -> io::Result<()> {
        // SAFETY: the bytes of numbers are bytes.
        let bytes = unsafe { words.align_to::<u8>().1 };
        let end = Header::BYTES as u64 + self.header.words * 8;
        self.file.write_all_at(bytes, end)?;
        self.header.words += words.len() as u64;
        Ok(())
    }

    #[inline(always)]
    fn count(&mut self, event: Event) {
        let header = &mut self.header;
        match event {
            Event::Allocate {
                slot, size, region, ..
            } => {
                debug_assert!((slot as usize) < MOST_SLOTS && size <= LARGEST_OBJECT);
                if slot as usize >= self.sizes.len() {
                    self.sizes.resize(slot as usize + 1, 0);
                    header.slots = u64::from(slot) + 1;
                }
                self.sizes[slot as usize] = size;
                let region_end = region.map_or(0, |region| u64::from(region) + 1);
                header.regions = header.regions.max(region_end);
                header.objects += 1;
                header.allocated_bytes += size;
                self.live_bytes += size;
                self.live_objects += 1;
                header.peak_objects = header.peak_objects.max(self.live_objects);
                header.peak_bytes = header.peak_bytes.max(self.live_bytes);
            }
            Event::Resize { slot, size } => {
                let before = std::mem::replace(&mut self.sizes[slot as usize], size);
                header.resizes += 1;
                header.allocated_bytes += size.saturating_sub(before);
                self.live_bytes = self.live_bytes + size - before;
                header.peak_bytes = header.peak_bytes.max(self.live_bytes);
            }
            Event::Free { slot, .. } => {
                header.frees += 1;
                self.live_bytes -= self.sizes[slot as usize];
                self.live_objects -= 1;
            }
            Event::Write { .. } | Event::Read { .. } => header.touches += 1,
            Event::Store { .. } => header.stores += 1,
            Event::Thread { .. } => {}
        }
    }

    /// The size of the object in `slot`.
    pub(crate) fn size_of(&self, slot: u32) -> u64 {
        self.sizes[slot as usize]
    }

    /// Writes the header; the schedule is whole.
    ///
    /// # Errors
    /// What the file system says.
    pub fn finish(mut self) -> io::Result<Header> {
        self.end_run()?;
        self.file.write_all_at(&self.header.to_bytes(), 0)?;
        Ok(self.header)
    }
}
