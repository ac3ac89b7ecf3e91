//! The formats that graphs come in.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// What a file of a graph holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphFormat {
    /// The readable text, [`crate::text`].
    Text,
    /// The JSON of programs, [`crate::json`].
    Json,
    /// An ONNX model, which `zellige-onnx` reads.
    Onnx,
}

impl GraphFormat {
    /// The format of a file, by the end of its name, or by how it begins: a model begins with the number
    /// of its version, JSON with a brace.
    pub fn detect_format(path: &Path, start: &[u8]) -> GraphFormat {
        let ends = |with: &str| path.extension().is_some_and(|e| e.eq_ignore_ascii_case(with));
        match start.iter().find(|b| !b.is_ascii_whitespace()) {
            // The name decides before the contents: a file that its owner calls ONNX is then refused as a broken
            // model, and not as a strange text.
            _ if ends("onnx") => GraphFormat::Onnx,
            _ if ends("json") => GraphFormat::Json,
            Some(0x08) => GraphFormat::Onnx,
            Some(b'{') => GraphFormat::Json,
            _ => GraphFormat::Text,
        }
    }

    /// The same for a file on disk, of which only the start is read.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn detect_file_format(path: &Path) -> io::Result<GraphFormat> {
        let mut start = Vec::new();
        // Enough for any leading white space that a program writes; a model may have gigabytes of weights.
        File::open(path)?.take(4096).read_to_end(&mut start)?;
        Ok(GraphFormat::detect_format(path, &start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_decide_before_contents() {
        for (path, start, format) in [
            ("a.graph", &b"graph a() {"[..], GraphFormat::Text),
            ("a.graph", b"\n {\"name\"", GraphFormat::Json),
            ("a.JSON", b"graph", GraphFormat::Json),
            ("a.onnx", b"{", GraphFormat::Onnx),
            ("a", b"\x08\x0a\x12", GraphFormat::Onnx),
            ("a", b"", GraphFormat::Text),
        ] {
            assert_eq!(GraphFormat::detect_format(Path::new(path), start), format, "{path}");
        }
    }
}
