//! When each request is due, and what became of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::arguments::Arguments;
use crate::clients::{self, Client, Failure};

/// Of a latency, so that what is printed is within a thousandth of it.
const DIGITS: u8 = 3;

pub struct Latencies(Histogram<u64>);

impl Latencies {
    fn new() -> Latencies {
        Latencies(Histogram::new(DIGITS).expect("three digits are a valid precision"))
    }

    fn add(&mut self, latency: Duration) {
        self.0
            .record(latency.as_nanos() as u64)
            .expect("a histogram without bounds grows");
    }

    /// Nanoseconds; none where no request lies beyond the percentile.
    pub fn at(&self, percent: f64) -> Option<u64> {
        let beyond = self.0.len() as f64 * (100.0 - percent) / 100.0;
        let told = percent >= 100.0 || beyond >= 1.0;
        (told && !self.0.is_empty()).then(|| self.0.value_at_percentile(percent))
    }
}

pub struct Load {
    pub answered: u64,
    /// Due before the end, and not sent by then.
    pub unsent: u64,
    pub errors: u64,
    pub first_error: String,
    /// From when a request was due.
    pub metered: Latencies,
    /// From when it was sent.
    pub simple: Latencies,
    elapsed: Duration,
}

impl Load {
    fn new() -> Load {
        Load {
            answered: 0,
            unsent: 0,
            errors: 0,
            first_error: String::new(),
            metered: Latencies::new(),
            simple: Latencies::new(),
            elapsed: Duration::ZERO,
        }
    }

    pub fn per_second(&self) -> f64 {
        self.answered as f64 / self.elapsed.as_secs_f64()
    }

    fn join(&mut self, other: &Load) {
        self.answered += other.answered;
        self.unsent += other.unsent;
        self.errors += other.errors;
        if self.first_error.is_empty() {
            self.first_error.clone_from(&other.first_error);
        }
        let equal = "all have the same precision";
        self.metered.0.add(&other.metered.0).expect(equal);
        self.simple.0.add(&other.simple.0).expect(equal);
        self.elapsed = self.elapsed.max(other.elapsed);
    }
}

/// All requests of a load. `next` is the number of the first that nobody has taken.
struct Schedule<'a> {
    asked: &'a Arguments,
    requests: Vec<String>,
    text: String,
    total: u64,
    next: AtomicU64,
    start: Instant,
}

impl Schedule<'_> {
    fn due(&self, number: u64) -> Instant {
        self.start + Duration::from_secs_f64(number as f64 / self.asked.rate)
    }

    fn request(&self, number: u64) -> String {
        let template = &self.requests[(number % self.requests.len() as u64) as usize];
        template
            .replace("{random}", &fastrand::u64(..self.asked.keys).to_string())
            .replace("{bytes}", &self.text)
    }
}

/// Fails where not every connection can be made, and where no request was answered.
pub fn run(asked: &Arguments) -> Result<Load, Failure> {
    let clients = (0..asked.connections)
        .map(|_| clients::connect(asked))
        .collect::<Result<Vec<_>, _>>()?;
    let usual = vec![clients::usual_request(&asked.url).to_owned()];
    let schedule = Schedule {
        asked,
        requests: if asked.requests.is_empty() {
            usual
        } else {
            asked.requests.clone()
        },
        text: "x".repeat(asked.bytes),
        total: (asked.rate * asked.time.as_secs_f64()).ceil() as u64,
        next: AtomicU64::new(0),
        start: Instant::now(),
    };
    let mut whole = Load::new();
    thread::scope(|scope| {
        let workers: Vec<_> = clients
            .into_iter()
            .map(|client| scope.spawn(|| work(&schedule, client)))
            .collect();
        for worker in workers {
            whole.join(&worker.join().expect("a connection does not panic"));
        }
    });
    if whole.answered > 0 {
        return Ok(whole);
    }
    Err(match whole.first_error.as_str() {
        "" => "no request was answered".into(),
        error => error.into(),
    })
}

/// What one connection does: it takes the next request, waits until that is due, sends it, and waits
/// for the answer.
fn work(schedule: &Schedule, client: Box<dyn Client>) -> Load {
    let mut load = Load::new();
    let mut client = Some(client);
    let end = schedule.start + schedule.asked.time;
    let mut free = schedule.start;
    loop {
        let number = schedule.next.fetch_add(1, Ordering::Relaxed);
        if number >= schedule.total {
            return load;
        }
        let due = schedule.due(number);
        if free > end {
            // It was due, and has waited so long at least.
            load.unsent += 1;
            load.metered.add(free - due);
            continue;
        }
        let request = schedule.request(number);
        if let Some(wait) = due.checked_duration_since(Instant::now()) {
            thread::sleep(wait);
        }
        let sent = Instant::now();
        let asked = match client.as_mut() {
            Some(client) => client.ask(&request),
            None => clients::connect(schedule.asked).and_then(|made| {
                let made = client.insert(made);
                made.ask(&request)
            }),
        };
        // Where it was free in time, a thread that wakes late is no fault of the server.
        let counted_from = if free > due { due } else { sent };
        free = Instant::now();
        match asked {
            Ok(()) => {
                load.answered += 1;
                load.simple.add(free - sent);
                load.metered.add(free - counted_from);
                load.elapsed = free - schedule.start;
            }
            Err(error) => {
                client = None;
                load.errors += 1;
                if load.first_error.is_empty() {
                    load.first_error = error.to_string();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use super::{run, Arguments, Latencies};

    #[test]
    fn a_percentile_needs_a_request_beyond_it() {
        let mut latencies = Latencies::new();
        assert!(latencies.at(100.0).is_none());
        for number in 1..=200 {
            latencies.add(Duration::from_micros(number));
        }
        assert!(latencies.at(99.0).is_some());
        assert!(latencies.at(99.9).is_none());
        let longest = latencies.at(100.0).unwrap();
        assert!((200_000..200_300).contains(&longest), "{longest}");
    }

    /// A server that takes each request only after the one before has waited for all of the time:
    /// what is due meanwhile has waited, too, though it was never sent.
    #[test]
    fn what_waits_behind_a_stall_has_its_latency() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            use std::io::{Read, Write};
            let (mut client, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            assert!(client.read(&mut request).unwrap() > 0);
            std::thread::sleep(Duration::from_millis(600));
            client
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                .unwrap();
        });
        let asked = Arguments {
            url,
            rate: 100.0,
            time: Duration::from_millis(500),
            connections: 1,
            requests: Vec::new(),
            keys: 1,
            bytes: 0,
        };
        let load = run(&asked).unwrap();
        server.join().unwrap();
        assert_eq!((load.answered, load.unsent, load.errors), (1, 49, 0));
        // Due each 10 ms for half a second, and let go after 0.6 s: half of them waited 0.35 s.
        assert!(load.metered.at(50.0).unwrap() >= 345_000_000);
        assert_eq!(load.simple.0.len(), 1);
    }
}
