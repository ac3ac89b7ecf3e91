//! Checkpoints: the contents of every file, by definition, and refused inputs.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

mod folders;

use folders::{
    Folder, LIMITS, Model, example, model, read, reshard, write, write_index, write_model,
};
use std::path::PathBuf;
use zellige_files::Container;
use zellige_files::faults::{FaultEffect, InjectedFault, inject_fault};
use zellige_reshard::Topology;
use zellige_reshard::checkpoint::{CheckpointError, CheckpointJob};

fn llama() -> Model {
    let mut shapes: Vec<(String, Vec<i64>)> = vec![
        ("model.embed_tokens.weight".into(), vec![98, 16]),
        ("lm_head.weight".into(), vec![98, 16]),
        ("model.norm.weight".into(), vec![16]),
    ];
    for layer in [0, 1, 16, 31] {
        for (name, shape) in [
            ("self_attn.q_proj", vec![16, 16]),
            ("self_attn.k_proj", vec![8, 16]),
            ("self_attn.v_proj", vec![8, 16]),
            ("self_attn.o_proj", vec![16, 16]),
            ("mlp.gate_proj", vec![42, 16]),
            ("mlp.up_proj", vec![42, 16]),
            ("mlp.down_proj", vec![16, 42]),
            ("input_layernorm", vec![16]),
        ] {
            shapes.push((format!("model.layers.{layer}.{name}.weight"), shape));
        }
    }
    let borrowed: Vec<(&str, &[i64])> =
        shapes.iter().map(|(n, s)| (n.as_str(), s.as_slice())).collect();
    model(&borrowed)
}

/// Elements `rows` x `columns` of a matrix.
fn block(
    tensor: &(Vec<i64>, Vec<u16>),
    rows: std::ops::Range<i64>,
    columns: std::ops::Range<i64>,
) -> Vec<u16> {
    let width = tensor.0[1];
    rows.flat_map(|r| columns.clone().map(move |c| (r, c)))
        .map(|(r, c)| tensor.1[usize::try_from(r * width + c).unwrap()])
        .collect()
}

#[test]
fn llama_goes_around() {
    let folder = Folder::new("llama");
    let model = llama();
    let [index, ranks, stages, flat, one] =
        ["index", "ranks", "stages", "flat", "one"].map(|n| folder.at(n));
    std::fs::create_dir_all(&index).unwrap();
    write_index(&index, &model);
    reshard(&index, &ranks, &example("llama-tp4.toml"));
    // Rows, unevenly: 98 over 4 are 25, 25, 25 and 23; columns: 42 are 11, 11, 11 and 9.
    let embed = &model["model.embed_tokens.weight"];
    let down = &model["model.layers.0.mlp.down_proj.weight"];
    for rank in 0..4 {
        let path = ranks.join(format!("rank-{rank}.safetensors"));
        let end = (25 * rank + 25).min(98);
        let want = block(embed, 25 * rank..end, 0..16);
        assert_eq!(read(&path, "model.embed_tokens.weight"), (vec![end - 25 * rank, 16], want));
        let end = (11 * rank + 11).min(42);
        let want = block(down, 0..16, 11 * rank..end);
        let name = "model.layers.0.mlp.down_proj.weight";
        assert_eq!(read(&path, name), (vec![16, end - 11 * rank], want));
        assert_eq!(read(&path, "model.norm.weight"), model["model.norm.weight"]);
    }
    reshard(&ranks, &stages, &example("llama-tp4-to-pp2-tp2.toml"));
    let has = |file: &str, name: &str| {
        Container::open(stages.join(file)).unwrap().find_tensor(name).is_ok()
    };
    assert!(has("pp-0-tp-1.safetensors", "model.layers.1.mlp.up_proj.weight"));
    assert!(!has("pp-1-tp-1.safetensors", "model.layers.1.mlp.up_proj.weight"));
    assert!(has("pp-1-tp-0.safetensors", "model.layers.16.mlp.up_proj.weight"));
    assert!(!has("pp-0-tp-0.safetensors", "lm_head.weight"));
    // From stages to flat shards over three ranks, and back to one file.
    let staged =
        example("llama-tp4-to-pp2-tp2.toml").split_once("[[tensor]]").unwrap().1.to_string();
    let back: String = staged
        .lines()
        .filter(|l| !l.starts_with("from"))
        .map(|l| l.replace("to = ", "from = ") + "\n")
        .collect();
    let with_flat = back.replace("[[tensor]]\n", "[[tensor]]\nto = \"flat\"\n");
    let rules = format!(
        "[from]\nmesh = \"pp=2, tp=2\"\nfiles = \"pp-{{pp}}-tp-{{tp}}.safetensors\"\n\
         [to]\nmesh = \"dp=3\"\nfiles = \"f{{dp}}.safetensors\"\n[[tensor]]\nto = \"flat\"{with_flat}"
    );
    reshard(&stages, &flat, &rules);
    let (shape, _) = read(&flat.join("f2.safetensors"), "model.embed_tokens.weight");
    assert_eq!(shape, [98 * 16 - 2 * 523]);
    let rules = "[from]\nmesh = \"dp=3\"\nfiles = \"f{dp}.safetensors\"\n[to]\nfiles = \"model.safetensors\"\n\
                 [[tensor]]\nname = \"*\"\nfrom = \"flat\"\n";
    reshard(&flat, &one, rules);
    for (name, tensor) in &model {
        assert_eq!(&read(&one.join("model.safetensors"), name), tensor, "{name}");
    }
}

