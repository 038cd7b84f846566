//! The command line and the shell.
//!
//! Results go to stdout, everything else to stderr, except `.print` and `.timer`. The exit status is 0 when all went
//! well, 1 after a failed statement, 2 for wrong usage and 130 after SIGINT; a closed stdout ends quietly with 0.

mod args;
mod dot;
mod format;
mod interactive;
mod interrupt;
mod live;
mod output;
mod progress;
mod runner;
mod splitter;
mod timer;
mod waiting;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use thalweg_planner::with_deep_stack;

use crate::Session;

use args::{Arguments, Input, Refusal};
use interrupt::{INTERRUPTED_STATUS, Interrupts};
use output::{to_stderr, to_stdout};
use runner::{Flow, Runner};

/// The exit status for wrong usage.
const USAGE_STATUS: u8 = 2;

/// Runs the program `thalweg` with its arguments, the program's name first.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::parse(arguments) {
        Ok(arguments) => arguments,
        Err(Refusal::Answer(text)) => {
            // Nobody is left to be told when this fails.
            let _ =
                to_stdout(|stdout| stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
            return ExitCode::SUCCESS;
        }
        Err(Refusal::Usage(text)) => {
            to_stderr(text.trim_end());
            return ExitCode::from(USAGE_STATUS);
        }
    };
    // Planning needs a deep stack: a thread that has one for good spares each statement a new one.
    with_deep_stack(|| run(&arguments)).unwrap_or_else(|error| {
        to_stderr(&format!("Error: {error}"));
        ExitCode::FAILURE
    })
}

fn run(arguments: &Arguments) -> ExitCode {
    let session = Session::new();
    session.on_job_failure(|text| to_stderr(&format!("Error: {text}")));
    let interrupts = match Interrupts::follow(session.clone()) {
        Ok(interrupts) => interrupts,
        Err(error) => {
            to_stderr(&format!("Error: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let mut runner = Runner::new(session.clone(), interrupts.clone());
    if arguments.read_rc {
        run_rc(&mut runner);
    }
    for (key, value) in &arguments.settings {
        if let Err(error) = session.set(key, value) {
            to_stderr(&format!("Error: {error}"));
            return ExitCode::from(USAGE_STATUS);
        }
    }
    if let Some(format) = arguments.format {
        runner.set_format(format);
    }
    run_inputs(&mut runner, &session, &arguments.inputs, &interrupts)
}

/// The start-up file: a failure in it is reported and does not keep the rest from running.
fn run_rc(runner: &mut Runner) {
    let Some(home) = std::env::var_os("HOME") else { return };
    let path = PathBuf::from(home).join(".thalwegrc");
    if path.is_file() {
        runner.run_file(&path.to_string_lossy());
        // There it ends the file only.
        runner.take_quit();
    }
}

fn run_inputs(
    runner: &mut Runner,
    session: &Session,
    inputs: &[Input],
    interrupts: &Interrupts,
) -> ExitCode {
    if runner.has_ended() {
        return status(runner);
    }
    if inputs.is_empty() && io::stdin().is_terminal() {
        interrupts.set_interactive();
        session.run_inserts_in_background(true);
        interactive::run(runner);
        session.stop_jobs();
        return ExitCode::SUCCESS;
    }
    if inputs.is_empty() {
        runner.run_standard_input();
    }
    for input in inputs {
        let flow = match input {
            Input::Text(text) => runner.run_text(text),
            Input::File(path) if path == "-" => runner.run_standard_input(),
            Input::File(path) => runner.run_file(path),
        };
        if flow == Flow::Stop {
            break;
        }
    }
    status(runner)
}

fn status(runner: &Runner) -> ExitCode {
    if runner.is_closed() {
        ExitCode::SUCCESS
    } else if runner.was_interrupted() {
        ExitCode::from(INTERRUPTED_STATUS)
    } else if runner.has_failed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
