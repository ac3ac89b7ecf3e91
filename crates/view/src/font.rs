//! A built-in stroke font, so that a bitmap needs no font on the machine.
//!
//! Glyphs are polylines on a grid of 5 columns and 9 rows: `x` from 0 to 4, `y` from 0 (top of a
//! capital) over 2 (top of a small letter) and 6 (the baseline) to 8 (the foot of a `g`). A point
//! is two digits, `xy`; polylines are separated by blanks.

use std::fmt::Write;

/// Width of one character, in units of the font size; that of common monospace fonts.
pub(crate) const ADVANCE: f64 = 0.6;

/// The path of a line of text whose baseline starts at (`x`, `y`), as SVG path data.
pub(crate) fn text_path(text: &str, x: f64, y: f64, size: f64) -> String {
    let (unit_x, unit_y) = (size * 0.1, size * 0.117);
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        #[allow(clippy::cast_precision_loss, reason = "a line of text is short")]
        let left = x + size * ADVANCE * i as f64 + unit_x;
        for line in glyph_strokes(c).split_ascii_whitespace() {
            for (j, point) in line.as_bytes().chunks_exact(2).enumerate() {
                let [px, py] = [point[0], point[1]].map(|d| f64::from(d.saturating_sub(b'0')));
                let verb = if j == 0 { 'M' } else { 'L' };
                let (px, py) = (left + px * unit_x, y + (py - 6.0) * unit_y);
                // A failed write to a string cannot happen.
                let _ = write!(out, "{verb}{px:.2} {py:.2}");
            }
        }
    }
    out
}

/// The strokes of a character; an empty box for one that the font lacks.
fn glyph_strokes(c: char) -> &'static str {
    match c {
        ' ' | '\u{a0}' => "",
        '0' => "103041453616050110 4105",
        '1' => "112026 0646",
        '2' => "01103041420646",
        '3' => "01103041423313 334445361605",
        '4' => "36300444",
        '5' => "400003334445361605",
        '6' => "4130100105163645443304",
        '7' => "00404126",
        '8' => "1302011030414233130405163645443313",
        '9' => "0516364541301001021343",
        'A' => "062046 1434",
        'B' => "00063645443303 003041423303",
        'C' => "4130100105163645",
        'D' => "00063645413000",
        'E' => "40000646 0333",
        'F' => "400006 0333",
        'G' => "41301001051636454323",
        'H' => "0006 4046 0343",
        'I' => "1030 2026 1636",
        'J' => "1040 3035261605",
        'K' => "0006 4003 1346",
        'L' => "000646",
        'M' => "0600234046",
        'N' => "06004640",
        'O' => "103041453616050110",
        'P' => "06003041423303",
        'Q' => "103041453616050110 2446",
        'R' => "06003041423303 2346",
        'S' => "413010010213334445361605",
        'T' => "0040 2026",
        'U' => "000516364540",
        'V' => "002640",
        'W' => "0016233640",
        'X' => "0046 4006",
        'Y' => "002340 2326",
        'Z' => "00400646",
        'a' => "0312324346 441405163645",
        'b' => "0006 0312324345361605",
        'c' => "4332120305163645",
        'd' => "4046 4332120305163645",
        'e' => "04444332120305163645",
        'f' => "40302126 0242",
        'g' => "4332120305163645 4247381807",
        'h' => "0006 0312324346",
        'i' => "122226 1636 2021",
        'j' => "1232372818 3031",
        'k' => "0006 4204 1446",
        'l' => "102026 1636",
        'm' => "0206 0312222326 23324346",
        'n' => "0602 0312324346",
        'o' => "123243453616050312",
        'p' => "0208 0312324345361605",
        'q' => "4248 4332120305163645",
        'r' => "0206 042242",
        's' => "43321203143445361605",
        't' => "20253645 0242",
        'u' => "0205163645 4246",
        'v' => "022642",
        'w' => "0216243642",
        'x' => "0246 4206",
        'y' => "0226 4218",
        'z' => "02420646",
        '.' => "2526",
        '·' => "2324",
        ',' => "252617",
        ':' => "2223 2526",
        ';' => "2223 252617",
        '!' => "2024 2526",
        '?' => "01103041422324 2526",
        '\'' => "2021",
        '"' => "1011 3031",
        '`' => "1021",
        '-' | '–' | '—' | '−' => "0343",
        '_' => "0747",
        '+' => "2125 0343",
        '*' => "2125 0244 4204",
        '×' => "0145 4105",
        '/' => "4006",
        '\\' => "0046",
        '|' => "2007",
        '=' => "0242 0444",
        '<' => "410345",
        '>' => "014305",
        '(' => "30121436",
        ')' => "10323416",
        '[' => "30101636",
        ']' => "10303616",
        '{' => "30202203242636",
        '}' => "10202243242616",
        '#' => "1016 3036 0242 0444",
        '%' => "4006 0011 3546",
        '&' => "4611011020310405163644",
        '@' => "3432221314344341301001051636",
        '$' => "413010010213334445361605 2026",
        '^' => "022042",
        '~' => "0412133242",
        '…' => "0506 2526 4546",
        '→' => "0343 213325",
        '←' => "0343 210325",
        '∘' => "12323414121232",
        '≤' => "400242 0545",
        '≥' => "004202 0545",
        _ => "0006464000",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_printable_character_has_strokes_on_the_grid() {
        for c in (' '..='~').chain("·×…→∘–".chars()) {
            let strokes = glyph_strokes(c);
            assert_eq!(strokes.is_empty(), c == ' ', "{c:?}");
            assert_ne!(strokes, glyph_strokes('\u{fffd}'), "{c:?} is missing");
            for line in strokes.split_ascii_whitespace() {
                assert!(line.len() >= 4 && line.len() % 2 == 0, "{c:?}: {line}");
                for p in line.as_bytes().chunks(2) {
                    assert!(
                        (b'0'..=b'4').contains(&p[0]) && (b'0'..=b'8').contains(&p[1]),
                        "{c:?}: {line}"
                    );
                }
            }
        }
    }

    #[test]
    fn no_two_characters_look_alike() {
        let all: Vec<char> = ('!'..='~').collect();
        for (i, a) in all.iter().enumerate() {
            for b in &all[i + 1..] {
                assert_ne!(glyph_strokes(*a), glyph_strokes(*b), "{a:?} {b:?}");
            }
        }
    }
}
