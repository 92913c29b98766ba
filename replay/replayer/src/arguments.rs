//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use tare_schedule::{Asked, Death};

pub const USAGE: &str = "usage: \
tare-replay compile [--death free|unreachable|last-use] [--uses] [--threads] [--clocks] [--stores FD]
                           OUTPUT
       tare-replay run [--heap malloc|emulation|region|reap|null] [--threads] [--touch birth|first-line] [--report FILE] SCHEDULE
       tare-replay run --heap marksweep [--every BYTES] [--reclaim N] [--untimed] [--touch …]
                           [--report FILE] SCHEDULE
       tare-replay show SCHEDULE";

pub enum Arguments {
    Compile(Compile),
    Run(Run),
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
    pub fn parse(words: &[OsString]) -> Result<Arguments, String> {
        let (command, rest) = words.split_first().ok_or("nothing to do")?;
        let mut options = Options::of(rest)?;
        let arguments = match command.to_str() {
            Some("compile") => Arguments::Compile(Compile {
                what: Asked {
                    death: options.choice("--death", &Death::ALL.map(|d| (d.name(), d)))?,
                    uses: options.flag("--uses"),
                    threads: options.flag("--threads"),
                    clocks: options.flag("--clocks"),
                },
                stores: options.open_file("--stores")?,
                output: options.file()?,
            }),
            Some("run") => Arguments::Run(Run {
                backend: options.backend()?,
                threads: options.flag("--threads"),
                untimed: options.flag("--untimed"),
                touch: options.choice("--touch", &[("birth", true), ("first-line", false)])?,
                report: options.value("--report").map(PathBuf::from),
                schedule: options.file()?,
            }),
            Some("show") => Arguments::Show(options.file()?),
            _ => return Err(format!("there is no command {}", command.to_string_lossy())),
        };
        options.nothing_left()?;
        match &arguments {
            Arguments::Run(run) if run.threads && !matches!(run.backend, Backend::Malloc) => {
                Err("only malloc serves several --threads".to_owned())
            }
            _ => Ok(arguments),
        }
    }
}

const FLAGS: [&str; 4] = ["--uses", "--threads", "--clocks", "--untimed"];

/// Options with their values, and what is no option.
struct Options {
    given: Vec<(String, OsString)>,
    files: Vec<OsString>,
}

impl Options {
    fn of(words: &[OsString]) -> Result<Options, String> {
        let mut options = Options {
            given: Vec::new(),
            files: Vec::new(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.to_str().filter(|text| text.starts_with("--")) {
                None => options.files.push(word.clone()),
                Some(name) => {
                    let value = if FLAGS.contains(&name) {
                        OsString::new()
                    } else {
                        words.next().ok_or(format!("{name} wants a value"))?.clone()
                    };
                    options.given.push((name.to_owned(), value));
                }
            }
        }
        Ok(options)
    }

    fn value(&mut self, name: &str) -> Option<OsString> {
        let place = self.given.iter().position(|(given, _)| given == name)?;
        Some(self.given.swap_remove(place).1)
    }

    fn flag(&mut self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// What the value of an option stands for; the first choice where it is not given.
    fn choice<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Result<T, String> {
        let Some(value) = self.value(name) else {
            return Ok(choices[0].1);
        };
        let found = choices.iter().find(|(word, _)| value == *word);
        found
            .map(|&(_, choice)| choice)
            .ok_or(format!("{name} cannot be {}", value.to_string_lossy()))
    }

    fn backend(&mut self) -> Result<Backend, String> {
        Ok(match self.choice("--heap", &BACKENDS)? {
            Backend::MarkSweep(usual) => Backend::MarkSweep(Period {
                every: self.number("--every", usual.every)?,
                reclaim: self.number("--reclaim", usual.reclaim)?,
            }),
            other => other,
        })
    }

    fn number(&mut self, name: &str, usual: u64) -> Result<u64, String> {
        let Some(value) = self.value(name) else {
            return Ok(usual);
        };
        let number = value.to_str().and_then(|text| text.parse().ok());
        number.ok_or(format!("{name} wants a whole number"))
    }

    fn open_file(&mut self, name: &str) -> Result<Option<i32>, String> {
        self.value(name)
            .map(|value| {
                let number = value.to_str().and_then(|text| text.parse().ok());
                let file = number.filter(|&file: &i32| file > 2);
                file.ok_or(format!("{name} wants the number of an open file"))
            })
            .transpose()
    }

    fn file(&mut self) -> Result<PathBuf, String> {
        match self.files.pop() {
            Some(file) if self.files.is_empty() => Ok(PathBuf::from(file)),
            Some(_) => Err("more than one file".to_owned()),
            None => Err("no file given".to_owned()),
        }
    }

    fn nothing_left(&self) -> Result<(), String> {
        match self.given.first() {
            Some((name, _)) => Err(format!("there is no option {name} here")),
            None => Ok(()),
        }
    }
}
