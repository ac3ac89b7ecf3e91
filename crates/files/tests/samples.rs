//! Files of NumPy and safetensors, read and written again. `tests/data/files/generate.py` wrote
//! them; `check.py` beside it reads ours.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod common;

use common::{Folder, samples};
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use zellige_files::{
    ByteOrder, Container, ContainerKind, ContainerWriter, DimensionOrder, FileError, NewTensor,
    TensorInfo, read_tensor_file, write_tensor_file,
};
use zellige_float::Dtype;

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// The elements row-major and little-endian, by the definition of both orders.
fn row_major_little(info: &TensorInfo, stored: &[u8]) -> Vec<u8> {
    let width = (info.dtype().bits() / 8) as usize;
    let shape: Vec<usize> = info.shape().iter().map(|&n| n as usize).collect();
    let count: usize = shape.iter().product();
    let mut out = Vec::new();
    for flat in 0..count {
        let mut rest = flat;
        let mut index = vec![0; shape.len()];
        for (digit, extent) in index.iter_mut().zip(&shape).rev() {
            *digit = rest % extent;
            rest /= extent;
        }
        let place = match info.dimension_order() {
            DimensionOrder::RowMajor => flat,
            DimensionOrder::ColumnMajor => {
                index.iter().zip(&shape).rev().fold(0, |sum, (digit, extent)| sum * extent + digit)
            }
        };
        let mut element = stored[place * width..][..width].to_vec();
        info.swap_bytes(&mut element);
        out.extend(element);
    }
    out
}

/// Calls `check` with every tensor of every sample and its description by the other library.
fn each(mut check: impl FnMut(&str, &Container, &TensorInfo, &Value)) {
    let text = std::fs::read_to_string(samples().join("samples.json")).unwrap();
    let files: Value = serde_json::from_str(&text).unwrap();
    let mut count = 0;
    for (file, tensors) in files.as_object().unwrap() {
        let container = Container::open(samples().join(file)).unwrap();
        assert_eq!(container.tensors().len(), tensors.as_object().unwrap().len(), "{file}");
        for (name, sample) in tensors.as_object().unwrap() {
            check(file, &container, container.find_tensor(name).unwrap(), sample);
            count += 1;
        }
    }
    assert!(count >= 26, "{count} samples");
}

#[test]
fn samples_are_read_as_their_writers_read_them() {
    each(|file, container, info, sample| {
        let at = format!("{file} {}", info.name());
        assert_eq!(info.dtype().name(), sample["dtype"], "{at}");
        assert_eq!(serde_json::json!(info.shape()), sample["shape"], "{at}");
        assert_eq!(
            info.dimension_order() == DimensionOrder::ColumnMajor,
            sample["fortran"] == true,
            "{at}"
        );
        assert_eq!(info.byte_order() == ByteOrder::Big, sample["big"] == true, "{at}");
        assert_eq!(info.data_offset().is_none(), sample["deflated"] == true, "{at}");
        let (_, stored) = read_tensor_file(container.path(), Some(info.name())).unwrap();
        let expected = unhex(sample["row_major_little"].as_str().unwrap());
        assert_eq!(row_major_little(info, &stored), expected, "{at}");
        match container.tensor_source(info) {
            Err(error) => assert_eq!(error.kind(), "compressed", "{at}"),
            Ok(source) => {
                // Every part at its position is the same part of the whole.
                for offset in 0..stored.len() {
                    let mut part = vec![0; (stored.len() - offset).min(3)];
                    source.read_at(&mut part, offset as u64).unwrap();
                    assert_eq!(part, stored[offset..][..part.len()], "{at}");
                }
                let error = source.read_at(&mut [0; 2], info.byte_len().saturating_sub(1));
                assert_eq!(error.unwrap_err().kind(), "out_of_range", "{at}");
                assert!(source.read_at(&mut [0], u64::MAX).is_err());
            }
        }
        let mut streamed = Vec::new();
        container.tensor_reader(info).unwrap().read_to_end(&mut streamed).unwrap();
        assert_eq!(streamed, stored, "{at}");
    });
}

