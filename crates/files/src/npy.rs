//! Reads and writes the header of a `.npy` file, or of an entry of a `.npz` file.
//!
//! ```text
//! \x93NUMPY  major minor  length (2 bytes, from version 2 on 4)  {'descr': ..., }  padding \n
//! ```

use crate::dtype;
use crate::error::{Result, quote_start};
use crate::info::{ByteOrder, DimensionOrder, FileExtent, TensorInfo};
use crate::input::FileSpot;
use crate::literal::{self, LiteralValue, PythonLiteral};
use std::io::{self, Read};
use zellige_float::Dtype;

pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";

/// The longest header that is read; only records with many fields, which are refused, need more.
// A header of 64 extents takes about 1400 bytes. Version 2 of the format was made for longer ones,
// which only records with many fields have.
const MAX_HEADER: u64 = 1 << 16;

/// The alignment of the elements in written files.
pub(crate) const DATA_ALIGNMENT: u64 = 64;

const REQUIRED_KEYS: &str = "the three keys 'descr', 'fortran_order' and 'shape', once each";

/// The contents of a header.
#[derive(Debug, PartialEq)]
pub(crate) struct NpyHeader {
    pub(crate) dtype: Dtype,
    pub(crate) endian: ByteOrder,
    pub(crate) order: DimensionOrder,
    pub(crate) shape: Vec<i64>,
    /// The number of bytes of the elements.
    pub(crate) bytes: u64,
    /// The number of bytes before them.
    pub(crate) length: u64,
}

impl NpyHeader {
    /// The tensor whose header and elements fill `extent`.
    pub(crate) fn into_tensor(self, name: &str, extent: FileExtent) -> TensorInfo {
        TensorInfo {
            name: name.to_string(),
            dtype: self.dtype,
            shape: self.shape,
            order: self.order,
            endian: self.endian,
            bytes: self.bytes,
            extent: FileExtent { head: self.length, ..extent },
        }
    }
}

/// Reads the header of an array that takes `total` bytes, header included, and checks that it
/// announces exactly as many.
pub(crate) fn read_header(
    from: &mut dyn Read,
    total: u64,
    spot: FileSpot<'_>,
) -> Result<NpyHeader> {
    let mut next = |at: u64, need: u64, what: &str| {
        spot.check_fits(at, need, total, what)?;
        let mut bytes = vec![0; usize::try_from(need).unwrap_or(0)];
        from.read_exact(&mut bytes).map_err(|e| header_error(&e, at, what, spot))?;
        Ok(bytes)
    };
    let start = next(0, 8, "the magic number and version of .npy")?;
    if !start.starts_with(MAGIC) {
        let found = format!("begins with \"{}\"", start.escape_ascii());
        return Err(spot.malformed_error(0, found, "\"\\x93NUMPY\", the mark of .npy"));
    }
    // Version 1 has a length of 2 bytes, version 2 of 4, and version 3 allows UTF-8 in the
    // dictionary.
    let (wide, version) = match (start[6], start[7]) {
        (1, 0) => (false, 1),
        (2, 0) => (true, 2),
        (3, 0) => (true, 3),
        (major, minor) => {
            let what = format!(".npy version {major}.{minor}");
            return Err(spot.malformed_error(6, what, "versions 1.0, 2.0 and 3.0"));
        }
    };
    let size = next(8, if wide { 4 } else { 2 }, "the length of the header")?;
    let size = size.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    let text_at = if wide { 12 } else { 10 };
    spot.check_fits(text_at, size, total, "the header")?;
    if size > MAX_HEADER {
        let what = format!("a header of {size} bytes");
        return Err(spot.malformed_error(8, what, format!("at most {MAX_HEADER} bytes")));
    }
    let text = next(text_at, size, "the header")?;
    if version < 3 && !text.is_ascii() {
        let at = text.iter().position(|b| !b.is_ascii()).unwrap_or(0);
        let what = format!("found byte 0x{:02x}", text[at]);
        return Err(spot.malformed_error(text_at + at as u64, what, "ASCII up to version 2.0"));
    }
    let inside = FileSpot { skip: spot.skip + text_at, ..spot };
    let length = text_at + size;
    let header = interpret_header(&text, length, inside)?;
    spot.check_fits(length, header.bytes, total, "the data")?;
    // NumPy would ignore the rest. Here it means that the shape, or the file, is not what was
    // meant.
    if total > length + header.bytes {
        let extra = total - length - header.bytes;
        let what = format!("{extra} bytes follow the data");
        return Err(spot.malformed_error(
            length + header.bytes,
            what,
            "one array and nothing behind it",
        ));
    }
    Ok(header)
}

fn header_error(error: &io::Error, at: u64, what: &str, spot: FileSpot<'_>) -> crate::FileError {
    if let Some(inner) = error.get_ref().and_then(|e| e.downcast_ref::<crate::FileError>()) {
        return inner.clone();
    }
    match spot.entry {
        None => crate::FileError::from_io(
            spot.path,
            format!("read {what}"),
            io::Error::from(error.kind()),
        ),
        Some(_) => spot.malformed_error(
            at,
            format!("cannot decompress {what}: {error}"),
            "a deflate stream",
        ),
    }
}

