//! Cuts a script into statements and dot commands while it streams in.
//!
//! A statement ends at a `;` outside quotes, comments and dollar quotes; a dot command is a line that begins with `.`
//! where a statement could begin. Text is scanned once, however it is cut into pieces. The splitter knows no SQL
//! beyond that, but that a statement set goes on to its END: what it hands out may still be wrong.

use std::mem;

/// A piece of a script, and the line on which it begins; lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// What is to be run.
    pub command: Command,
    /// The line of its first character.
    pub line: u32,
}

/// What a script tells to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// One statement, without comments in front and the `;` that ends it; never blank, and no mere comment.
    Statement(String),
    /// A dot command: its line without the dot.
    Dot(String),
}

/// Inside of what the scan stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Plain text.
    Plain,
    /// A quoted string or name; `escapes` tells whether a backslash takes the next character.
    Quoted { quote: u8, escapes: bool },
    /// A comment up to the line's end.
    LineComment,
    /// A comment between `/*` and `*/`, nested so many times.
    BlockComment { depth: usize },
    /// A text between two equal tags such as `$$` or `$body$`.
    DollarQuoted { tag: String },
}

/// The scan of one script.
#[derive(Debug)]
pub struct Splitter {
    text: String,
    /// Bytes of `text` that have been scanned.
    scanned: usize,
    state: State,
    /// Whether something other than blanks and comments was seen since the last statement.
    begun: bool,
    /// Where in `text` it was seen.
    start: usize,
    /// Lines that end before `text`.
    lines: u32,
}

impl Default for Splitter {
    fn default() -> Self {
        Splitter {
            text: String::new(),
            scanned: 0,
            state: State::Plain,
            begun: false,
            start: 0,
            lines: 0,
        }
    }
}

impl Splitter {
    /// Adds text: whole lines, or the last of the script.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// The next piece that is complete, if there is one.
    pub fn next_piece(&mut self) -> Option<Piece> {
        self.scan(false)
    }

    /// The last piece, when no more text will come.
    pub fn finish(&mut self) -> Option<Piece> {
        let piece = self.scan(true);
        if piece.is_some() {
            return piece;
        }
        let rest = mem::take(&mut self.text);
        // A comment without its end is no statement; whoever reads it says so.
        let begun = self.is_pending();
        let statement = begun.then(|| self.statement(&rest));
        *self = Splitter::default();
        statement
    }

    /// Whether a statement, string or comment has been begun and not ended.
    pub fn is_pending(&self) -> bool {
        self.begun || matches!(self.state, State::BlockComment { .. })
    }

    fn scan(&mut self, last: bool) -> Option<Piece> {
        while self.scanned < self.text.len() {
            if self.state != State::Plain {
                if !self.scan_inside(last) {
                    return None;
                }
                continue;
            }
            let bytes = self.text.as_bytes();
            let (byte, next) = (bytes[self.scanned], bytes.get(self.scanned + 1).copied());
            match (byte, next) {
                (b';', _) if self.is_inside_statement_set() => self.scanned += 1,
                (b';', _) => {
                    if let Some(statement) = self.cut_statement() {
                        return Some(statement);
                    }
                }
                (b'.', Some(c)) if !self.begun && c.is_ascii_alphabetic() => {
                    return self.cut_dot_command(last);
                }
                (b'.', None) if !self.begun && !last => return None,
                (b'-' | b'/', None) if !last => return None,
                (b'-', Some(b'-')) => self.enter(State::LineComment, 2),
                (b'/', Some(b'*')) => self.enter(State::BlockComment { depth: 1 }, 2),
                (b'$', _) => {
                    self.begin();
                    self.enter_dollar_quote();
                }
                (b'\'' | b'"' | b'`', _) => {
                    self.begin();
                    let escapes = byte == b'\'' && self.after_escape_prefix();
                    self.enter(State::Quoted { quote: byte, escapes }, 1);
                }
                _ => {
                    if !byte.is_ascii_whitespace() {
                        self.begin();
                    }
                    self.scanned += 1;
                }
            }
        }
        None
    }

