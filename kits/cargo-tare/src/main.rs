//! `cargo tare`: builds with cargo, and measures the programs, tests and benchmarks with Tare.

mod benches;
mod building;
mod counting;
mod options;
mod table;
mod tests_of;

use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

use cargo_metadata::Metadata;

use crate::building::Executable;
use crate::counting::Tare;
use crate::options::{Asked, Options, Verb};
use crate::table::Table;

/// Why it ends, if there is more to say than was said already, and its exit code.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: i32,
}

impl Failure {
    pub fn usage(why: impl Display) -> Failure {
        Failure { message: why.to_string(), code: 2 }
    }

    pub fn missing(why: impl Display) -> Failure {
        Failure { message: why.to_string(), code: 3 }
    }

    pub fn silent(code: i32) -> Failure {
        Failure { message: String::new(), code }
    }
}

const MISSING: &str =
    "tare is not installed, or not on PATH\n      pip install . installs it in a clone of Tare";

fn main() -> ExitCode {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    // Cargo calls `cargo-tare tare …`.
    let words = words.strip_prefix(&["tare".to_string()]).unwrap_or(&words);
    let code = options::parse(words).map_err(Failure::usage).and_then(|asked| match asked {
        Asked::Help => {
            print!("{}", options::USAGE);
            Ok(0)
        }
        Asked::Version => {
            println!("cargo-tare {}", env!("CARGO_PKG_VERSION"));
            Ok(0)
        }
        Asked::Measure(options) => obey(&options),
    });
    let code = code.unwrap_or_else(|failure| {
        if !failure.message.is_empty() {
            eprintln!("cargo tare: {}", failure.message);
        }
        failure.code
    });
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

fn obey(options: &Options) -> Result<i32, Failure> {
    let program = installed();
    if program.is_none() && options.verb != Verb::Test {
        return Err(Failure::missing(MISSING));
    }
    let metadata = building::metadata(options)?;
    let settings = building::settings(options, &metadata);
    if options.verb == Verb::Test {
        let status =
            building::command(options, &settings).arg("--").args(&options.arguments).status();
        let status = status.map_err(|error| Failure::missing(format!("cargo: {error}")))?;
        if !status.success() {
            eprintln!("not measured: the tests failed");
            return Ok(status.code().unwrap_or(1));
        }
        // From here on nothing but --tare-strict makes a failure of the tests that passed.
        return match program
            .ok_or(Failure::missing(MISSING))
            .and_then(|tare| measured(tare, options, &metadata, &settings))
        {
            Err(failure) if !options.strict => {
                let why =
                    if failure.message.is_empty() { "cargo failed" } else { &failure.message };
                eprintln!("not measured: {why}");
                Ok(0)
            }
            other => other,
        };
    }
    measured(program.expect("it was looked for"), options, &metadata, &settings)
}

/// The file `tare` on PATH.
fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("tare")).find(|file| file.is_file())
}

fn measured(
    program: PathBuf,
    options: &Options,
    metadata: &Metadata,
    settings: &[(String, String)],
) -> Result<i32, Failure> {
    let mut programs = building::build(options, metadata, settings)?;
    if options.verb == Verb::Run {
        programs = vec![building::chosen(options, metadata, programs)?];
    }
    let kept = building::kept(options, metadata);
    let scratch = kept.join(format!("scratch-{}", std::process::id()));
    let tare = Tare { program, scratch, options: options.tare.clone() };
    let code = if options.has_table() {
        tabled(&tare, options, metadata, &programs, &kept)
    } else {
        passed(&tare, options, &programs)
    };
    let _ = std::fs::remove_dir_all(&tare.scratch);
    code
}

/// Lets Tare itself answer, for one program after the other.
fn passed(tare: &Tare, options: &Options, programs: &[Executable]) -> Result<i32, Failure> {
    let mut worst = 0;
    for each in programs {
        let mut arguments = options.arguments.clone();
        if options.verb == Verb::Bench {
            arguments.insert(0, "--bench".to_string());
        }
        // What these two say themselves.
        if options.study != "weigh" && options.study != "compare" {
            tare.own_allocator(each, &arguments).into_iter().for_each(|note| eprintln!("{note}"));
        }
        eprintln!("tare {}: {}", options.study, each.path.display());
        let mut command = each.command(&tare.program);
        command.arg(&options.study).args(&options.tare).arg("--").arg(&each.path).args(&arguments);
        // One at a time, so that counts repeat.
        let status = command.env("RUST_TEST_THREADS", "1").status();
        let code =
            status.map_err(|error| Failure::missing(format!("tare: {error}")))?.code().unwrap_or(1);
        if code != 0 && options.verb != Verb::Run {
            eprintln!("not measured: {}: exit code {code} of tare {}", each.target, options.study);
        }
        worst = worst.max(code);
    }
    let is_kept = options.verb == Verb::Test && !options.strict;
    Ok(if is_kept { 0 } else { worst })
}

fn tabled(
    tare: &Tare,
    options: &Options,
    metadata: &Metadata,
    programs: &[Executable],
    kept: &std::path::Path,
) -> Result<i32, Failure> {
    let mut table = Table::default();
    for each in programs {
        let found = match options.verb {
            Verb::Bench => benches::measure(tare, each, &options.arguments, metadata, &mut table),
            _ => tests_of::measure(
                tare,
                each,
                &options.arguments,
                metadata.workspace_root.as_std_path(),
                &mut table,
            ),
        };
        if let Err(why) = found {
            table.not_measured.push(format!("{}: {why}", each.target));
        }
    }
    let mut written = table.compare_and_keep(&kept.join(format!("{}.json", options.verb.name())));
    if options.verb == Verb::Bench {
        written = written.and(table.write_estimates(&kept.join("criterion")));
    }
    table.print(if options.verb == Verb::Bench {
        "Memory management, an iteration"
    } else {
        "Memory management of each test"
    });
    if let Some(file) = &options.json {
        written = written.and(table::write(file, &table));
    }
    if let Err(why) = written {
        return Err(Failure { message: why, code: 4 });
    }
    Ok(i32::from(options.strict && !table.not_measured.is_empty()))
}