/// Interprets the dictionary of a header.
fn interpret_header(text: &[u8], length: u64, spot: FileSpot<'_>) -> Result<NpyHeader> {
    let root = literal::parse_literal(text).map_err(|refused| {
        spot.malformed_error(refused.at as u64, refused.what, refused.accepted)
    })?;
    let wrong = |literal: &PythonLiteral, what: &str, accepted: &str| {
        spot.malformed_error(
            literal.at as u64,
            format!("{what}{}", literal.describe_kind()),
            accepted,
        )
    };
    let LiteralValue::Dict(pairs) = &root.value else {
        return Err(wrong(&root, "the header is ", "a dictionary"));
    };
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    for (key, value) in pairs {
        let LiteralValue::Text(name) = &key.value else {
            return Err(wrong(key, "a key is ", REQUIRED_KEYS));
        };
        let slot = match name.as_str() {
            "descr" => &mut descr,
            "fortran_order" => &mut fortran,
            "shape" => &mut shape,
            _ => {
                let what = format!("the key '{}'", quote_start(name));
                return Err(spot.malformed_error(key.at as u64, what, REQUIRED_KEYS));
            }
        };
        // Python's dictionary would keep the last of two equal keys and say nothing.
        if slot.replace(value).is_some() {
            let what = format!("the key '{name}' for the second time");
            return Err(spot.malformed_error(key.at as u64, what, REQUIRED_KEYS));
        }
    }
    let missing = |name: &str| {
        spot.malformed_error(root.at as u64, format!("no key '{name}'"), REQUIRED_KEYS)
    };
    let descr = descr.ok_or_else(|| missing("descr"))?;
    let fortran = fortran.ok_or_else(|| missing("fortran_order"))?;
    let shape = shape.ok_or_else(|| missing("shape"))?;

    let LiteralValue::Bool(column_major) = fortran.value else {
        return Err(wrong(fortran, "'fortran_order' is ", "True or False"));
    };
    let shape_at = shape.at as u64;
    let shape = interpret_shape(shape, spot)?;
    let (dtype, endian) = interpret_descr(descr, spot)?;
    let bytes = dtype::bytes_of_shape(dtype, &shape).map_err(|what| {
        spot.malformed_error(shape_at, format!("shape: {what}"), "a smaller one")
    })?;
    let order = if column_major { DimensionOrder::ColumnMajor } else { DimensionOrder::RowMajor };
    Ok(NpyHeader { dtype, endian, order, shape, bytes, length })
}

fn interpret_shape(shape: &PythonLiteral, spot: FileSpot<'_>) -> Result<Vec<i64>> {
    let LiteralValue::Tuple(items) = &shape.value else {
        let what = format!("'shape' is {}", shape.describe_kind());
        return Err(spot.malformed_error(
            shape.at as u64,
            what,
            "a tuple such as (), (3,) or (3, 4)",
        ));
    };
    let extent = |item: &PythonLiteral| match item.value {
        LiteralValue::Int(n) => i64::try_from(n).ok().filter(|n| *n >= 0),
        _ => None,
    };
    let read = |item: &PythonLiteral| {
        extent(item).ok_or_else(|| {
            let what = match item.value {
                LiteralValue::Int(n) => format!("the extent {n}"),
                _ => format!("an extent is {}", item.describe_kind()),
            };
            spot.malformed_error(item.at as u64, what, "integers from 0 to 2^63 - 1")
        })
    };
    items.iter().map(read).collect()
}

fn interpret_descr(descr: &PythonLiteral, spot: FileSpot<'_>) -> Result<(Dtype, ByteOrder)> {
    let at = descr.at as u64;
    match &descr.value {
        LiteralValue::Text(text) => dtype::from_descr(text)
            .map_err(|help| spot.dtype_error(at, format!("'{}'", quote_start(text)), help)),
        LiteralValue::List(_) | LiteralValue::Tuple(_) => {
            let help = "a record of named fields is not one tensor; save each field on its own, \
                        as np.save(name, x[field])";
            Err(spot.dtype_error(at, "[...]".to_string(), help.to_string()))
        }
        _ => {
            let what = format!("'descr' is {}", descr.describe_kind());
            Err(spot.malformed_error(at, what, "a type string such as '<f4'"))
        }
    }
}

/// Builds the bytes before the elements: row-major, little-endian, padded to a multiple of
/// [`DATA_ALIGNMENT`].
pub(crate) fn write_header(dtype: Dtype, shape: &[i64]) -> Result<Vec<u8>, String> {
    let descr = dtype::to_descr(dtype)?;
    let comma = if shape.len() == 1 { "," } else { "" };
    let extents = shape.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let dict =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}{comma}), }}");
    let align = usize::try_from(DATA_ALIGNMENT).expect("64 is a usize");
    // NumPy pads its headers to 64 bytes as well, for readers that map the file.
    let length = (10 + dict.len() + 1).next_multiple_of(align);
    let size = u16::try_from(length - 10).expect("64 extents of 20 characters stay below 64 KiB");
    let mut header = [MAGIC, &[1, 0], &size.to_le_bytes()].concat();
    header.extend_from_slice(dict.as_bytes());
    header.resize(length - 1, b' ');
    header.push(b'\n');
    Ok(header)
}
