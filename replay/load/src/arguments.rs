//! The command line.

use std::time::Duration;

use lexopt::prelude::*;

pub const USAGE: &str = "usage: tare-load URL --rate N [--for SECONDS] [--connections N]
                 [--request TEXT]… [--keys N] [--bytes N]

URL: http://HOST:PORT/PATH, redis://HOST:PORT or memcached://HOST:PORT
TEXT: of http a path; of redis a command; of memcached `get KEY` or `set KEY VALUE`. Requests take
turns. {random} becomes a number below --keys, {bytes} a text of --bytes characters.
Prints latencies from the moment when a request was due (latency_…) and from when it was sent
(service_…).";

const MOST_RATE: f64 = 1e6;
const MOST_SECONDS: f64 = 86_400.0;
const MOST_REQUESTS: f64 = 1e9;
const MOST_CONNECTIONS: usize = 4_096;
const MOST_BYTES: usize = 64 << 20;

#[derive(Debug)]
pub struct Arguments {
    pub url: String,
    /// Requests a second, of all connections together.
    pub rate: f64,
    pub time: Duration,
    pub connections: usize,
    pub requests: Vec<String>,
    pub keys: u64,
    pub bytes: usize,
}

/// What is asked, or none for the usage.
pub fn read() -> Result<Option<Arguments>, lexopt::Error> {
    parse(lexopt::Parser::from_env())
}

fn parse(mut words: lexopt::Parser) -> Result<Option<Arguments>, lexopt::Error> {
    let mut found = Arguments {
        url: String::new(),
        rate: 0.0,
        time: Duration::from_secs(5),
        connections: 8,
        requests: Vec::new(),
        keys: 100_000,
        bytes: 100,
    };
    while let Some(word) = words.next()? {
        match word {
            Long("rate") => found.rate = number(&mut words, "--rate", MOST_RATE)?,
            Long("for") => {
                let seconds = number(&mut words, "--for", MOST_SECONDS)?;
                found.time = Duration::from_secs_f64(seconds);
            }
            Long("connections") => found.connections = words.value()?.parse()?,
            Long("request") => found.requests.push(words.value()?.string()?),
            Long("keys") => found.keys = words.value()?.parse()?,
            Long("bytes") => found.bytes = words.value()?.parse()?,
            Short('h') | Long("help") => return Ok(None),
            Value(url) if found.url.is_empty() => found.url = url.string()?,
            other => return Err(other.unexpected()),
        }
    }
    if found.url.is_empty() {
        return Err("no URL".into());
    }
    if found.rate == 0.0 {
        return Err("--rate is missing".into());
    }
    if found.rate * found.time.as_secs_f64() > MOST_REQUESTS {
        return Err(format!("more than {MOST_REQUESTS:e} requests").into());
    }
    if !(1..=MOST_CONNECTIONS).contains(&found.connections) {
        return Err(format!("--connections: give a number from 1 to {MOST_CONNECTIONS}").into());
    }
    if found.keys == 0 || found.bytes > MOST_BYTES {
        return Err(format!("--keys from 1, --bytes to {MOST_BYTES}").into());
    }
    Ok(Some(found))
}

fn number(words: &mut lexopt::Parser, option: &str, most: f64) -> Result<f64, lexopt::Error> {
    let number: f64 = words.value()?.parse()?;
    if number > 0.0 && number <= most {
        Ok(number)
    } else {
        Err(format!("{option}: give a number above 0, to {most}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn asked(words: &[&str]) -> Result<super::Arguments, String> {
        parse(lexopt::Parser::from_args(words))
            .map(|found| found.expect("no usage is asked for"))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_asked_is_taken() {
        let words = [
            "http://h:1/",
            "--rate",
            "50",
            "--for",
            "0.5",
            "--request",
            "/a",
        ];
        let found = asked(&words).unwrap();
        assert_eq!((found.rate, found.time.as_millis()), (50.0, 500));
        assert_eq!(found.requests, ["/a"]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [
            &["--rate", "5"][..],
            &["http://h/"],
            &["http://h/", "--rate", "0"],
            &["http://h/", "--rate", "nan"],
            &["http://h/", "--rate", "1e9"],
            &["http://h/", "--rate", "1e6", "--for", "86400"],
            &["http://h/", "--rate", "5", "--connections", "0"],
            &["http://h/", "--rate", "5", "--keys", "0"],
            &["http://h/", "http://h/", "--rate", "5"],
        ] {
            assert!(asked(words).is_err(), "{words:?}");
        }
    }
}
