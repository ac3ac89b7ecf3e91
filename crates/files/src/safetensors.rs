//! `.safetensors`: the length of a JSON header in 8 bytes, the header, the bytes of all tensors.
//!
//! The bytes of the tensors are contiguous and end with the file.

use crate::dtype;
use crate::error::{FileError, Result, quote_start};
use crate::info::{
    ByteOrder, DimensionOrder, FileContents, FileExtent, FileMetadata, NewTensor, TensorInfo,
};
use crate::input::{FileSpot, InputFile};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

/// The longest header: the limit of the format's own library.
const MAX_HEADER: u64 = 100_000_000;

/// The alignment of the first tensor in written files.
const DATA_ALIGNMENT: usize = 64;

const METADATA_KEY: &str = "__metadata__";

/// One tensor as the header describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TensorEntry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// Reads the header and checks that its tensors tile the rest of the file.
pub(crate) fn read_header(input: &InputFile) -> Result<FileContents> {
    let size = input.read_bytes(0, 8, "the length of the header")?;
    let size = size.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    // Checked before memory is allocated: the length comes from the file and could be 2^64 - 1.
    if size > MAX_HEADER {
        let what = format!("a header of {size} bytes");
        return Err(input.start_spot().malformed_error(
            0,
            what,
            format!("at most {MAX_HEADER} bytes"),
        ));
    }
    let text = input.read_bytes(8, size, "the header")?;
    let spot = FileSpot { base: 8, ..input.start_spot() };
    let text = std::str::from_utf8(&text).map_err(|e| {
        spot.malformed_error(e.valid_up_to() as u64, "bytes that are not text", "JSON in UTF-8")
    })?;
    // Members stay raw text at first, so that each error can be placed at the byte of its own
    // tensor.
    let JsonMembers::<&RawValue>(members) =
        serde_json::from_str(text).map_err(|e| json_error(&e, text, spot))?;

    let data = 8 + size;
    let mut contents = FileContents::default();
    let mut names = HashSet::new();
    let mut ranges = Vec::new();
    for (name, raw) in &members {
        let at = position_in_text(raw.get(), text);
        let spot = FileSpot { skip: at, ..spot };
        if !names.insert(name.as_str()) {
            return Err(spot.duplicate_error(0, name));
        }
        if name == METADATA_KEY {
            let JsonMembers(texts) =
                serde_json::from_str(raw.get()).map_err(|e| json_error(&e, raw.get(), spot))?;
            for (key, text) in texts {
                if contents.metadata.contains_key(&key) {
                    return Err(spot.duplicate_error(0, &key));
                }
                contents.metadata.insert(key, text);
            }
            continue;
        }
        let entry: TensorEntry =
            serde_json::from_str(raw.get()).map_err(|e| json_error(&e, raw.get(), spot))?;
        let range = entry.data_offsets;
        if range.0 > range.1 {
            let what = format!("data_offsets {range:?} of `{}`", quote_start(name));
            return Err(spot.malformed_error(0, what, "a begin that is not behind the end"));
        }
        // An offset beyond the file is found here with the name of its tensor; later it would be an
        // error of reading.
        let what = format!("the data up to the end of `{}`", quote_start(name));
        input.start_spot().check_fits(data, range.1, input.len, &what)?;
        ranges.push((range, name.as_str()));
        match interpret_tensor(name, &entry, data, spot) {
            Ok(tensor) => contents.tensors.push(tensor),
            Err(error @ FileError::Dtype { .. }) => contents.refused.push((name.clone(), error)),
            Err(error) => return Err(error),
        }
    }
    check_tiling(ranges, data, input)?;
    Ok(contents)
}

fn interpret_tensor(
    name: &str,
    entry: &TensorEntry,
    data: u64,
    spot: FileSpot<'_>,
) -> Result<TensorInfo> {
    let dtype = dtype::from_safetensors(&entry.dtype).map_err(|help| {
        spot.dtype_error(
            0,
            format!("`{}` of `{}`", quote_start(&entry.dtype), quote_start(name)),
            help,
        )
    })?;
    let bad = |what: String, accepted: String| {
        spot.malformed_error(0, format!("`{}`: {what}", quote_start(name)), accepted)
    };
    let shape = entry.shape.iter().map(|&n| i64::try_from(n)).collect::<Result<Vec<_>, _>>();
    let shape =
        shape.map_err(|_| bad("an extent of 2^63 or more".into(), "smaller ones".into()))?;
    let bytes = dtype::bytes_of_shape(dtype, &shape)
        .map_err(|what| bad(what, "a shape that fits".into()))?;
    let (begin, end) = entry.data_offsets;
    if end - begin != bytes {
        let what = format!("data_offsets span {} bytes", end - begin);
        return Err(bad(what, format!("{bytes} bytes, which {shape:?} of {dtype} takes")));
    }
    Ok(TensorInfo {
        name: name.to_string(),
        dtype,
        shape,
        order: DimensionOrder::RowMajor,
        endian: ByteOrder::Little,
        bytes,
        extent: FileExtent::uncompressed(data + begin, bytes),
    })
}

