//! Reads the directory of a zip archive: the position of each entry, checked against the file.
//!
//! Names of entries are names of tensors and never paths: nothing is unpacked.

use crate::error::{FileError, Result, quote_start};
use crate::input::{FileSpot, InputFile};
use std::collections::HashSet;

pub(crate) const LOCAL_SIGNATURE: u32 = 0x0403_4b50;
pub(crate) const CENTRAL_SIGNATURE: u32 = 0x0201_4b50;
pub(crate) const END_SIGNATURE: u32 = 0x0605_4b50;
pub(crate) const END64: u32 = 0x0606_4b50;
pub(crate) const LOCATOR64: u32 = 0x0706_4b50;
/// The field of extra data that holds numbers of 64 bits.
pub(crate) const EXTRA64: u16 = 1;
/// The value of a 32-bit field whose number is in the extra data.
pub(crate) const WIDE32: u32 = u32::MAX;
/// The value of a 16-bit field whose number is in the zip64 end record.
pub(crate) const WIDE16: u16 = u16::MAX;

/// The largest directory that is read, in bytes: enough for a million entries.
// An entry of the directory takes 46 bytes and its name, so 128 MB hold more than a million of
// them.
const MAX_DIRECTORY: u64 = 1 << 27;

/// A deflate stream of `n` bytes holds at most this many times `n`.
// The largest match of deflate is 258 bytes, and a code has at least one bit for the length and one
// for the distance: 258 bytes from 2 bits is 1032 to 1 (zlib's technical notes).
const MAX_RATIO: u64 = 1032;

/// One entry.
#[derive(Debug)]
pub(crate) struct ZipEntry {
    pub(crate) name: String,
    /// The first byte of its content in the file.
    pub(crate) start: u64,
    /// The number of bytes of its content in the file, perhaps compressed.
    pub(crate) packed: u64,
    /// The number of bytes of its content when decompressed.
    pub(crate) size: u64,
    pub(crate) deflated: bool,
    pub(crate) crc: u32,
    /// The position of its directory entry.
    pub(crate) listed: u64,
    header: u64,
}

/// The position of the directory.
struct ZipDirectory {
    start: u64,
    size: u64,
    entries: u64,
}

/// Reads every entry, in the order of the directory.
pub(crate) fn read_entries(input: &InputFile) -> Result<Vec<ZipEntry>> {
    let directory = find_directory(input)?;
    if directory.size > MAX_DIRECTORY {
        let what = format!("a directory of {} bytes", directory.size);
        let accepted = format!("at most {MAX_DIRECTORY} bytes");
        return Err(input.start_spot().malformed_error(directory.start, what, accepted));
    }
    let bytes =
        input.read_bytes(directory.start, directory.size, "the directory of the archive")?;
    let mut cursor =
        RecordCursor::new(&bytes, FileSpot { base: directory.start, ..input.start_spot() });
    let mut entries = Vec::new();
    while !cursor.is_at_end() {
        entries.push(read_directory_entry(&mut cursor)?);
    }
    // Readers that go by the number and readers that go by the entries would see different
    // archives.
    if entries.len() as u64 != directory.entries {
        let what = format!("{} entries listed, {} announced", entries.len(), directory.entries);
        return Err(input.start_spot().malformed_error(directory.start, what, "the same number"));
    }
    let mut names = HashSet::new();
    for entry in &entries {
        // Readers disagree about which of two equal names counts, so one of them would read other
        // numbers.
        if !names.insert(entry.name.as_str()) {
            return Err(input.start_spot().duplicate_error(entry.listed, &entry.name));
        }
    }
    for entry in &mut entries {
        locate_content(entry, &directory, input)?;
    }
    check_disjoint(&entries, input)?;
    Ok(entries)
}

