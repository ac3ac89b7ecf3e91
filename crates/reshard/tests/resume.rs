//! Interrupted runs: written bytes are not written again, and errors of the input are reported
//! first.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

mod folders;

use folders::{Folder, LIMITS, model, write_index, write_model};
use std::path::{Path, PathBuf};
use std::process::Command;
use zellige_reshard::checkpoint::{CheckpointJob, JobLimits};

/// One file, of many slabs.
const RULES: &str = "[from]\nmesh = \"tp=2\"\nfiles = \"r{tp}.safetensors\"\n[to]\nfiles = \"one.safetensors\"\n\
                     [[tensor]]\nname = \"*\"\nfrom = \"P(None, 'tp')\"\n";
const SLAB: u64 = 1 << 16;

fn input(folder: &Folder) {
    std::fs::create_dir_all(folder.at("in")).unwrap();
    for rank in 0..2 {
        let tensors = model(&[("a", &[300, 500]), ("b", &[7, 3]), ("c", &[1000, 400])]);
        write_model(&folder.at(&format!("in/r{rank}.safetensors")), &tensors);
    }
}

/// The task of a child that is killed: it notes its progress.
fn child(folder: &Path, out: &Path) {
    let job = CheckpointJob::new(folder.join("in"), RULES).unwrap();
    let told = |n: u64| std::fs::write(folder.join("told"), n.to_string()).unwrap();
    if let Err(error) = job.write_output(out, LIMITS, told) {
        std::fs::write(folder.join("error"), error.to_string()).unwrap();
    }
}

fn told(folder: &Folder) -> u64 {
    std::fs::read_to_string(folder.at("told")).map_or(0, |t| t.parse().unwrap())
}

/// Killed at every few calls to the system: at most a slab is written again.
#[test]
fn a_kill_inside_a_file_loses_a_slab() {
    if let Ok(folder) = std::env::var("ZELLIGE_TEST_RESUMED") {
        return child(Path::new(&folder), &PathBuf::from(&folder).join("out"));
    }
    let folder = Folder::new("resumed");
    input(&folder);
    let job = CheckpointJob::new(folder.at("in"), RULES).unwrap();
    let (mut kills, mut inside, mut unlucky) = (0, 0, 0);
    for at in (5..).step_by(7) {
        let _ = std::fs::remove_dir_all(folder.at("out"));
        let _ = std::fs::remove_file(folder.at("told"));
        let ended = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_kill_inside_a_file_loses_a_slab"])
            .env("ZELLIGE_TEST_RESUMED", &folder.0)
            .env("ZELLIGE_FAULT", format!("kill:{at}"))
            .output()
            .unwrap();
        assert!(!folder.at("error").exists());
        let before = told(&folder);
        let done = job.write_output(folder.at("out"), LIMITS, |_| {}).unwrap();
        job.verify_output(folder.at("out"), LIMITS, |_| {}).unwrap();
        if ended.status.code() != Some(137) {
            assert!(ended.status.success() && done.found == 1, "{ended:?}");
            break;
        }
        kills += 1;
        // The file may have had its name already.
        if done.found == 0 {
            assert_eq!(done.resumed + done.bytes, job.output_bytes());
            // The one moment that begins the file anew is that between its length and its name.
            let named = before == job.output_bytes() && done.resumed == 0;
            unlucky += usize::from(named);
            let lost = done.resumed >= before && done.resumed <= before + SLAB;
            assert!(named || lost, "{done:?} {before}");
            inside += usize::from(done.resumed > 0);
        }
        assert!(!folder.at("out/one.safetensors.partial").exists());
    }
    assert!(kills > 20 && inside > 10 && unlucky <= 1, "{kills} {inside} {unlucky}");
}

