//! The engine behind the explorer: the requests of [`zellige_ask`], compiled to WebAssembly.
//!
//! Nothing is decided here. The page sends the lines that `zellige ask` reads, and one more kind of
//! request whose answer is too many bytes for JSON. There is no `unsafe` of ours; the bindings write some,
//! so it cannot be forbidden.

use wasm_bindgen::prelude::wasm_bindgen;

/// The answer to one request, as `zellige ask` gives it.
#[wasm_bindgen]
pub fn ask(line: &str) -> String {
    zellige_ask::answer_line(line)
}

/// One byte per cell of a window of a drawing; none where the request is at fault, which the request
/// `cells` with the same fields explains.
#[wasm_bindgen]
pub fn paint(line: &str) -> Vec<u8> {
    zellige_ask::paint_window(line).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_doors_lead_to_the_engine() {
        let fields = r#""layout":"S[(2,2):(1,2)]","dtype":"float16""#;
        let answer = super::ask(&format!(r#"{{"id":3,"op":"sheets",{fields}}}"#));
        assert!(answer.starts_with(r#"{"id":3,"ok":{"layout":"S[(2,2):(1,2)]""#), "{answer}");
        let window = r#""side":"logical","rows":[0,2],"cols":[0,3]"#;
        // Four elements in one line are coloured by bank; the third column does not exist.
        let bytes = super::paint(&format!("{{{fields},{window}}}"));
        assert_eq!(bytes, [0, 1, 255, 0, 1, 255]);
        assert!(super::paint("{}").is_empty());
    }
}
