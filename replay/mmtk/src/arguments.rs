//! The command line.

use std::path::PathBuf;

use tare_harness::arguments::Words;
use tare_harness::platform::ADDRESS_BITS;

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
    pub fn parse(words: &mut Words) -> Result<Arguments, String> {
        let mut plan = None;
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
        while let Some(option) = words.next_option()? {
            match option.as_str() {
                "--plan" => plan = Some(words.choice(Plan::ALL)?),
                "--heap" => arguments.heap_bytes = Some(number(words)?),
                "--nursery" => arguments.nursery_bytes = Some(number(words)?),
                "--threads" => arguments.threads = number(words)?,
                "--period" => arguments.period_bytes = number(words)?,
                "--reclaim" => arguments.reclaim = number(words)?,
                "--touch" => arguments.touch = words.touch()?,
                "--account" => arguments.account = words.choice(&[("yes", true), ("no", false)])?,
                "--report" => arguments.report = Some(words.value()?.into()),
                _ => return Err(words.unknown()),
            }
        }
        arguments.plan = plan.ok_or("no plan given")?;
        arguments.schedule = words.file("schedule")?;
        Ok(arguments)
    }
}

const GREATEST: u64 = 1 << (ADDRESS_BITS - 1);

fn number(words: &mut Words) -> Result<u64, String> {
    words.parsed("a whole number above 0", |text| {
        text.parse()
            .ok()
            .filter(|number| (1..=GREATEST).contains(number))
    })
}
