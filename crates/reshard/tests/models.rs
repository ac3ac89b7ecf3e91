//! The plans of examples/reshard on checkpoints with the names that Hugging Face writes: there and back, every byte is the same.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

mod folders;

use folders::{Folder, LIMITS, Model, example, model, read, reshard, write_index, write_model};
use zellige_files::Container;
use zellige_reshard::checkpoint::{CheckpointJob, JobLimits};

/// Widths that no number of ranks divides, so that shards are uneven.
const WIDTH: i64 = 24;
const HIDDEN: i64 = 42;
const WORDS: i64 = 97;

fn named(shapes: &[(String, Vec<i64>)]) -> Model {
    let borrowed: Vec<(&str, &[i64])> =
        shapes.iter().map(|(n, s)| (n.as_str(), s.as_slice())).collect();
    model(&borrowed)
}

fn attention(shapes: &mut Vec<(String, Vec<i64>)>, layer: i64) {
    for (name, rows) in [("q", WIDTH), ("k", 8), ("v", 8), ("o", WIDTH)] {
        shapes.push((
            format!("model.layers.{layer}.self_attn.{name}_proj.weight"),
            vec![rows, WIDTH],
        ));
    }
    for name in ["input_layernorm", "post_attention_layernorm"] {
        shapes.push((format!("model.layers.{layer}.{name}.weight"), vec![WIDTH]));
    }
}

fn ends() -> Vec<(String, Vec<i64>)> {
    vec![
        ("model.embed_tokens.weight".into(), vec![WORDS, WIDTH]),
        ("model.norm.weight".into(), vec![WIDTH]),
        ("lm_head.weight".into(), vec![WORDS, WIDTH]),
    ]
}

/// Llama, and Granite without experts, whose tensors have the same names.
fn llama(layers: &[i64]) -> Model {
    let mut shapes = ends();
    for layer in layers {
        attention(&mut shapes, *layer);
        for (name, shape) in [
            ("gate_proj", [HIDDEN, WIDTH]),
            ("up_proj", [HIDDEN, WIDTH]),
            ("down_proj", [WIDTH, HIDDEN]),
        ] {
            shapes.push((format!("model.layers.{layer}.mlp.{name}.weight"), shape.to_vec()));
        }
    }
    named(&shapes)
}

fn granite_moe() -> Model {
    let mut shapes = ends();
    for layer in 0..2 {
        attention(&mut shapes, layer);
        for (name, shape) in [
            ("input_linear", vec![5, 2 * 6, WIDTH]),
            ("output_linear", vec![5, WIDTH, 6]),
            ("router.layer", vec![5, WIDTH]),
        ] {
            shapes.push((format!("model.layers.{layer}.block_sparse_moe.{name}.weight"), shape));
        }
    }
    named(&shapes)
}

fn mixtral() -> Model {
    let mut shapes = ends();
    for layer in 0..2 {
        attention(&mut shapes, layer);
        let moe = format!("model.layers.{layer}.block_sparse_moe");
        shapes.push((format!("{moe}.gate.weight"), vec![8, WIDTH]));
        for expert in 0..8 {
            for (name, shape) in
                [("w1", [HIDDEN, WIDTH]), ("w2", [WIDTH, HIDDEN]), ("w3", [HIDDEN, WIDTH])]
            {
                shapes.push((format!("{moe}.experts.{expert}.{name}.weight"), shape.to_vec()));
            }
        }
    }
    named(&shapes)
}

fn gpt2() -> Model {
    let mut shapes: Vec<(String, Vec<i64>)> = vec![
        ("transformer.wte.weight".into(), vec![WORDS, WIDTH]),
        ("transformer.wpe.weight".into(), vec![32, WIDTH]),
        ("transformer.ln_f.weight".into(), vec![WIDTH]),
        ("transformer.ln_f.bias".into(), vec![WIDTH]),
    ];
    for layer in 0..2 {
        for (name, out) in [
            ("attn.c_attn", [WIDTH, 3 * WIDTH]),
            ("attn.c_proj", [WIDTH, WIDTH]),
            ("mlp.c_fc", [WIDTH, 4 * WIDTH]),
            ("mlp.c_proj", [4 * WIDTH, WIDTH]),
        ] {
            shapes.push((format!("transformer.h.{layer}.{name}.weight"), out.to_vec()));
            shapes.push((format!("transformer.h.{layer}.{name}.bias"), vec![out[1]]));
        }
        for name in ["ln_1", "ln_2"] {
            shapes.push((format!("transformer.h.{layer}.{name}.weight"), vec![WIDTH]));
            shapes.push((format!("transformer.h.{layer}.{name}.bias"), vec![WIDTH]));
        }
    }
    named(&shapes)
}

/// The rules of the reverse direction: both sides exchanged.
fn back(rules: &str) -> String {
    let mut out = String::new();
    for line in rules.lines() {
        let other = match line {
            "[from]" => "[to]".to_string(),
            "[to]" => "[from]".to_string(),
            "files = \"index\"" => "files = \"model.safetensors\"".to_string(),
            _ => match (line.strip_prefix("from = "), line.strip_prefix("to = ")) {
                (Some(layout), _) => format!("to = {layout}"),
                (_, Some(layout)) => format!("from = {layout}"),
                _ => line.to_string(),
            },
        };
        out += &(other + "\n");
    }
    out
}

