//! Words that are almost right: what was probably meant.

use anyhow::{Result, anyhow};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use zellige_float::Dtype;
use zellige_notation::{Notation, make_visible};

/// Names that other programs have for our dtypes, in lower case and without `_`, `-`, spaces and a prefix. Suggested and not
/// accepted, because several of them mean different types in different programs: `f8` is 8 bits in one and 8 bytes in
/// another.
const DTYPE_NAMES: &[(&str, &str)] = &[
    ("fp16", "float16"),
    ("f16", "float16"),
    ("<f2", "float16"),
    ("f2", "float16"),
    ("fp32", "float32"),
    ("f32", "float32"),
    ("<f4", "float32"),
    ("single", "float32"),
    ("tf32", "float32"),
    ("fp64", "float64"),
    ("f64", "float64"),
    ("<f8", "float64"),
    ("bf16", "bfloat16"),
    ("brainfloat16", "bfloat16"),
    ("bfloat", "bfloat16"),
    ("dl16", "float16"),
    ("df16", "float16"),
    ("dlfloat16", "float16"),
    ("sen169fp16", "float16"),
    ("fp8", "float8_e4m3fn"),
    ("f8", "float8_e4m3fn"),
    ("float8", "float8_e4m3fn"),
    ("e4m3", "float8_e4m3fn"),
    ("e4m3fn", "float8_e4m3fn"),
    ("fp8e4m3", "float8_e4m3fn"),
    ("f8e4m3fn", "float8_e4m3fn"),
    ("float8e4m3", "float8_e4m3fn"),
    ("e5m2", "float8_e5m2"),
    ("fp8e5m2", "float8_e5m2"),
    ("f8e5m2", "float8_e5m2"),
    ("fp4", "float4_e2m1fn"),
    ("f4", "float4_e2m1fn"),
    ("e2m1", "float4_e2m1fn"),
    ("nvfp4", "float4_e2m1fn"),
    ("mxfp4", "float4_e2m1fn"),
    ("i64", "int64"),
    ("s64", "int64"),
    ("si64", "int64"),
    ("<i8", "int64"),
    ("longlong", "int64"),
    ("i32", "int32"),
    ("s32", "int32"),
    ("si32", "int32"),
    ("<i4", "int32"),
    ("integer", "int32"),
    ("i16", "int16"),
    ("s16", "int16"),
    ("<i2", "int16"),
    ("i8", "int8"),
    ("s8", "int8"),
    ("|i1", "int8"),
    ("char", "int8"),
    ("i4", "int4"),
    ("s4", "int4"),
    ("u64", "uint64"),
    ("u32", "uint32"),
    ("u16", "uint16"),
    ("u8", "uint8"),
    ("|u1", "uint8"),
    ("byte", "uint8"),
    ("u4", "uint4"),
    ("boolean", "bool"),
    ("|b1", "bool"),
    ("pred", "bool"),
    ("i1", "bool"),
    ("complex", "complex64"),
    ("cfloat", "complex64"),
    ("c64", "complex64"),
    ("cdouble", "complex128"),
    ("c128", "complex128"),
    ("chalf", "complex32"),
];

/// Prefixes under which libraries have their dtypes; that of PyTorch is accepted already.
const DTYPE_PREFIXES: &[&str] =
    &["torch.", "np.", "numpy.", "jnp.", "tf.", "tl.", "ml_dtypes.", "cutlass."];

/// Names that people have for notations.
const NOTATION_NAMES: &[(&str, &str)] = &[
    ("tvm", "tirx"),
    ("axe", "tirx"),
    ("tilelayout", "tirx"),
    ("pytorch", "torch"),
    ("strides", "torch"),
    ("cutlass", "cute"),
    ("pycute", "cute"),
    ("linearlayout", "linear"),
    ("ttgir", "triton"),
    ("mlir", "memref"),
    ("affinemap", "memref"),
    ("linalg", "pack"),
    ("tpu", "xla"),
    ("dnnl", "onednn"),
    ("mkldnn", "onednn"),
    ("partitionspec", "jax"),
    ("gspmd", "hlo"),
    ("sdy", "shardy"),
    ("np", "numpy"),
    ("torchspyre", "spyre"),
    ("spyretensorlayout", "spyre"),
    ("stick", "spyre"),
];

