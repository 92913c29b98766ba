//! What cargo builds, and the debug information that it is built with.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::{Message, Metadata, MetadataCommand, Target, TargetKind};

use crate::options::{Options, Verb};
use crate::Failure;

pub struct Executable {
    pub path: PathBuf,
    pub package: String,
    pub target: String,
    /// As cargo sets it for the programs that it runs.
    pub environment: Vec<(&'static str, OsString)>,
    /// Where it starts: tests and benchmarks in their package's folder, programs here.
    pub folder: PathBuf,
}

impl Executable {
    /// Of the target, with its package where that is another word.
    pub fn name(&self) -> String {
        let is_same = self.package.replace('-', "_") == self.target.replace('-', "_");
        if is_same {
            self.target.clone()
        } else {
            format!("{} {}", self.package, self.target)
        }
    }
}

fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

pub fn metadata(options: &Options) -> Result<Metadata, Failure> {
    let mut command = MetadataCommand::new();
    if let Some(path) = options.of_cargo("--manifest-path") {
        command.manifest_path(path);
    }
    let passed = ["--locked", "--offline", "--frozen"].map(String::from);
    command.other_options(
        passed.into_iter().filter(|word| options.cargo.contains(word)).collect::<Vec<_>>(),
    );
    command.exec().map_err(|error| match error {
        cargo_metadata::Error::CargoMetadata { stderr } => Failure::usage(stderr.trim()),
        other => Failure::usage(other),
    })
}

/// Variables that give the profile the debug information and symbols that it lacks.
pub fn settings(options: &Options, metadata: &Metadata) -> Vec<(String, String)> {
    if options.no_debug {
        return Vec::new();
    }
    let manifest =
        std::fs::read_to_string(metadata.workspace_root.join("Cargo.toml")).unwrap_or_default();
    // Tests are told apart by the names of functions, which line tables leave out where they are
    // inlined.
    let level = if options.verb == Verb::Test { "full" } else { "limited" };
    let mut settings = wanted(&manifest.parse().unwrap_or_default(), &options.profile, level);
    settings.retain(|(name, _)| std::env::var_os(name).is_none());
    settings
}

fn wanted(manifest: &toml::Table, profile: &str, level: &str) -> Vec<(String, String)> {
    let is_off =
        |value: &toml::Value| matches!(value.to_string().trim_matches('"'), "none" | "false" | "0");
    let is_full =
        |value: &toml::Value| matches!(value.to_string().trim_matches('"'), "full" | "true" | "2");
    let is_little = |value: &toml::Value| {
        if level == "full" {
            !is_full(value)
        } else {
            is_off(value)
        }
    };
    let variable =
        |key| format!("CARGO_PROFILE_{}_{key}", profile.to_uppercase().replace('-', "_"));
    let mut found = Vec::new();
    let (debug, root) = inherited(manifest, profile, "debug");
    if debug.map_or(root != "dev", is_little) {
        found.push((variable("DEBUG"), level.to_string()));
    }
    if inherited(manifest, profile, "strip").0.is_some_and(|strip| !is_off(strip)) {
        found.push((variable("STRIP"), "none".to_string()));
    }
    found
}

/// The key of the profile, or of those that it inherits from, and the last of these.
fn inherited<'a>(
    manifest: &'a toml::Table,
    profile: &'a str,
    key: &str,
) -> (Option<&'a toml::Value>, &'a str) {
    let profiles = manifest.get("profile").and_then(toml::Value::as_table);
    let mut name = profile;
    for _ in 0..16 {
        let table = profiles.and_then(|all| all.get(name)).and_then(toml::Value::as_table);
        if let Some(value) = table.and_then(|own| own.get(key)) {
            return (Some(value), name);
        }
        name = match (name, table.and_then(|own| own.get("inherits")).and_then(toml::Value::as_str))
        {
            ("dev" | "release", _) => break,
            (_, Some(parent)) => parent,
            ("test", None) => "dev",
            (_, None) => "release",
        };
    }
    (None, name)
}

/// Cargo's command for the verb, with the settings.
pub fn command(options: &Options, settings: &[(String, String)]) -> Command {
    let mut command = Command::new(cargo());
    command.arg(if options.verb == Verb::Run { "build" } else { options.verb.name() });
    command.args(&options.cargo).envs(settings.iter().cloned());
    command
}

