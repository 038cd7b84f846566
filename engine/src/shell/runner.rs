//! Runs scripts: statements and dot commands, one after another, with their output, timings and errors.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Write};

use futures::executor::block_on;
use futures::{FutureExt, StreamExt};

use super::dot::{self, DotCommand};
use super::format::{Display, FormatName, ResultFormat, result_format, text_lines};
use super::interrupt::Interrupts;
use super::live;
use super::output::{Output, PrintError, to_stderr, to_stdout};
use super::progress::ProgressLine;
use super::splitter::{Command, Piece, Splitter};
use super::timer::Timer;
use super::waiting::Silence;
use crate::error::{Error, Result};
use crate::{Frame, Session};

/// Scripts that may read scripts, one inside the other.
const MAX_READ_DEPTH: usize = 16;

/// Bytes of formatted output that are gathered before they are written.
const WRITE_BYTES: usize = 64 << 10;

/// Whether the shell goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// With the next statement.
    Continue,
    /// No further: after `.quit`, a failure or Ctrl-C.
    Stop,
}

/// The shell's state between statements.
pub struct Runner {
    session: Session,
    interrupts: Interrupts,
    output: Output,
    format: FormatName,
    insert_table: String,
    timer: bool,
    bail: bool,
    /// Whether results that go on changing are shown as they are.
    live: bool,
    failed: bool,
    interrupted: bool,
    closed: bool,
    quit: bool,
    read_depth: usize,
    /// Whether a result has been printed where results go now.
    printed: bool,
    place: ScriptPlace,
}

/// Where the shell is.
#[derive(Debug, Clone, Default)]
struct ScriptPlace {
    /// The script that is run, for errors; `None` on the command line and in the shell.
    script: Option<String>,
    /// The line on which the piece that is run begins.
    line: u32,
}

/// A line of a script; the first may begin with a byte order mark, and may name the program that runs the script.
fn script_line(line: &str, first: bool) -> &str {
    match first {
        true => match line.strip_prefix('\u{feff}').unwrap_or(line) {
            program if program.starts_with("#!") => "\n",
            line => line,
        },
        false => line,
    }
}

impl Runner {
    /// A shell on a session; it prints tables, times nothing and stops at the first failure.
    pub fn new(session: Session, interrupts: Interrupts) -> Self {
        Runner {
            session,
            interrupts,
            output: Output::default(),
            format: FormatName::Table,
            insert_table: "table".to_string(),
            timer: false,
            bail: true,
            live: false,
            failed: false,
            interrupted: false,
            closed: false,
            quit: false,
            read_depth: 0,
            printed: false,
            place: ScriptPlace::default(),
        }
    }

    /// Changes how results are printed.
    pub fn set_format(&mut self, format: FormatName) {
        self.format = format;
        self.session.show_changes(format == FormatName::Changelog);
    }

    /// Whether scripts end at their first failed statement.
    pub fn set_bail(&mut self, bail: bool) {
        self.bail = bail;
    }

    /// Whether the results of continuous queries are tables that change where they stand, on a terminal.
    pub fn set_live(&mut self, live: bool) {
        self.live = live;
    }

    /// Whether a statement has failed.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Whether Ctrl-C ended a statement.
    pub fn was_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Whether standard output has been closed by its reader.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether nothing more can be run: after `.quit`, or when nobody reads the output.
    pub fn has_ended(&self) -> bool {
        self.quit || self.closed
    }

    /// Takes back that `.quit` has been run.
    pub fn take_quit(&mut self) {
        self.quit = false;
    }

    /// Runs a text.
    pub fn run_text(&mut self, text: &str) -> Flow {
        self.run_lines(text.as_bytes(), None)
    }

    /// Runs standard input as a script.
    pub fn run_standard_input(&mut self) -> Flow {
        self.run_lines(std::io::stdin().lock(), Some("standard input".to_string()))
    }

    /// Runs a script file.
    pub fn run_file(&mut self, path: &str) -> Flow {
        let name = format!("\"{path}\"");
        match File::open(path) {
            Ok(file) => self.run_lines(BufReader::new(file), Some(name)),
            Err(error) => self.fail(Error::io(format!("cannot read {name}"), &error)),
        }
    }

