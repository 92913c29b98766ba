//! What a replay tells: a line that proves it, and a report of numbers.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::ser::Formatter;
use tare_schedule::{FinalGraph, Header};

/// What every replay reports, and what it has `more`.
#[derive(Serialize)]
pub struct Report<M> {
    #[serde(flatten)]
    took: Took,
    reserved_bytes: u64,
    graph_digest: u64,
    events: u64,
    objects: u64,
    allocated_bytes: u64,
    peak_bytes: u64,
    peak_objects: u64,
    #[serde(flatten)]
    more: M,
}

/// How long something took: on the clock, and of a processor.
#[derive(Clone, Copy, Default, Serialize)]
pub struct Took {
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub elapsed: Duration,
    #[serde(rename = "processor_seconds", serialize_with = "seconds")]
    pub processor: Duration,
}

impl<M: Serialize> Report<M> {
    pub fn of(header: &Header, took: Took, reserved_bytes: u64, digest: u64, more: M) -> Self {
        Report {
            took,
            reserved_bytes,
            graph_digest: digest,
            events: header.events(),
            objects: header.objects,
            allocated_bytes: header.allocated_bytes,
            peak_bytes: header.peak_bytes,
            peak_objects: header.peak_objects,
            more,
        }
    }

    pub fn write(&self, path: &Path) -> Result<(), String> {
        json(self)
            .and_then(|text| fs::write(path, text))
            .map_err(|error| format!("{} cannot be written: {error}", path.display()))
    }
}

/// Prints what all replays of a schedule must have in common.
pub fn print_proof(graph: &FinalGraph, digest: u64) {
    println!(
        "graph {digest:012x}: {} objects, {} pointers",
        graph.objects.len(),
        graph.fields.len()
    );
}

pub fn json(value: &impl Serialize) -> io::Result<String> {
    let mut text = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(
        &mut text, Decimal,
    ))?;
    String::from_utf8(text).map_err(io::Error::other)
}

/// How a field of a report has a length of time.
pub fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// Numbers without an exponent.
struct Decimal;

impl Formatter for Decimal {
    fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        write!(writer, "{value}")
    }
}