/// A run that is killed when its state is removed and its process is still there is repeated: its files are found, not refused. Files that
/// only look like them are.
#[test]
fn a_run_that_was_killed_at_its_very_end_is_finished() {
    let folder = Folder::new("end");
    input(&folder);
    let job = CheckpointJob::new(folder.at("in"), RULES).unwrap();
    let run = || job.write_output(folder.at("out"), LIMITS, |_| {});
    let first = run().unwrap();
    job.close_output(folder.at("out")).unwrap();
    assert!(!folder.at("out/reshard-state.json").exists());
    let file = folder.at("out/one.safetensors");
    let bytes = std::fs::read(&file).unwrap();
    let done = run().unwrap();
    assert_eq!((first.written, done.written, done.found, done.bytes), (1, 0, 1, 0));
    job.close_output(folder.at("out")).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    assert_eq!(std::fs::read_dir(folder.at("out")).unwrap().count(), 1);
    // One bit of a tensor, a missing byte, and a file with one tensor of three.
    let refused = |bytes: &[u8], say: &str| {
        std::fs::write(&file, bytes).unwrap();
        let error = run().unwrap_err().to_string();
        assert!(error.contains(say), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
        assert!(!folder.at("out/reshard-state.json").exists());
    };
    let mut other = bytes.clone();
    *other.last_mut().unwrap() ^= 1;
    refused(&other, "is not that of the input");
    refused(&bytes[..bytes.len() - 1], "already");
    write_model(&file, &model(&[("a", &[300, 500])]));
    let other = std::fs::read(&file).unwrap();
    refused(&other, "already");
}

/// Nothing is written or read through a link that lies where the state goes, whether it leads to a file or nowhere; nor through one
/// that leads nowhere where a file of the output goes.
#[test]
fn a_link_in_the_output_is_refused() {
    let folder = Folder::new("link");
    input(&folder);
    std::fs::create_dir_all(folder.at("out")).unwrap();
    let job = CheckpointJob::new(folder.at("in"), RULES).unwrap();
    let victim = folder.at("victim");
    for (name, there) in
        [("reshard-state.json", false), ("reshard-state.json", true), ("one.safetensors", false)]
    {
        if there {
            std::fs::write(&victim, "mine").unwrap();
        }
        std::os::unix::fs::symlink(&victim, folder.at("out").join(name)).unwrap();
        let error = job.write_output(folder.at("out"), LIMITS, |_| {}).unwrap_err().to_string();
        let say = if name.ends_with(".json") { "symbolic link" } else { "one.safetensors already" };
        assert!(error.contains(say) && error.contains("out"), "{error}");
        assert_eq!(std::fs::read_to_string(&victim).ok(), there.then(|| "mine".to_string()));
        assert!(folder.at("out").join(name).is_symlink());
        std::fs::remove_file(folder.at("out").join(name)).unwrap();
        let _ = std::fs::remove_file(&victim);
    }
    job.write_output(folder.at("out"), LIMITS, |_| {}).unwrap();
}

/// The files of a run with another version of the input are not resumed.
#[test]
fn another_input_begins_anew() {
    let folder = Folder::new("anew");
    input(&folder);
    let job = CheckpointJob::new(folder.at("in"), RULES).unwrap();
    let mut seen = 0;
    let stop = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        job.write_output(folder.at("out"), LIMITS, |n| {
            seen = n;
            assert!(n < 5 * SLAB, "enough");
        })
    }));
    assert!(stop.is_err() && seen >= 5 * SLAB);
    assert!(folder.at("out/one.safetensors.partial").exists());
    std::fs::remove_file(folder.at("out/reshard-state.json")).unwrap();
    write_model(
        &folder.at("in/r1.safetensors"),
        &model(&[("a", &[300, 500]), ("b", &[7, 3]), ("c", &[1000, 400])]),
    );
    let job = CheckpointJob::new(folder.at("in"), RULES).unwrap();
    // Processes that other tests of this program begin have its files for a moment, and their locks.
    let run = || job.write_output(folder.at("out"), LIMITS, |_| {});
    let wait = |_| std::thread::sleep(std::time::Duration::from_millis(20));
    let done = (0..200).map(wait).find_map(|()| run().ok()).unwrap();
    assert_eq!((done.resumed, done.bytes), (0, job.output_bytes()));
    job.verify_output(folder.at("out"), LIMITS, |_| {}).unwrap();
}

/// A file that may not grow so far is an error that names it, and the same run goes on where it may.
#[test]
fn a_limit_of_the_system_is_an_error() {
    if let Ok(folder) = std::env::var("ZELLIGE_TEST_LIMIT") {
        return child(Path::new(&folder), &PathBuf::from(&folder).join("out"));
    }
    let folder = Folder::new("limit");
    input(&folder);
    let script =
        "trap '' XFSZ; ulimit -f 256; exec \"$0\" --exact a_limit_of_the_system_is_an_error";
    let ended = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .env("ZELLIGE_TEST_LIMIT", &folder.0)
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let error = std::fs::read_to_string(folder.at("error")).unwrap();
    assert!(error.contains("one.safetensors") && error.contains("large"), "{error}");
    assert!(!folder.at("out/one.safetensors").exists());
    let job = CheckpointJob::new(folder.at("in"), RULES).unwrap();
    job.write_output(folder.at("out"), LIMITS, |_| {}).unwrap();
    job.verify_output(folder.at("out"), LIMITS, |_| {}).unwrap();
}

