//! `tare-replay`: makes schedules of heap traces, and follows them under a manager.

mod arguments;
mod heap;
mod marksweep;
mod measure;
mod objects;
mod own_heap;
mod pages;
mod region;
mod replay;
mod run;
mod threads;

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

#[global_allocator]
static OWN_HEAP: OwnHeap = OwnHeap::new();

fn main() -> ExitCode {
    tare_harness::run(
        "tare-replay",
        arguments::USAGE,
        Arguments::parse,
        |arguments| match arguments {
            Arguments::Compile(asked) => compile_rows(asked).map(|()| ExitCode::SUCCESS),
            Arguments::Show(path) => show(path).map(|()| ExitCode::SUCCESS),
            Arguments::Run(asked) => run_schedule(asked),
        },
    )
}

#[derive(Serialize)]
struct Compiled {
    #[serde(flatten)]
    header: Header,
    events: u64,
    compiler_bytes: u64,
}

fn compile_rows(asked: &Compile) -> Result<(), String> {
    let path = asked.output.display();
    let output = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&asked.output)
        .map_err(|error| format!("{path} cannot be written: {error}"))?;
    // SAFETY: the caller of the program left the file open for this.
    let stores = asked.stores.map(|file| unsafe { File::from_raw_fd(file) });
    let rows = io::stdin().lock();
    let header = compile(rows, stores, output, asked.what).map_err(|error| error.to_string())?;
    let compiled = measure::peak_resident_bytes().and_then(|compiler_bytes| {
        json(&Compiled {
            header,
            events: header.events(),
            compiler_bytes,
        })
    });
    println!("{}", compiled.map_err(|error| error.to_string())?);
    Ok(())
}

/// Prints a line per event.
fn show(path: &Path) -> Result<(), String> {
    let schedule = Schedule::open(path).map_err(|error| error.to_string())?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    for event in schedule.events() {
        writeln!(out, "{event:?}").map_err(|error| error.to_string())?;
    }
    out.flush().map_err(|error| error.to_string())
}