#[test]
fn parts_of_fused_tensors_and_experts_find_their_ranks() {
    let folder = Folder::new("fused");
    let (gpt, out) = (folder.at("gpt"), folder.at("out"));
    std::fs::create_dir_all(&gpt).unwrap();
    let model = model(&[
        ("h.0.attn.c_attn.weight", &[8, 24]),
        ("h.0.attn.c_attn.bias", &[24]),
        ("h.0.mlp.c_fc.weight", &[8, 32]),
        ("wte.weight", &[13, 8]),
        ("ln_f.weight", &[8]),
    ]);
    write_model(&gpt.join("model.safetensors"), &model);
    reshard(&gpt, &out, &example("gpt2-tp2.toml"));
    for rank in 0..2 {
        let path = out.join(format!("rank-{rank}.safetensors"));
        // Each third of 8 columns is halved.
        let tensor = &model["h.0.attn.c_attn.weight"];
        let mut want = Vec::new();
        for row in 0..8 {
            for third in 0..3 {
                let first = 8 * third + 4 * rank;
                want.extend(block(tensor, row..row + 1, first..first + 4));
            }
        }
        assert_eq!(read(&path, "h.0.attn.c_attn.weight"), (vec![8, 12], want));
        assert_eq!(read(&path, "wte.weight").0, [7 - rank, 8]);
    }
    // Experts over groups, each over two ranks; and padded shards.
    let rules = "[from]\nfiles = \"model.safetensors\"\n[to]\nmesh = \"ep=2, tp=2\"\nfiles = \"{ep}/{tp}.safetensors\"\n\
                 [[tensor]]\nname = \"h.{e}.*\"\nto = \"whole at ep=1\"\n\
                 [[tensor]]\nname = \"wte.weight\"\nto = \"P('tp') padded\"\n[[tensor]]\nname = \"*\"\n";
    let experts = folder.at("experts");
    reshard(&gpt, &experts, rules);
    assert!(
        Container::open(experts.join("0/1.safetensors"))
            .unwrap()
            .find_tensor("h.0.attn.c_attn.bias")
            .is_err()
    );
    assert_eq!(
        read(&experts.join("1/0.safetensors"), "h.0.attn.c_attn.bias"),
        model["h.0.attn.c_attn.bias"]
    );
    let (shape, values) = read(&experts.join("1/1.safetensors"), "wte.weight");
    assert_eq!((shape, &values[48..]), (vec![7, 8], &[0u16; 8][..]));
}

