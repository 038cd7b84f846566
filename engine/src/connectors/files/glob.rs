//! Glob patterns over paths: `*`, `**`, `?`, `[a-z]`, `[!a]` and `{a,b}`.
//!
//! A pattern is first expanded into patterns without braces; each of these is walked folder by folder, so that
//! only folders which can hold a match are listed. Hidden names match only patterns that begin with a dot.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Expansions of one pattern's braces at most.
const BRACES_MAX: usize = 1_000;
/// Folders that `**` goes down at most.
const DEPTH_MAX: usize = 64;

/// Whether a path has characters that make it a pattern.
pub fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '[', '{'])
}

/// The files that match, in the order of their names. Folders that match are not followed.
pub fn expand(pattern: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for plain in expand_braces(pattern) {
        let (root, parts) = split(&plain);
        walk(&root, &parts, 0, &mut found)?;
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn split(pattern: &str) -> (PathBuf, Vec<String>) {
    let root = if pattern.starts_with('/') { "/" } else { "" };
    let parts = pattern.split('/').filter(|p| !p.is_empty()).map(str::to_string).collect();
    (PathBuf::from(root), parts)
}

fn walk(at: &Path, parts: &[String], depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let Some((part, rest)) = parts.split_first() else {
        if at.is_file() {
            found.push(at.to_path_buf());
        }
        return Ok(());
    };
    if part == "**" {
        if rest.is_empty() {
            return walk(at, &["**".into(), "*".into()], depth, found);
        }
        walk(at, rest, depth, found)?;
        if depth < DEPTH_MAX {
            for (name, path) in entries(at)? {
                if !name.starts_with('.') && path.is_dir() && !path.is_symlink() {
                    walk(&path, parts, depth + 1, found)?;
                }
            }
        }
        return Ok(());
    }
    if !is_pattern(part) {
        return walk(&at.join(part), rest, depth, found);
    }
    for (name, path) in entries(at)? {
        if (!name.starts_with('.') || part.starts_with('.')) && matches(part, &name) {
            walk(&path, rest, depth, found)?;
        }
    }
    Ok(())
}

/// Names and paths in a folder, sorted; nothing if it does not exist or is no folder.
fn entries(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let iterator = match fs::read_dir(listed) {
        Ok(iterator) => iterator,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(e) => return Err(e),
    };
    let mut names = Vec::new();
    for entry in iterator {
        if let Ok(name) = entry?.file_name().into_string() {
            let path = folder.join(&name);
            names.push((name, path));
        }
    }
    names.sort();
    Ok(names)
}

/// Every pattern that the braces of one stand for.
fn expand_braces(pattern: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut open = vec![pattern.to_string()];
    while let Some(next) = open.pop() {
        match alternatives(&next) {
            Some(choices) if done.len() + open.len() + choices.len() <= BRACES_MAX => {
                open.extend(choices.into_iter().rev());
            }
            _ => done.push(next),
        }
    }
    done
}

/// The choices of the first pair of braces, each put in its place.
fn alternatives(pattern: &str) -> Option<Vec<String>> {
    let start = pattern.find('{')?;
    let (mut depth, mut cut, mut choices) = (0, start + 1, Vec::new());
    for (i, c) in pattern[start..].char_indices().map(|(i, c)| (i + start, c)) {
        match c {
            '{' => depth += 1,
            ',' if depth == 1 => {
                choices.push(&pattern[cut..i]);
                cut = i + 1;
            }
            '}' if depth == 1 => {
                choices.push(&pattern[cut..i]);
                let (before, after) = (&pattern[..start], &pattern[i + 1..]);
                return Some(choices.iter().map(|c| format!("{before}{c}{after}")).collect());
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Whether a name matches a pattern without slashes and braces.
pub fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    // After a star that matched too little, go back to it and let it take one more.
    let (mut p, mut n, mut retry) = (0, 0, None);
    while n < name.len() {
        if p < pattern.len() && pattern[p] == '*' {
            retry = Some((p, n));
            p += 1;
            continue;
        }
        if let Some(next) = match_one(&pattern, p, name[n]) {
            (p, n) = (next, n + 1);
            continue;
        }
        match retry {
            Some((star, from)) => {
                retry = Some((star, from + 1));
                (p, n) = (star + 1, from + 1);
            }
            None => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Where the pattern goes on after one character, if that matches.
fn match_one(pattern: &[char], at: usize, c: char) -> Option<usize> {
    match pattern.get(at)? {
        '?' => Some(at + 1),
        '[' => match class(pattern, at, c) {
            Some((end, inside)) => inside.then_some(end),
            None => (c == '[').then_some(at + 1),
        },
        other => (*other == c).then_some(at + 1),
    }
}

/// The end of a character class and whether it holds `c`; `None` if the bracket is never closed.
fn class(pattern: &[char], at: usize, c: char) -> Option<(usize, bool)> {
    let negated = matches!(pattern.get(at + 1), Some('!' | '^'));
    let first = at + 1 + usize::from(negated);
    let close = (first + 1..pattern.len()).find(|&i| pattern[i] == ']')?;
    let (mut i, mut inside) = (first, false);
    while i < close {
        if i + 2 < close && pattern[i + 1] == '-' {
            inside |= (pattern[i]..=pattern[i + 2]).contains(&c);
            i += 3;
        } else {
            inside |= pattern[i] == c;
            i += 1;
        }
    }
    Some((close + 1, inside != negated))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_patterns() {
        assert!(matches("*.csv", "a.csv"));
        assert!(!matches("*.csv", "a.csv.gz"));
        assert!(matches("a*b*c", "aXbYbZc"));
        assert!(matches("part-[0-9]?.pq", "part-1x.pq"));
        assert!(!matches("[!a]x", "ax"));
        assert!(matches("[]x", "[]x"));
    }

    #[test]
    fn braces_expand_nested() {
        assert_eq!(expand_braces("a{b,c{d,e}}f"), ["abf", "acdf", "acef"]);
        assert_eq!(expand_braces("a{b"), ["a{b"]);
    }

    #[test]
    fn walks_folders() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["x/a.csv", "x/y/b.csv", "x/.h/c.csv", "x/d.txt"] {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let count = |p: &str| expand(&format!("{}/{p}", dir.path().display())).unwrap().len();
        assert_eq!(count("**/*.csv"), 2);
        assert_eq!(count("x/*"), 2);
        assert_eq!(count("x/**"), 3);
        assert_eq!(count("{x,z}/{a,d}.{csv,txt}"), 2);
        assert_eq!(count("nothing/*"), 0);
    }
}
