//! Builds the reaps of managers/reap into the replayer, and has it export the phases of a replay.

use std::path::Path;

fn main() {
    let managers = Path::new("../../managers");
    let reap = managers.join("reap");
    cc::Build::new()
        .cpp(true)
        .cpp_link_stdlib(None)
        .std("c++20")
        .opt_level(2)
        .flag("-fno-exceptions")
        .flag("-fno-rtti")
        .flag("-fno-threadsafe-statics")
        .include(reap.join("include"))
        .include(managers.join("preload"))
        .include(managers.join("layers/include"))
        .include("../../platform/include")
        .file(reap.join("reap.cpp"))
        .compile("tare-reap");
    for phase in ["tare_replay_events", "tare_replay_collection"] {
        println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol={phase}");
    }
    println!("cargo::rerun-if-changed={}", reap.display());
}
