//! Figures of tests or benchmarks: shown beside those of the last run, kept for the next one, and
//! written for other programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::{json, Value};

use crate::counting::{Calls, Cost};

const MOST_ROWS: usize = 60;
const COLUMNS: [&str; 7] =
    ["", "objects", "reallocs", "bytes", "instructions", "change", "most from"];

/// By place and operation.
pub type Places = BTreeMap<(String, String), Calls>;

#[derive(Serialize)]
pub struct Row {
    /// What it is of: a target of cargo.
    pub group: String,
    pub name: String,
    /// Over which a benchmark's costs were divided.
    pub iterations: u32,
    /// Whether it is a benchmark's first iteration, which can cost more than later ones.
    pub is_first: bool,
    pub cost: Cost,
    pub places: BTreeMap<String, Cost>,
    pub last: Option<Cost>,
}

impl Row {
    pub fn new(group: String, name: &str, calls: &Places) -> Row {
        let mut places: BTreeMap<String, Cost> = BTreeMap::new();
        for ((place, operation), calls) in calls {
            let cost = calls.cost(operation);
            if cost != Cost::default() {
                let sum = places.entry(place.clone()).or_default();
                *sum = [*sum, cost].into_iter().sum();
            }
        }
        let cost = places.values().copied().sum();
        let name = name.to_string();
        Row { group, name, iterations: 1, is_first: false, cost, places, last: None }
    }

    /// The place with most instructions, and its share.
    fn most_from(&self) -> String {
        let instructions = |(_, cost): &(&String, &Cost)| cost.instructions;
        let largest = self.places.iter().max_by(|a, b| instructions(a).total_cmp(&instructions(b)));
        match largest {
            Some((place, cost)) if cost.instructions > 0.0 => {
                format!("{:.0}% {place}", 100.0 * cost.instructions / self.cost.instructions)
            }
            _ => "-".to_string(),
        }
    }

    fn change(&self) -> String {
        let new = self.cost.instructions;
        match self.last.map(|cost| cost.instructions) {
            None => "new".to_string(),
            Some(0.0) => if new == 0.0 { "same" } else { "was 0" }.to_string(),
            Some(old) if (new / old - 1.0).abs() < 0.0005 => "same".to_string(),
            Some(old) => format!("{:+.1}%", 100.0 * (new / old - 1.0)),
        }
    }

    fn cells(&self) -> [String; 7] {
        let Cost { objects, reallocations, bytes, instructions } = self.cost;
        let name = format!("{}{}", self.name, if self.is_first { " *" } else { "" });
        let counts = [number(objects), number(reallocations)];
        let [objects, reallocations] = counts;
        let instructions = number(instructions);
        let bytes = size(bytes);
        [name, objects, reallocations, bytes, instructions, self.change(), self.most_from()]
    }
}

#[derive(Default, Serialize)]
pub struct Table {
    pub manager: String,
    pub rows: Vec<Row>,
    /// What is said above the rows.
    pub notes: Vec<String>,
    pub not_measured: Vec<String>,
}

impl Table {
    pub fn print(&self, title: &str) {
        if !self.rows.is_empty() {
            println!("{title}, under {}", self.manager);
        }
        for note in &self.notes {
            println!("  {}", plain(note));
        }
        for rows in self.rows.chunk_by(|one, next| one.group == next.group) {
            println!();
            for line in lines(rows) {
                println!("{line}");
            }
        }
        if self.rows.iter().any(|row| row.is_first) {
            println!("  * the first iteration: the benchmark sets its own time to warm up");
        }
        for why in &self.not_measured {
            eprintln!("not measured: {}", plain(why));
        }
    }

    /// Sets what the last run in the folder found, and keeps this one's for the next.
    pub fn compare_and_keep(&mut self, file: &Path) -> Result<(), String> {
        let content = fs::read_to_string(file).unwrap_or_default();
        let kept = serde_json::from_str::<BTreeMap<String, BTreeMap<String, Cost>>>(&content);
        let mut kept = kept.unwrap_or_default();
        for row in &mut self.rows {
            let group = kept.entry(row.group.clone()).or_default();
            row.last = group.insert(row.name.clone(), row.cost);
        }
        write(file, &kept)
    }

    /// As criterion keeps its estimates: folders BENCHMARK/METRIC, with this run in `new` and the
    /// last in `base`. A count has no interval: its bounds are itself.
    pub fn write_estimates(&self, folder: &Path) -> Result<(), String> {
        for row in &self.rows {
            for (metric, value) in row.cost.by_metric() {
                let parts: Vec<String> = row.name.split('/').map(file_name).collect();
                let directory = format!("{}/{metric}", parts.join("/"));
                let [new, base] = ["new", "base"].map(|each| folder.join(&directory).join(each));
                let _ = fs::remove_dir_all(&base);
                let _ = fs::rename(&new, &base);
                let full = format!("{}/{metric}", row.name);
                let benchmark = json!({"group_id": row.name, "function_id": metric, "value_str": null,
                    "throughput": null, "full_id": full, "directory_name": directory, "title": full});
                write(&new.join("benchmark.json"), &benchmark)?;
                write(&new.join("estimates.json"), &estimates(value))?;
            }
        }
        Ok(())
    }
}

