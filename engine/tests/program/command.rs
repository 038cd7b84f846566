//! Runs the program with given arguments, input and home directory.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

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

    /// Reads so many bytes of standard output, closes it, and waits for the end.
    pub fn run_until_stdout_has(mut self, bytes: usize) -> Finished {
        self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap();
        let mut start = vec![0; bytes];
        child.stdout.take().unwrap().read_exact(&mut start).unwrap();
        finished(child.wait_with_output().unwrap())
    }

    /// Sends SIGINT when standard output has begun with a text, and reads on to the end.
    pub fn run_and_interrupt_after(self, text: &str) -> Finished {
        self.interrupt_after(text, Stdio::null())
    }

    /// The same with a standard input on which nothing comes.
    pub fn run_and_interrupt_reading(self, text: &str) -> Finished {
        let (reader, writer) = std::io::pipe().unwrap();
        let finished = self.interrupt_after(text, reader.into());
        drop(writer);
        finished
    }

    fn interrupt_after(mut self, text: &str, stdin: Stdio) -> Finished {
        self.command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut seen = vec![0; text.len()];
        stdout.read_exact(&mut seen).unwrap();
        assert_eq!(seen, text.as_bytes());
        // Most often the statement behind the text has begun by then.
        std::thread::sleep(Duration::from_millis(500));
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        stdout.read_to_end(&mut seen).unwrap();
        let output = child.wait_with_output().unwrap();
        finished(Output { stdout: seen, ..output })
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
        finished(output)
    }
}

fn finished(output: Output) -> Finished {
    Finished {
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        status: output.status.code().unwrap_or(-1),
    }
}

/// A script file, deleted when dropped.
pub fn script(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}