#[test]
fn examples_are_rules() {
    for name in
        ["granite-fsdp8.toml", "granite-moe-tp2.toml", "mixtral-ep4-tp2.toml", "llama-one.toml"]
    {
        zellige_reshard::checkpoint::rules::DivisionRules::parse(&example(name)).unwrap();
    }
    let topology = Topology::parse(&example("nodes-of-8.toml")).unwrap();
    assert_eq!((topology.levels().len(), topology.levels()[1].bandwidth), (2, 50e9));
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    let folder = Folder::new("refused");
    let (index, out) = (folder.at("in"), folder.at("out"));
    std::fs::create_dir_all(&index).unwrap();
    let model = llama();
    write_index(&index, &model);
    let rules = example("llama-tp4.toml");
    let told = |rules: &str| CheckpointJob::new(&index, rules).map(|_| ()).unwrap_err().to_string();
    // A plan that leaves a tensor out.
    let without = rules.rsplit_once("# Norms").unwrap().0;
    assert!(told(without).contains("leaves out `model."), "{}", told(without));
    for (from, to, say) in [
        ("tp=4", "tp=four", "line 7: mesh: `tp=four`"),
        ("{rank}", "{ep}", "line 8: files"),
        ("P(None, 'tp')", "P(None, 'ep')", "the mesh has no axis `ep`"),
        ("P(None, 'tp')", "P(None, 'tp'", "down_proj"),
        ("P(None, 'tp')", "P('tp', None) at pp=0", "no axis of the mesh [tp=4]"),
        ("rank-{rank}", "rank", "hold different parts"),
        ("name = \"*\"", "nmae = \"*\"", "nmae: accepted are name"),
    ] {
        let text = rules.replace(from, to);
        assert!(told(&text).contains(say), "{from} as {to}: {}", told(&text));
    }
    // A file that is missing, one that is truncated.
    let second = index.join("model-2.safetensors");
    let bytes = std::fs::read(&second).unwrap();
    std::fs::write(&second, &bytes[..bytes.len() - 10]).unwrap();
    assert!(told(&rules).contains("truncated"), "{}", told(&rules));
    std::fs::remove_file(&second).unwrap();
    assert!(told(&rules).contains("model-2.safetensors"), "{}", told(&rules));
    std::fs::write(&second, bytes).unwrap();
    // A shard of another length.
    reshard(&index, &out, &rules);
    let rank = out.join("rank-3.safetensors");
    let mut tensors = Model::new();
    for tensor in Container::open(&rank).unwrap().tensors() {
        tensors.insert(tensor.name().into(), read(&rank, tensor.name()));
    }
    let norm = tensors.get_mut("model.layers.0.mlp.down_proj.weight").unwrap();
    (norm.0, norm.1) = (vec![16, 12], vec![0; 192]);
    write_model(&rank, &tensors);
    let error =
        CheckpointJob::new(&out, &example("llama-one.toml")).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("rank 0") && error.contains("down_proj"), "{error}");
    assert!(!folder.at("one").exists());
    // A folder that holds something already, and one of another plan.
    let job = CheckpointJob::new(&index, &rules).unwrap();
    let error = job.write_output(&out, LIMITS, |_| {}).unwrap_err();
    assert!(matches!(error, CheckpointError::Output { .. }), "{error}");
}

