//! How fast a checkpoint is divided anew, beside a copy of the same files.
//!
//! `cargo run --release -p zellige-reshard --example speed -- FOLDER [MiB]` writes a model into the folder, and measures.

use std::fmt::Write;
use std::path::Path;
use std::time::Instant;
use zellige_files::{Kind, NewTensor, Writer};
use zellige_float::Dtype;
use zellige_reshard::checkpoint::{Job, Limits};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("a folder to write into")?;
    let folder = Path::new(&folder);
    let layers: i64 = args.next().map_or(Ok(512), |n| n.parse())? / 64;
    let (one, copy) = (folder.join("one"), folder.join("copy"));
    std::fs::create_dir_all(&one)?;
    std::fs::create_dir_all(&copy)?;
    // 64 MiB a layer: one matrix that is divided by rows, one by columns.
    let new = |layer: i64| {
        let name = |what: &str| format!("layers.{layer}.{what}.weight");
        [("up", [8192, 2048]), ("down", [2048, 8192])]
            .map(|(what, shape)| NewTensor::new(name(what), Dtype::Bfloat16, shape))
    };
    let tensors: Vec<NewTensor> = (0..layers).flat_map(new).collect();
    let file = one.join("model.safetensors");
    let writer = Writer::create(&file, &tensors, Kind::Safetensors)?;
    let chunk: Vec<u8> =
        (0..1u32 << 20).flat_map(|i| (i.wrapping_mul(0x9e37_79b9)).to_le_bytes()).collect();
    for (index, tensor) in writer.tensors().iter().enumerate() {
        for at in (0..tensor.bytes()).step_by(chunk.len()) {
            writer.write_at(index, at, &chunk)?;
        }
    }
    writer.finish()?;
    let bytes = std::fs::metadata(&file)?.len();
    #[allow(clippy::cast_precision_loss, reason = "a speed to be read")]
    let speed = |started: Instant| bytes as f64 / 1e9 / started.elapsed().as_secs_f64();
    let mut text = String::new();
    let started = Instant::now();
    std::fs::copy(&file, copy.join("model.safetensors"))?;
    std::fs::File::open(copy.join("model.safetensors"))?.sync_all()?;
    let copied = speed(started);
    writeln!(text, "copy of {} MB and sync: {copied:.2} GB/s", bytes / 1_000_000)?;
    let rules = "[from]\nfiles = \"model.safetensors\"\n[to]\nmesh = \"tp=4\"\nfiles = \"r{rank}.safetensors\"\n\
                 [[tensor]]\nname = \"*.up.weight\"\nto = \"P('tp', None)\"\n\
                 [[tensor]]\nname = \"*.down.weight\"\nto = \"P(None, 'tp')\"\n";
    let limits = Limits { memory: 256 << 20, threads: 2 };
    let back = "[to]\nfiles = \"model.safetensors\"\n[from]\nmesh = \"tp=4\"\nfiles = \"r{rank}.safetensors\"\n\
                 [[tensor]]\nname = \"*.up.weight\"\nfrom = \"P('tp', None)\"\n\
                 [[tensor]]\nname = \"*.down.weight\"\nfrom = \"P(None, 'tp')\"\n";
    for (what, from, to, rules) in [
        ("one file to four ranks", "one", "four", rules),
        ("four ranks to one file", "four", "back", back),
    ] {
        let started = Instant::now();
        let job = Job::new(folder.join(from), rules)?;
        job.run(folder.join(to), limits, |_| {})?;
        job.close(folder.join(to))?;
        let moved = speed(started);
        writeln!(text, "{what}, with sync: {moved:.2} GB/s, {:.2} of the copy", moved / copied)?;
    }
    print!("{text}");
    Ok(())
}
