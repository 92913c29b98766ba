//! The command line: options, each with its value after it, and files between them.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::{Arg, Error, Parser};

pub struct Words {
    parser: Parser,
    /// The last that was given.
    option: String,
    files: Vec<PathBuf>,
}

impl Words {
    pub fn of(parser: Parser) -> Words {
        Words {
            parser,
            option: String::new(),
            files: Vec::new(),
        }
    }

    /// The first word.
    pub fn command(&mut self) -> Result<OsString, String> {
        match self.parser.next().map_err(in_words)? {
            None => Err("nothing to do".to_owned()),
            Some(Arg::Value(command)) => Ok(command),
            Some(Arg::Long(name)) => Ok(format!("--{name}").into()),
            Some(Arg::Short(name)) => Ok(format!("-{name}").into()),
        }
    }

    /// The next option, with its dashes; files before it are kept. None when there are no more.
    pub fn next_option(&mut self) -> Result<Option<String>, String> {
        self.option = loop {
            match self.parser.next().map_err(in_words)? {
                None => return Ok(None),
                Some(Arg::Value(file)) => self.files.push(file.into()),
                Some(Arg::Long(name)) => break format!("--{name}"),
                Some(Arg::Short(name)) => break format!("-{name}"),
            }
        };
        Ok(Some(self.option.clone()))
    }

    /// The value of the last option.
    pub fn value(&mut self) -> Result<OsString, String> {
        self.parser.value().map_err(in_words)
    }

    /// What the value of the last option stands for.
    pub fn choice<T: Copy>(&mut self, choices: &[(&str, T)]) -> Result<T, String> {
        let value = self.value()?;
        let found = choices.iter().find(|(word, _)| value == *word);
        found
            .map(|&(_, choice)| choice)
            .ok_or_else(|| format!("{} cannot be {}", self.option, value.to_string_lossy()))
    }

    /// What `read` makes of the value of the last option, which should be `wanted`.
    pub fn parsed<T>(
        &mut self,
        wanted: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, String> {
        let value = self.value()?;
        value.to_str().and_then(read).ok_or_else(|| {
            let value = value.to_string_lossy();
            format!("{} wants {wanted}, not {value}", self.option)
        })
    }

    pub fn number(&mut self) -> Result<u64, String> {
        self.parsed("a whole number", |text| text.parse().ok())
    }

    /// Whether all lines of an object are written at its birth, and not only the first.
    pub fn touch(&mut self) -> Result<bool, String> {
        self.choice(&[("birth", true), ("first-line", false)])
    }

    /// What is wrong with the last option, where it is none of this program.
    pub fn unknown(&self) -> String {
        no_option(&self.option)
    }

    /// The one file, called `what`, once there are no more options.
    pub fn file(&mut self, what: &str) -> Result<PathBuf, String> {
        match (self.files.pop(), self.files.is_empty()) {
            (Some(file), true) => Ok(file),
            (Some(_), false) => Err(format!("more than one {what}")),
            (None, _) => Err(format!("no {what} given")),
        }
    }
}

pub fn no_option(name: &str) -> String {
    format!("there is no option {name} here")
}

fn in_words(error: Error) -> String {
    match error {
        Error::MissingValue {
            option: Some(option),
        } => format!("{option} wants a value"),
        Error::UnexpectedValue { option, .. } => format!("{option} takes no value"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_files_come_in_any_order_and_what_is_wrong_is_told() {
        let given = ["a", "--size", "--5", "--touch=birth", "--size", "5 MB", "b"];
        let mut words = Words::of(Parser::from_args(given));
        assert_eq!(words.next_option(), Ok(Some("--size".to_owned())));
        assert_eq!(words.value(), Ok("--5".into()));
        assert_eq!(words.next_option(), Ok(Some("--touch".to_owned())));
        assert_eq!(words.touch(), Ok(true));
        assert_eq!(words.next_option(), Ok(Some("--size".to_owned())));
        let problem = words.number().expect_err("no number");
        assert_eq!(problem, "--size wants a whole number, not 5 MB");
        assert_eq!(words.next_option(), Ok(None));
        let problem = words.file("trace").expect_err("two");
        assert_eq!(problem, "more than one trace");
    }
}