/// What people type for a command that has another name.
const COMMAND_NAMES: &[(&str, &str)] = &[
    ("draw", "show"),
    ("print", "show"),
    ("view", "show"),
    ("plot", "show"),
    ("visualize", "show"),
    ("lint", "check"),
    ("verify", "check"),
    ("validate", "check"),
    ("describe", "explain"),
    ("translate", "convert"),
    ("compare", "diff"),
    ("locate", "map"),
    ("list", "presets"),
    ("layouts", "presets"),
    ("relayout", "move"),
    ("restickify", "move"),
    ("copy", "move"),
    ("transfer", "dma"),
    ("checkpoint", "reshard"),
    ("kernel", "cuda"),
    ("gpu", "cuda"),
    ("card", "device"),
    ("execute", "run"),
    ("build", "compile"),
    ("benchmark", "bench"),
    ("serve", "explore"),
    ("predict", "explain-time"),
    ("time", "explain-time"),
    ("completion", "completions"),
    ("manual", "man"),
];

/// A dtype by its name; a name that is none gets the one that was probably meant.
pub(crate) fn parse_dtype(name: &str) -> Result<Dtype> {
    Dtype::from_name(name).map_err(|e| match suggest_dtype(name) {
        Some(near) => anyhow!("unknown dtype `{}`; did you mean `{near}`?", make_visible(&e.dtype)),
        None => anyhow!(e),
    })
}

/// The dtype that was probably meant.
fn suggest_dtype(name: &str) -> Option<&'static str> {
    let lower = name.trim().to_ascii_lowercase();
    let bare = DTYPE_PREFIXES.iter().find_map(|p| lower.strip_prefix(p)).unwrap_or(&lower);
    let plain = without_separators(bare);
    let exact = Dtype::ALL.iter().map(|d| d.name()).find(|n| without_separators(n) == plain);
    // `torch.half` is accepted, and so its other spellings are near it.
    let accepted = Dtype::from_name(bare).ok().map(Dtype::name);
    exact
        .or(accepted)
        .or_else(|| look_up(DTYPE_NAMES, &plain))
        .or_else(|| nearest_name(bare, Dtype::ALL.iter().map(|d| d.name())))
}

/// The notation that was probably meant.
pub(crate) fn suggest_notation(name: &str) -> Option<String> {
    let plain = without_separators(&name.to_ascii_lowercase());
    let names = Notation::all_notations().map(|n| n.name());
    let found = look_up(NOTATION_NAMES, &plain).or_else(|| nearest_name(&plain, names));
    found.map(str::to_string)
}

/// Adds the command that was probably meant to the refusal of one that does not exist.
pub(crate) fn suggest_subcommand(
    mut e: clap::Error,
    program: &clap::Command,
    arguments: &[OsString],
) -> clap::Error {
    if e.kind() != ErrorKind::InvalidSubcommand {
        return e;
    }
    let Some(ContextValue::String(word)) = e.get(ContextKind::InvalidSubcommand) else { return e };
    // The word of a command inside of another one (`zellige ktir rnu`) is compared with the names there.
    let parent = arguments.get(1).and_then(|a| program.find_subcommand(a)).unwrap_or(program);
    let lower = word.to_ascii_lowercase();
    let names: Vec<&str> = parent.get_subcommands().map(clap::Command::get_name).collect();
    let synonyms: Vec<_> = COMMAND_NAMES.iter().filter(|(_, ours)| names.contains(ours)).collect();
    let other_words = synonyms.iter().map(|(other, _)| *other);
    let nearest = nearest_name(&lower, names.iter().copied().chain(other_words));
    // The parser's own suggestion compares letters alone, and would offer `upload` for `plot`.
    if let Some(near) = nearest {
        let ours =
            synonyms.iter().find(|(other, _)| *other == near).map_or(near, |(_, ours)| *ours);
        let near = ContextValue::Strings(vec![ours.to_string()]);
        e.insert(ContextKind::SuggestedSubcommand, near);
    }
    e
}

fn look_up(table: &'static [(&'static str, &'static str)], word: &str) -> Option<&'static str> {
    table.iter().find(|(from, _)| *from == word).map(|(_, to)| *to)
}

fn without_separators(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '_' | '-' | ' ' | '.')).collect()
}