    /// Runs a script as it is read; its name is for errors.
    fn run_lines(&mut self, lines: impl BufRead, script: Option<String>) -> Flow {
        let outer = std::mem::replace(&mut self.place, ScriptPlace { script, line: 0 });
        let flow = self.run_pieces(lines);
        self.place = outer;
        flow
    }

    fn run_pieces(&mut self, mut lines: impl BufRead) -> Flow {
        let mut splitter = Splitter::default();
        let mut line = String::new();
        let mut first = true;
        loop {
            line.clear();
            match lines.read_line(&mut line) {
                Ok(0) => break,
                Ok(_) => splitter.push(script_line(&line, std::mem::take(&mut first))),
                Err(error) => {
                    let script = self.place.script.as_deref().unwrap_or("the command line");
                    let error = Error::io(format!("cannot read {script}"), &error);
                    self.place.line = 0;
                    return self.fail(error);
                }
            }
            while let Some(piece) = splitter.next_piece() {
                if self.run_piece(piece) == Flow::Stop {
                    return Flow::Stop;
                }
            }
        }
        while let Some(piece) = splitter.finish() {
            if self.run_piece(piece) == Flow::Stop {
                return Flow::Stop;
            }
        }
        Flow::Continue
    }

    /// Runs a statement or a dot command.
    pub fn run_piece(&mut self, piece: Piece) -> Flow {
        self.place.line = piece.line;
        let done = match piece.command {
            Command::Statement(sql) => self.run_statements(&sql),
            Command::Dot(line) => match DotCommand::parse(&line) {
                Ok(command) => self.run_command(command),
                Err(error) => Err(error.into()),
            },
        };
        match done {
            Ok(flow) => flow,
            Err(PrintError::Closed) => {
                self.closed = true;
                Flow::Stop
            }
            Err(PrintError::Failed(error)) => self.fail(error),
        }
    }

    /// Reports a failure and tells whether the script goes on.
    fn fail(&mut self, error: Error) -> Flow {
        self.failed = true;
        let error = error.at_line(self.place.line);
        // What the failed statement has printed comes first where both streams go to one place.
        if self.output.flush() == Err(PrintError::Closed) {
            self.closed = true;
        }
        to_stderr(&format!("Error: {error}{}", self.place_of(&error)));
        if self.bail || self.interrupted || self.closed { Flow::Stop } else { Flow::Continue }
    }

    /// The line of a script on which it has failed, on a line of its own.
    fn place_of(&self, error: &Error) -> String {
        let ScriptPlace { script, line } = &self.place;
        let line = error.report().and_then(|report| report.line()).unwrap_or(*line);
        match script {
            Some(script) if line > 0 && !error.is_cancelled() => {
                format!("\nAT: line {line} of {script}")
            }
            _ => String::new(),
        }
    }

    fn run_statements(&mut self, sql: &str) -> Result<Flow, PrintError> {
        let timer = Timer::start();
        self.interrupts.begin();
        let shows_tables = self.live && self.format == FormatName::Table;
        self.session.show_live(shows_tables && self.output.terminal_size().is_some());
        let mut script = self.session.execute(sql);
        let result = loop {
            match block_on(script.next_frame()) {
                Ok(Some(frame)) => {
                    if let Err(error) = self.print_frame(frame) {
                        break Err(error);
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error.into()),
            }
        };
        let pressed = self.interrupts.end();
        self.interrupted |= pressed && result == Err(PrintError::Failed(Error::Cancelled));
        result?;
        self.output.flush()?;
        if self.timer {
            let line = format!("{}\n", timer.stop());
            to_stdout(|stdout| stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()))?;
        }
        Ok(Flow::Continue)
    }