#[test]
fn every_example_goes_there_and_back() {
    let one = |m: Model| (m, false);
    for (name, (model, indexed)) in [
        ("llama-tp4.toml", (llama(&[0, 1]), true)),
        ("granite-fsdp8.toml", one(llama(&[0, 1]))),
        ("granite-moe-tp2.toml", one(granite_moe())),
        ("mixtral-ep4-tp2.toml", (mixtral(), true)),
        ("gpt2-tp2.toml", one(gpt2())),
    ] {
        let folder = Folder::new(name);
        let [input, ranks, output] = ["in", "ranks", "out"].map(|n| folder.at(n));
        std::fs::create_dir_all(&input).unwrap();
        match indexed {
            true => write_index(&input, &model),
            false => write_model(&input.join("model.safetensors"), &model),
        }
        let rules = example(name);
        reshard(&input, &ranks, &rules);
        reshard(&ranks, &output, &back(&rules));
        let path = output.join("model.safetensors");
        assert_eq!(Container::open(&path).unwrap().tensors().len(), model.len(), "{name}");
        for (tensor, held) in &model {
            assert_eq!(&read(&path, tensor), held, "{name}: {tensor}");
        }
    }
}

/// From tensor-parallel ranks to stages of a pipeline and back, and to one file.
#[test]
fn ranks_become_stages_and_one_file() {
    let folder = Folder::new("stages");
    let model = llama(&[0, 15, 16, 31]);
    let [input, ranks, stages, again, one] =
        ["in", "ranks", "stages", "again", "one"].map(|n| folder.at(n));
    std::fs::create_dir_all(&input).unwrap();
    write_index(&input, &model);
    reshard(&input, &ranks, &example("llama-tp4.toml"));
    let rules = example("llama-tp4-to-pp2-tp2.toml");
    reshard(&ranks, &stages, &rules);
    reshard(&stages, &again, &back(&rules));
    for rank in 0..4 {
        let name = format!("rank-{rank}.safetensors");
        for tensor in Container::open(ranks.join(&name)).unwrap().tensors() {
            let (was, is) = (ranks.join(&name), again.join(&name));
            assert_eq!(read(&was, tensor.name()), read(&is, tensor.name()), "{}", tensor.name());
        }
    }
    reshard(&again, &one, &example("llama-one.toml"));
    for (tensor, held) in &model {
        assert_eq!(&read(&one.join("model.safetensors"), tensor), held, "{tensor}");
    }
}

/// However many threads there are, every byte of every file is the same.
#[test]
fn threads_change_nothing() {
    let folder = Folder::new("threads");
    let model = mixtral();
    std::fs::create_dir_all(folder.at("in")).unwrap();
    write_index(&folder.at("in"), &model);
    let rules = example("mixtral-ep4-tp2.toml");
    let job = CheckpointJob::new(folder.at("in"), &rules).unwrap();
    let bytes = |threads: usize, memory: usize| {
        let out = folder.at(&format!("out-{threads}-{memory}"));
        let done = job.write_output(&out, JobLimits { threads, memory }, |_| {}).unwrap();
        assert_eq!((done.written, done.bytes), (8, job.output_bytes()));
        job.verify_output(&out, JobLimits { threads, memory }, |_| {}).unwrap();
        let paths = job.output_paths(&out);
        paths.iter().map(|p| std::fs::read(p).unwrap()).collect::<Vec<_>>()
    };
    let first = bytes(1, LIMITS.memory);
    assert!(first == bytes(3, 1 << 20) && first == bytes(8, 1 << 16));
}

/// Tensors without elements and without dimensions, whole, divided and flat.
#[test]
fn empty_tensors_and_scalars_go_there_and_back() {
    let folder = Folder::new("empty");
    let model = model(&[
        ("scale", &[]),
        ("none", &[0]),
        ("rows.none", &[0, 8]),
        ("rows.wide", &[4, 0]),
        ("rows.some", &[5, 3]),
        ("one", &[1]),
    ]);
    std::fs::create_dir_all(folder.at("in")).unwrap();
    write_model(&folder.at("in/model.safetensors"), &model);
    for (k, layout) in
        ["P('x', None)", "P(None, 'x')", "(Shard(0),)", "flat", "whole"].iter().enumerate()
    {
        let rules = format!(
            "[from]\nfiles = \"model.safetensors\"\n[to]\nmesh = \"x=3\"\nfiles = \"r{{x}}.safetensors\"\n\
             [[tensor]]\nname = \"rows.*\"\nto = \"{layout}\"\n[[tensor]]\nname = \"*\"\nto = \"{}\"\n",
            if *layout == "flat" { "flat" } else { "whole" }
        );
        let (ranks, output) = (folder.at(&format!("ranks-{k}")), folder.at(&format!("out-{k}")));
        reshard(&folder.at("in"), &ranks, &rules);
        reshard(&ranks, &output, &back(&rules));
        for (tensor, held) in &model {
            let found = read(&output.join("model.safetensors"), tensor);
            assert_eq!(&found, held, "{layout}: {tensor}");
        }
    }
}
