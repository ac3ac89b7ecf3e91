//! `zellige bench ktir`: kernels on the simulated cores, beside the Python interpreter ktir-cpu where it is installed.

use crate::common::print_text;
use crate::exit_code::ExitCode;
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use zellige_files::{ContainerKind, NewTensor, make_folder, read_text, write_tensor_file};
use zellige_float::Dtype;
use zellige_ktir::{KtirArray, KtirElem, KtirModule, KtirRun, KtirScalar, text};

#[derive(clap::Args)]
#[command(after_help = "\
Arrays have the shapes that the kernel's views describe, and small numbers as elements. Kernels that take numbers are
measured with --scalar NAME=VALUE. The kernel's time is the shortest of several runs in this process, without reading
files; the process is a run of `zellige ktir run`. ktir-cpu is run by `python3` or by what ZELLIGE_PYTHON names, and
its time is that of its processor within execute_function.

Examples:
  zellige bench ktir
  zellige bench ktir my/kernels --scalar n_rows=4096 --peers")]
pub(crate) struct BenchKtirArgs {
    /// Files or folders of modules
    #[arg(default_value = "crates/ktir/tests/kernels")]
    paths: Vec<PathBuf>,
    /// A number argument, NAME=VALUE, for every kernel that has it
    #[arg(long, value_name = "NAME=VALUE")]
    scalar: Vec<String>,
    /// Run ktir-cpu too
    #[arg(long)]
    peers: bool,
    /// Runs of which the shortest counts
    #[arg(long, default_value_t = 5, value_name = "N")]
    runs: usize,
}

/// What ktir-cpu computes: the folder of the arrays, the module, the kernel and its numbers come as arguments.
const PEER: &str = "
import json, sys, time
import numpy as np
from ktir_cpu import KTIRInterpreter
folder, module, kernel, arrays, scalars = sys.argv[1:6]
i = KTIRInterpreter()
i.load(module)
given = {n: np.load(f'{folder}/{n}.npy') for n in json.loads(arrays)}
begin = time.process_time()
i.execute_function(kernel, **given, **json.loads(scalars))
print(time.process_time() - begin)
";

