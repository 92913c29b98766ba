//! Schedules: heap traces as a list of fixed-size events which a replayer can follow at speed.
//!
//! A heap trace has a row per object. A [`Schedule`] has a word of 64 bits per event, in the order
//! of time, and calls an object by its *slot*: a small number that is used again once the object
//! is dead, so that a table of addresses has as many places as objects ever live at once.
//!
//! - [`compile`] makes a schedule of the rows of a trace, in memory bounded by the live objects.
//! - [`Schedule::open`] reads one and checks all of it, so that a replay need not check.
//! - [`Schedule::events`] gives the [`Event`]s.
//! - [`Streams`] are the same for threads that run side by side.
//! - [`FinalGraph`] is what must be there at the end, and [`Digest`] the number that proves it.
//!
//! `header.rs` and `event.rs` describe the format.

#![forbid(unsafe_code)]

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    target_endian = "little"
)))]
compile_error!("a schedule is read as it lies on the disk: 64-bit, little-endian Linux only");

mod compile;
mod counts;
mod due;
mod event;
mod events;
mod graph;
mod hash;
mod header;
mod pending;
mod reader;
mod regions;
mod row;
mod rows;
mod slots;
mod streams;
mod writer;

pub use compile::{compile, CompileError};
pub use event::{Event, Follow, LARGEST_OBJECT, MOST_REGIONS, MOST_SLOTS, MOST_THREADS};
pub use events::Events;
pub use graph::{stamp, stamped_bytes, Digest, Field, FinalGraph, Object};
pub use header::{Death, Header};
pub use reader::Schedule;
pub use row::Asked;
pub use streams::{Step, Stream, Streams, What};
pub use writer::Writer;
