//! Licence expressions of SPDX, as far as crates use them.

/// Whether accepted licences satisfy an expression: one side of every `OR`, both of every `AND`.
/// The older `MIT/Apache-2.0` is an `OR`, and `WITH` belongs to its licence.
///
/// ```
/// use zellige_notices::license::is_accepted;
/// let allow = |name: &str| ["MIT", "Unicode-3.0"].contains(&name);
/// assert_eq!(is_accepted("(MIT OR Apache-2.0) AND Unicode-3.0", &allow), Ok(true));
/// assert_eq!(is_accepted("MIT AND GPL-3.0-only", &allow), Ok(false));
/// assert_eq!(is_accepted("Apache-2.0/MIT", &allow), Ok(true));
/// assert!(is_accepted("MIT OR", &allow).is_err());
/// ```
///
/// # Errors
/// An invalid expression.
pub fn is_accepted(expression: &str, allow: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    // Before SPDX expressions Cargo allowed `MIT/Apache-2.0`, and old crates still have it.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let holds = parse_or(&words, &mut at, allow);
    match holds {
        Some(holds) if at == words.len() => Ok(holds),
        _ => Err(format!("`{expression}` is not a licence expression")),
    }
}

fn parse_or(words: &[&str], at: &mut usize, allow: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut holds = parse_and(words, at, allow)?;
    // AND binds tighter than OR in SPDX, hence two levels.
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        holds |= parse_and(words, at, allow)?;
    }
    Some(holds)
}

fn parse_and(words: &[&str], at: &mut usize, allow: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut holds = parse_term(words, at, allow)?;
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        holds &= parse_term(words, at, allow)?;
    }
    Some(holds)
}

fn parse_term(words: &[&str], at: &mut usize, allow: &dyn Fn(&str) -> bool) -> Option<bool> {
    let word = *words.get(*at)?;
    *at += 1;
    if word == "(" {
        let holds = parse_or(words, at, allow)?;
        *at += 1;
        return (words.get(*at - 1) == Some(&")")).then_some(holds);
    }
    if [")", "OR", "AND", "WITH"].contains(&word) {
        return None;
    }
    if words.get(*at) != Some(&"WITH") {
        return Some(allow(word));
    }
    let exception = words.get(*at + 1)?;
    *at += 2;
    Some(allow(&format!("{word} WITH {exception}")))
}
