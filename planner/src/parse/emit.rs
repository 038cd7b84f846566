//! `EMIT [STREAM | CHANGELOG] [AFTER WINDOW CLOSE | ON WINDOW CLOSE | ON UPDATE | PERIODIC i] [ALLOW LATENESS i]
//! [KEEP LAST n ROWS | KEEP LAST i]` behind a query: when results of groups leave that a watermark closes, and of which
//! rows. `KEEP LAST` may stand without EMIT.
//!
//! The parser does not know the clause: its tokens are taken out, and given back by where they stood.

use arrow::compute::kernels::cast_utils::parse_interval_month_day_nano;
use datafusion_sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Whitespace};

use super::position::span_of;
use crate::error::{PlannerError, Result};
use crate::statement::{Emit, EmitWhen, Keep};

/// The clauses of a text by where they begin.
#[derive(Debug, Default)]
pub(super) struct Emits(Vec<(Location, Result<Emit>)>);

impl Emits {
    /// Turns the clauses' tokens into white space and remembers them.
    pub(super) fn take_from(tokens: &mut [TokenWithSpan]) -> Self {
        let words: Vec<usize> = (0..tokens.len())
            .filter(|&at| !matches!(tokens[at].token, Token::Whitespace(_)))
            .collect();
        let mut found = Vec::new();
        let mut at = 0;
        while at < words.len() {
            let mut clause = Clause { tokens, words: &words, at };
            if !clause.begins() {
                at += 1;
                continue;
            }
            let start = tokens[words[at]].span.start;
            let emit = clause.read();
            let end = clause.at;
            found.push((start, emit));
            for &word in &words[at..end] {
                tokens[word].token = Token::Whitespace(Whitespace::Space);
            }
            at = end.max(at + 1);
        }
        Emits(found)
    }

    /// The clause of the statement between two places.
    pub(super) fn within(&self, start: Location, end: Location) -> Result<Option<Emit>> {
        let mut inside = self.0.iter().filter(|(at, _)| *at >= start && *at < end);
        match (inside.next(), inside.next()) {
            (None, _) => Ok(None),
            (Some((_, emit)), None) => emit.clone().map(Some),
            (Some(_), Some(_)) => {
                Err(PlannerError::not_supported("more than one EMIT in a statement"))
            }
        }
    }
}

/// A place in a text from which a clause is read.
struct Clause<'a> {
    tokens: &'a [TokenWithSpan],
    words: &'a [usize],
    at: usize,
}

/// Words that follow EMIT; it is a name where none of them does.
const FOLLOW: [&[&str]; 8] = [
    &["STREAM"],
    &["CHANGELOG"],
    &["AFTER", "WINDOW"],
    &["ON", "WINDOW"],
    &["ON", "UPDATE"],
    &["PERIODIC"],
    &["ALLOW", "LATENESS"],
    &["KEEP", "LAST"],
];

/// Words behind which EMIT is a name.
const BEFORE_NAMES: [&str; 15] = [
    "SELECT", "DISTINCT", "FROM", "JOIN", "AS", "INTO", "TABLE", "VIEW", "UPDATE", "BY", "WHERE",
    "ON", "AND", "OR", "NOT",
];

