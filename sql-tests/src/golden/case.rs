//! One query: its text, what its first line says about it, and which files it reads.

use std::path::{Path, PathBuf};

/// What the first line of a query says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expectation {
    /// Nothing: the output is compared as it is.
    Output {
        /// The columns by which the rows of a changelog are told apart; none takes all of them.
        key: Vec<String>,
    },
    /// The query is beyond the engine that the files were made for, which says this much about it. A right answer is
    /// right all the same.
    MayFail {
        /// A part of the message with which it may fail.
        message: String,
    },
}

/// A query of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The name of its file up to the first dot.
    pub name: String,
    /// Its text as it stands in the file.
    pub text: String,
    /// What is expected of it.
    pub expectation: Expectation,
}

impl Case {
    /// The query of a file's name and text.
    pub fn new(file_name: &str, text: &str) -> Self {
        let name = file_name.split('.').next().unwrap_or(file_name).to_string();
        let first = text.lines().next().unwrap_or_default();
        let expectation = match (first.strip_prefix("--pk="), first.strip_prefix("--fail")) {
            (Some(columns), _) => Expectation::Output {
                key: columns.trim().split(',').map(|column| column.trim().to_string()).collect(),
            },
            (None, Some(rest)) => Expectation::MayFail {
                message: rest.strip_prefix('=').unwrap_or_default().trim().to_string(),
            },
            (None, None) => Expectation::Output { key: Vec::new() },
        };
        Case { name, text: text.to_string(), expectation }
    }

    /// The text with the places of its files.
    pub fn sql(&self, inputs: &Path, output: &Path) -> String {
        let text = self.text.replace("$input_dir", &inputs.to_string_lossy());
        text.replace("$output_path", &output.to_string_lossy())
    }

    /// Whether the query writes its result itself.
    pub fn writes(&self) -> bool {
        self.text.contains("$output_path")
    }

    /// The first file that the query reads and that is not there.
    pub fn missing_input(&self, inputs: &Path) -> Option<PathBuf> {
        let names = self.text.split("$input_dir/").skip(1);
        let names = names.map(|rest| rest.split(['\'', '"', '\n']).next().unwrap_or_default());
        names.map(|name| inputs.join(name)).find(|path| !path.exists())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_says_what_is_expected() {
        let expectation = |text: &str| Case::new("a.b.sql", text).expectation;
        assert_eq!(Case::new("a.b.sql", "").name, "a");
        let key = |columns: &[&str]| Expectation::Output {
            key: columns.iter().map(|c| c.to_string()).collect(),
        };
        assert_eq!(expectation("--pk=a, b \nSELECT 1"), key(&["a", "b"]));
        assert_eq!(expectation("SELECT 1\n--pk=a"), key(&[]));
        let may_fail = |message: &str| Expectation::MayFail { message: message.to_string() };
        assert_eq!(expectation("--fail=Error: so it is \n"), may_fail("Error: so it is"));
        assert_eq!(expectation("--fail\n"), may_fail(""));
    }

    #[test]
    fn files_are_put_in_and_missed() {
        let case = Case::new("a.sql", "path = '$input_dir/x.json', '$output_path'");
        let sql = case.sql(Path::new("/in"), Path::new("/out/a.json"));
        assert_eq!(sql, "path = '/in/x.json', '/out/a.json'");
        assert!(case.writes());
        let missing = case.missing_input(Path::new("/nowhere"));
        assert_eq!(missing, Some(PathBuf::from("/nowhere/x.json")));
    }
}