/// A disk of 1 MiB for 2.2 MB is refused before anything is written, and the same run finishes when the disk has grown. Where this user
/// may not make such a disk, the limit above stands for it.
#[test]
fn a_full_disk_is_gone_on_with_where_namespaces_are_allowed() {
    if let Ok(folder) = std::env::var("ZELLIGE_TEST_FULL") {
        let folder = Path::new(&folder);
        child(folder, &folder.join("disk/out"));
        if !folder.join("error").exists() {
            let job = CheckpointJob::new(folder.join("in"), RULES).unwrap();
            job.verify_output(folder.join("disk/out"), LIMITS, |_| {}).unwrap();
            std::fs::write(folder.join("whole"), "").unwrap();
        }
        return;
    }
    let folder = Folder::new("full");
    input(&folder);
    std::fs::create_dir_all(folder.at("disk")).unwrap();
    let script = "mount -t tmpfs -o size=1m none \"$ZELLIGE_TEST_FULL/disk\" || exit 77; run() { \"$0\" --exact a_full_disk_is_gone_on_with_where_namespaces_are_allowed; }; \
                  run && mv \"$ZELLIGE_TEST_FULL/error\" \"$ZELLIGE_TEST_FULL/first\" && test ! -e \"$ZELLIGE_TEST_FULL/told\" && \
                  ls -R \"$ZELLIGE_TEST_FULL/disk\" > \"$ZELLIGE_TEST_FULL/left\" && mount -o remount,size=16m \"$ZELLIGE_TEST_FULL/disk\" && run";
    let ended = Command::new("unshare")
        .args(["-rm", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .env("ZELLIGE_TEST_FULL", &folder.0)
        .output();
    let Ok(ended) = ended else { return };
    let said = String::from_utf8_lossy(&ended.stderr).to_string();
    if ended.status.code() == Some(77) || said.contains("unshare") {
        return;
    }
    assert!(ended.status.success(), "{ended:?}");
    let first = std::fs::read_to_string(folder.at("first")).unwrap();
    assert!(first.contains("one.safetensors") && first.contains("No space left"), "{first}");
    let left = std::fs::read_to_string(folder.at("left")).unwrap();
    assert!(
        left.contains("one.safetensors.partial") && !left.contains("one.safetensors\n"),
        "{left}"
    );
    assert!(folder.at("whole").exists());
}

/// Two runs at once: the second is refused, and the first is not disturbed.
#[test]
fn one_run_at_a_time() {
    let folder = Folder::new("twice");
    input(&folder);
    let job = CheckpointJob::new(folder.at("in"), RULES).unwrap();
    let mut told = None;
    let threads = JobLimits { threads: 2, ..LIMITS };
    job.write_output(folder.at("out"), threads, |_| {
        told.get_or_insert_with(|| {
            let other = CheckpointJob::new(folder.at("in"), RULES).unwrap();
            other.write_output(folder.at("out"), LIMITS, |_| {}).unwrap_err().to_string()
        });
    })
    .unwrap();
    job.verify_output(folder.at("out"), LIMITS, |_| {}).unwrap();
    let told = told.unwrap();
    assert!(told.contains("another process is writing it"), "{told}");
}

#[test]
fn an_index_that_disagrees_is_refused() {
    let folder = Folder::new("index");
    std::fs::create_dir_all(folder.at("in")).unwrap();
    let tensors = model(&[("a", &[4, 4]), ("b", &[3]), ("c", &[2]), ("d", &[5])]);
    write_index(&folder.at("in"), &tensors);
    let path = folder.at("in/model.safetensors.index.json");
    let right = std::fs::read_to_string(&path).unwrap();
    let rules = "[from]\nfiles = \"index\"\n[to]\nmesh = \"tp=2\"\nfiles = \"r{rank}.safetensors\"\n[[tensor]]\nname = \"*\"\n";
    CheckpointJob::new(folder.at("in"), rules).unwrap();
    for (from, to, say) in [
        // A tensor in another file than the index says, one that is nowhere, one that it does not name.
        ("\"a\":\"model-1", "\"a\":\"model-2", "no tensor `a`"),
        ("\"a\":", "\"x\":", "no tensor `x`"),
        ("\"b\":\"model-2.safetensors\",", "", "`b` is in"),
        ("model-1.safetensors", "model-3.safetensors", "model-3.safetensors"),
        ("model-1.safetensors", "../model-1.safetensors", "not mapped to a plain file name"),
        ("\"model-1.safetensors\"", "7", "not mapped to a plain file name"),
        ("weight_map", "weights", "weight_map"),
        ("{", "", "index.json"),
    ] {
        let text = right.replacen(from, to, 1);
        assert_ne!(text, right, "{from}");
        std::fs::write(&path, text).unwrap();
        let error = CheckpointJob::new(folder.at("in"), rules).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(say), "{from} as {to}: {error}");
    }
    std::fs::remove_file(&path).unwrap();
    let error = CheckpointJob::new(folder.at("in"), rules).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("index.json"), "{error}");
}
