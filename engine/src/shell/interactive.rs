//! The shell on a terminal: a line editor with history, statements over several lines, Ctrl-C that never ends it.

use std::borrow::Cow;
use std::env;
use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use reedline::{
    FileBackedHistory, Prompt, PromptEditMode, PromptHistorySearch, PromptHistorySearchStatus,
    Reedline, Signal, ValidationResult, Validator,
};

use super::output::to_stderr;
use super::runner::{Flow, Runner};
use super::splitter::{Command, Piece, Splitter};

/// Entries that the history keeps.
const HISTORY_ENTRIES: usize = 10_000;

/// Reads and runs statements until Ctrl-D or `.quit`.
pub fn run(runner: &mut Runner) {
    let mut editor = editor();
    runner.set_bail(false);
    runner.set_live(true);
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

/// What people type who look for help or the way out, and the commands that they mean.
const WORDS: [(&str, &str); 6] = [
    ("quit", "quit"),
    ("exit", "quit"),
    ("\\q", "quit"),
    ("help", "help"),
    ("\\?", "help"),
    ("?", "help"),
];

/// The dot command that an entry of one word means.
fn command_of_word(text: &str) -> Option<&'static str> {
    let word = text.trim().trim_end_matches(';').trim_end();
    let known = WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word));
    known.map(|(_, command)| *command)
}

/// Whether the last line of an entry that is not complete asks for the way out.
fn gives_up(text: &str) -> bool {
    let line = text.trim_end().lines().next_back().unwrap_or_default().trim();
    matches!(line.trim_end_matches(';'), ".quit" | ".exit" | "\\q")
}

fn run_entry(runner: &mut Runner, text: &str) -> Flow {
    let word = command_of_word(text).or_else(|| gives_up(text).then_some("quit"));
    if let Some(command) = word.filter(|_| command_of_word(text).is_some() || is_pending(text)) {
        return runner.run_piece(Piece { command: Command::Dot(command.to_string()), line: 1 });
    }
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
    if keep_private(&path).is_err() {
        return editor;
    }
    match FileBackedHistory::with_file(HISTORY_ENTRIES, path) {
        Ok(history) => editor.with_history(Box::new(history)),
        Err(_) => editor,
    }
}

/// Makes sure that the history is there, and that its owner alone may read it: statements may hold anything.
fn keep_private(path: &Path) -> io::Result<()> {
    const OWNER_ONLY: u32 = 0o600;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let file = OpenOptions::new().append(true).create(true).mode(OWNER_ONLY).open(path)?;
    match file.metadata()?.permissions().mode() & 0o077 {
        0 => Ok(()),
        _ => file.set_permissions(Permissions::from_mode(OWNER_ONLY)),
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

/// Whether the last statement of an entry is not complete.
fn is_pending(text: &str) -> bool {
    let mut splitter = Splitter::default();
    splitter.push(text);
    splitter.push("\n");
    while splitter.next_piece().is_some() {}
    splitter.is_pending()
}

/// Enter ends an entry when every statement in it is complete.
struct StatementValidator;

impl Validator for StatementValidator {
    fn validate(&self, text: &str) -> ValidationResult {
        let ends = command_of_word(text).is_some() || gives_up(text);
        if !ends && is_pending(text) {
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

    #[test]
    fn the_way_out_is_found() {
        for word in
            ["quit", "EXIT", "exit;", "\\q", "help", "?", "SELECT 1\n.exit", "SELECT '\n\\q"]
        {
            assert!(complete(word), "{word}");
        }
        assert_eq!(command_of_word(" Quit ; "), Some("quit"));
        assert_eq!(command_of_word("quit now"), None);
        assert!(!complete("SELECT exit"));
        assert!(gives_up("SELECT 1\n .quit \n") && !gives_up(".quit\nSELECT 1"));
    }

    #[test]
    fn the_history_is_its_owners() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state").join("history");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        keep_private(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        fs::write(&path, "SELECT 1").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        keep_private(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(fs::read_to_string(&path).unwrap(), "SELECT 1");
    }
}
