//! Running the queries of a suite, each for itself, and looking at what they wrote.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::json::LineDelimitedWriter;

use super::case::{Case, Expectation};
use super::compare::difference;
use super::folder::Suite;
use crate::engine::Engine;

/// How often a process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What became of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It wrote what it should, or failed as it may.
    Right,
    /// It did not: the first difference, or the error.
    Wrong(String),
    /// It was not run, for this reason.
    Skipped(String),
}

/// Something that runs a text of SQL.
pub trait Runs {
    /// Runs all statements of a text. A result that no statement writes goes to `output`.
    ///
    /// # Errors
    /// The message of the first error.
    fn run(&self, sql: &str, output: &Path) -> Result<(), String>;
}

/// A session of this process, with these settings.
#[derive(Debug, Clone)]
pub struct InProcess {
    /// Settings as pairs of key and value.
    pub settings: Vec<(String, String)>,
    /// How long a statement may take.
    pub timeout: Duration,
}

impl Runs for InProcess {
    fn run(&self, sql: &str, output: &Path) -> Result<(), String> {
        let answer = Engine::new(&self.settings, self.timeout)?.run(sql)?;
        match answer.schema.fields().is_empty() || output.exists() {
            true => Ok(()),
            false => write_rows(&answer.batches, output),
        }
    }
}

fn write_rows(batches: &[RecordBatch], output: &Path) -> Result<(), String> {
    let file = fs::File::create(output).map_err(|error| error.to_string())?;
    let mut writer = LineDelimitedWriter::new(file);
    for batch in batches {
        writer.write(batch).map_err(|error| error.to_string())?;
    }
    writer.finish().map_err(|error| error.to_string())
}

/// The shell as a program, with these settings.
#[derive(Debug, Clone)]
pub struct Shell {
    /// The program.
    pub program: PathBuf,
    /// Settings as pairs of key and value.
    pub settings: Vec<(String, String)>,
    /// How long a query may take.
    pub timeout: Duration,
}

impl Runs for Shell {
    fn run(&self, sql: &str, output: &Path) -> Result<(), String> {
        let mut command = Command::new(&self.program);
        command.args(["--no-rc", "--format", "jsonl"]);
        for (key, value) in &self.settings {
            command.args(["--set", &format!("{key}={value}")]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| format!("cannot run \"{}\": {error}", self.program.display()))?;
        let readers = (reader(child.stdout.take()), reader(child.stderr.take()));
        if let Some(mut stdin) = child.stdin.take() {
            // A shell that has ended before it read everything says why on its own.
            let _ = stdin.write_all(sql.as_bytes());
        }
        let status = wait(&mut child, self.timeout);
        let text = |reader: Reader| reader.join().unwrap_or_default();
        let (out, err) = (text(readers.0), text(readers.1));
        if !status? {
            return Err(err.trim().to_string());
        }
        match out.is_empty() || output.exists() {
            true => Ok(()),
            false => fs::write(output, out).map_err(|error| error.to_string()),
        }
    }
}

type Reader = std::thread::JoinHandle<String>;

/// Reads a stream to its end, so that whoever writes it never waits.
fn reader(stream: Option<impl Read + Send + 'static>) -> Reader {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Whether the process ended well; one that takes too long is ended.
fn wait(child: &mut Child, timeout: Duration) -> Result<bool, String> {
    let since = Instant::now();
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => return Ok(status.success()),
            None if since.elapsed() > timeout => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it ran longer than {} s", timeout.as_secs()));
            }
            None => std::thread::sleep(LOOK_EVERY),
        }
    }
}

/// Runs a query of a suite behind `prelude` and compares what it wrote; `scratch` is a folder for its output.
pub fn check(
    case: &Case,
    suite: &Suite,
    runs: &dyn Runs,
    prelude: &str,
    scratch: &Path,
) -> Outcome {
    if let Some(path) = case.missing_input(&suite.inputs) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        return Outcome::Skipped(format!("no input {name}"));
    }
    let output = scratch.join(format!("{}.json", case.name));
    let _ = fs::remove_file(&output);
    let sql = format!("{prelude}{}", case.sql(&suite.inputs, &output));
    let ran = runs.run(&sql, &output);
    let golden = fs::read_to_string(suite.golden.join(format!("{}.json", case.name))).ok();
    let found = ran.and_then(|()| {
        fs::read_to_string(&output).map_err(|error| format!("there is no output: {error}"))
    });
    match (&case.expectation, found, golden) {
        (Expectation::Output { key }, Ok(found), Some(golden)) => {
            outcome(difference(&found, &golden, key))
        }
        (Expectation::MayFail { .. }, Ok(found), Some(golden)) => {
            // Such outputs come from an older version, which wrote zones.
            outcome(difference(&without_zones(&found), &without_zones(&golden), &[]))
        }
        (Expectation::MayFail { .. }, Ok(_), None) => Outcome::Right,
        (Expectation::Output { .. }, Ok(_), None) => {
            Outcome::Skipped("no golden output".to_string())
        }
        (Expectation::MayFail { message }, Err(error), _) if error.contains(message) => {
            Outcome::Right
        }
        (_, Err(error), _) => Outcome::Wrong(error.replace('\n', " ")),
    }
}

fn outcome(difference: Option<String>) -> Outcome {
    difference.map_or(Outcome::Right, Outcome::Wrong)
}

fn without_zones(text: &str) -> String {
    text.replace("+00:00\"", "\"")
}
