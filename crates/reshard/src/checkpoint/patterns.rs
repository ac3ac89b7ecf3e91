//! Patterns of names: finds the first pattern that matches a name, and the numbers that it
//! captures.
//!
//! `*` matches any characters, `{i}` matches a number with all its digits, and every other
//! character matches itself. Patterns are stored as a trie, so that a common beginning of several
//! patterns is compared with a name once: the time to find the first of `n` patterns depends on the
//! part of the trie that the name reaches, not on `n`.

use std::collections::{HashMap, HashSet};

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PatternToken {
    /// Any characters, or none.
    Any,
    /// A number, captured under the word in the braces.
    Number(String),
    /// This character.
    Literal(char),
}

/// The patterns in their order.
#[derive(Debug, Clone)]
pub(crate) struct NamePatterns {
    patterns: Vec<Vec<PatternToken>>,
    nodes: Vec<PatternNode>,
}

/// The patterns that begin with the same tokens.
#[derive(Debug, Clone)]
struct PatternNode {
    /// Whether the last token is `*`, which may match more characters.
    repeats: bool,
    literal: HashMap<char, usize>,
    any: Option<usize>,
    number: Option<usize>,
    /// The first pattern that ends here.
    ends: Option<usize>,
    /// The first pattern that ends here or below.
    first: usize,
}

impl NamePatterns {
    /// Parses patterns as rules write them.
    pub(crate) fn new<'p>(patterns: impl Iterator<Item = &'p str>) -> NamePatterns {
        let patterns: Vec<Vec<PatternToken>> = patterns.map(split_tokens).collect();
        let mut nodes = vec![PatternNode::new(false, 0)];
        for (index, pattern) in patterns.iter().enumerate() {
            let mut at = 0;
            for token in pattern {
                let next = nodes.len();
                let node = &mut nodes[at];
                at = match token {
                    PatternToken::Any => *node.any.get_or_insert(next),
                    PatternToken::Number(_) => *node.number.get_or_insert(next),
                    PatternToken::Literal(c) => *node.literal.entry(*c).or_insert(next),
                };
                if at == next {
                    nodes.push(PatternNode::new(*token == PatternToken::Any, index));
                }
            }
            nodes[at].ends.get_or_insert(index);
        }
        NamePatterns { patterns, nodes }
    }

    /// The first pattern that matches a name, with the captured numbers.
    pub(crate) fn find_pattern(&self, name: &str) -> Option<(usize, Vec<(String, i64)>)> {
        let index = self.first_match(name)?;
        Some((index, match_numbers(&self.patterns[index], name)?))
    }

    fn first_match(&self, name: &str) -> Option<usize> {
        let mut found: Option<usize> = None;
        let (mut open, mut seen) = (vec![(0, 0)], HashSet::new());
        while let Some((node, at)) = open.pop() {
            let here = &self.nodes[node];
            // Nothing below this node can come before the pattern that was found, and a pair of
            // node and byte leads to the same matches every time; without the second test several
            // stars take exponential time.
            if found.is_some_and(|found| found < here.first) || !seen.insert((node, at)) {
                continue;
            }
            if at == name.len()
                && let Some(index) = here.ends
            {
                found = Some(found.map_or(index, |found| found.min(index)));
            }
            open.extend(here.any.map(|next| (next, at)));
            if let (Some(next), Some((_, end))) = (here.number, parse_number_at(name, at)) {
                open.push((next, end));
            }
            let Some(c) = name[at..].chars().next() else { continue };
            if here.repeats {
                open.push((node, at + c.len_utf8()));
            }
            open.extend(here.literal.get(&c).map(|next| (*next, at + c.len_utf8())));
        }
        found
    }
}

impl PatternNode {
    fn new(repeats: bool, first: usize) -> PatternNode {
        PatternNode { repeats, literal: HashMap::new(), any: None, number: None, ends: None, first }
    }
}

fn split_tokens(pattern: &str) -> Vec<PatternToken> {
    let (mut tokens, mut rest) = (Vec::new(), pattern);
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let word = if c == '{' { rest.split_once('}') } else { None };
        tokens.push(match (c, word) {
            (_, Some((word, behind))) => {
                rest = behind;
                PatternToken::Number(word.to_string())
            }
            // Several stars in a row are equivalent to one.
            ('*', None) if tokens.last() == Some(&PatternToken::Any) => continue,
            ('*', None) => PatternToken::Any,
            (c, None) => PatternToken::Literal(c),
        });
    }
    tokens
}

