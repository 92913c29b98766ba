//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use tare_harness::arguments::{no_option, Words};
use tare_schedule::{Asked, Death};

pub const USAGE: &str = "usage: \
tare-replay compile [--death free|unreachable|last-use] [--uses] [--threads] [--pace] [--clocks]
                           [--stores FD] OUTPUT
       tare-replay run [--heap malloc|emulation|region|reap|null] [--threads] [--touch birth|first-line] [--report FILE] SCHEDULE
       tare-replay run --heap marksweep [--every BYTES] [--reclaim N] [--untimed] [--touch …]
                           [--report FILE] SCHEDULE
       tare-replay soak --for SECONDS [--threads] [--pace FACTOR] --report FILE SCHEDULE
       tare-replay show SCHEDULE";

pub enum Arguments {
    Compile(Compile),
    Run(Run),
    Soak(Soak),
    Show(PathBuf),
}

/// Rows are read from standard input, and stores from the open file `stores`.
pub struct Compile {
    pub what: Asked,
    pub stores: Option<i32>,
    pub output: PathBuf,
}

pub struct Run {
    pub backend: Backend,
    /// Each thread of the schedule has one of its own; only under malloc.
    pub threads: bool,
    /// Mark-sweep does not mark where deaths say all: what collections take means nothing then.
    pub untimed: bool,
    /// All lines of an object are written at its birth, and not only the first.
    pub touch: bool,
    pub report: Option<PathBuf>,
    pub schedule: PathBuf,
}

/// A schedule that is followed again and again under malloc, for so long.
pub struct Soak {
    pub time: Duration,
    /// Each thread of the schedule has one of its own.
    pub threads: bool,
    /// How many times as fast as recorded; otherwise as fast as possible.
    pub pace: Option<f64>,
    pub report: PathBuf,
    pub schedule: PathBuf,
}

#[derive(Clone, Copy)]
pub enum Backend {
    Malloc,
    Emulation,
    Region,
    Reap,
    MarkSweep(Period),
    Null,
}

/// When a heap is collected: each `every` bytes, or, where that is 0, as many as were alive after
/// the last time. Each so many collections `reclaim`, and the others only trace; with 0, none does.
#[derive(Clone, Copy)]
pub struct Period {
    pub every: u64,
    pub reclaim: u64,
}

const BY_ITSELF: Period = Period {
    every: 0,
    reclaim: 1,
};

const BACKENDS: [(&str, Backend); 6] = [
    ("malloc", Backend::Malloc),
    ("emulation", Backend::Emulation),
    ("region", Backend::Region),
    ("reap", Backend::Reap),
    ("marksweep", Backend::MarkSweep(BY_ITSELF)),
    ("null", Backend::Null),
];

impl Arguments {
    pub fn parse(words: &mut Words) -> Result<Arguments, String> {
        let command = words.command()?;
        match command.to_str() {
            Some("compile") => Compile::parse(words).map(Arguments::Compile),
            Some("run") => Run::parse(words).map(Arguments::Run),
            Some("soak") => Soak::parse(words).map(Arguments::Soak),
            Some("show") => match words.next_option()? {
                None => words.file("file").map(Arguments::Show),
                Some(_) => Err(words.unknown()),
            },
            _ => Err(format!("there is no command {}", command.to_string_lossy())),
        }
    }
}

impl Compile {
    fn parse(words: &mut Words) -> Result<Compile, String> {
        let mut stores = None;
        let mut what = Asked::default();
        while let Some(option) = words.next_option()? {
            match option.as_str() {
                "--death" => what.death = words.choice(&Death::ALL.map(|d| (d.name(), d)))?,
                "--uses" => what.uses = true,
                "--threads" => what.threads = true,
                "--pace" => what.pace = true,
                "--clocks" => what.clocks = true,
                "--stores" => {
                    let open = |text: &str| text.parse().ok().filter(|&file| file > 2);
                    stores = Some(words.parsed("the number of an open file", open)?);
                }
                _ => return Err(words.unknown()),
            }
        }
        let output = words.file("file")?;
        Ok(Compile {
            what,
            stores,
            output,
        })
    }
}

impl Run {
    fn parse(words: &mut Words) -> Result<Run, String> {
        let (mut every, mut reclaim) = (None, None);
        let mut run = Run {
            backend: Backend::Malloc,
            threads: false,
            untimed: false,
            touch: true,
            report: None,
            schedule: PathBuf::new(),
        };
        while let Some(option) = words.next_option()? {
            match option.as_str() {
                "--heap" => run.backend = words.choice(&BACKENDS)?,
                "--every" => every = Some(words.number()?),
                "--reclaim" => reclaim = Some(words.number()?),
                "--threads" => run.threads = true,
                "--untimed" => run.untimed = true,
                "--touch" => run.touch = words.touch()?,
                "--report" => run.report = Some(words.value()?.into()),
                _ => return Err(words.unknown()),
            }
        }
        run.schedule = words.file("file")?;
        match &mut run.backend {
            Backend::MarkSweep(period) => {
                period.every = every.unwrap_or(period.every);
                period.reclaim = reclaim.unwrap_or(period.reclaim);
            }
            _ if every.is_some() => return Err(no_option("--every")),
            _ if reclaim.is_some() => return Err(no_option("--reclaim")),
            _ => {}
        }
        if run.threads && !matches!(run.backend, Backend::Malloc) {
            return Err("only malloc serves several --threads".to_owned());
        }
        Ok(run)
    }
}

impl Soak {
    fn parse(words: &mut Words) -> Result<Soak, String> {
        let (mut time, mut report, mut threads, mut pace) = (None, None, false, None);
        let factor = |text: &str| {
            text.parse()
                .ok()
                .filter(|&f: &f64| f.is_finite() && f > 0.0)
        };
        while let Some(option) = words.next_option()? {
            match option.as_str() {
                "--for" => time = Some(Duration::from_secs(words.number()?)),
                "--report" => report = Some(words.value()?.into()),
                "--threads" => threads = true,
                "--pace" => pace = Some(words.parsed("a number above 0", factor)?),
                _ => return Err(words.unknown()),
            }
        }
        Ok(Soak {
            threads,
            pace,
            time: time.ok_or("--for is missing")?,
            report: report.ok_or("--report is missing")?,
            schedule: words.file("file")?,
        })
    }
}