    /// Something that is no comment stands at the scan's place.
    fn begin(&mut self) {
        if !self.begun {
            (self.begun, self.start) = (true, self.scanned);
        }
    }

    fn enter(&mut self, state: State, bytes: usize) {
        self.state = state;
        self.scanned += bytes;
    }

    /// Scans to the end of what the state is inside of; false when more text is needed.
    fn scan_inside(&mut self, last: bool) -> bool {
        match mem::replace(&mut self.state, State::Plain) {
            State::Plain => {}
            State::LineComment => match self.text[self.scanned..].find('\n') {
                Some(at) => self.scanned += at + 1,
                None => self.enter(State::LineComment, self.text.len() - self.scanned),
            },
            State::BlockComment { depth } => return self.scan_block_comment(depth, last),
            State::Quoted { quote, escapes } => return self.scan_quoted(quote, escapes, last),
            State::DollarQuoted { tag } => match self.text[self.scanned..].find(&tag) {
                Some(at) => self.scanned += at + tag.len(),
                None => {
                    // The tag may be cut in two by the end of what has come so far.
                    let mut keep = self.text.len().saturating_sub(tag.len() - 1).max(self.scanned);
                    while !self.text.is_char_boundary(keep) {
                        keep -= 1;
                    }
                    self.scanned = keep.max(self.scanned);
                    self.state = State::DollarQuoted { tag };
                    return false;
                }
            },
        }
        true
    }

    fn scan_block_comment(&mut self, mut depth: usize, last: bool) -> bool {
        let bytes = self.text.as_bytes();
        let mut at = self.scanned;
        while depth > 0 && at < bytes.len() {
            match (bytes[at], bytes.get(at + 1)) {
                (b'*' | b'/', None) if !last => break,
                (b'*', Some(b'/')) => (depth, at) = (depth - 1, at + 2),
                (b'/', Some(b'*')) => (depth, at) = (depth + 1, at + 2),
                _ => at += 1,
            }
        }
        self.scanned = at;
        if depth > 0 {
            self.state = State::BlockComment { depth };
        }
        depth == 0
    }

    /// A doubled quote ends the string and begins it again, which comes to the same.
    fn scan_quoted(&mut self, quote: u8, escapes: bool, last: bool) -> bool {
        let bytes = self.text.as_bytes();
        let mut at = self.scanned;
        while at < bytes.len() {
            if bytes[at] == b'\\' && escapes {
                if at + 1 == bytes.len() && !last {
                    break;
                }
                at = (at + 2).min(bytes.len());
            } else if bytes[at] == quote {
                // In a string with escapes a doubled quote must not lose the escapes.
                if escapes && bytes.get(at + 1) == Some(&quote) {
                    at += 2;
                    continue;
                }
                if escapes && at + 1 == bytes.len() && !last {
                    break;
                }
                self.scanned = at + 1;
                return true;
            } else {
                at += 1;
            }
        }
        self.scanned = at;
        self.state = State::Quoted { quote, escapes };
        false
    }

    /// Whether the quote at the scan's place follows an `E` that is a word of its own.
    fn after_escape_prefix(&self) -> bool {
        match self.text.as_bytes()[..self.scanned] {
            [b'e' | b'E'] => true,
            [.., before, b'e' | b'E'] => !is_name_byte(before),
            _ => false,
        }
    }

    /// At a `$`: enters `$tag$` if it is one.
    fn enter_dollar_quote(&mut self) {
        let bytes = self.text.as_bytes();
        let in_name = self.scanned > 0 && is_name_byte(bytes[self.scanned - 1]);
        let rest = &bytes[self.scanned + 1..];
        let length = rest.iter().take_while(|b| is_name_byte(**b) && **b != b'$').count();
        let is_tag =
            rest.get(length) == Some(&b'$') && !rest.first().is_some_and(u8::is_ascii_digit);
        if in_name || !is_tag {
            self.scanned += 1;
            return;
        }
        let tag = self.text[self.scanned..self.scanned + length + 2].to_string();
        self.enter(State::DollarQuoted { tag }, length + 2);
    }

