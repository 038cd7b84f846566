//! Runs the program with given arguments, input and home directory.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a run left.
pub struct Finished {
    /// All of standard output.
    pub stdout: String,
    /// All of standard error.
    pub stderr: String,
    /// The exit status.
    pub status: i32,
}

/// A call of the program. Its home directory is empty unless one is given.
pub struct Thalweg {
    command: Command,
    input: String,
    _home: tempfile::TempDir,
}

impl Thalweg {
    /// Without arguments and input.
    pub fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.env("HOME", home.path());
        Thalweg { command, input: String::new(), _home: home }
    }

    /// With these arguments behind those given before.
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(arguments);
        self
    }

    /// With a home directory.
    pub fn home(mut self, home: &Path) -> Self {
        self.command.env("HOME", home);
        self
    }

    /// With text on standard input.
    pub fn input(mut self, text: &str) -> Self {
        self.input = text.to_string();
        self
    }

    /// Runs it to its end.
    pub fn run(mut self) -> Finished {
        self.command.stdout(Stdio::piped());
        self.finish()
    }

    /// Runs it with a standard output that nobody reads.
    pub fn run_with_closed_stdout(mut self) -> Finished {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        self.command.stdout(writer);
        self.finish()
    }

    fn finish(mut self) -> Finished {
        let mut child = self.command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(self.command);
        let mut stdin = child.stdin.take().unwrap();
        let input = self.input.clone();
        let feeder = std::thread::spawn(move || {
            // The program may end before it has read everything.
            let _ = stdin.write_all(input.as_bytes());
        });
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        Finished {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            status: output.status.code().unwrap_or(-1),
        }
    }
}

/// A script file, deleted when dropped.
pub fn script(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}