fn estimates(value: f64) -> Value {
    let exact = |value: f64| {
        let bounds = json!({"confidence_level": 0.95, "lower_bound": value, "upper_bound": value});
        json!({"confidence_interval": bounds, "point_estimate": value, "standard_error": 0.0})
    };
    json!({"mean": exact(value), "median": exact(value), "median_abs_dev": exact(0.0),
        "slope": null, "std_dev": exact(0.0)})
}

/// As criterion names its folders.
fn file_name(part: &str) -> String {
    let kept = |letter: char| if "?\"/\\*<>:|^".contains(letter) { '_' } else { letter };
    let name: String = plain(part).trim().chars().map(kept).take(64).collect();
    if name.trim_matches('.').is_empty() {
        "_".to_string()
    } else {
        name
    }
}

pub fn write(file: &Path, value: &impl Serialize) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", file.display());
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(told)?;
    }
    let text = serde_json::to_string_pretty(value).map_err(|error| error.to_string())?;
    fs::write(file, text + "\n").map_err(told)
}

fn lines(rows: &[Row]) -> Vec<String> {
    let mut cells = vec![COLUMNS.map(String::from)];
    cells[0][0].clone_from(&rows[0].group);
    cells.extend(rows.iter().take(MOST_ROWS).map(Row::cells));
    let width = |at: usize| cells.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let line = |row: &[String; 7]| {
        let numbers: Vec<String> = (1..6).map(|at| format!("{:>1$}", row[at], width(at))).collect();
        plain(&format!("{:<1$}  {2}  {3}", row[0], width(0), numbers.join("  "), row[6]))
    };
    let mut found: Vec<String> = cells.iter().map(line).collect();
    if rows.len() > MOST_ROWS {
        found.push(format!("… and {} more (--tare-json has all)", rows.len() - MOST_ROWS));
    }
    found
}

/// Names come from programs: nothing that a terminal obeys.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

fn number(value: f64) -> String {
    if value.fract() != 0.0 && value.abs() < 1000.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{:.0}", value.abs());
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|part| std::str::from_utf8(part).unwrap_or_default())
        .collect();
    format!("{}{}", if value < 0.0 { "-" } else { "" }, groups.join(","))
}

fn size(bytes: f64) -> String {
    let units =
        [(30, "GiB"), (20, "MiB"), (10, "KiB")].map(|(bits, name)| (f64::from(1 << bits), name));
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.2} {name}", bytes / unit),
        None => format!("{} B", number(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(instructions: f64, last: Option<f64>) -> Row {
        let calls = |instructions| Calls { count: 2.0, instructions, bytes: 8.0 };
        let key = |place: &str| (place.to_string(), "malloc".to_string());
        let (one, three) = (calls(instructions), calls(3.0 * instructions));
        let places = Places::from([(key("a.rs:1"), one), (key("b.rs:2 (f)"), three)]);
        let last = last.map(|instructions| Cost { instructions, ..Cost::default() });
        Row { last, ..Row::new("bench".into(), "x\u{1b}[2J", &places) }
    }

    #[test]
    fn numbers_are_grouped_and_sizes_have_units() {
        let found = [0.0, 1_234_567.0, -1234.0, 2.25].map(number);
        assert_eq!(found, ["0", "1,234,567", "-1,234", "2.2"]);
        assert_eq!([0.0, 1023.0, 2048.0].map(size), ["0 B", "1,023 B", "2.00 KiB"]);
    }

    #[test]
    fn a_row_has_its_change_and_its_largest_place() {
        let found = row(25.0, Some(80.0)).cells();
        assert_eq!(found[1..], ["4", "0", "16 B", "100", "+25.0%", "75% b.rs:2 (f)"]);
        let changes = [None, Some(0.0), Some(100.0)].map(|last| row(25.0, last).change());
        assert_eq!(changes, ["new", "was 0", "same"]);
        assert_eq!(row(0.0, Some(100.0)).cells()[5..], ["-100.0%", "-"]);
    }

    #[test]
    fn names_are_no_control_sequences_and_leave_no_folder() {
        assert!(lines(&[row(1.0, None)])[1].starts_with("x?[2J "));
        assert_eq!(["..", "", "a/b:c", "x y"].map(file_name), ["_", "_", "a_b_c", "x y"]);
    }
}
