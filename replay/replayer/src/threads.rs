//! A replay by several threads: each does what one thread of the program did.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tare_harness::platform::OwnLine;
use tare_schedule::{Events, Streams, What};

use crate::heap::Malloc;
use crate::objects::Objects;
use crate::replay::{Replay, Stopped};

/// A thread that waits looks so often before it lets others have the processor,
const LOOKS: u32 = 200;
/// and offers it so often before it sleeps between looks.
const OFFERS: u32 = 20;
const OFFERED: u32 = LOOKS + OFFERS;
const SLEEP: Duration = Duration::from_micros(50);

/// Does events of one of the threads.
pub trait Doing: Copy + Send + Sync + 'static {
    fn follow(self, events: Events) -> Result<(), Stopped>;
}

/// Does them once. With `TOUCH`, every line of an object is written at its birth.
#[derive(Clone, Copy)]
pub struct Once<const TOUCH: bool>(pub Objects);

impl<const TOUCH: bool> Doing for Once<TOUCH> {
    #[inline(never)]
    fn follow(self, events: Events) -> Result<(), Stopped> {
        let mut replay = Replay::<Malloc, TOUCH> {
            heap: &mut Malloc,
            objects: self.0,
        };
        events.follow(&mut replay)
    }
}

struct Shared<D> {
    streams: Arc<Streams>,
    doing: D,
    /// By thread, how many words of its stream it has told to be done.
    told: Vec<OwnLine<AtomicUsize>>,
    /// How many threads have not done their share of each part yet.
    parts: Vec<AtomicU32>,
    /// All parts before this one are done.
    parts_done: AtomicU32,
    /// How many threads have come to where they meet, and whether they may go on.
    came: AtomicU32,
    have_met: AtomicBool,
    stopped: AtomicBool,
    why: Mutex<Option<Stopped>>,
    running: Mutex<Vec<Option<JoinHandle<()>>>>,
}

/// Replays what each thread of `streams` did by a thread of its own. Where threads meet, `look` is
/// called while all others wait.
pub fn replay_by_threads<D: Doing>(
    streams: &Arc<Streams>,
    doing: D,
    look: &mut dyn FnMut(),
) -> Result<(), Stopped> {
    let threads = streams.threads() as usize;
    let first = streams.first();
    let shared = Arc::new(Shared {
        doing,
        told: (0..threads).map(|_| OwnLine::default()).collect(),
        parts: streams.parts().iter().map(|&n| n.into()).collect(),
        parts_done: AtomicU32::new(0),
        came: AtomicU32::new(0),
        have_met: AtomicBool::new(false),
        stopped: AtomicBool::new(false),
        why: Mutex::new(None),
        running: Mutex::new((0..threads).map(|_| None).collect()),
        streams: Arc::clone(streams),
    });
    shared.pass_parts();
    run(&shared, first, Some(look));
    for thread in 0..threads {
        shared.join(thread);
    }
    let stopped = lock(&shared.why).take();
    stopped.map_or(Ok(()), Err)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run<D: Doing>(shared: &Arc<Shared<D>>, thread: u32, look: Option<&mut dyn FnMut()>) {
    if let Err(stopped) = follow(shared, thread, look) {
        lock(&shared.why).get_or_insert(stopped);
        shared.stopped.store(true, Ordering::Release);
    }
}

/// Does what `thread` did; ends early, without an error, where another has stopped. The thread that
/// can `look` does so where all meet.
fn follow<D: Doing>(
    shared: &Arc<Shared<D>>,
    thread: u32,
    mut look: Option<&mut dyn FnMut()>,
) -> Result<(), Stopped> {
    let stream = shared.streams.stream(thread);
    let mut done = 0;
    for step in &stream.steps {
        shared.doing.follow(stream.events(done..step.after))?;
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
            What::Start { thread } => start(shared, thread)?,
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
            What::Meet => {
                if !shared.meet(look.as_deref_mut()) {
                    return Ok(());
                }
            }
        }
    }
    shared.doing.follow(stream.events(done..stream.words()))
}

fn start<D: Doing>(shared: &Arc<Shared<D>>, thread: u32) -> Result<(), Stopped> {
    let mine = Arc::clone(shared);
    let started = thread::Builder::new().spawn(move || run(&mine, thread, None));
    let handle = started.map_err(|error| Stopped::NoThread(error.to_string()))?;
    lock(&shared.running)[thread as usize] = Some(handle);
    Ok(())
}

impl<D> Shared<D> {
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

    /// Waits until all have come, and the one that can has looked; false as of `wait`.
    fn meet(&self, look: Option<&mut (dyn FnMut() + '_)>) -> bool {
        let all = self.streams.meeting();
        self.came.fetch_add(1, Ordering::AcqRel);
        let Some(look) = look else {
            return self.wait(|| self.have_met.load(Ordering::Acquire));
        };
        let have_come = self.wait(|| self.came.load(Ordering::Acquire) == all);
        if have_come {
            look();
            self.have_met.store(true, Ordering::Release);
        }
        have_come
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