/// Checks that the ranges tile the data, from its first byte to the end of the file.
fn check_tiling(mut ranges: Vec<((u64, u64), &str)>, data: u64, input: &InputFile) -> Result<()> {
    const ACCEPTED: &str = "tensors that follow each other and end with the file";
    ranges.sort_unstable();
    let mut reached = 0;
    let mut before = "the header";
    for ((begin, end), name) in ranges {
        if begin < reached {
            return Err(FileError::Overlap {
                path: input.path.clone(),
                at: data + begin,
                first: quote_start(before),
                second: quote_start(name),
            });
        }
        // The format forbids gaps, because they could hide bytes that no reader shows.
        if begin > reached {
            let what = format!("{} bytes belong to no tensor", begin - reached);
            return Err(input.start_spot().malformed_error(data + reached, what, ACCEPTED));
        }
        (reached, before) = (end, name);
    }
    let rest = input.len - data - reached;
    if rest > 0 {
        let what = format!("{rest} bytes belong to no tensor");
        return Err(input.start_spot().malformed_error(data + reached, what, ACCEPTED));
    }
    Ok(())
}

/// Builds the header of a file with these tensors, and the offsets of their bytes.
///
/// Wide elements come first, so that each tensor begins at a multiple of its element size although
/// the format allows no gaps.
pub(crate) fn write_header(
    tensors: &[(&NewTensor, u64)],
    metadata: &FileMetadata,
) -> Result<(Vec<u8>, Vec<u64>), String> {
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    // A stable sort: tensors of one width stay in the order of the request, so that equal requests
    // give equal files.
    order.sort_by_key(|&i| std::cmp::Reverse(tensors[i].0.dtype.bits()));
    let mut members = serde_json::Map::new();
    if !metadata.is_empty() {
        members.insert(METADATA_KEY.to_string(), serde_json::json!(metadata));
    }
    let mut offsets = vec![0; tensors.len()];
    let mut reached = 0u64;
    for i in order {
        let (tensor, bytes) = tensors[i];
        if tensor.name == METADATA_KEY {
            return Err(format!("`{METADATA_KEY}` is not the name of a tensor"));
        }
        let end = reached.checked_add(bytes).ok_or("all tensors together pass 2^64 bytes")?;
        let name = dtype::to_safetensors(tensor.dtype)?;
        let entry = serde_json::json!({
            "dtype": name, "shape": tensor.shape, "data_offsets": [reached, end],
        });
        members.insert(tensor.name.clone(), entry);
        offsets[i] = reached;
        reached = end;
    }
    let mut header = serde_json::Value::Object(members).to_string().into_bytes();
    // The format lets a header end in spaces. Aligned data can be moved with aligned loads after
    // reading or mapping.
    header.resize((8 + header.len()).next_multiple_of(DATA_ALIGNMENT) - 8, b' ');
    let size = header.len() as u64;
    if size > MAX_HEADER {
        return Err(format!("a header of {size} bytes, where {MAX_HEADER} are allowed"));
    }
    let start = 8 + size;
    offsets.iter_mut().for_each(|offset| *offset += start);
    Ok(([&size.to_le_bytes()[..], &header].concat(), offsets))
}

/// The members of a JSON object in order, so that a repeated name is detected.
struct JsonMembers<V>(Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for JsonMembers<V> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct MembersVisitor<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for MembersVisitor<V> {
            type Value = JsonMembers<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    // A map would keep the last of two equal names and hide the first.
                    members.push(member);
                }
                Ok(JsonMembers(members))
            }
        }
        from.deserialize_map(MembersVisitor(PhantomData))
    }
}

/// The position of a part of the text.
fn position_in_text(part: &str, text: &str) -> u64 {
    (part.as_ptr().addr()).saturating_sub(text.as_ptr().addr()) as u64
}

/// Turns an error of the JSON parser into one with a byte position.
fn json_error(error: &serde_json::Error, text: &str, spot: FileSpot<'_>) -> FileError {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let at = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
    let accepted = "{\"name\": {\"dtype\": \"F32\", \"shape\": [..], \"data_offsets\": [begin, end]}, \
                    ..} with an optional \"__metadata__\" of strings";
    let what = error.to_string();
    // The parser may quote a name of any length.
    let what: String =
        what.split(" at line ").next().unwrap_or_default().chars().take(200).collect();
    let what = zellige_notation::make_visible(&what);
    spot.malformed_error(at as u64, format!("header: {what}"), accepted)
}