/// The name that a word is most likely a misspelling of.
pub(crate) fn nearest_name<'n>(
    word: &str,
    names: impl Iterator<Item = &'n str>,
) -> Option<&'n str> {
    // Names are short, and the distance takes the product of both lengths.
    if word.len() > 60 {
        return None;
    }
    let best = names.map(|name| (edit_distance(word, name), name)).min()?;
    // A third of the letters at most, because a suggestion that has little in common with the word misleads.
    (best.0 <= (word.len().max(best.1.len()) / 3).max(1)).then_some(best.1)
}

/// The edit distance of Levenshtein, in one row of its table.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let up = row[j + 1];
            let replace = diagonal + usize::from(x != *y);
            row[j + 1] = replace.min(up + 1).min(row[j] + 1);
            diagonal = up;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_programs_are_suggested_by_ours() {
        for (other, ours) in DTYPE_NAMES {
            // A table that suggests a dtype which does not exist would mislead twice.
            assert!(Dtype::ALL.iter().any(|d| d.name() == *ours), "{ours}");
            assert!(
                Dtype::from_name(other).is_err(),
                "`{other}` is accepted and needs no suggestion"
            );
            assert_eq!(suggest_dtype(other), Some(*ours), "{other}");
            assert_eq!(suggest_dtype(&other.to_ascii_uppercase()), Some(*ours), "{other}");
        }
        for (other, ours) in NOTATION_NAMES {
            assert!(Notation::from_name(ours).is_some(), "{ours}");
            assert_eq!(suggest_notation(other).as_deref(), Some(*ours), "{other}");
        }
        for (_, ours) in COMMAND_NAMES {
            let program = <crate::Cli as clap::CommandFactory>::command();
            assert!(program.find_subcommand(ours).is_some(), "{ours}");
        }
    }

    #[test]
    fn misspellings_are_near_and_other_words_are_not() {
        for (word, near) in [
            ("Float16", Some("float16")),
            ("float_16", Some("float16")),
            ("np.float32", Some("float32")),
            ("jnp.bfloat16", Some("bfloat16")),
            ("flaot16", Some("float16")),
            ("float8-e4m3fn", Some("float8_e4m3fn")),
            ("HALF", Some("float16")),
            ("tensor", None),
            ("", None),
        ] {
            assert_eq!(suggest_dtype(word), near, "{word}");
        }
        assert_eq!(suggest_notation("onedn").as_deref(), Some("onednn"));
        assert_eq!(suggest_notation("english"), None);
    }

    #[test]
    fn commands_of_other_names_are_suggested_by_ours() {
        use clap::CommandFactory;
        for (words, near) in [
            (&["plot", "x"][..], Some("show")),
            (&["drw"], Some("show")),
            (&["shwo"], Some("show")),
            (&["comple"], Some("compile")),
            (&["ktir", "rn"], Some("run")),
            (&["quux"], None),
        ] {
            let arguments: Vec<OsString> = std::iter::once("zellige")
                .chain(words.iter().copied())
                .map(OsString::from)
                .collect();
            let refused = crate::Cli::command().try_get_matches_from(&arguments).unwrap_err();
            let e = suggest_subcommand(refused, &crate::Cli::command(), &arguments);
            let shown = e.to_string();
            match near {
                Some(near) => assert!(shown.contains(&format!("exists: '{near}'")), "{shown}"),
                None => assert!(!shown.contains("tip"), "{shown}"),
            }
        }
    }

    /// Against the definition: the least number of single letters that are removed, added or replaced.
    #[test]
    fn the_distance_is_that_of_its_definition() {
        fn slow(a: &[u8], b: &[u8]) -> usize {
            match (a, b) {
                ([], rest) | (rest, []) => rest.len(),
                ([x, a1 @ ..], [y, b1 @ ..]) => {
                    let replace = slow(a1, b1) + usize::from(x != y);
                    replace.min(1 + slow(a1, b)).min(1 + slow(a, b1))
                }
            }
        }
        let words = ["", "a", "ab", "ba", "abc", "acb", "bca", "aabb", "abab"];
        for a in words {
            for b in words {
                assert_eq!(edit_distance(a, b), slow(a.as_bytes(), b.as_bytes()), "{a} {b}");
            }
        }
    }
}