impl Clause<'_> {
    fn word(&self, ahead: usize) -> Option<&Token> {
        self.words.get(self.at + ahead).map(|&at| &self.tokens[at].token)
    }

    fn is(&self, ahead: usize, word: &str) -> bool {
        matches!(self.word(ahead), Some(Token::Word(w))
            if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
    }

    /// Whether a clause begins here: EMIT or KEEP, a word of its own, and before it the end of a query.
    fn begins(&self) -> bool {
        let before = self.at.checked_sub(1).map(|at| &self.tokens[self.words[at]].token);
        let names = match before {
            None | Some(Token::Comma | Token::LParen | Token::Period | Token::SemiColon) => true,
            Some(Token::Word(w)) if w.quote_style.is_none() => {
                BEFORE_NAMES.iter().any(|name| w.value.eq_ignore_ascii_case(name))
            }
            Some(_) => false,
        };
        let follows =
            |words: &&[&str]| words.iter().enumerate().all(|(at, word)| self.is(at + 1, word));
        let keeps = self.is(0, "KEEP") && self.is(1, "LAST") && self.is_length(2);
        !names && (keeps || (self.is(0, "EMIT") && FOLLOW.iter().any(follows)))
    }

    /// Whether a number or an interval stands at a place.
    fn is_length(&self, ahead: usize) -> bool {
        self.is(ahead, "INTERVAL")
            || matches!(self.word(ahead), Some(Token::Number(..) | Token::SingleQuotedString(_)))
    }

    fn take(&mut self, words: &[&str]) -> bool {
        let found = words.iter().enumerate().all(|(ahead, word)| self.is(ahead, word));
        if found {
            self.at += words.len();
        }
        found
    }

    fn read(&mut self) -> Result<Emit> {
        self.take(&["EMIT"]);
        if !self.take(&["STREAM"]) {
            self.take(&["CHANGELOG"]);
        }
        let changelog = self.is_behind("CHANGELOG");
        let when =
            if self.take(&["AFTER", "WINDOW", "CLOSE"]) || self.take(&["ON", "WINDOW", "CLOSE"]) {
                EmitWhen::WindowClose
            } else if self.take(&["ON", "UPDATE"]) {
                EmitWhen::Update
            } else if self.take(&["PERIODIC"]) {
                EmitWhen::Periodic { every_us: self.interval()? }
            } else if changelog {
                EmitWhen::Update
            } else {
                EmitWhen::WindowClose
            };
        let allow_lateness_us = match self.take(&["ALLOW", "LATENESS"]) {
            true => self.interval()?,
            false => 0,
        };
        let keep = self.keep()?;
        match self.word(0) {
            None | Some(Token::SemiColon | Token::RParen) => {
                Ok(Emit { when, allow_lateness_us, keep })
            }
            Some(other) => Err(self.unexpected(&format!("found {other}"))),
        }
    }

    /// `KEEP LAST n ROWS` or `KEEP LAST INTERVAL '…' SECOND`, if it is there.
    fn keep(&mut self) -> Result<Option<Keep>> {
        if !self.take(&["KEEP", "LAST"]) {
            return Ok(None);
        }
        let Some(Token::Number(number, false)) = self.word(0) else {
            let micros = self.interval()?;
            return Ok(Some(Keep::Interval { micros }));
        };
        let rows = number.parse::<u64>().ok().filter(|rows| *rows > 0);
        let Some(rows) = rows else {
            return Err(self.unexpected("KEEP LAST takes a number of rows that is not 0"));
        };
        self.at += 1;
        match self.take(&["ROWS"]) || self.take(&["ROW"]) {
            true => Ok(Some(Keep::Rows(rows))),
            false => Err(self.unexpected("expected ROWS behind the number")),
        }
    }

    /// Whether the word before the place is this one.
    fn is_behind(&self, word: &str) -> bool {
        let before = self.at.checked_sub(1).map(|at| &self.tokens[self.words[at]].token);
        matches!(before, Some(Token::Word(w)) if w.value.eq_ignore_ascii_case(word))
    }

    /// `INTERVAL '5' SECOND`, `INTERVAL '5 seconds'` or `'5 seconds'`, in microseconds.
    fn interval(&mut self) -> Result<i64> {
        self.take(&["INTERVAL"]);
        let Some(Token::SingleQuotedString(text)) = self.word(0) else {
            return Err(self.unexpected("expected INTERVAL '…' SECOND"));
        };
        let mut text = text.clone();
        self.at += 1;
        if let Some(Token::Word(unit)) = self.word(0)
            && UNITS.iter().any(|known| unit.value.eq_ignore_ascii_case(known))
        {
            text = format!("{text} {}", unit.value);
            self.at += 1;
        }
        let length = parse_interval_month_day_nano(&text)
            .map_err(|_| self.unexpected(&format!("\"{text}\" is no interval")))?;
        let micros = i64::from(length.days) * 86_400_000_000 + length.nanoseconds / 1_000;
        if length.months != 0 || micros < 0 {
            return Err(self.unexpected("EMIT needs a fixed length that is not negative"));
        }
        Ok(micros)
    }

    fn unexpected(&self, what: &str) -> PlannerError {
        let near = self.words.get(self.at).or(self.words.last()).copied();
        let span = near.and_then(|at| span_of(self.tokens[at].span));
        PlannerError::syntax(format!("a clause EMIT that cannot be read: {what}"))
            .with_hint(
                "EMIT [CHANGELOG] [AFTER WINDOW CLOSE | PERIODIC INTERVAL '1' SECOND | ON UPDATE] \
                 [ALLOW LATENESS INTERVAL '1' MINUTE] [KEEP LAST 100 ROWS | KEEP LAST INTERVAL '1' MINUTE]"
                    .to_string(),
            )
            .with_span(span)
    }
}

