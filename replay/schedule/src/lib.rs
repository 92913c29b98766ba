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
//! `docs/replay.md` describes the format.

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    target_endian = "little"
)))]
compile_error!("a schedule is read as it lies on the disk: 64-bit, little-endian Linux only");

mod compile;
mod due;
mod event;
mod graph;
mod hash;
mod header;
mod mapping;
mod pending;
mod reader;
mod rows;
mod slots;
mod streams;
mod writer;

pub use compile::{compile, Asked, CompileError};
pub use event::{Event, Events, Follow};
pub use graph::{stamp, stamped_bytes, Digest, Field, FinalGraph, Object};
pub use header::{Death, Header};
pub use mapping::{own_memory, Mapping};
pub use reader::{OpenError, Schedule};
pub use streams::{Step, Stream, Streams, What};
pub use writer::Writer;

/// The most slots that a schedule can have, and so the most objects that can live at once.
pub const MOST_SLOTS: usize = (1 << 28) - 1;
/// The largest object, in bytes; larger than any address space.
pub const LARGEST_OBJECT: u64 = 1 << 56;
/// The most regions that can have objects at once.
pub const MOST_REGIONS: usize = (1 << 22) - 1;
/// The most threads.
pub const MOST_THREADS: u32 = 1 << 16;