    /// Whether the text up to the scan's place begins a set of statements and does not end it.
    fn is_inside_statement_set(&self) -> bool {
        if !self.begun {
            return false;
        }
        let text = &self.text[self.start..self.scanned];
        let mut words = text.split_ascii_whitespace();
        let begins = ["EXECUTE", "STATEMENT", "SET"]
            .iter()
            .all(|wanted| words.next().is_some_and(|word| word.eq_ignore_ascii_case(wanted)));
        begins && !ends_statement_set(text)
    }

    /// At a `;`: the text before it, unless it says nothing.
    fn cut_statement(&mut self) -> Option<Piece> {
        let rest = self.text.split_off(self.scanned + 1);
        let mut statement = mem::replace(&mut self.text, rest);
        statement.pop();
        self.scanned = 0;
        let begun = mem::take(&mut self.begun);
        let piece = begun.then(|| self.statement(&statement));
        self.lines += line_ends(&statement);
        piece
    }

    /// The statement in a text that stands where the splitter's text began; comments in front are left out.
    fn statement(&mut self, text: &str) -> Piece {
        let (before, statement) = text.split_at(mem::take(&mut self.start));
        let command = Command::Statement(statement.trim().to_string());
        Piece { command, line: 1 + self.lines + line_ends(before) }
    }

    /// At a dot where a statement could begin: the rest of its line.
    fn cut_dot_command(&mut self, last: bool) -> Option<Piece> {
        let end = match self.text[self.scanned..].find('\n') {
            Some(at) => self.scanned + at + 1,
            None if last => self.text.len(),
            None => return None,
        };
        let command = Command::Dot(self.text[self.scanned + 1..end].trim().to_string());
        let line = 1 + self.lines + line_ends(&self.text[..self.scanned]);
        self.lines += line_ends(&self.text[..end]);
        self.text.drain(..end);
        self.scanned = 0;
        Some(Piece { command, line })
    }
}

/// Whether the text ends with an END that stands behind a `;`, as that of a CASE does not.
fn ends_statement_set(text: &str) -> bool {
    let text = text.trim_end();
    let Some(at) = text.len().checked_sub("END".len()).filter(|&at| text.is_char_boundary(at))
    else {
        return false;
    };
    let (before, end) = text.split_at(at);
    end.eq_ignore_ascii_case("END") && before.trim_end().ends_with(';')
}

