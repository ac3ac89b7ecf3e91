//! Runs printed kernels on the CPU: their text, compiled by g++ behind a header with CUDA's names.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use zellige_cuda::CudaProgram;

/// A program with its buffers.
pub struct Case {
    pub program: CudaProgram,
    pub from: Vec<u8>,
    pub before: Vec<u8>,
    pub low: (i64, i64),
}

/// Whether there is a compiler.
pub fn compiler() -> bool {
    Command::new("g++").arg("--version").output().is_ok_and(|o| o.status.success())
}

/// The destination of each case after its run.
pub fn run(name: &str, cases: &[Case]) -> Vec<Vec<u8>> {
    let mut text = String::from("#include \"shim.h\"\n");
    for (k, case) in cases.iter().enumerate() {
        // Kernels of several programs have one name: each gets a namespace of its own.
        let source = case.program.source_text().replace("extern \"C\" ", "");
        // Memory that a launch requests has no size in the text.
        let source = source.replace(
            "extern __shared__ __align__(16) u8 shared[]",
            "__shared__ __align__(16) u8 shared[1 << 18]",
        );
        let _ = writeln!(text, "namespace program{k} {{\n{source}\n}}");
    }
    text.push_str(
        "static unsigned long long word() { unsigned long long x; if (fread(&x, 8, 1, stdin) != 1) abort(); return x; }\n\
         struct Buffer { std::vector<unsigned char> all; unsigned char* at; unsigned long long size;\n\
         void read() { unsigned long long low = word(); size = word(); all.resize(size + 64);\n\
         at = all.data(); while ((unsigned long long)at % 32 != low) at++;\n\
         if (size && fread(at, size, 1, stdin) != 1) abort(); } };\n\
         int main() {\n",
    );
    for (k, case) in cases.iter().enumerate() {
        let _ = writeln!(text, "{{ Buffer src, dst; src.read(); dst.read();");
        for l in case.program.launches() {
            let _ = writeln!(
                text,
                "launch(program{k}::{}, {}u, {}u, src.at, dst.at);",
                l.name, l.grid, l.block
            );
        }
        let _ =
            writeln!(text, "if (dst.size && fwrite(dst.at, dst.size, 1, stdout) != 1) abort(); }}");
    }
    text.push_str("}\n");
    let folder = std::env::temp_dir().join(format!("zellige-cuda-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("shim.h"), include_str!("shim.h")).expect("written");
    let file = folder.join("program.cpp");
    std::fs::write(&file, text).expect("written");
    let binary = folder.join("program");
    let out = Command::new("g++")
        .args([
            "-std=c++17",
            "-O1",
            "-w",
            "-fno-strict-aliasing",
            "-fsanitize=alignment,bounds,shift",
        ])
        .args(["-fno-sanitize-recover=all", "-o"])
        .arg(&binary)
        .arg(&file)
        .output()
        .expect("g++ runs");
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success(),
        "{}: {}",
        file.display(),
        told.chars().take(4000).collect::<String>()
    );
    let mut input = Vec::new();
    for case in cases {
        for (low, data) in [(case.low.0, &case.from), (case.low.1, &case.before)] {
            input.extend(low.to_le_bytes());
            input.extend((data.len() as u64).to_le_bytes());
            input.extend(data);
        }
    }
    let mut child = Command::new(&binary)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut pipe = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || pipe.write_all(&input));
    let out = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("the input is read");
    assert!(out.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&out.stderr));
    let mut rest = &out.stdout[..];
    let results = cases.iter().map(|case| {
        let (one, more) = rest.split_at(case.before.len());
        rest = more;
        one.to_vec()
    });
    let results = results.collect();
    std::fs::remove_dir_all(&folder).expect("removed");
    results
}
