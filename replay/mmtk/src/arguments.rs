//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::plan::Plan;

pub const USAGE: &str = "usage: tare-replay-mmtk --plan PLAN [--heap BYTES] [--nursery BYTES] \
[--threads N] [--period BYTES] [--reclaim N] [--touch birth|first-line] [--account yes|no] \
[--report FILE] SCHEDULE";

pub struct Arguments {
    pub plan: Plan,
    /// None: 4 times the most bytes that the schedule has alive at once.
    pub heap_bytes: Option<u64>,
    /// None: as MMTk chooses.
    pub nursery_bytes: Option<u64>,
    /// Of the collector.
    pub threads: u64,
    /// The whole heap is collected each time that so many bytes were asked for; 0 for never.
    pub period_bytes: u64,
    /// Only each collection whose number is a multiple of this reclaims.
    pub reclaim: u64,
    /// All lines of an object are written at its birth, and not only the first.
    pub touch: bool,
    /// What the heap holds is split into its parts, at the cost of some time in each collection.
    pub account: bool,
    pub report: Option<PathBuf>,
    pub schedule: PathBuf,
}

impl Arguments {
    pub fn parse(words: &[OsString]) -> Result<Arguments, String> {
        let mut plan = None;
        let mut schedule = None;
        let mut arguments = Arguments {
            plan: Plan::SemiSpace,
            heap_bytes: None,
            nursery_bytes: None,
            threads: 1,
            period_bytes: 0,
            reclaim: 1,
            touch: true,
            account: false,
            report: None,
            schedule: PathBuf::new(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let Some(name) = word.to_str().filter(|text| text.starts_with("--")) else {
                if schedule.replace(PathBuf::from(word)).is_some() {
                    return Err("more than one schedule".to_owned());
                }
                continue;
            };
            let value = words.next().ok_or(format!("{name} wants a value"))?;
            match name {
                "--plan" => plan = Some(choice(name, value, Plan::ALL)?),
                "--heap" => arguments.heap_bytes = Some(number(name, value)?),
                "--nursery" => arguments.nursery_bytes = Some(number(name, value)?),
                "--threads" => arguments.threads = number(name, value)?,
                "--period" => arguments.period_bytes = number(name, value)?,
                "--reclaim" => arguments.reclaim = number(name, value)?,
                "--touch" => {
                    let choices = [("birth", true), ("first-line", false)];
                    arguments.touch = choice(name, value, &choices)?;
                }
                "--account" => {
                    let choices = [("yes", true), ("no", false)];
                    arguments.account = choice(name, value, &choices)?;
                }
                "--report" => arguments.report = Some(PathBuf::from(value)),
                _ => return Err(format!("there is no option {name}")),
            }
        }
        arguments.plan = plan.ok_or("no plan given")?;
        arguments.schedule = schedule.ok_or("no schedule given")?;
        Ok(arguments)
    }
}

fn choice<T: Copy>(name: &str, value: &OsString, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(word, _)| value == word);
    found
        .map(|&(_, choice)| choice)
        .ok_or(format!("{name} cannot be {}", value.to_string_lossy()))
}

const GREATEST: u64 = 1 << 46;

fn number(name: &str, value: &OsString) -> Result<u64, String> {
    let number = value.to_str().and_then(|text| text.parse().ok());
    number
        .filter(|&number| 0 < number && number <= GREATEST)
        .ok_or(format!(
            "{name} wants a whole number above 0, not {}",
            value.to_string_lossy()
        ))
}
