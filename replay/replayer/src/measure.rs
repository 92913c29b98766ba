//! What the kernel says of this process.

use std::fs;
use std::io;
use std::time::Duration;

/// Forgets the peak of resident memory, so that it counts from now on.
pub fn forget_peak() -> io::Result<()> {
    fs::write("/proc/self/clear_refs", "5")
}

/// Resident bytes now and at their peak.
pub fn resident_bytes() -> io::Result<(u64, u64)> {
    let status = fs::read_to_string("/proc/self/status")?;
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kibibytes << 10)
    };
    match (bytes("VmRSS:"), bytes("VmHWM:")) {
        (Some(now), Some(peak)) => Ok((now, peak)),
        _ => Err(io::Error::other(
            "/proc/self/status does not tell resident memory",
        )),
    }
}

/// Seconds that a processor spent on this process.
pub fn processor_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time is there to be written to.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    let time = Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec));
    time.as_secs_f64()
}
