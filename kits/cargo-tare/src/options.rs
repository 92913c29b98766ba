//! What was asked: cargo's own options pass through, those of this kit begin with `--tare`.

use std::path::PathBuf;

pub const USAGE: &str = "\
cargo tare [run|test|bench] [OPTIONS] [CARGO'S OPTIONS] [-- ARG...]

  Builds with cargo, and weighs with Tare what memory management costs.

  cargo tare --bin server -- --selftest      the bill of a program (tare weigh)
  cargo tare test                            the tests, and what each allocates
  cargo tare bench                           criterion's and divan's benchmarks, an iteration

Options:
  --tare-study STUDY  compare, count, drag, space, weigh or another command of Tare that takes a
                      program. Default: weigh for run, count for test and bench
  --tare OPTIONS      Options of that command, as '--quick -m glibc -m mimalloc'
  --tare-json FILE    Also write the table of tests or benchmarks as JSON
  --tare-strict       Exit with 1 if something could not be measured
  --tare-no-debug     Build with the profile's debug information, even if it has none
  --dev               run: the profile dev; by default it is release

Cargo's options, such as -p, --bin, --example, --test, --bench, --features, --release and --profile,
are cargo's. ARGs go to the program; for a table of test and bench they choose what is measured.

Exit codes: those of tare; of test, those of the tests; 2 wrong usage, 3 Tare is not installed.
";

/// Options of cargo build, test and bench whose value is the next word.
const WITH_VALUE: [&str; 23] = [
    "-p",
    "--package",
    "--exclude",
    "--bin",
    "--example",
    "--test",
    "--bench",
    "-j",
    "--jobs",
    "--profile",
    "-F",
    "--features",
    "--target",
    "--target-dir",
    "--manifest-path",
    "--color",
    "--config",
    "-Z",
    "--lockfile-path",
    "-C",
    "--artifact-dir",
    "--message-format",
    "--out-dir",
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verb {
    Run,
    Test,
    Bench,
}

impl Verb {
    fn named(word: &str) -> Option<Verb> {
        match word {
            "run" | "r" => Some(Verb::Run),
            "test" | "t" => Some(Verb::Test),
            "bench" | "b" => Some(Verb::Bench),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Verb::Run => "run",
            Verb::Test => "test",
            Verb::Bench => "bench",
        }
    }
}

#[derive(Debug)]
pub enum Asked {
    Help,
    Version,
    Measure(Options),
}

#[derive(Debug)]
pub struct Options {
    pub verb: Verb,
    pub study: String,
    /// Options of the study.
    pub tare: Vec<String>,
    pub json: Option<PathBuf>,
    pub strict: bool,
    pub no_debug: bool,
    /// The cargo profile that is built.
    pub profile: String,
    /// Cargo's, without the names of tests and benchmarks.
    pub cargo: Vec<String>,
    /// The program's.
    pub arguments: Vec<String>,
}

impl Options {
    /// Whether the answer is a table of this kit, and not what tare prints.
    pub fn has_table(&self) -> bool {
        self.verb != Verb::Run && self.study == "count"
    }

    /// The value of an option of cargo.
    pub fn of_cargo(&self, name: &str) -> Option<&str> {
        value_of(&self.cargo, name)
    }

    /// Whether one program was named.
    pub fn names_program(&self) -> bool {
        ["--bin", "--example"].iter().any(|name| self.of_cargo(name).is_some())
    }
}

/// Of the words behind `cargo tare`.
pub fn parse(words: &[String]) -> Result<Asked, String> {
    let mut words = words.iter().cloned().peekable();
    let subcommand = words.peek().and_then(|word| Verb::named(word));
    if subcommand.is_some() {
        words.next();
    }
    let verb = subcommand.unwrap_or(Verb::Run);
    let (mut cargo, mut names, mut arguments) = (Vec::new(), Vec::new(), Vec::new());
    let (mut study, mut tare, mut json) = (None, Vec::new(), None);
    let (mut strict, mut no_debug, mut dev) = (false, false, false);
    while let Some(word) = words.next() {
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (word.as_str(), None),
        };
        let mut value =
            || inline.clone().or_else(|| words.next()).ok_or(format!("{name} needs a value"));
        match name {
            "--" => {
                arguments.extend(words);
                break;
            }
            "-h" | "--help" => return Ok(Asked::Help),
            "-V" | "--version" => return Ok(Asked::Version),
            "--tare-study" => study = Some(value()?),
            "--tare" => {
                let given = value()?;
                tare.extend(
                    shlex::split(&given).ok_or(format!("--tare: a quote has no end: {given}"))?,
                );
            }
            "--tare-json" => json = Some(PathBuf::from(value()?)),
            "--tare-strict" => strict = true,
            "--tare-no-debug" => no_debug = true,
            "--dev" if verb == Verb::Run => dev = true,
            _ if name.starts_with("--tare") => return Err(format!("there is no option {name}")),
            _ if WITH_VALUE.contains(&word.as_str()) => {
                cargo.push(word.clone());
                // `--bin` alone makes cargo list the programs.
                cargo.extend(words.next_if(|next| !next.starts_with('-')));
            }
            _ if word.starts_with('-') => cargo.push(word),
            _ if verb == Verb::Run => {
                let after = format!("{word}: arguments of the program come after --");
                let misplaced = Verb::named(&word).filter(|_| subcommand.is_none());
                return Err(misplaced.map_or(after.clone(), |verb| {
                    format!(
                        "{after}, and the subcommand before all options: cargo tare {}",
                        verb.name()
                    )
                }));
            }
            _ => names.push(word),
        }
    }
    arguments.splice(0..0, names);
    let release = cargo.iter().any(|word| word == "--release" || word == "-r");
    let profile = match (value_of(&cargo, "--profile"), verb) {
        (Some(given), _) => given.to_string(),
        (None, Verb::Bench) => "bench".to_string(),
        (None, Verb::Test) => if release { "release" } else { "test" }.to_string(),
        (None, Verb::Run) if dev => "dev".to_string(),
        (None, Verb::Run) => {
            if !release {
                cargo.push("--release".to_string());
            }
            "release".to_string()
        }
    };
    let by_default = if verb == Verb::Run { "weigh" } else { "count" };
    let study = study.unwrap_or_else(|| by_default.to_string());
    Ok(Asked::Measure(Options {
        verb,
        study,
        tare,
        json,
        strict,
        no_debug,
        profile,
        cargo,
        arguments,
    }))
}

