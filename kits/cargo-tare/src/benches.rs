//! Criterion's and divan's benchmarks, one at a time: two runs that differ in the number of
//! iterations, whose difference is what an iteration costs without what comes once.
//!
//! - divan does as many iterations as it is told.
//! - criterion does one with `--test`. Without it, and with almost no time to warm up and measure,
//!   it does one more, and then those that its own `sample.json` names. A benchmark that sets its
//!   own time to warm up cannot be held to that: then the figures are those of the first iteration.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use cargo_metadata::Metadata;
use serde_json::Value;

use crate::building::Executable;
use crate::counting::{holds, is_of_crate, place, told, Calls, Stack, Tare};
use crate::table::{Places, Row, Table};

/// Beyond the first; criterion takes no fewer samples.
const ITERATIONS: u32 = 10;
const AT_ONCE: &str = "0.000000001";
const WARMS_UP: &str = "Warming up for ";

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Harness {
    Criterion,
    Divan,
    Libtest,
    Unknown,
}

impl Harness {
    /// By words of the help that each has. The name of a variable alone can be folded into the code.
    pub fn of(program: &Executable) -> Result<Harness, String> {
        let told = |error| format!("{}: {error}", program.path.display());
        Ok(Harness::with(&fs::read(&program.path).map_err(told)?))
    }

    fn with(content: &[u8]) -> Harness {
        let criterion = ("is a Criterion.rs benchmark", Harness::Criterion);
        let divan = ("DIVAN_SAMPLE_COUNT", Harness::Divan);
        let marks = [criterion, divan, ("RUST_TEST_THREADS", Harness::Libtest)];
        let found = marks.into_iter().find(|(mark, _)| holds(content, mark));
        found.map_or(Harness::Unknown, |(_, harness)| harness)
    }
}

struct Bench<'a> {
    tare: &'a Tare,
    program: &'a Executable,
    /// Where the harness's sources are, and the folder or file of its loops.
    roots: Vec<PathBuf>,
    loops: Vec<PathBuf>,
    workspace: &'a Path,
}

/// A row for each benchmark of the program that the arguments choose.
pub fn measure(
    tare: &Tare,
    program: &Executable,
    arguments: &[String],
    metadata: &Metadata,
    table: &mut Table,
) -> Result<(), String> {
    let harness = Harness::of(program)?;
    let (name, loops) = match harness {
        Harness::Criterion => ("criterion", "src/bencher.rs"),
        Harness::Divan => ("divan", "src/benchmark"),
        Harness::Libtest => return Ok(()),
        Harness::Unknown => {
            let command = format!("cargo tare bench --bench {} --tare-study", program.target);
            return Err(format!("it has neither criterion nor divan: {command} compare runs it"));
        }
    };
    let of_harness = metadata.packages.iter().filter(|package| package.name == name);
    let roots: Vec<PathBuf> =
        of_harness.filter_map(|package| Some(package.manifest_path.parent()?.into())).collect();
    let loops = roots.iter().map(|root| root.join(loops)).collect();
    let workspace = metadata.workspace_root.as_std_path();
    let bench = Bench { tare, program, roots, loops, workspace };
    let names = listed(program, &[&["--bench".to_string()], arguments].concat())?;
    if !names.is_empty() {
        table.notes.extend(tare.own_allocator(program, &["--list".to_string()]));
    }
    for (number, name) in names.iter().enumerate() {
        eprintln!("counting {}: {name} ({} of {})", program.target, number + 1, names.len());
        let row = match harness {
            Harness::Divan => bench.of_divan(name, table),
            _ => bench.of_criterion(name, table),
        };
        match row {
            Ok(row) => table.rows.push(row),
            Err(why) => table.not_measured.push(format!("{}: {name}: {why}", program.target)),
        }
    }
    Ok(())
}

/// The names of benchmarks or tests that a harness lists with these arguments.
pub fn listed(program: &Executable, arguments: &[String]) -> Result<Vec<String>, String> {
    let mut command = program.command(&program.path);
    // Divan knows the format only where cargo-nextest asks.
    command.env("NEXTEST", "1").args(["--list", "--format", "terse"]).args(arguments);
    Ok(names(&String::from_utf8_lossy(&output(&mut command)?.stdout)))
}

fn names(output: &str) -> Vec<String> {
    let kinds = [": benchmark", ": bench", ": test"];
    let name = |line: &str| kinds.iter().find_map(|kind| line.strip_suffix(kind)).map(String::from);
    output.lines().filter_map(name).collect()
}

fn output(command: &mut Command) -> Result<Output, String> {
    let done = command.output().map_err(|error| error.to_string())?;
    if done.status.success() {
        return Ok(done);
    }
    Err(told(&done.stderr))
}

/// Whether criterion says so. Where it does not, it is not waited for.
fn warms_up_at_once(command: &mut Command) -> bool {
    let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let Ok(mut started) = started else { return false };
    let output = BufReader::new(started.stderr.take().expect("it is piped"));
    let line = output.lines().map_while(Result::ok).find(|line| line.contains(WARMS_UP));
    let _ = started.kill();
    let _ = started.wait();
    line.is_some_and(|line| line.contains(&format!("{WARMS_UP}1.0000 ns")))
}