pub(crate) fn bench_kernels(args: &BenchKtirArgs) -> Result<ExitCode> {
    let mut files = Vec::new();
    for path in &args.paths {
        if path.is_dir() {
            let list = std::fs::read_dir(path).with_context(|| path.display().to_string())?;
            for entry in list {
                let file = entry?.path();
                if file.extension().is_some_and(|e| e == "mlir") {
                    files.push(file);
                }
            }
        } else {
            files.push(path.clone());
        }
    }
    files.sort();
    if files.is_empty() {
        bail!("there is no .mlir file");
    }
    let mut table = format!(
        "{:<28} {:>8} {:>12} {:>12} {:>12} {:>8}\n",
        "kernel", "cycles", "kernel us", "process us", "ktir-cpu us", "ratio"
    );
    for file in files {
        let source = read_text(&file, 1 << 24)?;
        let module = text::parse(&source)
            .map_err(|d| anyhow::anyhow!("{}: {}", file.display(), d.message))?;
        for f in &module.functions {
            measure_kernel(&file, &module, f.name(), args, &mut table)?;
        }
    }
    print_text(table.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// An array of small numbers: large ones would make sums of binary16 infinite.
fn small_numbers(shape: &[i64], elem: KtirElem) -> KtirArray {
    let n: usize = shape.iter().map(|d| usize::try_from(*d).unwrap_or(0)).product();
    let bytes = (0..n)
        .flat_map(|i| {
            // Between 1/8 and 1/4 in binary16; anything else is all zeros, which indices survive.
            let half = 0x3000 + u16::try_from(i.wrapping_mul(40_503) >> 4 & 0x3ff).unwrap_or(0);
            let raw = if elem == KtirElem::F16 {
                half.to_le_bytes().to_vec()
            } else {
                vec![0; elem.byte_size()]
            };
            raw.into_iter()
        })
        .collect();
    KtirArray { elem, shape: shape.to_vec(), bytes }
}

fn measure_kernel(
    file: &Path,
    module: &KtirModule,
    kernel: &str,
    args: &BenchKtirArgs,
    table: &mut String,
) -> Result<()> {
    let shapes = module.argument_shapes(kernel);
    let Some(f) = module.function(kernel) else { return Ok(()) };
    let names: Vec<&str> = f.args().iter().map(|v| f.value_def(*v).name.as_str()).collect();
    let mut scalars = Vec::new();
    for pair in &args.scalar {
        let Some((name, value)) = pair.split_once('=') else {
            bail!("--scalar {pair}: write NAME=VALUE")
        };
        if names.contains(&name) {
            scalars.push((name, value.parse::<f64>().with_context(|| format!("--scalar {pair}"))?));
        }
    }
    let known = |n: &&&str| !shapes.contains_key(**n) && !scalars.iter().any(|(s, _)| *s == **n);
    if let Some(missing) = names.iter().find(known) {
        writeln!(table, "{kernel:<28} needs --scalar {missing}=..")?;
        return Ok(());
    }
    let arrays: Vec<(&String, KtirArray)> =
        shapes.iter().map(|(name, (shape, elem))| (name, small_numbers(shape, *elem))).collect();
    let (mut shortest, mut cycles) = (Duration::MAX, 0);
    for _ in 0..args.runs.max(1) {
        let mut run = KtirRun::new(module, kernel);
        for (name, array) in &arrays {
            run = run.with_array(name, array.clone());
        }
        for (name, value) in &scalars {
            #[allow(clippy::cast_possible_truncation, reason = "whole numbers are given as such")]
            let scalar = if value.fract() == 0.0 {
                KtirScalar::Int(*value as i64)
            } else {
                KtirScalar::Float(*value)
            };
            run = run.with_scalar(name, scalar);
        }
        let begin = Instant::now();
        let outcome = run.execute_kernel();
        shortest = shortest.min(begin.elapsed());
        match outcome {
            Ok(outcome) => cycles = outcome.cycles(),
            Err(e) => {
                writeln!(table, "{kernel:<28} {e}")?;
                return Ok(());
            }
        }
    }
    let folder = std::env::temp_dir().join(format!("zellige-bench-ktir-{}", std::process::id()));
    make_folder(&folder)?;
    let timed = time_processes(file, kernel, args, &folder, &arrays, &scalars);
    let _ = std::fs::remove_dir_all(&folder);
    let (process, peer) = timed?;
    let micros = |d: Duration| format!("{:.1}", d.as_secs_f64() * 1e6);
    let ratio = peer.map(|p| format!("{:.0}x", p.as_secs_f64() / shortest.as_secs_f64()));
    writeln!(
        table,
        "{kernel:<28} {cycles:>8} {:>12} {:>12} {:>12} {:>8}",
        micros(shortest),
        micros(process),
        peer.map_or("-".into(), micros),
        ratio.unwrap_or("-".into())
    )?;
    Ok(())
}

/// The times of a whole process of this program, and of the interpreter in Python.
fn time_processes(
    file: &Path,
    kernel: &str,
    args: &BenchKtirArgs,
    folder: &Path,
    arrays: &[(&String, KtirArray)],
    scalars: &[(&str, f64)],
) -> Result<(Duration, Option<Duration>)> {
    let mut own = Command::new(std::env::current_exe()?);
    own.args(["ktir", "run"]).arg(file).args(["--kernel", kernel]).stdout(Stdio::null());
    let mut names = Vec::new();
    for (name, array) in arrays {
        let dtype = match array.elem {
            KtirElem::F16 => Dtype::Float16,
            KtirElem::F32 => Dtype::Float32,
            KtirElem::I32 => Dtype::Int32,
            KtirElem::I64 | KtirElem::Index => Dtype::Int64,
            other => bail!("no file holds {other}"),
        };
        let path = folder.join(format!("{name}.npy"));
        let new = NewTensor::new(name.as_str(), dtype, array.shape.clone());
        write_tensor_file(&path, &[(new, &array.bytes)], ContainerKind::Npy)?;
        own.arg("--input").arg(format!("{name}={}", path.display()));
        names.push(name.as_str());
    }
    for (name, value) in scalars {
        own.arg("--scalar").arg(format!("{name}={value}"));
    }
    let begin = Instant::now();
    let status = own.status()?;
    let process = begin.elapsed();
    if !status.success() {
        bail!("`zellige ktir run` of {kernel} ended with {status}");
    }
    if !args.peers {
        return Ok((process, None));
    }
    let python = std::env::var("ZELLIGE_PYTHON").unwrap_or("python3".into());
    let numbers: serde_json::Map<String, serde_json::Value> = scalars
        .iter()
        .map(|(n, v)| {
            #[allow(clippy::cast_possible_truncation, reason = "whole numbers are given as such")]
            let value =
                if v.fract() == 0.0 { serde_json::json!(*v as i64) } else { serde_json::json!(v) };
            ((*n).to_string(), value)
        })
        .collect();
    let out = Command::new(python)
        .args(["-c", PEER])
        .arg(folder)
        .arg(file)
        .arg(kernel)
        .arg(serde_json::json!(names).to_string())
        .arg(serde_json::Value::Object(numbers).to_string())
        .stderr(Stdio::null())
        .output();
    // Without ktir-cpu, or where it refuses the kernel, there is nothing to compare with.
    let seconds = out
        .ok()
        .filter(|o| o.status.success())
        .and_then(|o| String::from_utf8(o.stdout).ok()?.lines().last()?.trim().parse::<f64>().ok());
    Ok((process, seconds.filter(|s| *s > 0.0).map(Duration::from_secs_f64)))
}
