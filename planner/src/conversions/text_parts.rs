//! Parts of texts as Flink finds them: `split_index`, `regexp_extract` and `count_char`.
//!
//! `split_index` counts from zero, and what is not there is NULL: a part behind the last one, a group that the text does
//! not have, a text that does not match. An expression that cannot be read is an error.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringViewArray, StringViewBuilder};
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::{DataFusionError, Result, exec_err, plan_err};
use datafusion_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use regex::Regex;

use super::over_arrays;

/// How large a compiled expression may be, in bytes.
const EXPRESSION_BYTES_MAX: usize = 1 << 20;

thread_local! {
    /// The expression that this thread used last: most columns have the same in all rows.
    static LAST: RefCell<Option<(String, Regex)>> = const { RefCell::new(None) };
}

/// Which of the functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    SplitIndex,
    RegexpExtract,
    CountChar,
}

/// All of them.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    use DataType::{Int64, Utf8View};
    let two = TypeSignature::Exact(vec![Utf8View, Utf8View]);
    let three = TypeSignature::Exact(vec![Utf8View, Utf8View, Int64]);
    let all = [
        (Kind::SplitIndex, three.clone()),
        (Kind::RegexpExtract, TypeSignature::OneOf(vec![two.clone(), three])),
        (Kind::CountChar, two),
    ];
    all.into_iter()
        .map(|(kind, signature)| {
            let signature = Signature::new(signature, Volatility::Immutable);
            Arc::new(ScalarUDF::from(Function { kind, signature }))
        })
        .collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        match self.kind {
            Kind::SplitIndex => "split_index",
            Kind::RegexpExtract => "regexp_extract",
            Kind::CountChar => "count_char",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _args: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::SplitIndex | Kind::RegexpExtract => DataType::Utf8View,
            Kind::CountChar => DataType::Int64,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        over_arrays(&args, |arrays| match (self.kind, arrays) {
            (Kind::SplitIndex, [texts, separators, indexes]) => {
                found(texts, separators, Some(indexes), part)
            }
            (Kind::RegexpExtract, [texts, expressions, groups @ ..]) if groups.len() < 2 => {
                found(texts, expressions, groups.first(), group)
            }
            (Kind::CountChar, [texts, characters]) => {
                counts(texts.as_string_view(), characters.as_string_view())
            }
            _ => plan_err!("{} was called with other arguments than it takes", self.name()),
        })
    }
}

/// What is found in each text; without numbers all are zero.
fn found(
    texts: &ArrayRef,
    seconds: &ArrayRef,
    numbers: Option<&ArrayRef>,
    find: impl for<'a> Fn(&'a str, &str, i64) -> Result<Option<&'a str>>,
) -> Result<ArrayRef> {
    let (texts, seconds) = (texts.as_string_view(), seconds.as_string_view());
    let numbers = numbers.map(|numbers| numbers.as_primitive::<Int64Type>());
    let mut builder = StringViewBuilder::with_capacity(texts.len());
    for (row, (text, second)) in texts.iter().zip(seconds.iter()).enumerate() {
        let number = match numbers {
            None => Some(0),
            Some(numbers) => numbers.is_valid(row).then(|| numbers.value(row)),
        };
        builder.append_option(match (text, second, number) {
            (Some(text), Some(second), Some(number)) => find(text, second, number)?,
            _ => None,
        });
    }
    Ok(Arc::new(builder.finish()))
}

/// The part of a text at an index, counted from zero; a text without characters has no parts.
fn part<'a>(text: &'a str, separator: &str, index: i64) -> Result<Option<&'a str>> {
    Ok(match usize::try_from(index) {
        Ok(index) if !text.is_empty() => match separator {
            "" => text.split_whitespace().nth(index),
            _ => text.split(separator).nth(index),
        },
        _ => None,
    })
}

/// The text of a group of the first match; group 0 is the whole match.
fn group<'a>(text: &'a str, expression: &str, group: i64) -> Result<Option<&'a str>> {
    let Ok(group) = usize::try_from(group) else { return Ok(None) };
    LAST.with_borrow_mut(|last| {
        let regex = match last.take() {
            Some((before, regex)) if before == expression => regex,
            _ => compiled(expression)?,
        };
        let found = match group {
            0 => regex.find(text),
            _ => regex.captures(text).and_then(|captures| captures.get(group)),
        };
        let found = found.map(|found| found.as_str());
        *last = Some((expression.to_string(), regex));
        Ok(found)
    })
}

fn compiled(expression: &str) -> Result<Regex> {
    let built = regex::RegexBuilder::new(expression).size_limit(EXPRESSION_BYTES_MAX).build();
    built.map_err(|error| {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        DataFusionError::Execution(format!(
            "regexp_extract: \"{expression}\" is no regular expression: {reason}"
        ))
    })
}

fn counts(texts: &StringViewArray, characters: &StringViewArray) -> Result<ArrayRef> {
    let counts = texts.iter().zip(characters.iter()).map(|(text, character)| {
        let (Some(text), Some(character)) = (text, character) else { return Ok(None) };
        let mut all = character.chars();
        let count = match (all.next(), all.next()) {
            (Some(one), None) if one.is_ascii() => {
                text.bytes().filter(|byte| *byte == one as u8).count()
            }
            (Some(one), None) => text.chars().filter(|char| *char == one).count(),
            _ => return exec_err!("count_char takes a text and one character, not '{character}'"),
        };
        Ok(Some(count as i64))
    });
    Ok(Arc::new(counts.collect::<Result<Int64Array>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_from_zero() {
        let url = "https://www.nexmark.com/a/b//item.htm";
        let parts: Vec<_> = (-1..8).map(|index| part(url, "/", index).unwrap()).collect();
        assert_eq!(
            parts,
            [
                None,
                Some("https:"),
                Some(""),
                Some("www.nexmark.com"),
                Some("a"),
                Some("b"),
                Some(""),
                Some("item.htm"),
                None
            ]
        );
        assert_eq!(part("", "/", 0).unwrap(), None);
        assert_eq!(part("a::b", "::", 1).unwrap(), Some("b"));
        assert_eq!(part("a  b", "", 1).unwrap(), Some("b"));
    }

    #[test]
    fn groups_that_are_not_there_are_null() {
        let expression = "(&|^)channel_id=([^&]*)";
        let found = |text, number| group(text, expression, number).unwrap();
        assert_eq!(found("a=1&channel_id=xyz&b=2", 2), Some("xyz"));
        assert_eq!(found("a=1&channel_id=xyz&b=2", 0), Some("&channel_id=xyz"));
        assert_eq!(found("channel_id=", 2), Some(""));
        assert_eq!(found("channel_id=x", 3), None);
        assert_eq!(found("channel_id=x", -1), None);
        assert_eq!(found("nothing", 2), None);
        assert!(group("a", "(", 0).is_err());
        assert!(group("a", "(a{1000}){1000}", 0).is_err());
    }

    #[test]
    fn one_character_is_counted() {
        let count = |text: &str, character: &str| {
            let (texts, characters) =
                (StringViewArray::from(vec![text]), StringViewArray::from(vec![character]));
            counts(&texts, &characters).map(|counts| counts.as_primitive::<Int64Type>().value(0))
        };
        assert_eq!(count("cacbcc", "c").unwrap(), 4);
        assert_eq!(count("äaä", "ä").unwrap(), 2);
        assert!(count("abc", "ab").is_err());
        assert!(count("abc", "").is_err());
    }
}
