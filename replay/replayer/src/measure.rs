//! What the kernel says of this process.

use std::fs;
use std::io;
use std::ops::Range;

/// Forgets the peak of resident memory, so that it counts from now on.
pub fn forget_peak() -> io::Result<()> {
    fs::write("/proc/self/clear_refs", "5")
}

/// Most resident bytes so far. The kernel counts them to within some dozens of pages.
pub fn peak_resident_bytes() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(kibibytes)
        .ok_or_else(|| io::Error::other("/proc/self/status does not tell resident memory"))
}

fn kibibytes(text: &str) -> Option<u64> {
    let number: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(number << 10)
}

/// A mapping of the address space, as /proc/self/smaps describes it.
#[derive(Default)]
struct Mapping<'a> {
    start: usize,
    end: usize,
    is_file: bool,
    name: &'a str,
    resident: u64,
    is_own: bool,
}

impl<'a> Mapping<'a> {
    /// From the first line about it; None for any other line.
    fn of(line: &'a str) -> Option<Mapping<'a>> {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let mut words = rest.split_whitespace();
        let inode = words.nth(3)?;
        Some(Mapping {
            start: usize::from_str_radix(start, 16).ok()?,
            end: usize::from_str_radix(end, 16).ok()?,
            is_file: inode != "0",
            name: words.next().unwrap_or(""),
            ..Mapping::default()
        })
    }

    /// Calls `take` with each of /proc/self/smaps.
    fn each(maps: &str, mut take: impl FnMut(&Mapping)) {
        let mut mapping = Mapping::default();
        for line in maps.lines() {
            if let Some(next) = Mapping::of(line) {
                take(&std::mem::replace(&mut mapping, next));
            } else if let Some(resident) = line.strip_prefix("Rss:") {
                mapping.resident = kibibytes(resident).unwrap_or(0);
            } else if let Some(flags) = line.strip_prefix("VmFlags:") {
                // Cleared in the child of a fork, see own_memory.
                mapping.is_own = flags.split_whitespace().any(|flag| flag == "wf");
            }
        }
        take(&mapping);
    }

    fn is_anonymous(&self) -> bool {
        !self.is_file && (matches!(self.name, "" | "[heap]") || self.name.starts_with("[anon"))
    }

    fn holds(&self, address: usize) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// The variables of a thread lie in a mapping of this size or less, unless it is part of another.
const THREAD_BYTES: usize = 64 << 10;

/// The anonymous memory that belongs to libraries and to the first thread, as it was before the
/// manager got its first object. It is kept out of core dumps from then on, as what the kernel
/// must not join with it: small pages of a manager often lie right beside it.
pub struct Others(Vec<Range<usize>>);

/// Resident bytes, to the page.
#[derive(Clone, Copy, Default)]
pub struct Resident {
    /// What the manager has: anonymous memory but for the replayer's own, the stack, and that of
    /// others.
    pub heap: u64,
    pub others: u64,
}

impl Others {
    pub fn now() -> io::Result<Others> {
        let malloc = libc::malloc as *const () as usize;
        // SAFETY: it only gives an address.
        let thread = unsafe { libc::__errno_location() } as usize;
        let mut found = Others(Vec::new());
        let mut file = (0, true); // where the last one ends, and whether malloc lies in it
        Mapping::each(&fs::read_to_string("/proc/self/smaps")?, |mapping| {
            let follows_file = mapping.start == file.0 && mapping.name.is_empty();
            if mapping.is_file {
                file = (mapping.end, follows_malloc(file, mapping, malloc));
            }
            let is_of_thread = mapping.holds(thread) && mapping.end - mapping.start <= THREAD_BYTES;
            let is_of_library = follows_file && !file.1;
            if mapping.is_anonymous() && (is_of_thread || is_of_library) {
                found.0.push(mapping.start..mapping.end);
            }
        });
        for range in &found.0 {
            let bytes = range.end - range.start;
            // SAFETY: it changes nothing but core dumps.
            unsafe { libc::madvise(range.start as *mut _, bytes, libc::MADV_DONTDUMP) };
        }
        Ok(found)
    }

    pub fn resident(&self) -> io::Result<Resident> {
        let mut found = Resident::default();
        Mapping::each(&fs::read_to_string("/proc/self/smaps")?, |mapping| {
            if mapping.is_anonymous() && !mapping.is_own && !self.hold(mapping) {
                found.heap += mapping.resident;
            } else {
                found.others += mapping.resident;
            }
        });
        Ok(found)
    }

    fn hold(&self, mapping: &Mapping) -> bool {
        let within =
            |range: &Range<usize>| range.start <= mapping.start && mapping.end <= range.end;
        self.0.iter().any(within)
    }
}

/// Whether malloc lies in this mapping of a file, or in one right before it.
fn follows_malloc(last: (usize, bool), mapping: &Mapping, malloc: usize) -> bool {
    mapping.holds(malloc) || last.1 && last.0 == mapping.start
}