/// Finds the end record, and the zip64 end record if numbers do not fit in the first one.
fn find_directory(input: &InputFile) -> Result<ZipDirectory> {
    const SIZE: u64 = 22;
    let spot = input.start_spot();
    spot.check_fits(0, SIZE, input.len, "the end record of a zip archive")?;
    // The end record may be followed by a comment of up to 65535 bytes, so it is somewhere in this
    // tail.
    let tail_at = input.len - input.len.min(SIZE + u64::from(u16::MAX));
    let tail = input.read_bytes(tail_at, input.len - tail_at, "the end of the archive")?;
    // A comment may contain the signature too; after the right one the comment ends exactly with
    // the file.
    let ends_file = |at: &usize| {
        let rest = &tail[*at..];
        rest.starts_with(&END_SIGNATURE.to_le_bytes())
            && rest.len() == 22 + usize::from(u16::from_le_bytes([rest[20], rest[21]]))
    };
    let last = tail.len() - 22;
    // The last record counts, as in every reader that seeks from the end.
    let Some(at) = (0..=last).rev().find(ends_file) else {
        let what = "no end record of a zip archive: the file is truncated or not an archive";
        return Err(spot.malformed_error(
            input.len,
            what,
            "an archive that ends with its directory",
        ));
    };
    let end = tail_at + at as u64;
    let mut cursor = RecordCursor::new(&tail[at..], FileSpot { base: end, ..spot });
    cursor.take_u32()?;
    let disks = (cursor.take_u16()?, cursor.take_u16()?);
    let counts = (cursor.take_u16()?, cursor.take_u16()?);
    let (size, start) = (cursor.take_u32()?, cursor.take_u32()?);
    let wide = counts.1 == WIDE16 || size == WIDE32 || start == WIDE32;
    // The largest numbers may also be meant literally: then there is no zip64 record.
    let (directory, stop) = match if wide { find_zip64_directory(end, input)? } else { None } {
        Some(found) => found,
        None if disks != (0, 0) || counts.0 != counts.1 => {
            return Err(spot.malformed_error(end, "an archive in several parts", "a single file"));
        }
        None => {
            let entries = u64::from(counts.1);
            (ZipDirectory { start: start.into(), size: size.into(), entries }, end)
        }
    };
    // Bytes between the directory and its end record, or in front of the archive, shift every
    // offset; other readers guess the shift, this one refuses.
    if directory.start.checked_add(directory.size) != Some(stop) {
        let what = format!("a directory of {} bytes at byte {}", directory.size, directory.start);
        return Err(spot.malformed_error(end, what, format!("one that ends at byte {stop}")));
    }
    Ok(directory)
}

/// The directory according to the zip64 end record, and the byte where that record begins; `None`
/// if there is no such record.
fn find_zip64_directory(end: u64, input: &InputFile) -> Result<Option<(ZipDirectory, u64)>> {
    let spot = input.start_spot();
    // The zip64 locator has 20 bytes and stands directly in front of the end record.
    let Some(locator_at) = end.checked_sub(20) else { return Ok(None) };
    let bytes = input.read_bytes(locator_at, 20, "the zip64 locator")?;
    let mut cursor = RecordCursor::new(&bytes, FileSpot { base: locator_at, ..spot });
    if cursor.take_u32()? != LOCATOR64 {
        return Ok(None);
    }
    let disk = cursor.take_u32()?;
    let record_at = cursor.take_u64()?;
    let disks = cursor.take_u32()?;
    if record_at.checked_add(56).is_none_or(|stop| stop > locator_at) {
        let what = format!("a zip64 end record at byte {record_at}");
        return Err(spot.malformed_error(locator_at, what, "one in front of its locator"));
    }
    let bytes = input.read_bytes(record_at, 56, "the zip64 end record")?;
    let mut cursor = RecordCursor::new(&bytes, FileSpot { base: record_at, ..spot });
    if cursor.take_u32()? != END64 {
        let what = "no mark of the zip64 end record";
        return Err(spot.malformed_error(record_at, what, "PK\\x06\\x06"));
    }
    let size = cursor.take_u64()?;
    // The record's own size does not count its first 12 bytes (mark and size).
    if size.checked_add(record_at + 12) != Some(locator_at) {
        let what = format!("a zip64 end record of {size} bytes");
        return Err(spot.malformed_error(record_at, what, "one that ends at its locator"));
    }
    cursor.take_bytes(4)?;
    let parts = (cursor.take_u32()?, cursor.take_u32()?);
    let counts = (cursor.take_u64()?, cursor.take_u64()?);
    if disk != 0 || disks > 1 || parts != (0, 0) || counts.0 != counts.1 {
        return Err(spot.malformed_error(
            record_at,
            "an archive in several parts",
            "a single file",
        ));
    }
    let (size, start) = (cursor.take_u64()?, cursor.take_u64()?);
    Ok(Some((ZipDirectory { start, size, entries: counts.1 }, record_at)))
}

