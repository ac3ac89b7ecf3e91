//! Sizes and divisions as the sources of measured figures write them.

use super::row::ProductSplit;

/// The largest extent that is taken from a text; larger ones would pass the limits of the card in any product.
const MAX_EXTENT: i64 = 10_000_000;

/// Sizes with names: `B=1 M=512 N=1024`, `M4096 K2048`, `Lq=Lk=512`. Later ones of a name are left out.
pub(super) fn parse_named_sizes(text: &str) -> Vec<(String, i64)> {
    let mut list: Vec<(String, i64)> = Vec::new();
    // Names that wait for their number, as in `Lq=Lk=512`.
    let mut waiting: Vec<String> = Vec::new();
    let mut name = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_ascii_alphabetic() => name.push(c),
            '=' if !name.is_empty() => waiting.push(std::mem::take(&mut name)),
            c if c.is_ascii_digit() => {
                let mut digits = String::from(c);
                while let Some(d) = chars.next_if(char::is_ascii_digit) {
                    digits.push(d);
                }
                waiting.extend((!name.is_empty()).then(|| std::mem::take(&mut name)));
                let number = digits.parse().ok().filter(|n| (1..=MAX_EXTENT).contains(n));
                for name in waiting.drain(..) {
                    let known = list.iter().any(|(n, _)| *n == name);
                    list.extend(number.filter(|_| !known).map(|n| (name, n)));
                }
            }
            _ => {
                name.clear();
                waiting.clear();
            }
        }
    }
    list
}

/// The size of a name.
pub(super) fn find_size(list: &[(String, i64)], name: &str) -> Option<i64> {
    list.iter().find(|(n, _)| n == name).map(|(_, size)| *size)
}

/// The shapes in brackets: `[1,512,4096]x[4096,1024]`.
pub(super) fn parse_bracketed_shapes(text: &str) -> Vec<Vec<i64>> {
    let mut list = Vec::new();
    for part in text.split('[').skip(1) {
        let Some((inside, _)) = part.split_once(']') else { continue };
        let sizes: Option<Vec<i64>> = inside
            .split(',')
            .map(|n| n.trim().parse().ok().filter(|n| (1..=MAX_EXTENT).contains(n)))
            .collect();
        list.extend(sizes.filter(|s| !s.is_empty()));
    }
    list
}

/// Sizes joined by `x` or `@`, from the beginning of a text: `512x12800x4096 (MxNxK)`, `4096x2048 @ 2048x2048`.
pub(super) fn parse_joined_sizes(text: &str) -> Vec<i64> {
    let plain = text.split('(').next().unwrap_or_default();
    let parts = plain.split(['x', '@', 'X']).map(str::trim);
    let sizes: Option<Vec<i64>> =
        parts.map(|p| p.parse().ok().filter(|n| (1..=MAX_EXTENT).contains(n))).collect();
    sizes.unwrap_or_default()
}

/// A division of a product in words: `b1 m4 n8 k1 (forced)`, `mb4 out8`, `b_m_n_k=1_4_8_1`,
/// `4 x 8 x 1 (m x n x k, recorded actual split)`, `m x n = 8x4`, `cost model: m4 n8 (m8 n4)`. None where the text names
/// no division.
pub(super) fn parse_product_split(text: &str) -> Option<ProductSplit> {
    let numbers = |text: &str, by: char| -> Option<Vec<i64>> {
        text.split(by).map(|n| n.trim().parse().ok().filter(|n| (1..=4096).contains(n))).collect()
    };
    let text = text.trim();
    if let Some(rest) = text.strip_prefix("b_m_n_k=") {
        let [b, m, n, k] = numbers(rest, '_')?[..] else { return None };
        return Some(ProductSplit { b, m, n, k });
    }
    if let Some(rest) = text.strip_prefix("m x n = ") {
        let [m, n] = numbers(rest, 'x')?[..] else { return None };
        return Some(ProductSplit { b: 1, m, n, k: 1 });
    }
    if let Some((rest, _)) = text.split_once("(m x n x k") {
        let [m, n, k] = numbers(rest, 'x')?[..] else { return None };
        return Some(ProductSplit { b: 1, m, n, k });
    }
    // What is in parentheses says how the division came about, or names an equivalent one.
    let text = text.split('(').next().unwrap_or_default();
    let text = text.rsplit(": ").next().unwrap_or_default();
    let mut split = ProductSplit { b: 1, m: 1, n: 1, k: 1 };
    let mut any = false;
    for word in text.split_whitespace() {
        let at = word.find(|c: char| c.is_ascii_digit())?;
        let slices = word[at..].parse().ok().filter(|n| (1..=4096).contains(n))?;
        let slot = match &word[..at] {
            "b" | "x" => &mut split.b,
            "m" | "mb" => &mut split.m,
            "n" | "out" => &mut split.n,
            "k" | "in" => &mut split.k,
            _ => return None,
        };
        *slot = slices;
        any = true;
    }
    any.then_some(split)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_found_by_name() {
        let find = |text, name| find_size(&parse_named_sizes(text), name);
        assert_eq!(find("B=32 M=512 N=128 K=512", "N"), Some(128));
        assert_eq!(find("M4096 K2048 N1024", "K"), Some(2048));
        assert_eq!(find("QK^T prefill B512 M32 N512 K128", "B"), Some(512));
        assert_eq!(find("H=4 Lq=Lk=2048", "Lq"), Some(2048));
        assert_eq!(find("H=4 Lq=Lk=2048", "Lk"), Some(2048));
        assert_eq!(find("R=99999999999999999999 C=3", "R"), None);
        assert_eq!(find("R=0 C=3", "R"), None);
        assert_eq!(
            parse_bracketed_shapes("[1,512,4096]x[4096,1024]"),
            [vec![1, 512, 4096], vec![4096, 1024]]
        );
        assert!(parse_bracketed_shapes("[1,] [x").is_empty());
        assert_eq!(parse_joined_sizes("4096x2048 @ 2048x1024"), [4096, 2048, 2048, 1024]);
        assert_eq!(parse_joined_sizes("512x12800x4096 (MxNxK)"), [512, 12800, 4096]);
        assert!(parse_joined_sizes("one shape").is_empty());
    }

    #[test]
    fn divisions_are_found_in_every_form() {
        let split = |b, m, n, k| Some(ProductSplit { b, m, n, k });
        for (text, expected) in [
            ("b16 m1 n2 k1 (forced)", split(16, 1, 2, 1)),
            (" m4 n8", split(1, 4, 8, 1)),
            ("x1 mb4 out8", split(1, 4, 8, 1)),
            ("b_m_n_k=8_2_1_2", split(8, 2, 1, 2)),
            ("2 x 16 x 1 (m x n x k, recorded actual split)", split(1, 2, 16, 1)),
            ("m x n = 8x4", split(1, 8, 4, 1)),
            ("cost model: m4 n8 (m8 n4)", split(1, 4, 8, 1)),
            ("main: m32", split(1, 32, 1, 1)),
            ("m32 -> m8 n4", None),
            ("compiler planner choice (not recorded)", None),
            ("heads only (4 cores)", None),
            ("", None),
            ("m99999999999999999999", None),
        ] {
            assert_eq!(parse_product_split(text), expected, "{text}");
        }
    }
}
