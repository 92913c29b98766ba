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
    #[must_use]
    pub fn of_process() -> Words {
        Words::of(Parser::from_env())
    }

    fn of(parser: Parser) -> Words {
        Words {
            parser,
            option: String::new(),
            files: Vec::new(),
        }
    }

    /// The first word.
    ///
    /// # Errors
    /// Where there is none.
    pub fn command(&mut self) -> Result<OsString, String> {
        match self.parser.next().map_err(in_words)? {
            None => Err("nothing to do".to_owned()),
            Some(Arg::Value(command)) => Ok(command),
            Some(Arg::Long(name)) => Ok(format!("--{name}").into()),
            Some(Arg::Short(name)) => Ok(format!("-{name}").into()),
        }
    }

    /// The next option, with its dashes; files before it are kept. None when there are no more.
    ///
    /// # Errors
    /// Where the option before it had a value that it does not take.
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
    ///
    /// # Errors
    /// Where it has none.
    pub fn value(&mut self) -> Result<OsString, String> {
        self.parser.value().map_err(in_words)
    }

    /// What the value of the last option stands for.
    ///
    /// # Errors
    /// Where it is none of `choices`.
    pub fn choice<T: Copy>(&mut self, choices: &[(&str, T)]) -> Result<T, String> {
        let value = self.value()?;
        let found = choices.iter().find(|(word, _)| value == *word);
        found
            .map(|&(_, choice)| choice)
            .ok_or_else(|| format!("{} cannot be {}", self.option, value.to_string_lossy()))
    }

    /// What `read` makes of the value of the last option, which should be `wanted`.
    ///
    /// # Errors
    /// Where it can make nothing of it.
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

    /// # Errors
    /// Where the value of the last option is no number.
    pub fn number(&mut self) -> Result<u64, String> {
        self.parsed("a whole number", |text| text.parse().ok())
    }

    /// Whether all lines of an object are written at its birth, and not only the first.
    ///
    /// # Errors
    /// Where the value of the last option does not say so.
    pub fn touch(&mut self) -> Result<bool, String> {
        self.choice(&[("birth", true), ("first-line", false)])
    }

    /// What is wrong with the last option, where it is none of this program.
    #[must_use]
    pub fn unknown(&self) -> String {
        no_option(&self.option)
    }

    /// The one file, called `what`, once there are no more options.
    ///
    /// # Errors
    /// Where there is none, or another.
    pub fn file(&mut self, what: &str) -> Result<PathBuf, String> {
        match (self.files.pop(), self.files.is_empty()) {
            (Some(file), true) => Ok(file),
            (Some(_), false) => Err(format!("more than one {what}")),
            (None, _) => Err(format!("no {what} given")),
        }
    }
}

#[must_use]
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

    fn words(given: &[&str]) -> Words {
        Words::of(Parser::from_args(given))
    }

    #[test]
    fn options_and_files_come_in_any_order() {
        let mut words = words(&["a", "--size", "--5", "--touch=birth"]);
        assert_eq!(words.next_option(), Ok(Some("--size".to_owned())));
        assert_eq!(words.value(), Ok("--5".into()));
        assert_eq!(words.next_option(), Ok(Some("--touch".to_owned())));
        assert_eq!(words.touch(), Ok(true));
        assert_eq!(words.next_option(), Ok(None));
        assert_eq!(words.file("file"), Ok(PathBuf::from("a")));
    }

    #[test]
    fn what_is_wrong_is_told() {
        let mut given = words(&["--size", "5 MB", "--size", "a", "b"]);
        given.next_option().expect("an option");
        let problem = given.number().expect_err("no number");
        assert_eq!(problem, "--size wants a whole number, not 5 MB");
        given.next_option().expect("an option");
        assert_eq!(given.touch(), Err("--size cannot be a".to_owned()));
        assert_eq!(given.next_option(), Ok(None));
        assert_eq!(given.file("trace"), Ok(PathBuf::from("b")));
        assert_eq!(given.file("trace"), Err("no trace given".to_owned()));
        let mut given = words(&["a", "b", "--size"]);
        given.next_option().expect("an option");
        assert_eq!(given.value(), Err("--size wants a value".to_owned()));
        assert_eq!(given.file("trace"), Err("more than one trace".to_owned()));
    }
}
