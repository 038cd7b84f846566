//! The shell on a terminal: a line editor with history, statements over several lines, Ctrl-C that never ends it.

use std::borrow::Cow;
use std::env;
use std::fs;
use std::path::PathBuf;

use reedline::{
    FileBackedHistory, Prompt, PromptEditMode, PromptHistorySearch, PromptHistorySearchStatus,
    Reedline, Signal, ValidationResult, Validator,
};

use super::output::to_stderr;
use super::runner::{Flow, Runner};
use super::splitter::Splitter;

/// Entries that the history keeps.
const HISTORY_ENTRIES: usize = 10_000;

/// Reads and runs statements until Ctrl-D or `.quit`.
pub fn run(runner: &mut Runner) {
    let mut editor = editor();
    runner.set_bail(false);
    to_stderr(&format!(
        "Thalweg {}: statements end with a semicolon, .help lists commands.",
        env!("CARGO_PKG_VERSION")
    ));
    loop {
        match editor.read_line(&ShellPrompt) {
            Ok(Signal::Success(text)) => {
                if run_entry(runner, &text) == Flow::Stop {
                    return;
                }
            }
            Ok(Signal::CtrlD) => return,
            Ok(_) => {}
            Err(error) => {
                to_stderr(&format!("Error: cannot read from the terminal: {error}"));
                return;
            }
        }
    }
}

fn run_entry(runner: &mut Runner, text: &str) -> Flow {
    let mut splitter = Splitter::default();
    splitter.push(text);
    splitter.push("\n");
    while let Some(piece) = splitter.next_piece() {
        if runner.run_piece(piece) == Flow::Stop && runner.has_ended() {
            return Flow::Stop;
        }
    }
    Flow::Continue
}

fn editor() -> Reedline {
    let editor = Reedline::create().with_validator(Box::new(StatementValidator));
    let Some(path) = history_path() else { return editor };
    if let Some(folder) = path.parent()
        && fs::create_dir_all(folder).is_err()
    {
        return editor;
    }
    match FileBackedHistory::with_file(HISTORY_ENTRIES, path) {
        Ok(history) => editor.with_history(Box::new(history)),
        Err(_) => editor,
    }
}

/// The history's file below the user's folder for state.
fn history_path() -> Option<PathBuf> {
    let absolute =
        |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("thalweg").join("history"))
}

/// Enter ends an entry when every statement in it is complete.
struct StatementValidator;

impl Validator for StatementValidator {
    fn validate(&self, text: &str) -> ValidationResult {
        let mut splitter = Splitter::default();
        splitter.push(text);
        splitter.push("\n");
        while splitter.next_piece().is_some() {}
        if splitter.is_pending() {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Complete
        }
    }
}

struct ShellPrompt;

impl Prompt for ShellPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("thalweg")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("      -> ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let failing = match search.status {
            PromptHistorySearchStatus::Passing => "",
            PromptHistorySearchStatus::Failing => "nothing like ",
        };
        Cow::Owned(format!("({failing}{}) ", search.term))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(text: &str) -> bool {
        matches!(StatementValidator.validate(text), ValidationResult::Complete)
    }

    #[test]
    fn entries_end_with_their_last_statement() {
        assert!(complete("SELECT 1;"));
        assert!(complete("SELECT 1; -- done"));
        assert!(complete(".timer on"));
        assert!(complete("  "));
        assert!(!complete("SELECT 1"));
        assert!(!complete("SELECT ';"));
        assert!(!complete("SELECT 1; SELECT"));
    }
}
