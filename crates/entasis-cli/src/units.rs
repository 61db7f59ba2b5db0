//! Numbers as people read them.

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things: `1 row`, `1,234 rows`.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Bytes with a decimal unit and three significant digits: `1234567` as `1.23 MB`.
pub fn bytes(size_bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if size_bytes < 1000 {
        return format!("{size_bytes} B");
    }
    let mut size = size_bytes as f64 / 1000.0;
    let mut unit = 0;
    // 999.5 would be rounded up to 1000.
    while size >= 999.5 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    format!("{} {}", significant(size), UNITS[unit])
}

/// Seconds with the unit that fits: `0.00123` as `1.23 ms`.
pub fn seconds(seconds: f64) -> String {
    if seconds < 0.001 {
        format!("{} µs", significant(seconds * 1e6))
    } else if seconds < 1.0 {
        format!("{} ms", significant(seconds * 1e3))
    } else {
        format!("{} s", significant(seconds))
    }
}

/// Three significant digits, or all digits before the point.
pub fn significant(number: f64) -> String {
    match number.abs() {
        magnitude if magnitude >= 99.95 => format!("{number:.0}"),
        magnitude if magnitude >= 9.995 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// A part of a whole, in percent.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "–".to_owned() } else { format!("{:.1} %", part as f64 / whole as f64 * 100.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!([counted(1, "row"), counted(0, "row")], ["1 row", "0 rows"]);
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_234_567), "1.23 MB");
        assert_eq!(bytes(999_999), "1.00 MB");
        assert_eq!(bytes(u64::MAX), "18447 PB");
        assert_eq!(seconds(0.00123), "1.23 ms");
        assert_eq!(seconds(12.3), "12.3 s");
        assert_eq!(percent(1, 0), "–");
        assert_eq!(percent(1, 4), "25.0 %");
    }
}