/// Writes every sample row-major and little-endian into each container that can hold it.
fn rewrite(folder: &Path) {
    type Filled = (NewTensor, Vec<u8>);
    let mut files: Vec<(String, Vec<Filled>)> = Vec::new();
    each(|file, _, info, sample| {
        let tensor = NewTensor::new(info.name(), info.dtype(), info.shape());
        let bytes = unhex(sample["row_major_little"].as_str().unwrap());
        match files.iter_mut().find(|(known, _)| known == file) {
            Some((_, tensors)) => tensors.push((tensor, bytes)),
            None => files.push((file.to_string(), vec![(tensor, bytes)])),
        }
    });
    for (file, tensors) in &files {
        let borrowed: Vec<(NewTensor, &[u8])> =
            tensors.iter().map(|(t, bytes)| (t.clone(), &bytes[..])).collect();
        for kind in ContainerKind::ALL {
            let path = folder.join(format!("{file}.{}", kind.file_extension()));
            match write_tensor_file(&path, &borrowed, kind) {
                Ok(()) => {}
                Err(FileError::Dtype { .. }) if file == "tensors.safetensors" => continue,
                Err(FileError::Request { .. })
                    if kind == ContainerKind::Npy && tensors.len() != 1 =>
                {
                    continue;
                }
                Err(error) => panic!("{error}"),
            }
            let container = Container::open(&path).unwrap();
            assert_eq!(container.kind(), kind);
            for (tensor, bytes) in tensors {
                let name = (kind != ContainerKind::Npy).then_some(tensor.name.as_str());
                let (info, read) = read_tensor_file(&path, name).unwrap();
                assert_eq!((info.dtype(), info.shape()), (tensor.dtype, &tensor.shape[..]));
                assert_eq!(&read, bytes, "{file} {kind:?}");
                let offset = info.data_offset().unwrap();
                let align =
                    if kind == ContainerKind::Safetensors { tensor.dtype.bits() / 8 } else { 64 };
                assert_eq!(offset % align as u64, 0, "{file} {kind:?}");
                container.tensor_reader(&info).unwrap().read_to_end_checked().unwrap();
            }
        }
    }
    // Metadata goes along.
    let source = Container::open(samples().join("tensors.safetensors")).unwrap();
    assert_eq!(source.metadata()["by"], "generate.py");
    let requests: Vec<NewTensor> = (source.tensors().iter())
        .map(|info| NewTensor::new(info.name(), info.dtype(), info.shape()))
        .collect();
    let path = folder.join("tensors.safetensors.safetensors");
    let writer = ContainerWriter::create_with_metadata(
        &path,
        &requests,
        ContainerKind::Safetensors,
        source.metadata(),
    )
    .unwrap();
    for (index, info) in source.tensors().iter().enumerate() {
        let (_, bytes) = read_tensor_file(source.path(), Some(info.name())).unwrap();
        writer.write_at(index, 0, &bytes).unwrap();
    }
    writer.finish_and_settle().unwrap();
    assert_eq!(Container::open(&path).unwrap().metadata(), source.metadata());
}

#[test]
fn what_is_written_is_read_again() {
    let folder = Folder::new();
    rewrite(folder.path());
}

#[test]
#[ignore = "by hand: writes a folder for tests/data/files/check.py"]
fn write_for_numpy() {
    let folder = std::env::temp_dir().join("zellige-files-for-numpy");
    std::fs::create_dir_all(&folder).unwrap();
    rewrite(&folder);
    // Sparse, and past 4 GiB: the numbers of 64 bits are read too.
    let tensors = [
        NewTensor::new("big", Dtype::Uint8, [5, 1 << 30]),
        NewTensor::new("far", Dtype::Uint8, [4]),
    ];
    let writer =
        ContainerWriter::create(folder.join("far.npz"), &tensors, ContainerKind::Npz).unwrap();
    writer.write_at(1, 0, &[1, 2, 3, 4]).unwrap();
    writer.finish_and_settle().unwrap();
    println!("{}", folder.display());
}

#[test]
fn what_has_no_meaning_is_refused_with_help() {
    for (file, kind, words) in [
        ("refused_bf16.npy", "dtype", "safetensors"),
        ("refused_record.npy", "dtype", "named fields"),
        ("refused_text.npy", "dtype", "<U2"),
        ("refused_two.npy", "malformed", "136 bytes follow the data"),
    ] {
        let error = Container::open(samples().join(file)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    // One tensor that cannot be read does not hide the others, and is not forgotten.
    let container = Container::open(samples().join("e8m0.safetensors")).unwrap();
    assert_eq!(container.tensors().len(), 1);
    assert_eq!(container.refused_entries()[0].0, "scale");
    assert!(container.find_tensor("scale").unwrap_err().to_string().contains("F8_E8M0"));
    assert_eq!(container.only_tensor().unwrap_err().kind(), "not_one");
    for file in ["stored.npz", "deflated.npz"] {
        let container = Container::open(samples().join(file)).unwrap();
        assert_eq!(container.find_tensor("text").unwrap_err().kind(), "dtype");
        let error = container.find_tensor("missing").unwrap_err().to_string();
        assert!(error.contains("`a`, `é`, `deep/b`"), "{error}");
    }
}