pub fn build(
    options: &Options,
    metadata: &Metadata,
    settings: &[(String, String)],
) -> Result<Vec<Executable>, Failure> {
    let mut command = command(options, settings);
    if options.verb != Verb::Run {
        command.arg("--no-run");
    }
    command.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| Failure::missing(format!("cargo: {error}")))?;
    let output = child.stdout.take().expect("it is piped");
    let mut found = Vec::new();
    for message in Message::parse_stream(std::io::BufReader::new(output)) {
        let Ok(Message::CompilerArtifact(artifact)) = message else {
            continue;
        };
        let Some(path) = artifact.executable else {
            continue;
        };
        if artifact.profile.test == (options.verb == Verb::Run)
            || !is_program(&artifact.target, options.verb)
        {
            continue;
        }
        let package = &metadata[&artifact.package_id];
        let manifest = package.manifest_path.parent().expect("a manifest lies in a folder");
        let here = std::env::current_dir().map_err(Failure::usage)?;
        found.push(Executable {
            path: path.into(),
            package: package.name.to_string(),
            target: artifact.target.name,
            environment: vec![
                ("CARGO", cargo()),
                ("CARGO_MANIFEST_DIR", manifest.as_os_str().into()),
                ("CARGO_PKG_NAME", package.name.as_str().into()),
                ("CARGO_PKG_VERSION", package.version.to_string().into()),
            ],
            folder: if options.verb == Verb::Run { here } else { manifest.into() },
        });
    }
    let status = child.wait().map_err(Failure::usage)?;
    if !status.success() {
        return Err(Failure::silent(status.code().unwrap_or(1)));
    }
    // As cargo prints what it has built in any order.
    found.sort_by(|one, other| (&one.package, &one.target).cmp(&(&other.package, &other.target)));
    Ok(found)
}

fn is_program(target: &Target, verb: Verb) -> bool {
    verb != Verb::Run
        || target.kind.iter().any(|kind| matches!(kind, TargetKind::Bin | TargetKind::Example))
}

/// The one program that run means.
pub fn chosen(
    options: &Options,
    metadata: &Metadata,
    mut found: Vec<Executable>,
) -> Result<Executable, Failure> {
    let default =
        metadata.workspace_packages().into_iter().find_map(|one| one.default_run.as_ref());
    if !options.names_program() && found.len() > 1 && default.is_some() {
        found.retain(|each| Some(&each.target) == default);
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Failure::usage("there is no program to run: a library has tests and benchmarks")),
        _ => {
            let names: Vec<_> = found.iter().map(|each| each.target.as_str()).collect();
            Err(Failure::usage(format!(
                "choose a program with --bin or --example: {}",
                names.join(", ")
            )))
        }
    }
}

/// Where the figures of earlier runs are.
pub fn kept(options: &Options, metadata: &Metadata) -> PathBuf {
    let target =
        options.of_cargo("--target-dir").map_or(metadata.target_directory.as_std_path(), Path::new);
    target.join("tare")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(manifest: &str, profile: &str) -> Vec<String> {
        let level = if profile == "test" { "full" } else { "limited" };
        let given = wanted(&manifest.parse().unwrap(), profile, level);
        given.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn profiles_without_line_tables_get_them() {
        assert_eq!(names("", "dev"), [] as [&str; 0]);
        assert_eq!(names("", "test"), [] as [&str; 0]);
        assert_eq!(names("", "bench"), ["CARGO_PROFILE_BENCH_DEBUG=limited"]);
        assert_eq!(names("profile.dev.debug = 0", "test"), ["CARGO_PROFILE_TEST_DEBUG=full"]);
        assert_eq!(names("profile.dev.debug = 1", "test"), ["CARGO_PROFILE_TEST_DEBUG=full"]);
        assert_eq!(names("profile.dev.debug = 'full'", "test"), [] as [&str; 0]);
        assert_eq!(names("profile.release.debug = true", "bench"), [] as [&str; 0]);
        let own =
            "[profile.fast-1]\ninherits = 'release'\nstrip = true\n[profile.release]\ndebug = 1";
        assert_eq!(names(own, "fast-1"), ["CARGO_PROFILE_FAST_1_STRIP=none"]);
        assert_eq!(names("profile.a.inherits = 'a'", "a"), ["CARGO_PROFILE_A_DEBUG=limited"]);
    }
}
