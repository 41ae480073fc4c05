//! Formats numbers with three digits.

/// A time with three digits and a suitable unit.
pub(crate) fn time(micros: f64) -> String {
    let (value, unit) = match micros {
        m if m < 1.0 => (m * 1_000.0, "ns"),
        m if m < 1_000.0 => (m, "µs"),
        m if m < 1_000_000.0 => (m / 1_000.0, "ms"),
        m => (m / 1_000_000.0, "s"),
    };
    format!("{} {unit}", digits(value))
}

/// A rate with three digits and a suitable unit.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        r if r < 1_000.0 => format!("{}/s", digits(r)),
        r if r < 1_000_000.0 => format!("{} k/s", digits(r / 1_000.0)),
        r => format!("{} M/s", digits(r / 1_000_000.0)),
    }
}

/// Three digits.
pub(crate) fn digits(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// A ratio with three digits, also a small one.
pub(crate) fn of_ratio(ratio: f64) -> String {
    if ratio < 0.1 { format!("{ratio:.4}") } else { digits(ratio) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_digits_and_a_unit() {
        assert_eq!([time(0.9), time(12.34), time(5_600.0)], ["900 ns", "12.3 µs", "5.60 ms"]);
        assert_eq!([rate(999.4), rate(1_234_567.0)], ["999/s", "1.23 M/s"]);
    }
}