/// Reads the next entry of the directory; the position of its content is not known yet.
fn read_directory_entry(cursor: &mut RecordCursor<'_>) -> Result<ZipEntry> {
    let at = cursor.byte_position();
    let spot = cursor.spot;
    let bad = |what: String, accepted: &str| FileError::Malformed {
        path: spot.path.to_path_buf(),
        at,
        what,
        accepted: accepted.to_string(),
    };
    if cursor.take_u32()? != CENTRAL_SIGNATURE {
        return Err(bad("no mark of a directory entry".into(), "PK\\x01\\x02"));
    }
    cursor.take_bytes(4)?;
    let (flags, method) = (cursor.take_u16()?, cursor.take_u16()?);
    cursor.take_bytes(4)?;
    let crc = cursor.take_u32()?;
    let (packed, size) = (cursor.take_u32()?, cursor.take_u32()?);
    let (name, extra, comment) = (cursor.take_u16()?, cursor.take_u16()?, cursor.take_u16()?);
    let disk = cursor.take_u16()?;
    cursor.take_bytes(6)?;
    let header = cursor.take_u32()?;
    let name = cursor.take_bytes(name.into())?;
    let extra = cursor.take_bytes(extra.into())?;
    cursor.take_bytes(comment.into())?;

    let name = std::str::from_utf8(name)
        .map_err(|_| bad("a name that is not UTF-8".into(), "names in UTF-8"))?
        .to_string();
    let (mut packed64, mut size64, mut header64) = (packed.into(), size.into(), header.into());
    if packed == WIDE32 || size == WIDE32 || header == WIDE32 {
        let wide = find_zip64_extra(extra).ok_or_else(|| {
            bad(format!("`{}` announces zip64 numbers and has none", quote_start(&name)), "them")
        })?;
        let mut numbers = RecordCursor::new(wide, FileSpot { base: at, ..spot });
        // The zip64 field holds only those numbers whose narrow field is full, in this order
        // (APPNOTE 4.5.3).
        for (narrow, number) in
            [(size, &mut size64), (packed, &mut packed64), (header, &mut header64)]
        {
            if narrow == WIDE32 {
                *number = numbers.take_u64()?;
            }
        }
    }
    let (packed, size, header): (u64, u64, u64) = (packed64, size64, header64);
    // Bit 0: encrypted; bit 6: strong encryption; bit 13: encrypted headers.
    if flags & 0x2041 != 0 {
        return Err(bad(format!("`{}` is encrypted", quote_start(&name)), "entries in the clear"));
    }
    if disk != 0 && disk != WIDE16 {
        return Err(bad("an archive in several parts".into(), "a single file"));
    }
    let deflated = match method {
        0 => false,
        8 => true,
        other => {
            let what = format!("`{}` has compression method {other}", quote_start(&name));
            return Err(bad(what, "0 (stored) and 8 (deflated)"));
        }
    };
    if !deflated && packed != size {
        let what = format!("`{}` is stored, with {packed} bytes for {size}", quote_start(&name));
        return Err(bad(what, "the same number"));
    }
    // Checked before anything is decompressed: it bounds the memory and time that a small archive
    // can cost.
    if deflated && size / MAX_RATIO > packed {
        let what = format!("`{}` claims {size} bytes from {packed}", quote_start(&name));
        return Err(bad(what, "at most 1032 times as many, which is what deflate can do"));
    }
    Ok(ZipEntry { name, start: 0, packed, size, deflated, crc, listed: at, header })
}

fn find_zip64_extra(mut extra: &[u8]) -> Option<&[u8]> {
    // Extra data is a list of fields: an identifier and a size of 16 bits each, then the content.
    while let [a, b, c, d, rest @ ..] = extra {
        let size = usize::from(u16::from_le_bytes([*c, *d]));
        let field = rest.get(..size)?;
        if u16::from_le_bytes([*a, *b]) == EXTRA64 {
            return Some(field);
        }
        extra = &rest[size..];
    }
    None
}

