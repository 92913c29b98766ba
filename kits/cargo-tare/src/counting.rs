//! One program under `tare count --sites`: what each of its call stacks asked of the manager.

use std::fs;
use std::iter::Sum;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::building::Executable;

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Cost {
    pub objects: f64,
    pub reallocations: f64,
    /// Asked for by both.
    pub bytes: f64,
    /// In the manager.
    pub instructions: f64,
}

impl Cost {
    pub fn by_metric(self) -> [(&'static str, f64); 4] {
        let Cost { objects, reallocations, bytes, instructions } = self;
        let counts = [("objects", objects), ("reallocations", reallocations)];
        [counts[0], counts[1], ("bytes", bytes), ("instructions", instructions)]
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        costs.fold(Cost::default(), |sum, each| Cost {
            objects: sum.objects + each.objects,
            reallocations: sum.reallocations + each.reallocations,
            bytes: sum.bytes + each.bytes,
            instructions: sum.instructions + each.instructions,
        })
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Frame {
    pub function: String,
    pub file: String,
    pub line: u64,
}

/// What an operation was called for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Calls {
    pub count: f64,
    pub instructions: f64,
    pub bytes: f64,
}

impl Calls {
    pub fn cost(self, operation: &str) -> Cost {
        let Calls { count, instructions, bytes } = self;
        match operation {
            "malloc" | "calloc" | "aligned" | "new" => {
                Cost { objects: count, bytes, instructions, ..Cost::default() }
            }
            "realloc" => Cost { reallocations: count, bytes, instructions, ..Cost::default() },
            // Calls by which Tare proves which manager serves.
            "proof" => Cost::default(),
            _ => Cost { instructions, ..Cost::default() },
        }
    }
}

/// The outermost function is the first.
#[derive(Debug, Default)]
pub struct Stack {
    pub frames: Vec<Frame>,
    pub operation: String,
    pub calls: Calls,
}

/// A line of runs.jsonl.
#[derive(Deserialize)]
pub struct Record {
    pub manager: String,
    status: String,
    reason: String,
    details: Details,
}

#[derive(Deserialize)]
struct Details {
    call_sites: Option<CallSites>,
    #[serde(default)]
    own_allocators: Vec<OwnAllocator>,
}

#[derive(Deserialize)]
struct CallSites {
    frames: Vec<Frame>,
    /// The number of the caller's site, from 1 on, or 0; and that of a frame.
    sites: Vec<(usize, usize)>,
    costs: Vec<(usize, String, bool, f64, f64, f64)>,
}

#[derive(Deserialize)]
struct OwnAllocator {
    allocator: String,
    functions: u32,
    is_redirected: bool,
}

pub struct Tare {
    pub program: PathBuf,
    /// A folder of this process.
    pub scratch: PathBuf,
    pub options: Vec<String>,
}

impl Tare {
    /// The stacks of one run, and the manager that served it.
    pub fn count(
        &self,
        program: &Executable,
        arguments: &[String],
        variable: Option<(&str, &Path)>,
    ) -> Result<(Vec<Stack>, String), String> {
        let is_manager = |word: &String| word.starts_with("-m") || word.starts_with("--manager");
        let manager: &[&str] =
            if self.options.iter().any(is_manager) { &[] } else { &["-m", "glibc"] };
        let mut words = [&["count", "--once", "--sites"], manager].concat();
        words.extend(self.options.iter().map(String::as_str));
        let record = self.record(&words, program, arguments, variable)?;
        let stacks = record.details.call_sites.as_ref().and_then(stacks);
        Ok((stacks.ok_or("the call sites cannot be read")?, record.manager))
    }

    /// Says which allocator a program brings along. Tare is asked only where the name of one is in
    /// the file.
    pub fn own_allocator(&self, program: &Executable, arguments: &[String]) -> Option<String> {
        let content = fs::read(&program.path).ok()?;
        let marks = ["<jemalloc>: ", "mimalloc: ", "snmalloc", "rpmalloc"];
        marks.iter().find(|mark| holds(&content, mark))?;
        let words = ["compare", "-m", "glibc", "-n", "1", "--warmup", "0"];
        let record = self.record(&words, program, arguments, None);
        Some(match record.ok()?.details.own_allocators.first()? {
            OwnAllocator { allocator, functions, is_redirected: true } => {
                let target = &program.target;
                format!("{target} brings {allocator}: {functions} functions are led to the manager")
            }
            own => format!("{} brings {}, which serves it", program.target, own.allocator),
        })
    }

    fn record(
        &self,
        words: &[&str],
        program: &Executable,
        arguments: &[String],
        variable: Option<(&str, &Path)>,
    ) -> Result<Record, String> {
        let results = self.scratch.join("results");
        let _ = fs::remove_dir_all(&results);
        let mut command = program.command(&self.program);
        command.args(words).args(["-q", "--no-page", "--ignore-output", "-o"]).arg(&results);
        command.arg("--").arg(&program.path).args(arguments).envs(variable);
        let done = command.output().map_err(|error| format!("tare: {error}"))?;
        let lines = fs::read_to_string(results.join("runs.jsonl")).unwrap_or_default();
        let Some(line) = lines.lines().next() else { return Err(told(&done.stderr)) };
        let record: Record = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if record.status == "ok" {
            return Ok(record);
        }
        Err(format!("{}: {}", record.status, record.reason))
    }
}

impl Executable {
    /// A command that starts where cargo would start this program, with cargo's variables.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder).envs(self.environment.iter().cloned());
        command
    }
}

/// The line by which a command says what went wrong.
pub fn told(stderr: &[u8]) -> String {
    let output = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let is_error = |line: &&&str| line.contains("error") || line.starts_with("tare: ");
    let found = lines.iter().find(is_error).or(lines.last());
    found.map_or("it said nothing", |line| line).to_string()
}

pub fn holds(content: &[u8], text: &str) -> bool {
    content.windows(text.len()).any(|part| part == text.as_bytes())
}

/// Whether it is a function that `#[global_allocator]` makes, in the line of that static.
fn is_entry(frame: &Frame) -> bool {
    let made = ["__rust_alloc", "__rust_alloc_zeroed", "__rust_dealloc", "__rust_realloc"];
    made.iter().any(|name| frame.function == *name || frame.function.contains(&format!("::{name}")))
}

/// None where they are damaged.
fn stacks(found: &CallSites) -> Option<Vec<Stack>> {
    let stack = |row: &(usize, String, bool, f64, f64, f64)| {
        let (mut site, mut frames) = (row.0, Vec::new());
        while site > 0 {
            let &(caller, frame) = found.sites.get(site - 1)?;
            frames.push(found.frames.get(frame)?.clone());
            site = (caller < site).then_some(caller)?; // callers come first
        }
        frames.reverse();
        // Inside is the allocator that the program brings along.
        let own = frames.iter().position(is_entry);
        frames.truncate(own.unwrap_or(frames.len()));
        let calls = Calls { count: row.3, instructions: row.4, bytes: row.5 };
        Some(Stack { frames, operation: row.1.clone(), calls })
    };
    found.costs.iter().map(stack).collect()
}

/// The innermost function of the workspace, or else the innermost that is not of Rust's or the
/// system's libraries.
pub fn place(frames: &[Frame], workspace: &Path) -> String {
    let is_own = |frame: &&Frame| frame.line > 0 && Path::new(&frame.file).starts_with(workspace);
    let innermost = || frames.iter().rev();
    let found = innermost().find(is_own).or_else(|| innermost().find(|frame| is_of_crate(frame)));
    found.map_or_else(|| "(no line)".to_string(), |frame| written(frame, workspace))
}

/// Rust's own library has no folder of this machine in its line tables, or that in which the
/// system's package was built; that of C has no absolute names.
pub fn is_of_crate(frame: &Frame) -> bool {
    let is_of_package =
        |(_, inner): (&str, &str)| inner.contains("/library/") || inner.contains("/vendor/");
    let is_of_rust = frame.file.starts_with("/rustc/")
        || frame.file.contains("/lib/rustlib/")
        || frame.file.split_once("/rustc-").is_some_and(is_of_package);
    frame.line > 0 && frame.file.starts_with('/') && !is_of_rust
}

fn written(frame: &Frame, workspace: &Path) -> String {
    let inner = Path::new(&frame.file).strip_prefix(workspace).ok().and_then(Path::to_str);
    // …/registry/src/INDEX/serde-1.0.0/src/lib.rs
    let of_registry = || Some(frame.file.split_once("/registry/src/")?.1.split_once('/')?.1);
    let file = inner.or_else(of_registry).unwrap_or(&frame.file);
    let mut parts = frame.function.split('<').next().unwrap_or_default().rsplit("::");
    let is_hash = |name: &&str| name.len() == 17 && name.starts_with('h');
    let name = parts.find(|name| !is_hash(name)).unwrap_or_default();
    let is_named = name.starts_with(char::is_alphabetic); // and no closure
    let named = if is_named { format!(" ({name})") } else { String::new() };
    format!("{file}:{}{named}", frame.line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(sites: &[(usize, usize)]) -> Option<Vec<Stack>> {
        let frames = json!([
            {"function": "a::main::h0123456789abcdef", "file": "/w/src/main.rs", "line": 3},
            {"function": "alloc::vec::push<u8>", "file": "/rustc/1/vec.rs", "line": 9},
        ]);
        let costs = json!([
            [2, "malloc", false, 4, 100, 64],
            [2, "realloc", false, 1, 9, 8],
            [1, "free", false, 4, 50, 0],
            [0, "proof", false, 9, 9, 9]
        ]);
        let found = json!({"frames": frames, "sites": sites, "costs": costs});
        stacks(&serde_json::from_value(found).unwrap())
    }

    #[test]
    fn stacks_are_read_from_the_outermost_function_on() {
        let found = read(&[(0, 0), (1, 1)]).unwrap();
        assert_eq!(place(&found[0].frames, Path::new("/w")), "src/main.rs:3 (main)");
        assert_eq!((found[0].frames[1].line, place(&[], Path::new("/w"))), (9, "(no line)".into()));
        let sum: Cost = found.iter().map(|stack| stack.calls.cost(&stack.operation)).sum();
        assert_eq!(sum.by_metric().map(|(_, value)| value), [4.0, 1.0, 72.0, 159.0]);
    }

    #[test]
    fn what_a_global_allocator_does_is_of_its_caller() {
        let of = |function: &str| Frame { function: function.into(), ..Frame::default() };
        let made = ["__rust_alloc", "a::_::__rust_realloc", "__rustc::__rust_dealloc::h0123"];
        assert!(made.map(of).iter().all(is_entry));
        assert!(!["alloc::alloc::alloc", "main", "a::__rust_all"].map(of).iter().any(is_entry));
        let frames = json!([
            {"function": "main", "file": "/w/src/main.rs", "line": 3},
            {"function": "a::_::__rust_alloc", "file": "/w/src/main.rs", "line": 1},
            {"function": "alloc", "file": "/r/mimalloc/lib.rs", "line": 9},
        ]);
        let costs = json!([[3, "malloc", false, 4, 100, 64]]);
        let found = json!({"frames": frames, "sites": [[0, 0], [1, 1], [2, 2]], "costs": costs});
        let found = stacks(&serde_json::from_value(found).unwrap()).unwrap();
        assert_eq!(place(&found[0].frames, Path::new("/w")), "src/main.rs:3 (main)");
    }

    #[test]
    fn damaged_sites_are_none() {
        assert!(read(&[(2, 0), (1, 1)]).is_none());
        assert!(read(&[(0, 0), (1, 2)]).is_none());
    }

    #[test]
    fn places_of_other_crates_are_named_by_the_crate() {
        let of = |file: &str| Frame { function: "{closure#0}".into(), file: file.into(), line: 7 };
        for of_rust in ["/rustc/1/alloc.rs", "/build/rustc-1.93/rustc-1.93.1/library/a/alloc.rs"] {
            let frames = [of("/c/registry/src/index-1/toml-0.9.0/src/lib.rs"), of(of_rust)];
            assert_eq!(place(&frames, Path::new("/w")), "toml-0.9.0/src/lib.rs:7");
        }
        let unknown = Frame { line: 0, ..of("/w/src/main.rs") };
        assert_eq!(place(&[of("/w/src/lib.rs"), unknown], Path::new("/w")), "src/lib.rs:7");
    }

    #[test]
    fn a_command_says_what_went_wrong() {
        assert_eq!(told(b"note: x\ntare: no such manager\n  hint\n"), "tare: no such manager");
        assert_eq!(told(b""), "it said nothing");
    }
}
