//! Connections that send one request and wait for its answer.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use redis::ConnectionLike;

use crate::arguments::Arguments;

const PATIENCE: Duration = Duration::from_secs(30);
/// Of an answer, what is read at most.
const MOST_ANSWER: u64 = 256 << 20;
/// Of memcached.
const LONGEST_LINE: u64 = 4096;

pub type Failure = Box<dyn Error + Send + Sync>;

/// One connection. It stays open from request to request where the server lets it.
pub trait Client: Send {
    /// Send the request and read all of the answer; an answer that tells of an error is one.
    fn ask(&mut self, request: &str) -> Result<(), Failure>;
}

/// A connection as the URL says, and the request that is sent where none is named.
pub fn connect(arguments: &Arguments) -> Result<Box<dyn Client>, Failure> {
    let (scheme, rest) = arguments
        .url
        .split_once("://")
        .ok_or("no URL: it lacks ://")?;
    match scheme {
        "http" => Ok(Box::new(Http::new(&arguments.url)?)),
        "redis" => Ok(Box::new(Redis::new(&arguments.url)?)),
        "memcached" => Ok(Box::new(Memcached::new(rest)?)),
        _ => Err(format!("{scheme}: not http, redis or memcached").into()),
    }
}

pub fn usual_request(url: &str) -> &'static str {
    match url.split("://").next() {
        Some("redis") => "SET key:{random} {bytes}",
        Some("memcached") => "set key:{random} {bytes}",
        _ => "",
    }
}

struct Http {
    agent: ureq::Agent,
    url: String,
    /// `http://HOST:PORT`
    origin: String,
}

impl Http {
    fn new(url: &str) -> Result<Http, Failure> {
        let uri: ureq::http::Uri = url.parse()?;
        let authority = uri.authority().ok_or("the URL names no host")?;
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .max_redirects(0)
            .build()
            .new_agent();
        let origin = format!("http://{authority}");
        Ok(Http {
            agent,
            url: url.to_owned(),
            origin,
        })
    }
}

impl Client for Http {
    fn ask(&mut self, request: &str) -> Result<(), Failure> {
        let mut answer = if request.is_empty() {
            self.agent.get(&self.url).call()?
        } else {
            self.agent.get(format!("{}{request}", self.origin)).call()?
        };
        answer
            .body_mut()
            .with_config()
            .limit(MOST_ANSWER)
            .read_to_vec()?;
        Ok(())
    }
}

struct Redis {
    connection: redis::Connection,
}

impl Redis {
    fn new(url: &str) -> Result<Redis, Failure> {
        let connection = redis::Client::open(url)?.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        Ok(Redis { connection })
    }
}

impl Client for Redis {
    fn ask(&mut self, request: &str) -> Result<(), Failure> {
        let mut words = request.split_whitespace();
        let mut command = redis::cmd(words.next().ok_or("an empty command")?);
        for word in words {
            command.arg(word);
        }
        self.connection.req_command(&command)?.extract_error()?;
        Ok(())
    }
}

/// The text protocol: too little for a library, and those there are bring pools of connections.
struct Memcached {
    stream: BufReader<TcpStream>,
    line: String,
}

impl Memcached {
    fn new(address: &str) -> Result<Memcached, Failure> {
        let stream = TcpStream::connect(address.trim_end_matches('/'))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Memcached {
            stream: BufReader::new(stream),
            line: String::new(),
        })
    }

    fn answer(&mut self) -> Result<&str, Failure> {
        self.line.clear();
        if (&mut self.stream)
            .take(LONGEST_LINE)
            .read_line(&mut self.line)?
            == 0
        {
            return Err("the server closed the connection".into());
        }
        Ok(self.line.trim_end())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), Failure> {
        let request = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
        self.stream.get_mut().write_all(request.as_bytes())?;
        match self.answer()? {
            "STORED" => Ok(()),
            other => Err(other.into()),
        }
    }

    /// A key that the server does not have is an answer, too.
    fn get(&mut self, key: &str) -> Result<(), Failure> {
        self.stream
            .get_mut()
            .write_all(format!("get {key}\r\n").as_bytes())?;
        loop {
            let line = self.answer()?;
            if line == "END" {
                return Ok(());
            }
            let length = line
                .strip_prefix("VALUE ")
                .and_then(|rest| rest.split(' ').nth(2)?.parse::<u64>().ok())
                .filter(|length| *length < MOST_ANSWER)
                .ok_or_else(|| line.to_owned())?;
            let value = length + "\r\n".len() as u64;
            let read = io::copy(&mut (&mut self.stream).take(value), &mut io::sink())?;
            if read < value {
                return Err("the server closed the connection".into());
            }
        }
    }
}

impl Client for Memcached {
    fn ask(&mut self, request: &str) -> Result<(), Failure> {
        let mut words = request.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("get"), Some(key), None) => self.get(key),
            (Some("set"), Some(key), Some(value)) => self.set(key, value),
            _ => Err(format!("{request}: not `get KEY` or `set KEY VALUE`").into()),
        }
    }
}
