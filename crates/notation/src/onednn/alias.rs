//! Aliases of format tags: the letters of a family of tensors instead of `a`, `b`, `c` (oneDNN's
//! `dnnl_format_tag_t`).
//!
//! | family | dimensions in order |
//! |---|---|
//! | a vector | `x` |
//! | activations | `n c d h w` |
//! | weights | `g o i d h w` |
//! | states of recurrent layers | `t n c`, `l d n c` |
//! | weights of recurrent layers | `l d i g o` |
//!
//! An alias uses some letters of one family; these are `a`, `b`, .. in the order of the table. A few names
//! of oneDNN do not follow this rule and are listed.

use crate::Diagnostic;

/// Names whose capitals or order are not those of the tag.
const EXCEPTIONS: [(&str, &str); 6] = [
    ("OhwI24o", "Acdb24a"),
    ("OhwI32o", "Acdb32a"),
    ("gOhwI24o", "aBdec24b"),
    ("gOhwI32o", "aBdec32b"),
    ("gIOhw2i8o16i2o", "aBCde2c8b16c2b"),
    ("gIOdhw2i8o16i2o", "aBCdef2c8b16c2b"),
];

/// The letters of dimensions of each family, in order.
const FAMILIES: [&str; 6] = ["x", "ldnc", "ldigo", "tnc", "ncdhw", "goidhw"];

/// The name in the letters of dimensions; a name in these letters is itself. As many bytes as the name.
pub(super) fn resolve_tag_alias(name: &str) -> Result<String, Diagnostic> {
    if let Some((_, tag)) = EXCEPTIONS.iter().find(|(alias, _)| *alias == name) {
        return Ok((*tag).to_string());
    }
    if let Some((at, c)) = name.char_indices().find(|(_, c)| !c.is_ascii_alphanumeric()) {
        let message = format!("`{c}` in a format tag");
        return Err(Diagnostic::syntax_error(
            at..at + c.len_utf8(),
            message,
            "letters and numbers only",
        ));
    }
    let head = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let used = name[..head].to_ascii_lowercase();
    if used.contains('a') {
        return Ok(name.to_string());
    }
    // Families share letters, so the most specific one is chosen: only recurrent layers have `l` or `t`,
    // only activations and states have `n`.
    let family = match () {
        () if used == "x" => "x",
        () if used.contains('l') && used.contains('n') => "ldnc",
        () if used.contains('l') => "ldigo",
        () if used.contains('t') => "tnc",
        () if used.contains('n') => "ncdhw",
        () => "goidhw",
    };
    let order: Vec<char> = family.chars().filter(|c| used.contains(*c)).collect();
    let whole = match family {
        "ncdhw" | "tnc" => used.contains('n') && (used.contains('c') || used.contains('t')),
        "goidhw" => used.contains('o') && used.contains('i'),
        _ => true,
    };
    let mut out = String::with_capacity(name.len());
    for (at, c) in name.char_indices() {
        let place = order.iter().position(|o| *o == c.to_ascii_lowercase());
        match place.and_then(|p| u8::try_from(p).ok()) {
            _ if c.is_ascii_digit() => out.push(c),
            Some(p) if whole => {
                let letter = char::from(b'a' + p);
                out.push(if c.is_ascii_uppercase() { letter.to_ascii_uppercase() } else { letter });
            }
            _ => {
                let message =
                    format!("`{}` is not a format tag", name.chars().take(40).collect::<String>());
                return Err(Diagnostic::syntax_error(
                    at..at + 1,
                    message,
                    "no dimension of one family",
                )
                .with_help(format!(
                    "dimensions are a, b, c, .. in their order, or the letters of one of {}",
                    FAMILIES.join(", ")
                )));
            }
        }
    }
    Ok(out)
}
