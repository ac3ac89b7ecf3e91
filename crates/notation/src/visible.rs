//! Escaping texts from outside before they are shown to a person.
//!
//! Names and paths come from files, and a terminal executes control characters: one may move the cursor, a
//! newline may imitate a line of this program, and a change of writing direction may show a name that is
//! not the real one. Every character that is not plainly visible is shown as an escape.

use std::borrow::Cow;

/// Whether a character is shown as it is. Control characters, format characters, and spaces other than U+0020 are not.
///
/// Marks that combine with the letter before them are shown.
pub(crate) fn is_shown_as_is(c: char) -> bool {
    match c {
        ' '..='~' => true,
        '\0'..='\u{9f}' => false,
        // `escape_debug` escapes the characters that do not print, and a combining mark at the beginning of a text;
        // after the `a`, a result of two characters means that `c` was not escaped.
        c => ['a', c].iter().collect::<String>().escape_debug().count() == 2,
    }
}

/// A name on one line, every character visible: `a\nb`, `\u{1b}[2J`.
///
/// **Law**: the result has no control and no format character. A text without them is returned unchanged. Two
/// different texts that both have such characters have different results.
pub fn make_visible(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_shown_as_is) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            c if is_shown_as_is(c) => out.push(c),
            c => out.extend(c.escape_default()),
        }
    }
    Cow::Owned(out)
}

/// The first `max_chars` characters of a name, made visible, and `...` if the name is longer.
pub fn quote_beginning(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        None => make_visible(text).into_owned(),
        Some((end, _)) => format!("{}...", make_visible(&text[..end])),
    }
}

/// A text of several lines for a terminal: line breaks and tabs are kept, and with `coloured` also escape sequences
/// that set a colour. Names in the text should have been escaped before; this catches those that were not.
pub fn make_lines_visible(text: &str, coloured: bool) -> Cow<'_, str> {
    let kept = |c: char| c == '\n' || c == '\t' || is_shown_as_is(c);
    if text.chars().all(kept) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let colour = if coloured && c == '\x1b' { leading_colour_escape(rest) } else { None };
        let taken = colour.map_or(c.len_utf8(), str::len);
        match colour {
            Some(code) => out.push_str(code),
            None if kept(c) => out.push(c),
            None => out.extend(c.escape_default()),
        }
        rest = &rest[taken..];
    }
    Cow::Owned(out)
}

/// The escape sequence `ESC [ numbers m` at the beginning of a text, which sets a colour or a font weight.
fn leading_colour_escape(text: &str) -> Option<&str> {
    let end = text.strip_prefix("\x1b[")?.find(|c: char| !c.is_ascii_digit() && c != ';')? + 2;
    text[end..].starts_with('m').then(|| &text[..=end])
}

/// A JSON text with the same value that is safe to print in a terminal. JSON itself allows DEL, the C1 control
/// characters and format characters unescaped inside strings.
pub fn make_json_visible(json: &str) -> Cow<'_, str> {
    // Characters that are not kept occur only inside strings, where JSON allows `\u` escapes.
    let kept = |c: char| matches!(c, '\n' | '\t' | '\r') || is_shown_as_is(c);
    if json.chars().all(kept) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        if kept(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Characters that a terminal executes, or that change how the text around them is shown: the control
    /// characters, the line and paragraph separators, and the format characters of Unicode 16.
    fn obeyed(c: char) -> bool {
        c.is_control()
            || matches!(u32::from(c),
                0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x890..=0x891 | 0x8e2 | 0x180e
                | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x2064 | 0x2066..=0x206f | 0xfeff
                | 0xfff9..=0xfffb | 0x110bd | 0x110cd | 0x13430..=0x1343f | 0x1bca0..=0x1bca3
                | 0x1d173..=0x1d17a | 0xe0001 | 0xe0020..=0xe007f)
    }

    #[test]
    fn every_character_is_visible() {
        for c in (0..=0x10_ffffu32).filter_map(char::from_u32) {
            let name = format!("a{c}b");
            let seen = make_visible(&name);
            assert!(!seen.chars().any(obeyed), "{c:?}");
            assert!(
                !make_lines_visible(&name, false).chars().any(|s| obeyed(s) && !"\n\t".contains(s))
            );
            assert!(
                !make_lines_visible(&name, true).chars().any(|s| obeyed(s) && !"\n\t".contains(s))
            );
            if !obeyed(c) && c.is_alphanumeric() && c < '\u{2000}' {
                assert_eq!(seen, name, "letters stay");
            }
        }
        for name in
            ["weight", "layers.0/attn", "größe", "重み", "e\u{301}te\u{301}", "a'b\"c\\d", "𝒙"]
        {
            assert_eq!(make_visible(name), name);
        }
    }

    #[test]
    fn different_names_are_shown_differently() {
        let parts = ["\\", "\n", "\\n", "n", "\u{1b}", "\\u{1b}", "u{1b}", "\u{202e}", "a"];
        let mut names = HashSet::new();
        for a in parts {
            for b in parts {
                for c in parts {
                    names.insert(format!("{a}{b}{c}"));
                }
            }
        }
        let shown: HashSet<String> = names
            .iter()
            .filter(|n| make_visible(n) != n.as_str())
            .map(|n| make_visible(n).into())
            .collect();
        assert_eq!(shown.len(), names.iter().filter(|n| make_visible(n) != n.as_str()).count());
    }

    #[test]
    fn names_are_cut_and_lines_are_kept() {
        assert_eq!(quote_beginning("abc", 3), "abc");
        assert_eq!(quote_beginning("ab\x07cd", 3), "ab\\u{7}...");
        assert_eq!(make_lines_visible("a\n\tb", false), "a\n\tb");
        let red = "\x1b[1;31mred\x1b[0m";
        assert_eq!(make_lines_visible(red, true), red);
        assert_eq!(make_lines_visible(red, false), "\\u{1b}[1;31mred\\u{1b}[0m");
        for bad in ["\x1b[2J", "\x1b]0;x\x07", "\x1b[", "\x1b", "\x1b[1;31", "\u{9b}31m", "\r"] {
            assert!(!make_lines_visible(bad, true).chars().any(char::is_control), "{bad:?}");
        }
    }

    #[test]
    fn json_keeps_its_value() {
        let value =
            serde_json::json!({"a\u{9b}2J": "\u{202e}x\u{7f}\u{e0041}\n\"\\", "b": [1.5, null]});
        let shown = make_json_visible(&value.to_string()).into_owned();
        assert!(!shown.chars().any(obeyed), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
