//! Numbers as text.

/// Two digits at a time.
const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";

/// Digits that a 128-bit integer has at most.
const DIGITS_MAX: usize = 39;

/// Writes an unsigned integer.
pub fn write_unsigned(mut value: u64, out: &mut Vec<u8>) {
    let mut buffer = [0; 20];
    let mut at = buffer.len();
    while value >= 100 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if value >= 10 {
        let pair = value as usize * 2;
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    } else {
        at -= 1;
        buffer[at] = b'0' + value as u8;
    }
    out.extend_from_slice(&buffer[at..]);
}

/// Writes an integer.
pub fn write_integer(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    write_unsigned(value.unsigned_abs(), out);
}

/// Writes an unsigned number with leading zeros up to a width.
pub fn write_padded(value: u64, width: usize, out: &mut Vec<u8>) {
    let start = out.len();
    write_unsigned(value, out);
    let written = out.len() - start;
    if written < width {
        out.splice(start..start, std::iter::repeat_n(b'0', width - written));
    }
}

/// Writes a decimal at its scale; a negative scale adds zeros.
pub fn write_decimal(value: i128, scale: i8, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    let scale = i32::from(scale);
    if scale <= 0 {
        write_wide(value.unsigned_abs(), 1, out);
        if value != 0 {
            out.extend(std::iter::repeat_n(b'0', scale.unsigned_abs() as usize));
        }
        return;
    }
    let scale = scale as usize;
    write_wide(value.unsigned_abs(), scale + 1, out);
    let point = out.len() - scale;
    out.insert(point, b'.');
}

fn write_wide(value: u128, width_min: usize, out: &mut Vec<u8>) {
    if let Ok(small) = u64::try_from(value) {
        return write_padded(small, width_min, out);
    }
    const CHUNK: u128 = 10_000_000_000_000_000_000;
    let mut parts = [0_u64; DIGITS_MAX / 19 + 1];
    let (mut rest, mut n) = (value, 0);
    while rest > 0 {
        parts[n] = (rest % CHUNK) as u64;
        rest /= CHUNK;
        n += 1;
    }
    let mut text = Vec::with_capacity(DIGITS_MAX);
    write_unsigned(parts[n - 1], &mut text);
    parts[..n - 1].iter().rev().for_each(|&part| write_padded(part, 19, &mut text));
    out.extend(std::iter::repeat_n(b'0', width_min.saturating_sub(text.len())));
    out.extend_from_slice(&text);
}

/// Writes a double so that it reads back as the same double and as a double.
pub fn write_double(value: f64, out: &mut Vec<u8>) {
    use std::io::Write;
    if !write_special(value, out) {
        write!(out, "{value:?}").expect("a vector takes all bytes");
    }
}

/// Writes a single-precision number, shortest among those.
pub fn write_real(value: f32, out: &mut Vec<u8>) {
    use std::io::Write;
    if !write_special(f64::from(value), out) {
        write!(out, "{value:?}").expect("a vector takes all bytes");
    }
}

fn write_special(value: f64, out: &mut Vec<u8>) -> bool {
    let text: &[u8] = if value.is_nan() {
        b"NaN"
    } else if value == f64::INFINITY {
        b"Infinity"
    } else if value == f64::NEG_INFINITY {
        b"-Infinity"
    } else {
        return false;
    };
    out.extend_from_slice(text);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(f: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        f(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_and_decimals() {
        for value in [0, 7, 10, 99, 100, 12_345, -1, i64::MIN, i64::MAX] {
            assert_eq!(text(|o| write_integer(value, o)), value.to_string());
        }
        assert_eq!(text(|o| write_decimal(-5, 2, o)), "-0.05");
        assert_eq!(text(|o| write_decimal(12_345, 2, o)), "123.45");
        assert_eq!(text(|o| write_decimal(7, 0, o)), "7");
        assert_eq!(text(|o| write_decimal(7, -2, o)), "700");
        assert_eq!(
            text(|o| write_decimal(i128::MAX, 5, o)),
            "1701411834604692317316873037158841.05727"
        );
        assert_eq!(
            text(|o| write_decimal(10_i128.pow(37), 38, o)),
            format!("0.1{}", "0".repeat(37))
        );
    }

    #[test]
    fn doubles() {
        let cases =
            [(1.0, "1.0"), (0.1, "0.1"), (1e300, "1e300"), (-0.0, "-0.0"), (f64::NAN, "NaN")];
        for (value, expected) in cases {
            assert_eq!(text(|o| write_double(value, o)), expected);
        }
        assert_eq!(text(|o| write_real(0.1, o)), "0.1");
        assert_eq!(text(|o| write_double(f64::NEG_INFINITY, o)), "-Infinity");
    }
}
