//! Turns names of a model into names that the text of a graph allows.

use std::collections::{HashMap, HashSet};

/// Words that are keywords where a name of a graph could stand.
const RESERVED: [&str; 4] = ["return", "pin", "split", "at"];

/// The names of a graph, each used once.
#[derive(Debug, Default)]
pub(crate) struct GraphNames<'a> {
    of: HashMap<&'a str, String>,
    taken: HashSet<String>,
    /// The last number that was appended to each name.
    last: HashMap<String, usize>,
}

impl<'a> GraphNames<'a> {
    /// The name of a value of the model, the same every time.
    pub(crate) fn name_for(&mut self, name: &'a str) -> String {
        if let Some(known) = self.of.get(name) {
            return known.clone();
        }
        let made = self.unused_name(&sanitize_name(name));
        self.of.insert(name, made.clone());
        made
    }

    /// A free name that begins like this one.
    pub(crate) fn unused_name(&mut self, like: &str) -> String {
        if self.taken.insert(like.to_string()) {
            return like.to_string();
        }
        // The last number is remembered, because a loop that is unrolled 16384 times asks for the
        // same name each time; counting from 2 again would be quadratic.
        let k = self.last.entry(like.to_string()).or_insert(1);
        loop {
            *k += 1;
            let name = format!("{like}_{k}");
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// Keeps letters, digits, `_` and single dots between them; `/` becomes a dot.
pub(crate) fn sanitize_name(name: &str) -> String {
    let mapped: String = name
        .chars()
        .map(|c| match c {
            // Exporters of PyTorch name nodes by the path of their module, `/blocks.0/attn/MatMul`;
            // dots keep that path readable.
            '/' | '.' => '.',
            c if c.is_alphanumeric() || c == '_' => c,
            _ => '_',
        })
        .collect();
    let parts: Vec<&str> = mapped.split('.').filter(|p| !p.is_empty()).collect();
    let joined = parts.join(".");
    let first = joined.chars().next();
    if first.is_none_or(|c| !(c.is_alphabetic() || c == '_')) || RESERVED.contains(&joined.as_str())
    {
        return format!("_{joined}");
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_becomes_one_of_the_text() {
        for (name, told) in [
            ("/blocks.0/attn/MatMul_output_0", "blocks.0.attn.MatMul_output_0"),
            ("onnx::MatMul_131", "onnx__MatMul_131"),
            ("130", "_130"),
            ("return", "_return"),
            ("", "_"),
            ("...", "_"),
            ("a b;{}", "a_b___"),
        ] {
            assert_eq!(sanitize_name(name), told);
        }
        let mut names = GraphNames::default();
        assert_eq!(
            (names.name_for("a/b"), names.name_for("a.b"), names.name_for("a/b")),
            ("a.b".into(), "a.b_2".into(), "a.b".into())
        );
    }
}
