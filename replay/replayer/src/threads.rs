//! A replay by several threads: each does what one thread of the program did.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tare_harness::platform::OwnLine;
use tare_schedule::{Stream, Streams, What};

use crate::heap::Malloc;
use crate::objects::Objects;
use crate::replay::{Replay, Stopped};

/// A thread that waits looks so often before it lets others have the processor,
const LOOKS: u32 = 200;
/// and offers it so often before it sleeps between looks.
const OFFERS: u32 = 20;
const OFFERED: u32 = LOOKS + OFFERS;
const SLEEP: Duration = Duration::from_micros(50);

struct Shared {
    streams: Streams,
    objects: Objects,
    /// By thread, how many words of its stream it has told to be done.
    told: Vec<OwnLine<AtomicUsize>>,
    /// How many threads have not done their share of each part yet.
    parts: Vec<AtomicU32>,
    /// All parts before this one are done.
    parts_done: AtomicU32,
    stopped: AtomicBool,
    why: Mutex<Option<Stopped>>,
    running: Mutex<Vec<Option<JoinHandle<()>>>>,
}

/// Replays what each thread of `streams` did by a thread of its own.
pub fn replay_by_threads<const TOUCH: bool>(
    streams: Streams,
    objects: Objects,
) -> Result<(), Stopped> {
    let threads = streams.threads() as usize;
    let first = streams.first();
    let shared = Arc::new(Shared {
        objects,
        told: (0..threads).map(|_| OwnLine::default()).collect(),
        parts: streams.parts().iter().map(|&n| n.into()).collect(),
        parts_done: AtomicU32::new(0),
        stopped: AtomicBool::new(false),
        why: Mutex::new(None),
        running: Mutex::new((0..threads).map(|_| None).collect()),
        streams,
    });
    shared.pass_parts();
    run::<TOUCH>(&shared, first);
    for thread in 0..threads {
        shared.join(thread);
    }
    let stopped = lock(&shared.why).take();
    stopped.map_or(Ok(()), Err)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run<const TOUCH: bool>(shared: &Arc<Shared>, thread: u32) {
    if let Err(stopped) = follow::<TOUCH>(shared, thread) {
        lock(&shared.why).get_or_insert(stopped);
        shared.stopped.store(true, Ordering::Release);
    }
}

/// Does what `thread` did; ends early, without an error, where another has stopped.
fn follow<const TOUCH: bool>(shared: &Arc<Shared>, thread: u32) -> Result<(), Stopped> {
    let stream = shared.streams.stream(thread);
    let mut done = 0;
    for step in &stream.steps {
        events::<TOUCH>(shared.objects, stream, done, step.after)?;
        done = step.after;
        match step.what {
            What::Wait {
                thread: other,
                words,
            } => {
                let told = &shared.told[other as usize].0;
                if !shared.wait(|| told.load(Ordering::Acquire) >= words) {
                    return Ok(());
                }
            }
            What::Tell => shared.told[thread as usize]
                .0
                .store(done, Ordering::Release),
            What::Start { thread } => start::<TOUCH>(shared, thread)?,
            What::Join { thread } => shared.join(thread as usize),
            What::Enter { part } => {
                let begins = || shared.parts_done.load(Ordering::Acquire) + 1 >= part;
                if !shared.wait(begins) {
                    return Ok(());
                }
            }
            What::Leave { part } => {
                shared.parts[part as usize].fetch_sub(1, Ordering::AcqRel);
                shared.pass_parts();
            }
        }
    }
    events::<TOUCH>(shared.objects, stream, done, stream.words())
}

#[inline(never)]
fn events<const TOUCH: bool>(
    objects: Objects,
    stream: &Stream,
    from: usize,
    to: usize,
) -> Result<(), Stopped> {
    let mut replay = Replay::<Malloc, TOUCH> {
        heap: &mut Malloc,
        objects,
    };
    stream.events(from..to).follow(&mut replay)
}

fn start<const TOUCH: bool>(shared: &Arc<Shared>, thread: u32) -> Result<(), Stopped> {
    let mine = Arc::clone(shared);
    let started = thread::Builder::new().spawn(move || run::<TOUCH>(&mine, thread));
    let handle = started.map_err(|error| Stopped::NoThread(error.to_string()))?;
    lock(&shared.running)[thread as usize] = Some(handle);
    Ok(())
}

impl Shared {
    /// Waits until `comes` is true; false where a thread has stopped instead.
    fn wait(&self, comes: impl Fn() -> bool) -> bool {
        let mut looks = 0;
        loop {
            if comes() {
                return true;
            }
            if self.stopped.load(Ordering::Acquire) {
                return false;
            }
            match looks {
                0..LOOKS => spin_loop(),
                LOOKS..OFFERED => thread::yield_now(),
                _ => thread::sleep(SLEEP),
            }
            looks = OFFERED.min(looks + 1);
        }
    }

    /// Passes over the parts that are done.
    fn pass_parts(&self) {
        loop {
            let done = self.parts_done.load(Ordering::Acquire);
            let next = self.parts.get(done as usize);
            if next.is_none_or(|left| left.load(Ordering::Acquire) > 0) {
                return;
            }
            // Another thread may have passed over it just now.
            let _ = self.parts_done.compare_exchange(
                done,
                done + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
        }
    }

    fn join(&self, thread: usize) {
        let handle = lock(&self.running)[thread].take();
        if let Some(handle) = handle {
            // A thread that panics ends the process.
            let _ = handle.join();
        }
    }
}
