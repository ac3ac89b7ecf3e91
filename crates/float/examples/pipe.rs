//! Converts standard input to standard output: the door for `tests/peers.py`.
//!
//! ```text
//! pipe float32 dl16 [baseline | avx2 | avx512 | neon] < in > out
//! ```

use std::error::Error;
use std::io::{Read, Write};

use zellige_float::{Converter, Format, Isa};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [src, dst, rest @ ..] = args.as_slice() else {
        return Err("usage: pipe SOURCE DESTINATION [baseline | avx2 | avx512 | neon]".into());
    };
    let read = |name: &str| {
        Format::from_name(name).ok_or_else(|| {
            let known = Format::ALL.map(Format::name).join(", ");
            format!("no format '{name}'; there are {known}")
        })
    };
    let (src, dst) = (read(src)?, read(dst)?);
    let isa = match rest {
        [] => Isa::process_isa(),
        [name] => Isa::parse(name)?,
        _ => return Err("too many arguments".into()),
    };
    let converter = Converter::with_isa(src, dst, isa);
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input)?;
    if input.len() % src.byte_size() != 0 {
        return Err(format!("{} bytes are no whole number of {src}", input.len()).into());
    }
    let count = input.len() / src.byte_size();
    let mut output = vec![0; count * dst.byte_size()];
    converter.convert(&input, &mut output, count)?;
    std::io::stdout().write_all(&output)?;
    Ok(())
}
