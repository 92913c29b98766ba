//! What the replayers have in common.
//!
//! - [`arguments`] reads a command line, and [`run`] makes a program of what is done with it.
//! - [`contents`] are written to objects, and read at the end.
//! - [`report`] is what a replay tells.
//! - [`platform`] is what is assumed of the processor and the system.

pub mod arguments;
pub mod contents;
pub mod platform;
pub mod report;

use std::error::Error;
use std::process::ExitCode;

use lexopt::Parser;

use crate::arguments::Words;

pub const FAILED: u8 = 1;
pub const WRONG_USAGE: u8 = 2;
/// What lives does not fit into the heap, or the manager gave no memory.
pub const OUT_OF_MEMORY: u8 = 3;
/// The heap would be large enough, and the machine is not.
pub const NO_MEMORY_FROM_THE_KERNEL: u8 = 4;
/// A collector ran into an error of its own, as some do in a heap that is too small for them.
pub const CRASHED: u8 = 5;

/// The `main` of the program that is called `name`.
pub fn run<A>(
    name: &str,
    usage: &str,
    parse: impl FnOnce(&mut Words) -> Result<A, String>,
    obey: impl FnOnce(&A) -> Result<ExitCode, Box<dyn Error>>,
) -> ExitCode {
    let arguments = match parse(&mut Words::of(Parser::from_env())) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("{name}: {problem}\n{usage}");
            return ExitCode::from(WRONG_USAGE);
        }
    };
    obey(&arguments).unwrap_or_else(|problem| {
        eprintln!("{name}: {problem}");
        ExitCode::from(FAILED)
    })
}
