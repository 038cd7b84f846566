//! The error of this crate: what is wrong, what is known about it, how to help it, and where it stands in the SQL text.
//!
//! Every failure a user can cause becomes one [`PlannerError`]; errors of the libraries below are translated in
//! `bind::translate`, so that no foreign wording about plans and invariants reaches a user unasked.

use std::fmt;

/// The result of every fallible function of this crate.
pub type Result<T, E = PlannerError> = std::result::Result<T, E>;

/// A place in SQL text: lines and columns count from 1, columns count characters; `end` is exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// Line and column of the first character.
    pub start: (u32, u32),
    /// Line and column after the last character; equal to `start` where only a point is known.
    pub end: (u32, u32),
}

impl Span {
    /// A span of one point.
    pub fn point(line: u32, column: u32) -> Self {
        Span { start: (line, column), end: (line, column) }
    }
}

/// What kind of failure a [`PlannerError`] is; callers may choose an exit status or a protocol code by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The text is not SQL we can read.
    Syntax,
    /// A table, column, function, view or setting that does not exist, or is ambiguous.
    Name,
    /// Operands of types that do not go together.
    Type,
    /// Valid SQL that this engine does not do.
    NotSupported,
    /// Anything else a statement can do wrong.
    Invalid,
    /// A broken promise inside the planner; the user did nothing wrong.
    Internal,
}

/// An error of parsing or planning.
///
/// `Display` prints the message alone; [`PlannerError::render`] adds place, detail and hint.
#[derive(Debug, Clone, thiserror::Error)]
pub struct PlannerError {
    /// What kind of failure this is.
    pub kind: ErrorKind,
    /// One line: what is wrong. Starts with a lower-case letter and has no full stop.
    pub message: String,
    /// More facts, when there are any.
    pub detail: Option<String>,
    /// What the user can do about it.
    pub hint: Option<String>,
    /// Where in the text that was given to the parser.
    pub span: Option<Span>,
    /// The word the error is about, by which its place is found when binding could not tell.
    pub(crate) subject: Option<Box<str>>,
}

impl fmt::Display for PlannerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl PlannerError {
    /// An error of the given kind with a message only.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        PlannerError {
            kind,
            message: message.into(),
            detail: None,
            hint: None,
            span: None,
            subject: None,
        }
    }

    /// The text cannot be read.
    pub fn syntax(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Syntax, message)
    }

    /// A name does not resolve.
    pub fn name(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Name, message)
    }

    /// Valid SQL that this engine does not do: `what` reads as the subject of "is not supported".
    pub fn not_supported(what: impl fmt::Display) -> Self {
        Self::new(ErrorKind::NotSupported, format!("{what} is not supported"))
    }

    /// The statement is wrong in another way.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// A broken promise inside the planner.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// The same error with a detail; `None` leaves it as it is.
    pub fn with_detail(mut self, detail: impl Into<Option<String>>) -> Self {
        if let Some(detail) = detail.into() {
            self.detail = Some(detail);
        }
        self
    }

    /// The same error with a hint; `None` leaves it as it is.
    pub fn with_hint(mut self, hint: impl Into<Option<String>>) -> Self {
        if let Some(hint) = hint.into() {
            self.hint = Some(hint);
        }
        self
    }

    /// The same error with a place, unless it already has one.
    pub fn with_span(mut self, span: Option<Span>) -> Self {
        self.span = self.span.or(span);
        self
    }

    /// The same error about a word of the text.
    pub(crate) fn about(mut self, subject: impl Into<Box<str>>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// The error as several lines: message, `LINE n: …` with a caret under the place, `DETAIL: …`, `HINT: …`.
    ///
    /// `sql` is the text the span counts in: the whole text that was given to the parser.
    pub fn render(&self, sql: &str) -> String {
        self.render_from(sql, 1)
    }

    /// The same for a text that is part of a script, and begins on the given line of it.
    pub fn render_from(&self, sql: &str, first_line: u32) -> String {
        let mut out = self.message.clone();
        if let Some(excerpt) = self.span.and_then(|span| excerpt(sql, span, first_line)) {
            out.push('\n');
            out.push_str(&excerpt);
        }
        if let Some(detail) = &self.detail {
            out.push_str("\nDETAIL: ");
            out.push_str(detail);
        }
        if let Some(hint) = &self.hint {
            out.push_str("\nHINT: ");
            out.push_str(hint);
        }
        out
    }
}

/// The most characters of a line that an excerpt shows; longer lines are cut around the place.
const EXCERPT_CHARS: usize = 100;

fn excerpt(sql: &str, span: Span, first_line: u32) -> Option<String> {
    let (line_number, column) = (span.start.0 as usize, span.start.1 as usize);
    let line = sql.lines().nth(line_number.checked_sub(1)?)?;
    let chars: Vec<char> = line.chars().map(|c| if c == '\t' { ' ' } else { c }).collect();
    let at = column.saturating_sub(1).min(chars.len());
    let from = if chars.len() > EXCERPT_CHARS { at.saturating_sub(EXCERPT_CHARS / 2) } else { 0 };
    let to = (from + EXCERPT_CHARS).min(chars.len());
    let width = match span.end {
        (end_line, end_column) if end_line as usize == line_number => {
            (end_column as usize).saturating_sub(column)
        }
        _ => 1,
    };
    let (before, after) =
        (if from > 0 { "…" } else { "" }, if to < chars.len() { "…" } else { "" });
    let text: String = chars[from..to].iter().collect();
    let shown_number = u64::from(first_line) + line_number as u64 - 1;
    let prefix = format!("LINE {shown_number}: {before}");
    let blanks = " ".repeat(prefix.chars().count() + at - from);
    let carets = "^".repeat(width.clamp(1, (to - at).max(1)));
    Some(format!("{prefix}{}{after}\n{blanks}{carets}", text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn render_puts_the_caret_under_the_place() {
        let sql = "SELECT a,\n  foo(b)\nFROM t";
        let error = PlannerError::name("function foo does not exist")
            .with_span(Some(Span { start: (2, 3), end: (2, 6) }))
            .with_hint("did you mean floor?".to_string());
        assert_eq!(
            error.render(sql),
            "function foo does not exist\nLINE 2:   foo(b)\n          ^^^\nHINT: did you mean floor?"
        );
        assert!(error.render_from(sql, 40).contains("\nLINE 41:   foo(b)\n           ^^^\n"));
    }

    #[test]
    fn render_cuts_long_lines_around_the_place() {
        let sql = format!("SELECT {} FROM t", "x, ".repeat(200));
        let text = PlannerError::invalid("m").with_span(Some(Span::point(1, 300))).render(&sql);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].chars().count() < 120, "{text}");
        assert_eq!(lines[2].trim(), "^");
    }

    #[test]
    fn a_place_outside_the_text_is_left_out() {
        assert_eq!(
            PlannerError::invalid("m").with_span(Some(Span::point(9, 1))).render("SELECT 1"),
            "m"
        );
    }
}
