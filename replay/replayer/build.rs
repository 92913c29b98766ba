//! Builds the reaps of managers/reap into the replayer.

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
        .file(reap.join("reap.cpp"))
        .compile("tare-reap");
    println!("cargo::rerun-if-changed={}", reap.display());
}
