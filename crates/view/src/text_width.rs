//! Measuring, wrapping and shortening text.

/// Columns that a character takes in a terminal.
///
/// Enough for labels and titles: combining marks take none, East Asian wide forms and emoji two.
fn char_columns(c: char) -> usize {
    match u32::from(c) {
        0x300..=0x36f | 0x200b..=0x200f | 0x20d0..=0x20ff | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f => 0,
        0x1100..=0x115f
        | 0x2329..=0x232a
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f000..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// Columns that a text takes in a terminal.
pub(crate) fn text_columns(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

/// The text on one line and without control characters, which a terminal would obey.
pub(crate) fn strip_controls(text: &str) -> String {
    let safe = |c: char| match c {
        '\t' | '\n' | '\r' => ' ',
        c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
            '\u{fffd}'
        }
        c => c,
    };
    text.chars().map(safe).collect()
}

/// The text in at most `most` columns, its end replaced by `…` where it is longer.
pub(crate) fn shorten_text(text: &str, most: usize) -> String {
    if text_columns(text) <= most {
        return text.into();
    }
    if most == 0 {
        return String::new();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += char_columns(c);
        if used + 1 > most {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

/// Breaks a text at blanks, and inside words that are longer than a line.
pub(crate) fn wrap_text(text: &str, most: usize) -> Vec<String> {
    // No line is narrower than the widest character.
    let most = most.max(2);
    let mut lines: Vec<String> = Vec::new();
    let (mut line, mut used) = (String::new(), 0);
    for word in text.split_whitespace() {
        let length = text_columns(word);
        if used > 0 && used + 1 + length > most {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        for c in word.chars() {
            if used + char_columns(c) > most {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(c);
            used += char_columns(c);
        }
    }
    if used > 0 {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_measured_wrapped_and_cut() {
        assert_eq!(wrap_text("aa bb ccccccc d", 5), ["aa bb", "ccccc", "cc d"]);
        assert!(wrap_text("  ", 5).is_empty());
        assert_eq!(text_columns("e\u{301} 格子"), 6);
        assert_eq!(shorten_text("格子ab", 4), "格…");
        assert_eq!(shorten_text("abc", 3), "abc");
        assert_eq!(shorten_text("abcd", 0), "");
        assert_eq!(strip_controls("a\u{1b}[2J\n"), "a\u{fffd}[2J ");
        for most in 0..9 {
            assert!(
                wrap_text("格子 格子格子 a b", most).iter().all(|l| text_columns(l) <= most.max(2))
            );
        }
    }
}