impl Bench<'_> {
    fn row(&self, name: &str, few: &Places, more: &Places, iterations: u32) -> Row {
        let row = Row::new(self.program.name(), name, &between(few, more, iterations));
        Row { iterations, ..row }
    }

    fn of_divan(&self, name: &str, table: &mut Table) -> Result<Row, String> {
        let mut run = |size: u32| {
            let size = size.to_string();
            let once = ["--threads", "1", "--min-time", "0", "--sample-count", "1"];
            let words = [&["--bench", "--exact", name], &once[..], &["--sample-size", &size]];
            self.count(&words.concat(), None, table)
        };
        Ok(self.row(name, &run(1)?, &run(1 + ITERATIONS)?, ITERATIONS))
    }

    fn of_criterion(&self, name: &str, table: &mut Table) -> Result<Row, String> {
        let once = self.count(&["--bench", "--exact", name, "--test"], None, table)?;
        let samples = ITERATIONS.to_string();
        let times = ["--warm-up-time", AT_ONCE, "--measurement-time", AT_ONCE];
        let words = ["--bench", "--exact", name, "--noplot", "--nresamples", "10"];
        let words = [&words[..], &["--sample-size", &samples], &times[..]].concat();
        let home = self.tare.scratch.join("criterion");
        let _ = fs::remove_dir_all(&home);
        let mut command = self.program.command(&self.program.path);
        if !warms_up_at_once(command.args(&words).env("CRITERION_HOME", &home)) {
            return Ok(Row { is_first: true, ..Row::new(self.program.name(), name, &once) });
        }
        let _ = fs::remove_dir_all(&home);
        let many = self.count(&words, Some(("CRITERION_HOME", &home)), table)?;
        let iterations = sample(&home).as_deref().and_then(iterations);
        Ok(self.row(name, &once, &many, iterations.ok_or("criterion left no sample.json")?))
    }

    /// What was called through the harness's loop.
    fn count(
        &self,
        words: &[&str],
        variable: Option<(&str, &Path)>,
        table: &mut Table,
    ) -> Result<Places, String> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let (stacks, manager) = self.tare.count(self.program, &words, variable)?;
        if !stacks.iter().any(|stack| stack.frames.iter().any(|at| is_in(&at.file, &self.roots))) {
            return Err("no line of its harness is known: was it built without them?".to_string());
        }
        table.manager = manager;
        let mut places = Places::new();
        for stack in stacks.iter().filter(|stack| self.counts(stack)) {
            add(&mut places, stack, self.workspace);
        }
        Ok(places)
    }

    /// Whether it is of an iteration. What the harness itself allocates for its samples is not, but
    /// it frees what the benchmark made.
    fn counts(&self, stack: &Stack) -> bool {
        let innermost = stack.frames.iter().rev().find(|frame| is_of_crate(frame));
        let is_own =
            stack.calls.bytes > 0.0 && innermost.is_some_and(|at| is_in(&at.file, &self.roots));
        !is_own && stack.frames.iter().any(|at| is_in(&at.file, &self.loops))
    }
}

fn is_in(file: &str, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| Path::new(file).starts_with(folder))
}

pub fn add(places: &mut Places, stack: &Stack, workspace: &Path) {
    let key = (place(&stack.frames, workspace), stack.operation.clone());
    let sum = places.entry(key).or_default();
    sum.count += stack.calls.count;
    sum.instructions += stack.calls.instructions;
    sum.bytes += stack.calls.bytes;
}

/// Where both have as many calls, an iteration has none, though the same calls can take different
/// paths through the manager.
fn between(few: &Places, more: &Places, iterations: u32) -> Places {
    let mut found = Places::new();
    for (key, &Calls { count, instructions, bytes }) in more {
        let old = few.get(key).copied().unwrap_or_default();
        if count != old.count {
            let each = |new: f64, old: f64| (new - old) / f64::from(iterations);
            let count = each(count, old.count);
            let instructions = each(instructions, old.instructions);
            found.insert(key.clone(), Calls { count, instructions, bytes: each(bytes, old.bytes) });
        }
    }
    found
}

/// Criterion's file about its samples, in folders named after the benchmark.
fn sample(folder: &Path) -> Option<String> {
    if let Ok(found) = fs::read_to_string(folder.join("new/sample.json")) {
        return Some(found);
    }
    let mut inner = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    inner.find_map(|path| path.is_dir().then(|| sample(&path))?)
}

fn iterations(sample: &str) -> Option<u32> {
    let found: Value = serde_json::from_str(sample).ok()?;
    let sum: f64 = found["iters"].as_array()?.iter().filter_map(Value::as_f64).sum();
    format!("{sum:.0}").parse().ok().filter(|sum| *sum > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harnesses_are_known_by_their_help() {
        let help = b"..This executable is a Criterion.rs benchmark.\n..";
        assert_eq!(Harness::with(help), Harness::Criterion);
        assert_eq!(Harness::with(b"RUST_TEST_THREADS DIVAN_SAMPLE_COUNT"), Harness::Divan);
        assert_eq!(Harness::with(b""), Harness::Unknown);
    }

    #[test]
    fn lists_have_names_with_colons_and_blanks() {
        let output =
            "a::b c: benchmark\n\nd/f: x/10: bench\nt::one: test\n\n3 tests, 1 benchmark\n";
        assert_eq!(names(output), ["a::b c", "d/f: x/10", "t::one"]);
    }

    #[test]
    fn iterations_are_those_of_all_samples() {
        assert_eq!(iterations(r#"{"iters":[1.0,2.0,3.0],"times":[4.0]}"#), Some(6));
        assert_eq!(iterations("{}"), None);
    }

    #[test]
    fn what_comes_once_is_in_no_iteration() {
        let key = |place: &str| (place.to_string(), "malloc".to_string());
        let calls = |count, instructions| Calls { count, instructions, bytes: 0.0 };
        let few = Places::from([(key("once"), calls(5.0, 80.0)), (key("each"), calls(2.0, 30.0))]);
        let more =
            Places::from([(key("once"), calls(5.0, 95.0)), (key("each"), calls(22.0, 230.0))]);
        let expected = Places::from([(key("each"), calls(2.0, 20.0))]);
        assert_eq!(between(&few, &more, 10), expected);
    }
}