fn line_ends(text: &str) -> u32 {
    text.bytes().filter(|byte| *byte == b'\n').count() as u32
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces of a script, whole and pushed line by line and byte by byte: they must agree.
    fn split(script: &str) -> Vec<Piece> {
        let run = |parts: Vec<&str>| {
            let mut splitter = Splitter::default();
            let mut pieces = Vec::new();
            for part in parts {
                splitter.push(part);
                while let Some(piece) = splitter.next_piece() {
                    pieces.push(piece);
                }
            }
            while let Some(piece) = splitter.finish() {
                pieces.push(piece);
            }
            pieces
        };
        let whole = run(vec![script]);
        assert_eq!(whole, run(script.split_inclusive('\n').collect()), "line by line");
        whole
    }

    fn statements(script: &str) -> Vec<String> {
        let pieces = split(script).into_iter();
        pieces
            .map(|piece| match piece.command {
                Command::Statement(sql) => sql,
                Command::Dot(command) => format!("DOT {command}"),
            })
            .collect()
    }

    #[test]
    fn statements_end_at_semicolons() {
        assert_eq!(
            statements("SELECT 1; SELECT 2 ;\n\nSELECT 3"),
            ["SELECT 1", "SELECT 2", "SELECT 3"]
        );
        assert_eq!(statements(" ;; ; "), [""; 0]);
        assert_eq!(statements(""), [""; 0]);
    }

    #[test]
    fn a_statement_set_goes_on_to_its_end() {
        let set = "execute statement set begin\n insert into t select case when a then 1 end;\n \
                   insert into u select 1;end";
        assert_eq!(statements(&format!("{set}; SELECT 1")), [set, "SELECT 1"]);
        assert_eq!(statements("EXECUTE STATEMENT; SELECT 1"), ["EXECUTE STATEMENT", "SELECT 1"]);
    }

    #[test]
    fn quotes_hide_semicolons() {
        assert_eq!(
            statements("SELECT ';', 'it''s;', \";\"\"\" , `;`; B"),
            ["SELECT ';', 'it''s;', \";\"\"\" , `;`", "B"]
        );
        assert_eq!(statements("SELECT 'a\n;\nb'; B"), ["SELECT 'a\n;\nb'", "B"]);
        assert_eq!(statements("SELECT '\\'; B"), ["SELECT '\\'", "B"]);
    }

    #[test]
    fn escape_strings_know_backslashes() {
        assert_eq!(statements(r"SELECT E'\';', e'a''\';'; B"), [r"SELECT E'\';', e'a''\';'", "B"]);
        assert_eq!(statements(r"SELECT nameE'\'; B"), [r"SELECT nameE'\'", "B"]);
    }

    #[test]
    fn comments_hide_semicolons_and_are_no_statement() {
        assert_eq!(statements("SELECT 1 -- a; b\n, 2; -- end;\n"), ["SELECT 1 -- a; b\n, 2"]);
        assert_eq!(statements("/* a; /* b; */ c; */ SELECT 1; /* ; */"), ["SELECT 1"]);
        assert_eq!(statements("/* a\n;\n*/\n-- x\n;SELECT 1 - -1 / 2"), ["SELECT 1 - -1 / 2"]);
    }

    #[test]
    fn dollar_quotes_hide_everything() {
        assert_eq!(statements("SELECT $$;'$$; B"), ["SELECT $$;'$$", "B"]);
        assert_eq!(
            statements("SELECT $a$ ; $b$ $$\n; é $a$; B"),
            ["SELECT $a$ ; $b$ $$\n; é $a$", "B"]
        );
        assert_eq!(statements("SELECT $1, $2; B"), ["SELECT $1, $2", "B"]);
        assert_eq!(statements("SELECT a$b$c; B"), ["SELECT a$b$c", "B"]);
    }

    #[test]
    fn dot_commands_are_lines_where_a_statement_could_begin() {
        assert_eq!(
            statements(".timer on\nSELECT\n.5;\n  .print a; b\nB"),
            ["DOT timer on", "SELECT\n.5", "DOT print a; b", "B"]
        );
        assert_eq!(statements("SELECT 1; .mode csv"), ["SELECT 1", "DOT mode csv"]);
        assert_eq!(statements("-- note\n.quit"), ["DOT quit"]);
        assert_eq!(statements("SELECT a\n.b FROM a"), ["SELECT a\n.b FROM a"]);
    }

    #[test]
    fn unterminated_text_is_handed_out_at_the_end() {
        assert_eq!(statements("SELECT 'a;"), ["SELECT 'a;"]);
        assert_eq!(statements("SELECT $x$ a;"), ["SELECT $x$ a;"]);
        assert_eq!(statements("SELECT E'\\"), ["SELECT E'\\"]);
        assert_eq!(statements("/* SELECT 1;"), ["/* SELECT 1;"]);
    }

    #[test]
    fn pieces_know_their_lines() {
        let script =
            "SELECT 1; -- a\n\n-- b\nSELECT\n2;\n.timer on\n\n  .print x\nSELECT 3; SELECT 4";
        let lines: Vec<u32> = split(script).into_iter().map(|piece| piece.line).collect();
        assert_eq!(lines, [1, 4, 6, 8, 9, 9]);
    }

    #[test]
    fn it_tells_whether_something_is_pending() {
        let mut splitter = Splitter::default();
        splitter.push("SELECT 1");
        assert_eq!(splitter.next_piece(), None);
        assert!(splitter.is_pending());
        splitter.push(";  -- done\n");
        assert!(splitter.next_piece().is_some());
        assert_eq!(splitter.next_piece(), None);
        assert!(!splitter.is_pending());
    }
}
