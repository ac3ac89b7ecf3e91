//! PyTorch host layouts: `size=[4, 6] stride=[6, 1] offset=2`.
//!
//! `stride` left out is row-major, `offset` left out is 0. Lists take square or round brackets.

use crate::Diagnostic;
use crate::cursor::Cursor;
use zellige_layout::Strided;

type Result<T> = std::result::Result<T, Diagnostic>;

/// Reads a host layout.
pub fn parse(text: &str) -> Result<Strided> {
    let mut c = Cursor::new(text);
    let (mut size, mut stride, mut offset) = (None, None, None);
    while let Some(key) = c.word() {
        let repeated = |given: bool| {
            if !given {
                return Ok(());
            }
            let message = format!("`{}` is given twice", key.value);
            Err(Diagnostic::syntax(key.span.clone(), message, "already given"))
        };
        match key.value {
            "size" => {
                repeated(size.is_some())?;
                c.expect('=', "after `size`")?;
                size = Some(c.int_list("sizes")?);
            }
            "stride" => {
                repeated(stride.is_some())?;
                c.expect('=', "after `stride`")?;
                stride = Some(c.int_list("strides")?);
            }
            "offset" => {
                repeated(offset.is_some())?;
                c.expect('=', "after `offset`")?;
                offset = Some(c.int("an offset")?.value);
            }
            other => {
                let message =
                    format!("unknown field `{}`", other.chars().take(40).collect::<String>());
                let label = "expected `size`, `stride` or `offset`";
                return Err(Diagnostic::syntax(key.span, message, label));
            }
        }
        let _ = c.eat(',');
    }
    c.finish("the layout")?;
    let Some(size) = size else { return Err(c.expected("`size=[..]`")) };
    let whole = 0..text.len();
    let offset = offset.unwrap_or(0);
    match stride {
        Some(stride) => Strided::new(&size.value, &stride.value, offset)
            .map_err(|e| Diagnostic::meaning(stride.span, e)),
        None => Strided::contiguous(&size.value)
            .and_then(|s| Strided::new(s.size(), s.stride(), offset))
            .map_err(|e| {
                Diagnostic::meaning(if size.span.is_empty() { whole } else { size.span }, e)
            }),
    }
}

/// The text of a host layout.
pub fn print(host: &Strided) -> String {
    let mut out = format!("size={:?} stride={:?}", host.size(), host.stride());
    if host.offset() != 0 {
        out += &format!(" offset={}", host.offset());
    }
    out
}