fn value_of<'a>(words: &'a [String], name: &str) -> Option<&'a str> {
    words.iter().enumerate().find_map(|(at, word)| match word.split_once('=') {
        Some((given, value)) if given == name => Some(value),
        None if word == name => words.get(at + 1).map(String::as_str),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked, String> {
        parse(&shlex::split(line).unwrap())
    }

    fn options(line: &str) -> Options {
        match asked(line) {
            Ok(Asked::Measure(options)) => options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_program_is_weighed_in_release() {
        let found = options("-p core --bin server --tare '--quick -m glibc' -- --port 5");
        assert_eq!((found.verb, found.study.as_str()), (Verb::Run, "weigh"));
        assert_eq!(found.profile, "release");
        assert_eq!(found.cargo, ["-p", "core", "--bin", "server", "--release"]);
        assert_eq!(found.tare, ["--quick", "-m", "glibc"]);
        assert_eq!(found.arguments, ["--port", "5"]);
        assert!(found.names_program() && !found.has_table());
    }

    #[test]
    fn names_of_tests_are_no_options_of_cargo() {
        let found = options("test --features a,b parse --test=it -- --exact");
        assert_eq!(found.cargo, ["--features", "a,b", "--test=it"]);
        assert_eq!(found.arguments, ["parse", "--exact"]);
        assert_eq!((found.profile.as_str(), found.study.as_str()), ("test", "count"));
        assert!(found.has_table());
    }

    #[test]
    fn profiles_are_those_that_cargo_builds() {
        assert_eq!(options("run --dev").profile, "dev");
        assert_eq!(options("run --dev").cargo, [] as [&str; 0]);
        assert_eq!(options("run -r").cargo, ["-r"]);
        assert_eq!(options("test --release").profile, "release");
        assert_eq!(options("bench --profile=fast").profile, "fast");
        assert_eq!(options("bench").profile, "bench");
    }

    #[test]
    fn wrong_usage_is_told() {
        assert_eq!(asked("--tare-studio x").unwrap_err(), "there is no option --tare-studio");
        assert_eq!(asked("test --tare-json").unwrap_err(), "--tare-json needs a value");
        assert!(asked("bench --tare \"'\"").unwrap_err().contains("a quote has no end"));
        assert_eq!(
            asked("input.txt").unwrap_err(),
            "input.txt: arguments of the program come after --"
        );
        assert_eq!(
            asked("-p core t").unwrap_err(),
            "t: arguments of the program come after --, and the subcommand before all options: \
             cargo tare test"
        );
        assert!(asked("run bench").unwrap_err().ends_with("come after --"));
    }
}
