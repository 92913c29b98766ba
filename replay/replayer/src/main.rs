//! `tare-replay`: makes schedules of heap traces, and follows them under a manager.

mod again;
mod arguments;
mod heap;
mod marksweep;
mod measure;
mod objects;
mod own_heap;
mod pages;
mod reap;
mod region;
mod replay;
mod run;
mod soak;
mod threads;

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::FromRawFd;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use tare_harness::report::json;
use tare_schedule::{compile, Header, Schedule};

use crate::arguments::{Arguments, Compile};
use crate::own_heap::OwnHeap;
use crate::run::run_schedule;
use crate::soak::soak_schedule;

#[global_allocator]
static OWN_HEAP: OwnHeap = OwnHeap::new();

fn main() -> ExitCode {
    let obey = |arguments: &_| match arguments {
        Arguments::Compile(asked) => compile_rows(asked),
        Arguments::Show(path) => show(path),
        Arguments::Run(asked) => run_schedule(asked),
        Arguments::Soak(asked) => soak_schedule(asked),
    };
    tare_harness::run("tare-replay", arguments::USAGE, Arguments::parse, obey)
}

#[derive(Serialize)]
struct Compiled {
    #[serde(flatten)]
    header: Header,
    events: u64,
    compiler_bytes: u64,
}

fn compile_rows(asked: &Compile) -> Result<ExitCode, Box<dyn Error>> {
    let path = asked.output.display();
    let output = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&asked.output)
        .map_err(|error| format!("{path} cannot be written: {error}"))?;
    // SAFETY: the caller of the program left the file open for this.
    let stores = asked.stores.map(|file| unsafe { File::from_raw_fd(file) });
    let rows = io::stdin().lock();
    let header = compile(rows, stores, output, asked.what)?;
    let compiled = Compiled {
        header,
        events: header.events(),
        compiler_bytes: measure::peak_resident_bytes()?,
    };
    println!("{}", json(&compiled)?);
    Ok(ExitCode::SUCCESS)
}

/// Prints a line per event.
fn show(path: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let schedule = Schedule::open(path)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    for event in schedule.events() {
        writeln!(out, "{event:?}")?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
