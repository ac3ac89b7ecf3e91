//! Results: their summary in a line, the comparison with a run one by one, and their files.

use super::split_name_value;
use anyhow::{Result, anyhow, bail};
use std::path::PathBuf;
use zellige_device::host_format;
use zellige_files::{ContainerKind, ContainerWriter, NewTensor, make_folder};
use zellige_float::{Converter, Format};
use zellige_graph::Graph;
use zellige_run::HostArray;

/// A result and its summary.
pub(super) struct ResultSummary {
    pub(super) name: String,
    pub(super) text: String,
    values: Vec<f32>,
}

/// Values shown of a result.
const SHOWN_ELEMENTS: usize = 4;

/// Shape, first values and a checksum.
pub(super) fn summarize_result(name: &str, host: &HostArray) -> Result<ResultSummary> {
    let values = to_floats(host)?;
    let first: Vec<String> =
        values.iter().take(SHOWN_ELEMENTS).map(|v| format!("{v:.4}")).collect();
    let more = if values.len() > SHOWN_ELEMENTS { ", ..." } else { "" };
    let strange = values.iter().filter(|v| !v.is_finite()).count();
    let strange = if strange > 0 { format!(", {strange} are not finite") } else { String::new() };
    // FNV-1a: a checksum to compare two runs by eye, not one against an adversary.
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for b in host.bytes() {
        hash = (hash ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
    }
    let text = format!(
        "{name} {}{:?} = [{}{more}], checksum {hash:016x}{strange}",
        host.dtype(),
        host.size(),
        first.join(", ")
    );
    Ok(ResultSummary { name: name.into(), text, values })
}

/// The elements as float32.
fn to_floats(host: &HostArray) -> Result<Vec<f32>> {
    let count = usize::try_from(host.view().numel()).map_err(|_| anyhow!("too large"))?;
    let mut bytes = vec![0; count * 4];
    Converter::new(host_format(host.dtype())?, Format::F32).convert(
        host.bytes(),
        &mut bytes,
        count,
    )?;
    Ok(bytes.chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect())
}

/// Results beside those of the same operations one by one: equal bits, or how far apart; refused where
/// they are further apart than sums in another order can be.
pub(super) fn compare_results(
    mine: &[ResultSummary],
    theirs: &[HostArray],
) -> Result<Result<String, String>> {
    // Two percent of the largest value: sums in another order round differently, and 16 bits have a relative precision of
    // about a thousandth, so long sums may differ by several of those; a wrong layout mixes up whole elements.
    const TOLERANCE: f32 = 0.02;
    let (mut equal, mut worst, mut at) = (0usize, 0f32, String::new());
    for (a, host) in mine.iter().zip(theirs) {
        let b = to_floats(host)?;
        let same = a.values.iter().zip(&b).all(|(x, y)| x.to_bits() == y.to_bits());
        equal += usize::from(same);
        // Beside the largest value, because an element near zero is the difference of large ones; the floor keeps a
        // result of zeros from dividing by zero.
        let size = b.iter().map(|v| v.abs()).filter(|v| v.is_finite()).fold(1e-3f32, f32::max);
        for (i, (x, y)) in a.values.iter().zip(&b).enumerate() {
            let apart = match (x.is_finite(), y.is_finite()) {
                (true, true) => (x - y).abs() / size,
                // An overflow to infinity may become a NaN in another order of the sum, so two numbers that are not
                // finite count as equal.
                (false, false) => 0.0,
                _ => f32::INFINITY,
            };
            if apart > worst {
                worst = apart;
                at = format!("element {i} of {}: {x} beside {y}", a.name);
            }
        }
    }
    let all = mine.len();
    Ok(if worst > TOLERANCE {
        Err(format!("{at}, {:.1}% of the largest value apart", worst * 100.0))
    } else if equal == all {
        let what =
            if all == 1 { "the result has".into() } else { format!("all {all} results have") };
        Ok(format!("{what} the bits of the same operations one by one"))
    } else {
        Ok(format!(
            "{equal} of {all} results bit for bit; the rest within {:.2}% of the largest value, as sums \
             are split over cores",
            worst * 100.0
        ))
    })
}

/// The file of each result that is written.
pub(super) fn output_targets(
    graph: &Graph,
    given: &[String],
) -> Result<Vec<(usize, PathBuf, ContainerKind)>> {
    let names: Vec<&str> = graph.outputs().iter().map(|id| graph.get(*id).name.as_str()).collect();
    let mut list = Vec::new();
    for text in given {
        if text.ends_with('/') {
            let folder = PathBuf::from(text);
            list.extend(names.iter().enumerate().map(|(i, n)| {
                // Names of nodes may hold slashes, and a result must not be written outside of the folder.
                (i, folder.join(format!("{}.npy", n.replace('/', "_"))), ContainerKind::Npy)
            }));
            continue;
        }
        let (at, file) = if text.contains('=') {
            let (name, file) = split_name_value("--output", text)?;
            let at = names.iter().position(|n| *n == name);
            let known = names.join(", ");
            (at.ok_or_else(|| anyhow!("--output {text}: the outputs are {known}"))?, file)
        } else if names.len() == 1 {
            (0, text.as_str())
        } else {
            bail!(
                "--output {text}: the graph has {} outputs; write NAME=FILE, or a folder that ends with /",
                names.len()
            );
        };
        let path = PathBuf::from(file);
        let kind = ContainerKind::from_path(&path)?;
        list.push((at, path, kind));
    }
    Ok(list)
}

/// Every file is begun before one is completed.
pub(super) fn write_outputs(
    targets: &[(usize, PathBuf, ContainerKind)],
    results: &[ResultSummary],
    hosts: &[HostArray],
) -> Result<()> {
    let mut files = Vec::new();
    for (i, path, kind) in targets {
        if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            make_folder(folder)?;
        }
        let host = &hosts[*i];
        let new = NewTensor::new(results[*i].name.as_str(), host.dtype(), host.size());
        let writer = ContainerWriter::create(path, &[new], *kind)?;
        writer.write_at(0, 0, host.bytes())?;
        files.push(writer);
    }
    Ok(files.into_iter().try_for_each(ContainerWriter::finish_and_settle)?)
}
