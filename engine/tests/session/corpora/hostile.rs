//! Reads files in a child process, so that a hang, an abort or a burst of memory is seen and survived.
//!
//! The child is the test program itself: it is told its files through the environment and answers on standard output,
//! a line when it begins a file and one when it is through. A child that is silent for too long is ended, and another
//! goes on behind the file.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::executor::block_on;
use thalweg::{Error, Session};

/// The variable that names the list of files; the test that finds it set is the child.
const LIST: &str = "THALWEG_TEST_FILES";

/// A file may take so long, in the dev profile and on a busy machine.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// The child's memory limit.
pub const MEMORY_LIMIT_MB: u64 = 256;

/// How a file ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// It was read: its rows, and a hash of their values as text.
    Read { rows: usize, hash: u64 },
    /// It was refused for a feature that is not there.
    Unsupported(String),
    /// It was refused otherwise.
    Refused(String),
    /// It needed more memory than there was.
    Exhausted(String),
    /// An invariant broke, a panic was printed, the process died or fell silent.
    Broken(String),
}

/// One file's end, and by how much the resident size of the process grew meanwhile.
#[derive(Debug, Clone)]
pub struct Report {
    pub path: PathBuf,
    pub ended: Ended,
    pub growth_mb: u64,
}

/// The files below a folder with the format that each is to be read in.
pub fn files(
    folder: &Path,
    format_of: impl Fn(&str) -> Option<&'static str>,
) -> Vec<(PathBuf, &'static str)> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if let Some(format) = path.to_str().and_then(&format_of) {
                found.push((path, format));
            }
        }
    }
    found.sort();
    found
}

/// Reads the files in child processes. `child_test` is the name of the test that calls [`run_as_child`].
pub fn read_all(files: &[(PathBuf, &'static str)], child_test: &str) -> Vec<Report> {
    let list = tempfile::NamedTempFile::new().unwrap();
    let mut reports: Vec<Report> = Vec::new();
    while reports.len() < files.len() {
        let left = &files[reports.len()..];
        let text: String =
            left.iter().map(|(path, format)| format!("{format}\t{}\n", path.display())).collect();
        std::fs::write(list.path(), text).unwrap();
        reports.extend(read_some(left, list.path(), child_test));
    }
    reports
}

/// Runs one child as far as it comes: to the end of the list, or through the file that ended it.
fn read_some(files: &[(PathBuf, &'static str)], list: &Path, child_test: &str) -> Vec<Report> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", child_test, "--nocapture", "--test-threads", "1"])
        .env(LIST, list)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = follow(child.stdout.take().unwrap());
    let mut stderr = child.stderr.take().unwrap();
    let complaints = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stderr.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut reports = Vec::new();
    let last = loop {
        match lines.recv_timeout(SILENCE_MAX) {
            Ok(line) => reports.extend(report(files, reports.len(), &line)),
            Err(RecvTimeoutError::Timeout) => {
                end(&mut child);
                break "silent for too long";
            }
            Err(RecvTimeoutError::Disconnected) => break "the process died",
        }
    };
    let status = child.wait().unwrap();
    let complaints = complaints.join().unwrap();
    if reports.len() < files.len() {
        let tail = complaints.lines().last().unwrap_or_default();
        let ended = Ended::Broken(format!("{last}, {status}: {tail}"));
        reports.push(Report { path: files[reports.len()].0.clone(), ended, growth_mb: 0 });
    }
    if complaints.contains("panicked at") {
        // Which file it was is told by its error, or by the text itself.
        let path = reports.last().unwrap().path.clone();
        println!("up to {}: {complaints}", path.display());
        reports.last_mut().unwrap().ended = Ended::Broken(complaints);
    }
    reports
}

fn end(child: &mut Child) {
    // It may have ended by itself meanwhile.
    let _ = child.kill();
}

fn follow(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

fn report(files: &[(PathBuf, &'static str)], at: usize, line: &str) -> Option<Report> {
    let mut fields = line.strip_prefix("@end\t")?.splitn(4, '\t');
    let mut field = || fields.next().unwrap_or_default().to_string();
    let (kind, number, growth_mb, text) = (field(), field(), field(), field());
    let ended = match kind.as_str() {
        "read" => Ended::Read {
            rows: number.parse().unwrap(),
            hash: u64::from_str_radix(&text, 16).unwrap(),
        },
        "unsupported" => Ended::Unsupported(text),
        "refused" => Ended::Refused(text),
        "exhausted" => Ended::Exhausted(text),
        _ => Ended::Broken(text),
    };
    Some(Report { path: files[at].0.clone(), ended, growth_mb: growth_mb.parse().unwrap() })
}

/// Reads the files of the list, when this process is a child; does nothing otherwise.
pub fn run_as_child() {
    let Some(list) = std::env::var_os(LIST) else { return };
    // Each file has a session of its own, as each call of the program has.
    for line in std::fs::read_to_string(list).unwrap().lines() {
        let (format, path) = line.split_once('\t').unwrap();
        forget_peak();
        let before_mb = status_mb("VmRSS:");
        println!("@begin\t{path}");
        let (kind, number, text) = match read(path, format) {
            Ok(batches) => {
                let rows = batches.iter().map(RecordBatch::num_rows).sum();
                ("read", rows, format!("{:x}", hash(&batches)))
            }
            Err(error) => (kind_of(&error), 0, error.to_string().replace(['\n', '\t', '\r'], " ")),
        };
        println!(
            "@end\t{kind}\t{number}\t{}\t{text}",
            status_mb("VmHWM:").saturating_sub(before_mb)
        );
    }
}

fn kind_of(error: &Error) -> &'static str {
    let text = error.to_string();
    if text.contains("not supported") {
        "unsupported"
    } else if text.contains("out of memory") {
        "exhausted"
    } else if text.contains("internal error") || text.contains("panicked") {
        "broken"
    } else {
        "refused"
    }
}

fn read(path: &str, format: &str) -> Result<Vec<RecordBatch>, Error> {
    let session = Session::builder().threads(1).memory_limit(MEMORY_LIMIT_MB << 20).build()?;
    let path = path.replace('\'', "''");
    let create = format!(
        "CREATE TABLE t WITH (connector = 'filesystem', path = '{path}', format = '{format}')"
    );
    block_on(async {
        session.sql(&create).await?;
        session.sql("SELECT * FROM t").await?.collect().await
    })
}

/// FNV-1a over the values as text.
fn hash(batches: &[RecordBatch]) -> u64 {
    let options = FormatOptions::new().with_null("∅");
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut mix = |text: &str| {
        for byte in text.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    };
    for batch in batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|c| ArrayFormatter::try_new(c.as_ref(), &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            columns
                .iter()
                .for_each(|c| mix(&c.value(row).try_to_string().unwrap_or_else(|e| e.to_string())));
        }
    }
    hash
}

/// Lets the kernel begin its record of the largest resident size anew.
fn forget_peak() {
    // Where that is not allowed the record covers the files before too.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

fn status_mb(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|kb| kb.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) / 1024
}