/// Every call to the system fails in turn: no incomplete file has a final name, and the next run
/// completes the output correctly.
#[test]
fn every_fault_is_survived() {
    let folder = Folder::new("faults");
    let input = folder.at("in");
    std::fs::create_dir_all(&input).unwrap();
    let model = model(&[("a.weight", &[12, 10]), ("b.weight", &[7, 3]), ("norm", &[5])]);
    write_model(&input.join("model.safetensors"), &model);
    let rules = "[from]\nfiles = \"model.safetensors\"\n[to]\nmesh = \"tp=3\"\nfiles = \"r{rank}.safetensors\"\n\
                 [[tensor]]\nname = \"*.weight\"\nto = \"P('tp')\"\n[[tensor]]\nname = \"*\"\n";
    let mut failures = 0;
    let mut resumed = 0;
    for how in [FaultEffect::Once, FaultEffect::Always, FaultEffect::Short] {
        for at in 0.. {
            let out = folder.at("out");
            let _ = std::fs::remove_dir_all(&out);
            let job = CheckpointJob::new(&input, rules).unwrap();
            let (result, failed) =
                inject_fault(InjectedFault { at, how }, || job.write_output(&out, LIMITS, |_| {}));
            if failed.is_none() {
                assert!(result.is_ok());
                break;
            }
            for path in job.output_paths(&out) {
                if path.exists() {
                    Container::open(&path).unwrap();
                }
            }
            if let Err(error) = &result {
                failures += 1;
                assert!(!error.to_string().is_empty());
            }
            let done = job.write_output(&out, LIMITS, |_| {}).unwrap();
            resumed += done.found;
            job.verify_output(&out, LIMITS, |_| {}).unwrap();
        }
    }
    assert!(failures > 50 && resumed > 50, "{failures} {resumed}");
}

/// Killed in the middle, as by `kill -9`, at every call: a child process runs this test.
#[test]
fn a_killed_run_goes_on() {
    const RULES: &str = "[from]\nfiles = \"model.safetensors\"\n[to]\nmesh = \"tp=4\"\nfiles = \"r{rank}.safetensors\"\n\
                         [[tensor]]\nname = \"*\"\nto = \"P(None, 'tp')\"\n";
    if let Ok(folder) = std::env::var("ZELLIGE_TEST_KILLED") {
        let folder = PathBuf::from(folder);
        let job = CheckpointJob::new(folder.join("in"), RULES).unwrap();
        job.write_output(folder.join("out"), LIMITS, |_| {}).unwrap();
        return;
    }
    let folder = Folder::new("killed");
    std::fs::create_dir_all(folder.at("in")).unwrap();
    write_model(&folder.at("in/model.safetensors"), &model(&[("a", &[40, 21]), ("b", &[9, 8])]));
    let mut found = 0;
    for at in (10..).step_by(23) {
        let _ = std::fs::remove_dir_all(folder.at("out"));
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_killed_run_goes_on"])
            .env("ZELLIGE_TEST_KILLED", &folder.0)
            .env("ZELLIGE_FAULT", format!("kill:{at}"))
            .output()
            .unwrap();
        let killed = status.status.code() == Some(137);
        let job = CheckpointJob::new(folder.at("in"), RULES).unwrap();
        let done = job.write_output(folder.at("out"), LIMITS, |_| {}).unwrap();
        found += done.found;
        job.verify_output(folder.at("out"), LIMITS, |_| {}).unwrap();
        if !killed {
            assert!(status.status.success() && done.written == 0, "at call {at}: {status:?}");
            break;
        }
    }
    assert!(found > 3, "{found} files were kept");
}

