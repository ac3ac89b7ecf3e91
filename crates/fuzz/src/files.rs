//! Fuzzes files of tensors.
//!
//! **Law**: opening a file returns an error, or every uncompressed tensor is inside the file and overlaps no other.
//! Tensors that can be read are unchanged after they were written to a new file and read again.

use crate::budget::run_bounded;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use zellige_files::{
    ByteOrder, Container, ContainerKind, DimensionOrder, NewTensor, TensorInfo, write_tensor_file,
};

/// The largest tensor that is read, in bytes. A compressed tensor may be a thousand times as large as
/// its file.
const MAX_WHOLE_BYTES: u64 = 1 << 22;

/// The folder for the files of this process, on a file system in memory if the system has one.
pub(crate) static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    // A disk would limit the fuzzer to some hundred inputs per second.
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let folder = base.join(format!("zellige-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the files of one process");
    folder
});

/// Removes the folder of this process. A fuzzer that is killed does not call this, and its folder remains.
pub fn remove_files() {
    let _ = std::fs::remove_dir_all(&*FOLDER);
}

pub(crate) fn fuzz_npy(data: &[u8]) {
    check_container(data, ContainerKind::Npy);
}

pub(crate) fn fuzz_npz(data: &[u8]) {
    check_container(data, ContainerKind::Npz);
}

pub(crate) fn fuzz_safetensors(data: &[u8]) {
    check_container(data, ContainerKind::Safetensors);
}

fn check_container(data: &[u8], kind: ContainerKind) {
    let path = FOLDER.join(format!("in.{}", kind.file_extension()));
    std::fs::write(&path, data).expect("the folder can be written");
    // The limit of memory while a file is opened: 1 MiB, which the decompressor and the end of an archive need whatever
    // the size of the file, and 64 bytes for each byte of the file.
    let bytes = (1 << 20) + 64 * data.len();
    let container = match run_bounded("opening a file", bytes, || Container::open(&path)) {
        Ok(container) => container,
        Err(error) => {
            assert_eq!(error.path(), path);
            assert!(error.to_string().len() < 2000, "{error}");
            return;
        }
    };
    let mut ranges = Vec::new();
    for info in container.tensors() {
        let count = info.shape().iter().try_fold(1_i64, |n, d| n.checked_mul(*d));
        let bits = count.and_then(|n| n.checked_mul(info.dtype().bits()));
        assert_eq!(bits.and_then(|b| u64::try_from(b).ok()), info.byte_len().checked_mul(8));
        if let Some(offset) = info.data_offset() {
            let end = offset.checked_add(info.byte_len()).expect("an offset of the file");
            assert!(end <= data.len() as u64, "{} ends after the file", info.name());
            ranges.push((offset, end));
        }
    }
    ranges.sort_unstable();
    assert!(
        ranges.windows(2).all(|w| w[0].1 <= w[1].0 || w[0].0 == w[0].1 || w[1].0 == w[1].1),
        "two tensors share bytes: {ranges:?}"
    );
    let whole: Vec<(NewTensor, Vec<u8>)> = container
        .tensors()
        .iter()
        .filter(|i| {
            i.dimension_order() == DimensionOrder::RowMajor && i.byte_order() == ByteOrder::Little
        })
        .filter_map(|i| {
            Some((NewTensor::new(i.name(), i.dtype(), i.shape()), read_tensor(&container, i)?))
        })
        .collect();
    check_rewritten(&whole, kind);
}

/// Reads the bytes of a tensor; `None` if the file is damaged there or the tensor is larger than
/// [`MAX_WHOLE_BYTES`].
fn read_tensor(container: &Container, info: &TensorInfo) -> Option<Vec<u8>> {
    if info.byte_len() > MAX_WHOLE_BYTES {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(info.byte_len()).ok()?];
    let mut reader = container.tensor_reader(info).ok()?;
    let sequential = reader.fill_buffer(&mut bytes);
    if let Ok(source) = container.tensor_source(info) {
        let mut direct = vec![0; bytes.len()];
        source.read_at(&mut direct, 0).expect("the tensor is inside the file");
        assert!(sequential.is_err() || direct == bytes, "two ways to read {} differ", info.name());
    }
    sequential.ok().map(|()| bytes)
}

/// Checks that tensors are unchanged after they were written and read again, if this kind of file can
/// store them.
fn check_rewritten(tensors: &[(NewTensor, Vec<u8>)], kind: ContainerKind) {
    let path = FOLDER.join(format!("out.{}", kind.file_extension()));
    let list: Vec<(NewTensor, &[u8])> =
        tensors.iter().map(|(new, bytes)| (new.clone(), bytes.as_slice())).collect();
    if write_tensor_file(&path, &list, kind).is_err() {
        return;
    }
    let container = Container::open(&path).expect("a file that we wrote can be opened");
    assert_eq!(container.tensors().len(), tensors.len());
    for (new, bytes) in tensors {
        let info = match kind {
            ContainerKind::Npy => container.only_tensor(),
            _ => container.find_tensor(&new.name),
        };
        let info = info.expect("the file has every tensor that was written");
        assert_eq!((info.dtype(), info.shape()), (new.dtype, new.shape.as_slice()));
        assert_eq!(read_tensor(&container, info).as_ref(), Some(bytes), "{}", new.name);
    }
}
