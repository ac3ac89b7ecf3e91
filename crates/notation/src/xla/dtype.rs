//! The element types of XLA.

/// Types whose arrays have a layout.
const ARRAYS: [&str; 30] = [
    "pred",
    "s1",
    "s2",
    "s4",
    "s8",
    "s16",
    "s32",
    "s64",
    "u1",
    "u2",
    "u4",
    "u8",
    "u16",
    "u32",
    "u64",
    "f16",
    "bf16",
    "f32",
    "f64",
    "c64",
    "c128",
    "f8e5m2",
    "f8e4m3",
    "f8e4m3fn",
    "f8e4m3b11fnuz",
    "f8e5m2fnuz",
    "f8e4m3fnuz",
    "f8e3m4",
    "f8e8m0fnu",
    "f4e2m1fn",
];

/// Types that are no arrays.
pub(super) const NOT_ARRAYS: [&str; 3] = ["token", "opaque", "tuple"];

/// The type of that name.
pub(super) fn find_xla_type(name: &str) -> Option<&'static str> {
    ARRAYS.into_iter().find(|t| *t == name)
}

/// The bits of an element of a type. An element of less than a byte is stored in one byte, unless the
/// layout has the field `E(4)`.
pub(super) fn bits_of_xla_type(name: &str) -> Option<i64> {
    if name == "pred" {
        return Some(8);
    }
    let digits = name.trim_start_matches(|ch: char| !ch.is_ascii_digit());
    let end = digits.find(|ch: char| !ch.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse::<i64>().ok().map(|bits| bits.max(8))
}

/// The types, for a line of help.
pub(super) fn list_known_types() -> String {
    format!("element types: {}", ARRAYS.join(", "))
}
