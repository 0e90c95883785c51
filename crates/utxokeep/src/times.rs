//! Times for people.

const DAY_SECS: i64 = 86_400;

/// Days of 400 years, after which the calendar repeats.
const ERA_DAYS: i64 = 146_097;

/// Days from the first of March of year 0 to 1970.
const DAYS_BEFORE_1970: i64 = 719_468;

/// A time in microseconds since 1970, as a date and a time of day.
#[must_use]
pub fn utc(micros: i64) -> String {
    let seconds = micros.div_euclid(1_000_000);
    let (year, month, day) = date(seconds.div_euclid(DAY_SECS));
    let second = seconds.rem_euclid(DAY_SECS);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

/// The date of a day since 1970. Years begin in March here, so that a leap day is the last day.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_BEFORE_1970;
    let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let leap_days = day / 1_460 - day / 36_524 + day / (ERA_DAYS - 1);
    let year = (day - leap_days) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Months from March on: their first days lie on this line.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let is_next_year = month >= 10;
    let month = if is_next_year { month - 9 } else { month + 3 };
    (era * 400 + year + i64::from(is_next_year), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_399_999_999, "2000-02-28T23:59:59Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00Z"),
            (1_231_006_505_000_000, "2009-01-03T18:15:05Z"),
            (1_709_251_199_000_000, "2024-02-29T23:59:59Z"),
            (1_709_251_200_000_000, "2024-03-01T00:00:00Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00Z"),
        ];
        for (micros, text) in cases {
            assert_eq!(utc(micros), text);
        }
        // Nothing a database may hold makes it fail.
        assert!(utc(i64::MAX).ends_with('Z') && utc(i64::MIN).ends_with('Z'));
    }
}