/// Reads the local header of an entry, which must agree with the directory.
fn locate_content(entry: &mut ZipEntry, directory: &ZipDirectory, input: &InputFile) -> Result<()> {
    const SIZE: u64 = 30;
    let what = format!("the header of `{}`", quote_start(&entry.name));
    let spot = FileSpot { base: entry.header, ..input.start_spot() };
    let outside = |need: u64| {
        // The content has to end in front of the directory, or an entry could have bytes of the
        // directory as its own.
        let have = directory.start.saturating_sub(entry.header);
        (need > have).then(|| FileError::Truncated {
            path: input.path.clone(),
            at: entry.header,
            what: format!("entry `{}`, in front of the directory,", quote_start(&entry.name)),
            need,
            have,
        })
    };
    if let Some(error) = outside(SIZE) {
        return Err(error);
    }
    let bytes = input.read_bytes(entry.header, SIZE, &what)?;
    let mut cursor = RecordCursor::new(&bytes, spot);
    if cursor.take_u32()? != LOCAL_SIGNATURE {
        return Err(spot.malformed_error(0, format!("{what} has no mark"), "PK\\x03\\x04"));
    }
    cursor.take_bytes(2)?;
    let (flags, method) = (cursor.take_u16()?, cursor.take_u16()?);
    // Time, checksum and sizes of the local header are skipped: archives written as a stream have
    // zeros there, and the directory has them all.
    cursor.take_bytes(16)?;
    let (name, extra) = (u64::from(cursor.take_u16()?), u64::from(cursor.take_u16()?));
    let prefix = SIZE + name + extra;
    if let Some(error) = outside(prefix.saturating_add(entry.packed)) {
        return Err(error);
    }
    let same_method = (method == 8) == entry.deflated && (method == 0 || method == 8);
    let same_name = name == entry.name.len() as u64
        && input.read_bytes(entry.header + SIZE, name, &what)? == entry.name.as_bytes();
    // Tools that unpack entry by entry go by these headers, and others by the directory; both must
    // see one archive.
    if flags & 0x2041 != 0 || !same_method || !same_name {
        let what = format!("{what} differs from the directory");
        return Err(spot.malformed_error(0, what, "the same name, method and flags"));
    }
    entry.start = entry.header + prefix;
    Ok(())
}

/// Checks that no two entries share bytes.
fn check_disjoint(entries: &[ZipEntry], input: &InputFile) -> Result<()> {
    let mut order: Vec<&ZipEntry> = entries.iter().collect();
    order.sort_by_key(|entry| entry.header);
    for pair in order.windows(2) {
        // Overlapping entries are how a "zip bomb" repeats the same compressed bytes for many
        // names.
        if pair[1].header < pair[0].start + pair[0].packed {
            return Err(FileError::Overlap {
                path: input.path.clone(),
                at: pair[1].header,
                first: quote_start(&pair[0].name),
                second: quote_start(&pair[1].name),
            });
        }
    }
    Ok(())
}

/// Reads little-endian numbers one after another.
struct RecordCursor<'a> {
    bytes: &'a [u8],
    at: usize,
    spot: FileSpot<'a>,
}

impl<'a> RecordCursor<'a> {
    fn new(bytes: &'a [u8], spot: FileSpot<'a>) -> RecordCursor<'a> {
        RecordCursor { bytes, at: 0, spot }
    }

    fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn byte_position(&self) -> u64 {
        self.spot.base + self.at as u64
    }

    fn take_bytes(&mut self, size: usize) -> Result<&'a [u8]> {
        let (at, total) = (self.at as u64, self.bytes.len() as u64);
        self.spot.check_fits(at, size as u64, total, "a record of the archive")?;
        let part = &self.bytes[self.at..self.at + size];
        self.at += size;
        Ok(part)
    }

    fn take_array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take_bytes(N)?.try_into().expect("take gives as many bytes as asked for"))
    }

    fn take_u16(&mut self) -> Result<u16> {
        self.take_array().map(u16::from_le_bytes)
    }

    fn take_u32(&mut self) -> Result<u32> {
        self.take_array().map(u32::from_le_bytes)
    }

    fn take_u64(&mut self) -> Result<u64> {
        self.take_array().map(u64::from_le_bytes)
    }
}
