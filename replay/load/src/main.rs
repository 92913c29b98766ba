//! Puts a server under load at a given rate, whatever the server's pace.
//!
//! Requests have their moments before the first is sent. One whose moment comes while all
//! connections wait for answers is sent late, and its latency counts from its moment: that of a
//! server that stalls is not hidden by a client that stalls with it (coordinated omission).

// Requests and nanoseconds of a load are far below 2^53, and none is negative.
#![allow(clippy::cast_precision_loss, clippy::cast_sign_loss)]

mod arguments;
mod clients;
mod pace;

use std::process::ExitCode;

use arguments::Arguments;
use pace::{Latencies, Load};

/// The first line of what is printed.
const FORMAT: &str = "tare-load 1";
const PERCENTILES: [(&str, f64); 6] = [
    ("p50", 50.0),
    ("p90", 90.0),
    ("p99", 99.0),
    ("p999", 99.9),
    ("p9999", 99.99),
    ("max", 100.0),
];

fn main() -> ExitCode {
    let arguments = match arguments::read() {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            println!("{}", arguments::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("tare-load: {error}\n{}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    match pace::run(&arguments) {
        Ok(load) => {
            print(&arguments, &load);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("tare-load: {}: {error}", arguments.url);
            ExitCode::FAILURE
        }
    }
}

fn print(arguments: &Arguments, load: &Load) {
    println!("{FORMAT}");
    println!("asked_per_second {}", arguments.rate);
    println!("requests_per_second {:.3}", load.per_second());
    println!("requests {}", load.answered);
    println!("unsent {}", load.unsent);
    println!(
        "{}",
        format!("errors {} {}", load.errors, load.first_error).trim_end()
    );
    print_latencies("latency", &load.metered);
    print_latencies("service", &load.simple);
}

/// Percentiles that have at least one request beyond them.
fn print_latencies(name: &str, latencies: &Latencies) {
    for (title, percent) in PERCENTILES {
        if let Some(nanoseconds) = latencies.at(percent) {
            println!("{name}_{title}_seconds {:.9}", nanoseconds as f64 / 1e9);
        }
    }
}