    fn print_frame(&mut self, frame: Frame) -> Result<(), PrintError> {
        for warning in frame.warnings() {
            to_stderr(&format!("Warning: {warning}"));
        }
        if !frame.has_result() {
            self.print_notice(&frame);
            return Ok(());
        }
        if let (FormatName::Table, Some(changing), Some(size)) =
            (self.format, frame.changing(), self.output.terminal_size())
        {
            let zone = self.session.settings_now().time_zone();
            let warnings = live::show(frame.stream()?, changing, size, zone)?;
            warnings.iter().for_each(|warning| to_stderr(&format!("Warning: {warning}")));
            self.printed = true;
            return Ok(());
        }
        let display = Display {
            width: self.output.terminal_width(),
            insert_table: self.insert_table.clone(),
            zone: self.session.settings_now().time_zone(),
            follows: self.printed,
        };
        let mut format = match frame.is_text() && self.format == FormatName::Table {
            true => text_lines(),
            false => result_format(self.format, &display),
        };
        let schema = frame.schema().clone();
        let mut stream = frame.stream()?;
        let mut progress = stream.progress_handle().and_then(ProgressLine::show);
        let mut bytes = Vec::new();
        format.begin(&schema, &mut bytes)?;
        let continuous = stream.is_continuous();
        let mut silence = Silence::of(&stream);
        loop {
            let next = match stream.next().now_or_never() {
                Some(next) => next,
                None => {
                    if continuous {
                        progress = None;
                        self.show(format.as_mut(), &mut bytes)?;
                    }
                    silence.wait(&mut stream)
                }
            };
            let Some(batch) = next else { break };
            silence.broken = true;
            format.batch(&batch?, &mut bytes)?;
            if bytes.len() >= WRITE_BYTES {
                // The progress line must not stand between rows.
                progress = None;
                self.output.write(&bytes)?;
                self.printed = true;
                bytes.clear();
            }
        }
        drop(progress);
        stream.left_out().iter().for_each(|warning| to_stderr(&format!("Warning: {warning}")));
        format.end(&mut bytes)?;
        self.printed |= !bytes.is_empty();
        self.output.write(&bytes)
    }

    /// Shows what there is of a result whose next rows may be long in coming.
    fn show(
        &mut self,
        format: &mut dyn ResultFormat,
        bytes: &mut Vec<u8>,
    ) -> Result<(), PrintError> {
        format.pause(bytes);
        if !bytes.is_empty() {
            self.output.write(bytes)?;
            self.output.flush()?;
            self.printed = true;
            bytes.clear();
        }
        Ok(())
    }

    /// How many rows a statement has written, for somebody who watches.
    fn print_notice(&self, frame: &Frame) {
        if let Some(rows) = frame.rows_written()
            && std::io::stderr().is_terminal()
        {
            to_stderr(&format!("{rows} row{}", if rows == 1 { "" } else { "s" }));
        }
    }

    fn run_command(&mut self, command: DotCommand) -> Result<Flow, PrintError> {
        match command {
            DotCommand::Timer(on) => self.timer = on,
            DotCommand::Bail(on) => self.bail = on,
            DotCommand::Mode(format, table) => {
                self.set_format(format);
                self.insert_table = table.unwrap_or_else(|| "table".to_string());
            }
            DotCommand::Print(text) => {
                // What has been written to a file is visible before whoever reads the text looks for it.
                self.output.flush()?;
                let line = format!("{text}\n");
                to_stdout(|stdout| {
                    stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush())
                })?;
            }
            DotCommand::Read(path) => return self.read(&path),
            DotCommand::Output(path) => {
                self.output.redirect(path.as_deref())?;
                self.printed = false;
            }
            DotCommand::Tables => {
                let names = self.session.table_names();
                self.print_lines(&names)?;
            }
            DotCommand::Schema(name) => {
                let statements = self.session.create_statements(name.as_deref())?;
                self.print_lines(&statements)?;
            }
            DotCommand::Help => self.print_line(dot::help().trim_end())?,
            DotCommand::Quit => {
                self.quit = true;
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }

    fn read(&mut self, path: &str) -> Result<Flow, PrintError> {
        if self.read_depth == MAX_READ_DEPTH {
            let message =
                format!("scripts read each other more than {MAX_READ_DEPTH} deep at \"{path}\"");
            return Err(Error::statement(message).into());
        }
        self.read_depth += 1;
        let flow = self.run_file(path);
        self.read_depth -= 1;
        Ok(flow)
    }

    fn print_line(&mut self, text: &str) -> Result<(), PrintError> {
        self.output.write(text.as_bytes())?;
        self.output.write(b"\n")?;
        self.output.flush()
    }

    fn print_lines(&mut self, lines: &[String]) -> Result<(), PrintError> {
        lines.iter().try_for_each(|line| self.print_line(line))
    }
}