/// Units that may follow the quoted number of an interval.
const UNITS: [&str; 10] = [
    "MILLISECOND",
    "MILLISECONDS",
    "SECOND",
    "SECONDS",
    "MINUTE",
    "MINUTES",
    "HOUR",
    "HOURS",
    "DAY",
    "DAYS",
];

#[cfg(test)]
mod tests {
    use crate::parse::parse_script;
    use crate::statement::{Emit, EmitWhen, Keep};

    fn emit(sql: &str) -> Option<Emit> {
        let (statements, error) = parse_script(sql);
        assert!(error.is_none(), "{sql}: {error:?}");
        statements[0].emit
    }

    #[test]
    fn the_clause_stands_behind_a_query() {
        let of = |when, allow_lateness_us| Some(Emit { when, allow_lateness_us, keep: None });
        let close = EmitWhen::WindowClose;
        for (clause, wanted) in [
            ("EMIT AFTER WINDOW CLOSE", of(close, 0)),
            ("emit on window close", of(close, 0)),
            ("EMIT CHANGELOG", of(EmitWhen::Update, 0)),
            ("EMIT CHANGELOG AFTER WINDOW CLOSE", of(close, 0)),
            ("EMIT ON UPDATE ALLOW LATENESS INTERVAL '1' MINUTE", of(EmitWhen::Update, 60_000_000)),
            ("EMIT ALLOW LATENESS '2 seconds'", of(close, 2_000_000)),
            ("EMIT PERIODIC INTERVAL '10 ms'", of(EmitWhen::Periodic { every_us: 10_000 }, 0)),
        ] {
            assert_eq!(emit(&format!("SELECT k FROM t GROUP BY k {clause}")), wanted, "{clause}");
        }
    }

    #[test]
    fn rows_may_be_kept_with_or_without_the_word_before() {
        let of = |keep| {
            Some(Emit { when: EmitWhen::WindowClose, allow_lateness_us: 0, keep: Some(keep) })
        };
        for (clause, wanted) in [
            ("KEEP LAST 100 ROWS", Keep::Rows(100)),
            ("EMIT AFTER WINDOW CLOSE KEEP LAST 1 ROW", Keep::Rows(1)),
            ("keep last interval '2' seconds", Keep::Interval { micros: 2_000_000 }),
            ("EMIT KEEP LAST INTERVAL '1 minute'", Keep::Interval { micros: 60_000_000 }),
        ] {
            assert_eq!(
                emit(&format!("SELECT k FROM t GROUP BY k {clause}")),
                of(wanted),
                "{clause}"
            );
        }
        for clause in ["KEEP LAST 0 ROWS", "KEEP LAST 5 HOURS"] {
            let (statements, error) = parse_script(&format!("SELECT k FROM t GROUP BY k {clause}"));
            assert!(error.is_some() || statements.is_empty(), "{clause}");
        }
        assert_eq!(emit("SELECT keep last FROM t"), None);
    }

    #[test]
    fn a_name_is_no_clause() {
        for sql in [
            "SELECT emit FROM emit JOIN u ON emit.k = u.k",
            "SELECT * FROM u JOIN emit ON emit.k = u.k",
            "SELECT * FROM a AS emit JOIN b ON emit.k = b.k",
            "SELECT * FROM a emit JOIN b ON emit.k = b.k",
            "SELECT emit changelog, emit.after FROM t emit WHERE emit.on = 1",
        ] {
            assert_eq!(emit(sql), None, "{sql}");
        }
    }
}