/// The number that begins at a byte of a name, and the position after it.
fn parse_number_at(name: &str, at: usize) -> Option<(i64, usize)> {
    let digits = name.as_bytes()[at..].iter().take_while(|b| b.is_ascii_digit()).count();
    Some((name[at..at + digits].parse().ok()?, at + digits))
}

/// The numbers that a pattern captures from a name; every `*` matches as few characters as the rest
/// allows, the first `*` first.
fn match_numbers(pattern: &[PatternToken], name: &str) -> Option<Vec<(String, i64)>> {
    let mut taken: Vec<(String, i64)> = Vec::new();
    // Pairs of token and byte from which the rest did not match or is being tried: each pair is
    // tried once.
    let mut tried = HashSet::new();
    // For every branch the token and the byte where it begins, and the number of captures before
    // it.
    let mut branches = vec![(0, 0, 0)];
    while let Some((mut token, mut at, count)) = branches.pop() {
        taken.truncate(count);
        while tried.insert((token, at)) {
            let next = name[at..].chars().next();
            match pattern.get(token) {
                None if at == name.len() => return Some(taken),
                None => break,
                Some(PatternToken::Any) => {
                    branches.extend(next.map(|c| (token, at + c.len_utf8(), taken.len())));
                }
                Some(PatternToken::Number(word)) => {
                    let Some((number, end)) = parse_number_at(name, at) else { break };
                    taken.push((word.clone(), number));
                    at = end;
                }
                Some(PatternToken::Literal(c)) if next == Some(*c) => at += c.len_utf8(),
                Some(PatternToken::Literal(_)) => break,
            }
            token += 1;
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn names_match_patterns() {
        let found = |pattern: &str, name: &str| {
            NamePatterns::new([pattern].into_iter()).find_pattern(name).map(|(_, numbers)| numbers)
        };
        assert_eq!(found("a.{i}.b", "a.12.b"), Some(vec![("i".into(), 12)]));
        assert_eq!(found("*.{i}.*.w", "m.layers.3.x.w"), Some(vec![("i".into(), 3)]));
        assert_eq!(found("*", ""), Some(vec![]));
        assert_eq!(found("a.{i}.b", "a.x.b"), None);
        assert_eq!(found("a", "ab"), None);
        assert_eq!(found("*.w", "a.w.w"), Some(vec![]));
    }

    /// Whether a name matches, by the definition of a pattern.
    fn matches_by_definition(pattern: &str, name: &str, numbers: &mut Vec<(String, i64)>) -> bool {
        if let Some(rest) = pattern.strip_prefix('*') {
            return (0..=name.len()).filter(|k| name.is_char_boundary(*k)).any(|k| {
                let before = numbers.len();
                let found = matches_by_definition(rest, &name[k..], numbers);
                if !found {
                    numbers.truncate(before);
                }
                found
            });
        }
        if let Some((word, rest)) = pattern.strip_prefix('{').and_then(|p| p.split_once('}')) {
            let digits = name.bytes().take_while(u8::is_ascii_digit).count();
            let Ok(number) = name[..digits].parse() else { return false };
            numbers.push((word.to_string(), number));
            return matches_by_definition(rest, &name[digits..], numbers);
        }
        match (pattern.chars().next(), name.chars().next()) {
            (None, None) => true,
            (Some(a), Some(b)) if a == b => {
                matches_by_definition(&pattern[a.len_utf8()..], &name[b.len_utf8()..], numbers)
            }
            _ => false,
        }
    }

    #[test]
    fn the_first_of_random_patterns_is_that_of_the_definition() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |n: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state >> 11).unwrap() % n
        };
        let mut found = 0;
        for case in 0..20_000 {
            let mut text = |parts: &[&str], most: usize| -> String {
                (0..below(most + 1)).map(|_| parts[below(parts.len())]).collect()
            };
            let parts = ["a", "b", ".", "*", "*", "{i}", "{j}", "1", "é", "{"];
            let patterns: Vec<String> = (0..6).map(|_| text(&parts, 5)).collect();
            let name = text(&["a", "b", ".", "1", "20", "é", "{", "99999999999999999999"], 6);
            let expected = patterns.iter().enumerate().find_map(|(k, pattern)| {
                let mut numbers = Vec::new();
                matches_by_definition(pattern, &name, &mut numbers).then_some((k, numbers))
            });
            found += usize::from(expected.is_some());
            let all = NamePatterns::new(patterns.iter().map(String::as_str));
            assert_eq!(all.find_pattern(&name), expected, "case {case}: {patterns:?} of `{name}`");
        }
        assert!(found > 4_000, "{found}");
    }
}
