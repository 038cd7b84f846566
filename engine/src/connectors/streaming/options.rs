//! The options that a user gives a connector: each is asked for once, by its key, and what nobody asked for is an
//! error that suggests the key that was meant.

use std::str::FromStr;

use thalweg_planner::suggest;

use crate::connectors::files::boolean;
use crate::error::{Error, Report, Result};

/// Options that are taken before the connector is asked, so that a misspelt one is told what was meant.
pub const OF_ALL: [&str; 7] = [
    "dead-letter.table",
    "scan.watermark.alignment.group",
    "scan.watermark.alignment.max-drift",
    "scan.watermark.alignment.update-interval",
    "scan.watermark.emit",
    "scan.watermark.idle-timeout",
    "scan.watermark.null-handling",
];

/// Options of one table, from which the connector takes what it knows. Keys do not depend on case.
pub struct ConnectorOptions<'a> {
    connector: &'a str,
    left: Vec<(String, String)>,
    known: Vec<String>,
}

impl<'a> ConnectorOptions<'a> {
    /// The options of a table of this connector.
    pub fn new(connector: &'a str, options: &[(String, String)]) -> Self {
        let left = options.iter().map(|(k, v)| (k.to_ascii_lowercase(), v.clone())).collect();
        ConnectorOptions { connector, left, known: OF_ALL.map(str::to_string).to_vec() }
    }

    /// The text of an option.
    pub fn text(&mut self, key: &str) -> Option<String> {
        let key = key.to_ascii_lowercase();
        // What is given twice says what it says last.
        let mut found = None;
        self.left.retain_mut(|(k, v)| {
            let same = *k == key;
            if same {
                found = Some(std::mem::take(v));
            }
            !same
        });
        self.known.push(key);
        found
    }

    /// The value of an option, which is a `what` ("a whole number").
    pub fn value<T: FromStr>(&mut self, key: &str, what: &str) -> Result<Option<T>> {
        let Some(text) = self.text(key) else { return Ok(None) };
        match text.trim().parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(wrong_value(key, &text, what)),
        }
    }

    /// A whole number that is at least `least`.
    pub fn number(&mut self, key: &str, least: u64) -> Result<Option<u64>> {
        let what = format!("a whole number from {least}");
        match self.value::<u64>(key, &what)? {
            Some(number) if number < least => Err(wrong_value(key, &number.to_string(), &what)),
            number => Ok(number),
        }
    }

    /// A truth value.
    pub fn boolean(&mut self, key: &str) -> Result<Option<bool>> {
        self.text(key).map(|text| boolean(key, &text).map_err(Error::from)).transpose()
    }

    /// The text of an option without which there is no table.
    pub fn required(&mut self, key: &str) -> Result<String> {
        self.text(key).ok_or_else(|| {
            let report = Report::new(format!(
                "the connector \"{}\" needs the option \"{key}\"",
                self.connector
            ));
            Error::catalog(report.with_hint(format!("Add WITH ('{key}' = '…').")))
        })
    }

    /// Fails if an option is left that nobody has asked for.
    pub fn finish(mut self) -> Result<()> {
        let Some((key, _)) = self.left.first() else { return Ok(()) };
        self.known.sort_unstable();
        let hint = suggest::did_you_mean(key, self.known.iter().map(String::as_str));
        let report =
            Report::new(format!("the connector \"{}\" has no option \"{key}\"", self.connector));
        let report = report.with_detail(format!("Its options are: {}.", self.known.join(", ")));
        Err(Error::catalog(report.with_hint(hint)))
    }
}

/// The value of an option is not what it must be.
pub fn wrong_value(key: &str, value: &str, what: &str) -> Error {
    Error::catalog(Report::new(format!("{key} must be {what}, not \"{value}\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> ConnectorOptions<'static> {
        let pairs: Vec<_> = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        ConnectorOptions::new("socket", &pairs)
    }

    #[test]
    fn options_are_taken_by_key_whatever_its_case() {
        let mut given = options(&[("Port", " 7 "), ("on", "yes")]);
        assert_eq!(given.number("port", 1).unwrap(), Some(7));
        assert_eq!(given.boolean("on").unwrap(), Some(true));
        assert_eq!(given.text("other"), None);
        given.finish().unwrap();
    }

    #[test]
    fn what_is_wrong_or_unknown_is_named() {
        let mut given = options(&[("port", "0"), ("hostnmae", "x")]);
        let error = given.number("port", 1).unwrap_err().to_string();
        assert!(error.contains("port must be a whole number from 1, not \"0\""), "{error}");
        let error = given.required("hostname").unwrap_err().to_string();
        assert!(error.contains("\"socket\" needs the option \"hostname\""), "{error}");
        let error = given.finish().unwrap_err().to_string();
        assert!(error.contains("no option \"hostnmae\""), "{error}");
        assert!(error.contains("did you mean \"hostname\"?"), "{error}");
    }
}