#[test]
fn a_damaged_copy_is_found() {
    let folder = Folder::new("damaged");
    let (input, out) = (folder.at("in"), folder.at("out"));
    std::fs::create_dir_all(&input).unwrap();
    write_model(&input.join("model.safetensors"), &model(&[("a", &[40, 20])]));
    let rules = "[from]\nfiles = \"model.safetensors\"\n[to]\nmesh = \"dp=2, tp=2\"\nfiles = \"r{rank}.safetensors\"\n\
                 [[tensor]]\nname = \"*\"\nto = \"P('tp')\"\n";
    let job = CheckpointJob::new(&input, rules).unwrap();
    job.write_output(&out, LIMITS, |_| {}).unwrap();
    job.verify_output(&out, LIMITS, |_| {}).unwrap();
    // The second copy of the second half.
    let path = out.join("r3.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let error = job.verify_output(&out, LIMITS, |_| {}).unwrap_err();
    assert!(
        matches!(&error, CheckpointError::Differs { place, .. } if place == "copy 1"),
        "{error}"
    );
}

#[test]
fn traffic_is_counted_and_compared() {
    let folder = Folder::new("traffic");
    let input = folder.at("in");
    std::fs::create_dir_all(&input).unwrap();
    for rank in 0..4 {
        write(&input.join(format!("r{rank}.safetensors")), &[("a", &[2, 8], &[rank; 16])]);
    }
    let rules = "[from]\nmesh = \"x=4\"\nfiles = \"r{x}.safetensors\"\n[to]\nmesh = \"x=4\"\nfiles = \"s{x}.safetensors\"\n\
                 [[tensor]]\nname = \"a\"\nfrom = \"P('x')\"\nto = \"P(None, 'x')\"\n";
    let job = CheckpointJob::new(&input, rules).unwrap();
    let traffic = job.measure_traffic(&Topology::with_flat_links(12.0).unwrap()).unwrap();
    // 64 elements of 2 bytes: a rank keeps 4 of 16 and gets 4 from each other one, which an all-to-all does too.
    assert_eq!((traffic.sent_bytes(), traffic.kept_bytes()), (96, 32));
    assert_eq!(
        (traffic.chain.collectives, traffic.chain.received, traffic.chain.gathered),
        (1, 96, 0)
    );
    assert!((traffic.seconds - 24.0 / 12.0).abs() < 1e-9);
}

/// Rows that are divided unevenly and then divided again, as in DTensor: to ranks, from there to
/// rows of another mesh and to flat shards, and back to one file.
#[test]
fn chunks_of_chunks_go_around() {
    let folder = Folder::new("chunks");
    let [one, ranks, others, flat, back] =
        ["one", "ranks", "others", "flat", "back"].map(|n| folder.at(n));
    std::fs::create_dir_all(&one).unwrap();
    let model = model(&[("w", &[11, 4]), ("v", &[9, 5]), ("u", &[5, 1]), ("whole", &[12, 2])]);
    write_model(&one.join("model.safetensors"), &model);
    let single = "files = \"model.safetensors\"\n";
    let six = "mesh = \"x=2, y=3\"\nfiles = \"r{rank}.safetensors\"\n";
    let four = "mesh = \"x=2, y=2\"\nfiles = \"r{rank}.safetensors\"\n";
    let twice = "(Shard(0), Shard(0))";
    let rules = |from: (&str, &str), to: (&str, &str)| {
        let tensor =
            format!("[[tensor]]\nname = \"*\"\nfrom = \"{}\"\nto = \"{}\"\n", from.1, to.1);
        format!("[from]\n{}[to]\n{}{tensor}", from.0, to.0)
    };
    reshard(&one, &ranks, &rules((single, "whole"), (six, twice)));
    for (name, tensor) in &model {
        for rank in 0..6 {
            let rows: Vec<i64> = (0..tensor.0[0]).collect();
            let cut = |rows: &[i64], parts: usize, at: usize| {
                rows.chunks(rows.len().div_ceil(parts).max(1)).nth(at).unwrap_or_default().to_vec()
            };
            let rows = cut(&cut(&rows, 2, rank / 3), 3, rank % 3);
            let width = tensor.0[1];
            let want: Vec<u16> =
                rows.iter().flat_map(|r| block(tensor, *r..r + 1, 0..width)).collect();
            let found = read(&ranks.join(format!("r{rank}.safetensors")), name);
            assert_eq!(found, (vec![rows.len() as i64, width], want), "{name} of rank {rank}");
        }
    }
    reshard(&ranks, &others, &rules((six, twice), (four, twice)));
    reshard(&others, &flat, &rules((four, twice), (six, "flat")));
    reshard(&flat, &back, &rules((six, "flat"), (single, "whole")));
    for (name, tensor) in &model {
        assert_eq!(&read(&back.join("model.safetensors"), name), tensor, "{name}");
    }
}
