//! Where results go: standard output or a file, written in large pieces and flushed after each statement.
//!
//! A closed standard output is no error: whoever read it has seen enough.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};

use crate::error::Error;

/// Why printing stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrintError {
    /// Nobody reads standard output any more.
    Closed,
    /// The statement failed, or its result could not be written.
    Failed(Error),
}

impl From<Error> for PrintError {
    fn from(error: Error) -> Self {
        PrintError::Failed(error)
    }
}

/// The output of results.
#[derive(Debug, Default)]
pub struct Output {
    file: Option<(String, BufWriter<File>)>,
}

impl Output {
    /// Sends what follows to a new file, or back to standard output.
    pub fn redirect(&mut self, path: Option<&str>) -> Result<(), PrintError> {
        self.flush()?;
        self.file = match path {
            Some(path) => {
                let file = File::create(path)
                    .map_err(|e| Error::io(format!("cannot write \"{path}\""), &e))?;
                Some((path.to_string(), BufWriter::new(file)))
            }
            None => None,
        };
        Ok(())
    }

    /// Columns of the terminal, if results go to one.
    pub fn terminal_width(&self) -> Option<usize> {
        if self.file.is_some() || !io::stdout().is_terminal() {
            return None;
        }
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
        Some(size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80))
    }

    /// Columns and lines of the terminal, if results go to one that has a size.
    pub fn terminal_size(&self) -> Option<(usize, usize)> {
        let width = self.terminal_width()?;
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        Some((width, usize::from(size.ws_row))).filter(|(_, lines)| *lines > 0)
    }

    /// Writes to where results go.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), PrintError> {
        match &mut self.file {
            Some((path, file)) => {
                let written = file.write_all(bytes);
                written.map_err(|e| Error::io(format!("cannot write \"{path}\""), &e).into())
            }
            None => to_stdout(|stdout| stdout.write_all(bytes)),
        }
    }

    /// Makes everything written visible.
    pub fn flush(&mut self) -> Result<(), PrintError> {
        match &mut self.file {
            Some((path, file)) => {
                let flushed = file.flush();
                flushed.map_err(|e| Error::io(format!("cannot write \"{path}\""), &e).into())
            }
            None => to_stdout(|stdout| stdout.flush()),
        }
    }
}

/// Writes to standard output, whatever results are redirected to.
pub fn to_stdout(
    write: impl FnOnce(&mut io::StdoutLock<'_>) -> io::Result<()>,
) -> Result<(), PrintError> {
    write(&mut io::stdout().lock()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => PrintError::Closed,
        _ => Error::io("cannot write to standard output", &error).into(),
    })
}

/// Writes a line to standard error; there is nowhere to report that this failed.
pub fn to_stderr(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
